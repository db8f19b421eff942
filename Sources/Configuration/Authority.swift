internal import Glibc

extension Configuration {
  /// A host and a port. `host` is lower case; an IPv6 literal stands without brackets.
  public struct HostPort: Hashable, Sendable, CustomStringConvertible {
    public var host: String
    public var port: UInt16

    public init(host: String, port: UInt16) {
      self.host = host
      self.port = port
    }

    /// RFC 3986 §3.2, the port always present.
    public var description: String { "\(Host.bracketed(host)):\(port)" }
  }

  /// RFC 6454 §4: scheme, host and port, the port filled in. `host` is as in `HostPort`.
  public struct Origin: Hashable, Sendable, CustomStringConvertible {
    public var scheme: Scheme
    public var host: String
    public var port: UInt16

    public init(scheme: Scheme, host: String, port: UInt16? = nil) {
      self.scheme = scheme
      self.host = host
      self.port = port ?? scheme.defaultPort
    }

    public enum Scheme: String, Sendable, CaseIterable {
      case http, https
      public var defaultPort: UInt16 {
        switch self {
        case .http: 80
        case .https: 443
        }
      }
    }

    /// RFC 6454 §6.2: a default port is left out.
    public var description: String { "\(scheme.rawValue)://\(authority)" }

    /// What belongs in `Host` (RFC 9112 §3.2): a default port is left out.
    public var authority: String {
      port == scheme.defaultPort ? Host.bracketed(host) : "\(Host.bracketed(host)):\(port)"
    }

    /// Whether the host stays on this machine by its spelling; a name is not looked up.
    public var isLoopback: Bool { Host.isLoopback(host) }
  }
}

/// Spelling of hosts and ports (RFC 3986 §3.2.2).
enum Host {
  static func bracketed(_ host: String) -> String { host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host }

  /// `localhost`, 127.0.0.0/8 or ::1. Names under `.localhost` are not counted: a resolver may send them elsewhere.
  static func isLoopback(_ host: String) -> Bool {
    if host == "localhost" { return true }
    var v4 = in_addr()
    if inet_pton(AF_INET, host, &v4) == 1 { return UInt32(bigEndian: v4.s_addr) >> 24 == 127 }
    var v6 = in6_addr()
    guard inet_pton(AF_INET6, host, &v6) == 1 else { return false }
    return withUnsafeBytes(of: v6) { bytes in
      let mapped = bytes[0..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
      return mapped ? bytes[12] == 127 : bytes[0..<15].allSatisfy { $0 == 0 } && bytes[15] == 1
    }
  }

  /// The host in lower case and without brackets, or nil: a name of letters, digits, `-`, `_` and `.`, or an IP literal.
  static func parse(_ text: some StringProtocol) -> String? {
    // Lower-casing must not turn a foreign letter into an ASCII one (U+212A becomes k).
    guard text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
    let host = text.lowercased()
    if host.hasPrefix("["), host.hasSuffix("]") {
      let inner = String(host.dropFirst().dropLast())
      var address = in6_addr()
      return inet_pton(AF_INET6, inner, &address) == 1 ? inner : nil
    }
    guard (1...253).contains(host.utf8.count), host.utf8.allSatisfy(isNameByte), !host.hasPrefix("."),
      !host.contains("..")
    else { return nil }
    return host
  }

  /// `host` or `host:port`; nil where either is malformed. An IPv6 literal needs its brackets.
  static func split(_ text: some StringProtocol) -> (host: String, port: UInt16?)? {
    var rest = text[...]
    var port: UInt16?
    if let colon = rest.lastIndex(of: ":"), !rest.hasSuffix("]") {
      guard let number = parsePort(rest[rest.index(after: colon)...]) else { return nil }
      port = number
      rest = rest[..<colon]
    }
    guard let host = parse(rest) else { return nil }
    return (host, port)
  }

  /// 0 to 65 535 in decimal digits only.
  static func parsePort(_ text: some StringProtocol) -> UInt16? {
    guard (1...5).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return UInt16(text)
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x61...0x7A, 0x30...0x39, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): true
    default: false
    }
  }
}

/// An absolute `http` or `https` URL as configuration allows it: no user information, no fragment, visible ASCII.
struct HTTPURL: Equatable {
  var origin: Configuration.Origin
  /// Path and query; empty where the URL ends with its authority.
  var target: String

  /// nil where the text is not such a URL.
  init?(_ text: String) {
    guard text.utf8.count <= 2048, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
      let colon = text.firstIndex(of: ":"),
      let scheme = Configuration.Origin.Scheme(rawValue: text[..<colon].lowercased())
    else { return nil }
    var rest = text[text.index(after: colon)...]
    guard rest.hasPrefix("//"), !rest.contains("#") else { return nil }
    rest = rest.dropFirst(2)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    guard let authority = Host.split(rest[..<end]), authority.port != 0 else { return nil }
    origin = Configuration.Origin(scheme: scheme, host: authority.host, port: authority.port)
    target = String(rest[end...])
  }
}
