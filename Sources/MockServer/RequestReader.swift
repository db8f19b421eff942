import HTTPSyntax
import MockBackend

/// A request's head as the backend wants it, and what the connection has to know about it.
struct IncomingRequest {
  var head: BackendRequest
  var framing: MessageFraming
  var isHTTP10: Bool
  var isPersistent: Bool
  var expectsContinue: Bool
  var hasUnknownExpectation: Bool

  var hasBody: Bool { framing != .none && framing != .contentLength(0) }
}

/// Reads requests from one connection, in order: heads whole, bodies piece by piece.
final class RequestReader {
  enum HeadResult {
    case request(IncomingRequest)
    /// To be answered with that status and closed.
    case malformed(status: Int)
    /// The peer closed between requests or went away.
    case ended
  }

  enum BodyResult {
    case complete(trailers: [(String, String)])
    case malformed
    /// The peer went away inside the body.
    case aborted
  }

  private let channel: Channel
  /// Holds the largest head that `HeadLimits` admits.
  private var buffer = ByteBuffer(capacity: 65_536)
  private let table = RequestHead(limits: HeadLimits())

  init(channel: Channel) { self.channel = channel }

  func readHead() -> HeadResult {
    table.reset()
    while true {
      switch buffer.withReadable({ table.parse($0) }) {
      case .complete(let bytes):
        let result = buffer.withReadable { describe($0) }
        buffer.consume(bytes)
        return result
      case .failed(let error): return .malformed(status: error.requestStatus)
      case .incomplete:
        guard fill() else { return buffer.isEmpty ? .ended : .malformed(status: 400) }
      }
    }
  }

  /// `each` gets every piece of content as it arrives.
  func readBody(_ framing: MessageFraming, each: (RawSpan) -> Void) -> BodyResult {
    var decoder = BodyDecoder(framing)
    while true {
      switch buffer.withReadable({ decoder.next(in: $0) }) {
      case .content(let skip, let count):
        buffer.consume(skip)
        buffer.withReadable { each($0.extracting(0..<count)) }
        buffer.consume(count)
        decoder.took(count)
      case .needsMore(let skip):
        buffer.consume(skip)
        guard fill() else { return .aborted }
      case .finished(let skip, let trailerBytes, let tail):
        buffer.consume(skip)
        let trailers = buffer.withReadable { Self.trailers($0.extracting(0..<trailerBytes)) }
        buffer.consume(trailerBytes + tail)
        return trailers.map { .complete(trailers: $0) } ?? .malformed
      case .failed: return .malformed
      }
    }
  }

  /// Bytes behind the last request, for a tunnel: what is here already, then what comes. nil: no more.
  func nextTunnelBytes() -> [UInt8]? {
    if buffer.isEmpty, !fill() { return nil }
    let bytes = [UInt8](buffer.readable)
    buffer.reset()
    return bytes
  }

  private func fill() -> Bool {
    guard buffer.ensureRoom(1) else { return false }
    switch channel.read(into: buffer.writable) {
    case .bytes(let count):
      buffer.produced(count)
      return true
    case .end, .failed: return false
    }
  }

  private func describe(_ bytes: RawSpan) -> HeadResult {
    let target: String
    switch RequestTarget.parse(bytes, table.target, method: table.method) {
    case .failure(let error): return .malformed(status: error.requestStatus)
    case .success(.origin(let range)): target = range.string(in: bytes)
    case .success(.absolute(_, _, let range)):
      let text = range.string(in: bytes)
      target = text.hasPrefix("/") ? text : "/" + text
    case .success(.asterisk): target = "*"
    case .success(.authority): return .malformed(status: 400)
    }
    let sides = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    let head = BackendRequest(
      method: table.methodRange.string(in: bytes), path: String(sides.first ?? "/"),
      query: sides.count > 1 ? String(sides[1]) : "",
      headers: table.lines.map { ($0.name.string(in: bytes).lowercased(), $0.value.string(in: bytes)) })
    return .request(
      IncomingRequest(
        head: head, framing: table.framing, isHTTP10: table.minorVersion == 0, isPersistent: table.isPersistent,
        expectsContinue: table.expectsContinue, hasUnknownExpectation: table.hasUnknownExpectation))
  }

  private static func trailers(_ bytes: RawSpan) -> [(String, String)]? {
    let table = TrailerLines(limits: HeadLimits())
    guard table.parse(bytes) == nil else { return nil }
    return table.lines.map { ($0.name.string(in: bytes).lowercased(), $0.value.string(in: bytes)) }
  }
}
