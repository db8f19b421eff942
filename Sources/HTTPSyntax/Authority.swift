/// A host and perhaps a port (RFC 3986 §3.2 without user information), as ranges.
public struct Authority: Equatable, Sendable {
  /// A registered name, an IPv4 address, or an IPv6 literal with its brackets; never empty.
  public let host: ByteRange
  /// 1 to 65535; nil where none was written.
  public let port: UInt16?

  /// Whether `host` is an IPv6 literal.
  public let isIPv6: Bool

  /// Of a request-target's authority or a `Host` field's value. An empty host is refused.
  ///
  /// A registered name is letters, digits and `-._~`. RFC 3986 also allows percent-encoding and `!$&'()*+,;=`;
  /// no name that DNS resolves has them, and a host that is written in two ways could be matched in one and
  /// dialled in the other.
  public static func parse(_ bytes: RawSpan, _ range: ByteRange) -> Result<Authority, HeadError> {
    if let authority = hostAndPort(bytes, range) { return .success(authority) }
    for offset in range.offsets where bytes.byte(at: offset) == 0x40 { return .failure(.targetUserInfo) }
    return .failure(.invalidAuthority)
  }

  private static func hostAndPort(_ bytes: RawSpan, _ range: ByteRange) -> Authority? {
    guard !range.isEmpty else { return nil }
    let isIPv6 = bytes.byte(at: range.start) == 0x5B
    let end = isIPv6 ? endOfLiteral(bytes, range) : bytes.endOfUnreserved(from: range.start, to: range.end)
    guard let hostEnd = end, hostEnd > range.start else {
      return nil
    }
    let host = ByteRange(range.start..<hostEnd)
    if hostEnd == range.end { return Authority(host: host, port: nil, isIPv6: isIPv6) }
    guard bytes.byte(at: hostEnd) == ByteClass.colon else { return nil }
    // RFC 3986 §3.2.3: the port after the colon may be empty, which means the default.
    if hostEnd + 1 == range.end { return Authority(host: host, port: nil, isIPv6: isIPv6) }
    guard let port = parsePort(bytes, hostEnd + 1..<range.end) else { return nil }
    return Authority(host: host, port: port, isIPv6: isIPv6)
  }

  private static func endOfLiteral(_ bytes: RawSpan, _ range: ByteRange) -> Int? {
    var offset = range.start + 1
    while offset < range.end, bytes.byte(at: offset) != 0x5D { offset += 1 }
    guard offset < range.end, isIPv6Address(bytes, range.start + 1..<offset) else { return nil }
    return offset + 1
  }

  private static func parsePort(_ bytes: RawSpan, _ offsets: Range<Int>) -> UInt16? {
    guard offsets.count <= 5 else { return nil }
    var value: UInt32 = 0
    for offset in offsets {
      let byte = bytes.byte(at: offset)
      guard ByteClass.isDigit(byte) else { return nil }
      value = value * 10 + UInt32(byte - 0x30)
    }
    return (1...65_535).contains(value) ? UInt16(value) : nil
  }

  /// RFC 3986 §3.2.2 `IPv6address`: eight groups, one run of them perhaps written `::`, the last two perhaps as
  /// IPv4. No zone identifier.
  private static func isIPv6Address(_ bytes: RawSpan, _ offsets: Range<Int>) -> Bool {
    var groups = 0
    var isCompressed = false
    var offset = offsets.lowerBound
    while offset < offsets.upperBound {
      if bytes.byte(at: offset) == ByteClass.colon {
        // A single colon stands between two groups only and is passed over behind its group below.
        guard offset + 1 < offsets.upperBound, bytes.byte(at: offset + 1) == ByteClass.colon, !isCompressed
        else { return false }
        isCompressed = true
        offset += 2
        continue
      }
      let start = offset
      while offset < offsets.upperBound, ByteClass.hexadecimalDigit(bytes.byte(at: offset)) != nil { offset += 1 }
      if offset < offsets.upperBound, bytes.byte(at: offset) == ByteClass.dot {
        guard isIPv4Address(bytes, start..<offsets.upperBound) else { return false }
        groups += 2
        break
      }
      guard (1...4).contains(offset - start) else { return false }
      groups += 1
      guard offset < offsets.upperBound else { break }
      guard bytes.byte(at: offset) == ByteClass.colon, offset + 1 < offsets.upperBound else { return false }
      if bytes.byte(at: offset + 1) != ByteClass.colon { offset += 1 }
    }
    return isCompressed ? groups <= 7 : groups == 8
  }

  private static func isIPv4Address(_ bytes: RawSpan, _ offsets: Range<Int>) -> Bool {
    var octets = 0
    var offset = offsets.lowerBound
    while true {
      let start = offset
      var value = 0
      while offset < offsets.upperBound, ByteClass.isDigit(bytes.byte(at: offset)), offset - start < 3 {
        value = value * 10 + Int(bytes.byte(at: offset) - 0x30)
        offset += 1
      }
      guard offset > start, value <= 255 else { return false }
      octets += 1
      if offset == offsets.upperBound { return octets == 4 }
      guard bytes.byte(at: offset) == ByteClass.dot else { return false }
      offset += 1
    }
  }
}
