/// A request method (RFC 9110 §9). Methods are case-sensitive; what is not listed is `other` and its name
/// is `RequestHead.methodRange`.
public enum Method: UInt8, CaseIterable, Sendable {
  case get, head, post, put, patch, delete, options, trace, connect, other

  /// RFC 9110 §9.2.1.
  public var isSafe: Bool {
    switch self {
    case .get, .head, .options, .trace: true
    case .post, .put, .patch, .delete, .connect, .other: false
    }
  }

  /// RFC 9110 §9.2.2.
  public var isIdempotent: Bool {
    switch self {
    case .get, .head, .options, .trace, .put, .delete: true
    case .post, .patch, .connect, .other: false
    }
  }

  /// As it stands in a request line; empty for `other`.
  public var name: StaticString {
    switch self {
    case .get: "GET"
    case .head: "HEAD"
    case .post: "POST"
    case .put: "PUT"
    case .patch: "PATCH"
    case .delete: "DELETE"
    case .options: "OPTIONS"
    case .trace: "TRACE"
    case .connect: "CONNECT"
    case .other: ""
    }
  }

  static func named(_ bytes: RawSpan, _ range: ByteRange) -> Method {
    let candidates: (Method, Method)
    switch range.count {
    case 3: candidates = (.get, .put)
    case 4: candidates = (.post, .head)
    case 5: candidates = (.patch, .trace)
    case 6: candidates = (.delete, .delete)
    case 7: candidates = (.options, .connect)
    default: return .other
    }
    if bytes.contains(candidates.0.name, at: range.start) { return candidates.0 }
    return bytes.contains(candidates.1.name, at: range.start) ? candidates.1 : .other
  }
}
