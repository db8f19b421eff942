internal import Glibc
internal import HTTPSyntax

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

  /// Whether a host stays on this machine by its spelling, as `HostPort` has it: `localhost`, 127.0.0.0/8 or ::1,
  /// also mapped into IPv6. A name is not looked up, and names under `.localhost` do not count: a resolver may
  /// send them elsewhere.
  public static func isLoopback(host: String) -> Bool { Host.isLoopback(host) }
}

/// Spelling of hosts and ports (RFC 3986 §3.2.2).
enum Host {
  static func bracketed(_ host: String) -> String { host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host }

  static func isLoopback(_ host: String) -> Bool {
    if host == "localhost" { return true }
    var v4 = in_addr()
    if inet_pton(AF_INET, host, &v4) == 1 { return UInt32(bigEndian: v4.s_addr) >> 24 == 127 }
    var v6 = in6_addr()
    guard inet_pton(AF_INET6, host, &v6) == 1 else { return false }
    return withUnsafeBytes(of: v6) { bytes in
      let isMapped = bytes[0..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
      return isMapped ? bytes[12] == 127 : bytes[0..<15].allSatisfy { $0 == 0 } && bytes[15] == 1
    }
  }

  static func isAddress(_ host: String) -> Bool {
    var v4 = in_addr()
    var v6 = in6_addr()
    return inet_pton(AF_INET, host, &v4) == 1 || inet_pton(AF_INET6, host, &v6) == 1
  }

  /// `host` or `host:port`, the host as `HostPort` has it; nil where either is malformed. An IPv6 literal needs its
  /// brackets. Port 0 is read where `allowsZero`: only a listener may leave the choice to the kernel.
  static func split(_ text: String, allowsZero: Bool = false) -> (host: String, port: UInt16?)? {
    if allowsZero, text.hasSuffix(":0"), let (host, port) = split(String(text.dropLast(2))), port == nil {
      return (host, 0)
    }
    let bytes = text.utf8.span.bytes
    guard bytes.byteCount <= 300, !text.hasSuffix(":"),
      case .success(let authority) = Authority.parse(bytes, ByteRange(0..<bytes.byteCount))
    else { return nil }
    let host = authority.host.string(in: bytes).lowercased()
    return (authority.isIPv6 ? String(host.dropFirst().dropLast()) : host, authority.port)
  }
}
