/// The character classes of RFC 9110 §5.6 and RFC 3986 §2, one byte at a time and, for the two long runs of
/// a head (target and field value), eight bytes at a time.
enum ByteClass {
  static let horizontalTab: UInt8 = 0x09
  static let lineFeed: UInt8 = 0x0A
  static let carriageReturn: UInt8 = 0x0D
  static let space: UInt8 = 0x20
  static let doubleQuote: UInt8 = 0x22
  static let comma: UInt8 = 0x2C
  static let dot: UInt8 = 0x2E
  static let slash: UInt8 = 0x2F
  static let colon: UInt8 = 0x3A
  static let semicolon: UInt8 = 0x3B
  static let backslash: UInt8 = 0x5C

  /// RFC 9110 §5.6.2: `tchar`, as a bit set over ASCII.
  @inline(always)
  static func isTokenCharacter(_ byte: UInt8) -> Bool {
    isMember(byte, low: 0x03FF_6CFA_0000_0000, high: 0x57FF_FFFF_C7FF_FFFE)
  }

  /// RFC 3986 §2.3: `unreserved`.
  @inline(always)
  static func isUnreserved(_ byte: UInt8) -> Bool {
    isMember(byte, low: 0x03FF_6000_0000_0000, high: 0x47FF_FFFE_87FF_FFFE)
  }

  @inline(always)
  private static func isMember(_ byte: UInt8, low: UInt64, high: UInt64) -> Bool {
    byte < 128 && ((byte < 64 ? low : high) >> UInt64(byte & 63)) & 1 != 0
  }

  /// RFC 9110 §5.5: what may stand in a field value, white space and obs-text included.
  @inline(always)
  static func isFieldValue(_ byte: UInt8) -> Bool {
    (byte >= 0x20 && byte != 0x7F) || byte == horizontalTab
  }

  /// Visible ASCII: all that this program takes in a request-target.
  @inline(always)
  static func isTarget(_ byte: UInt8) -> Bool { byte > 0x20 && byte < 0x7F }

  @inline(always)
  static func isBlank(_ byte: UInt8) -> Bool { byte == space || byte == horizontalTab }

  @inline(always)
  static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

  /// ASCII letters only, so that no other byte ever equals one after folding.
  @inline(always)
  static func lowercased(_ byte: UInt8) -> UInt8 { byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte }

  /// nil for what is not a hexadecimal digit.
  @inline(always)
  static func hexadecimalDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x37
    case 0x61...0x66: byte - 0x57
    default: nil
    }
  }
}
