/// Scheme, host and port (RFC 6454 §4): what a credential belongs to. For configuration and cold paths; hot
/// paths compare ranges.
public struct Origin: Hashable, Sendable, CustomStringConvertible {
  public let scheme: Scheme
  /// Lower-case; an IPv6 address without its brackets.
  public let host: String
  /// 1 to 65535, the scheme's default where the text had none.
  public let port: UInt16

  /// Keeps what it is given, apart from upper case and the brackets of an IPv6 literal.
  public init(scheme: Scheme, host: String, port: UInt16) {
    let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
    self.scheme = scheme
    self.host = (isBracketed ? String(host.dropFirst().dropLast()) : host).lowercased()
    self.port = port
  }

  /// Of `scheme://host[:port]`, with at most a `/` behind it; nil for everything else.
  public init?(url: String) {
    guard let parts = URLParts(url), parts.pathAndQuery == "/" else { return nil }
    self = parts.origin
  }

  /// The serialisation of RFC 6454 §6.2: without the port where it is the scheme's default.
  public var description: String {
    port == scheme.defaultPort ? "\(scheme.name)://\(bracketedHost)" : "\(scheme.name)://\(bracketedHost):\(port)"
  }

  /// As it stands in a URL, and in a `Host` field before the port.
  public var bracketedHost: String { host.contains(":") ? "[\(host)]" : host }

  /// The value of the `Host` field of a request to this origin (RFC 9110 §7.2).
  public var hostFieldValue: String { port == scheme.defaultPort ? bracketedHost : "\(bracketedHost):\(port)" }
}

/// An absolute `http` or `https` URL, taken apart once, for configuration and token endpoints.
public struct URLParts: Hashable, Sendable {
  public let origin: Origin
  /// Begins with `/`; `/` where the URL has no path.
  public let pathAndQuery: String

  /// nil for what is not such a URL, has user information or a fragment, or is longer than 65 535 bytes.
  public init?(_ url: String) {
    let bytes = unsafe url.utf8.span.bytes
    guard bytes.byteCount <= Int(UInt16.max),
      // Any method with an absolute form does.
      case .success(let target) = RequestTarget.parse(bytes, ByteRange(0..<bytes.byteCount), method: .get)
    else { return nil }
    switch target {
    case .origin, .authority, .asterisk: return nil
    case .absolute(let scheme, let authority, let range):
      origin = Origin(
        scheme: scheme, host: authority.host.string(in: bytes), port: authority.port ?? scheme.defaultPort)
      let text = range.string(in: bytes)
      pathAndQuery = text.hasPrefix("/") ? text : "/" + text
    }
  }
}
