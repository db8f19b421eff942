/// RFC 4648: the alphabet of HTTP Basic is written and read, that of JWT (base64url) is read.
public enum Base64 {
  /// With padding, as RFC 7617 wants it; appended to `output`.
  static func encode(_ bytes: [UInt8], onto output: inout [UInt8]) {
    var index = 0
    while index < bytes.count {
      let left = bytes.count - index
      let first = bytes[index]
      let second = left > 1 ? bytes[index + 1] : 0
      let third = left > 2 ? bytes[index + 2] : 0
      output.append(digit(first >> 2))
      output.append(digit((first & 0x03) << 4 | second >> 4))
      output.append(left > 1 ? digit((second & 0x0F) << 2 | third >> 6) : UInt8(ascii: "="))
      output.append(left > 2 ? digit(third & 0x3F) : UInt8(ascii: "="))
      index += 3
    }
  }

  /// base64url; padding may be there or not. nil for any other byte, an impossible length, or stray bits.
  static func decodeURL(_ text: ArraySlice<UInt8>) -> [UInt8]? { decode(text, sixtyTwo: "-", sixtyThree: "_") }

  /// base64; otherwise as `decodeURL`.
  public static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? { decode(text, sixtyTwo: "+", sixtyThree: "/") }

  private static func decode(
    _ text: ArraySlice<UInt8>, sixtyTwo: Unicode.Scalar, sixtyThree: Unicode.Scalar
  ) -> [UInt8]? {
    var digits = text
    var padding = 0
    while digits.last == UInt8(ascii: "="), padding < 2 {
      digits.removeLast()
      padding += 1
    }
    guard digits.count % 4 != 1, padding == 0 || (digits.count + padding) % 4 == 0 else { return nil }
    var output: [UInt8] = []
    output.reserveCapacity(digits.count * 3 / 4)
    var accumulator: UInt32 = 0
    var bits = 0
    for byte in digits {
      let value: UInt8
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = byte - UInt8(ascii: "A")
      case UInt8(ascii: "a")...UInt8(ascii: "z"): value = byte - UInt8(ascii: "a") + 26
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = byte - UInt8(ascii: "0") + 52
      case UInt8(ascii: sixtyTwo): value = 62
      case UInt8(ascii: sixtyThree): value = 63
      default: return nil
      }
      accumulator = accumulator << 6 | UInt32(value)
      bits += 6
      if bits >= 8 {
        bits -= 8
        output.append(UInt8(truncatingIfNeeded: accumulator >> UInt32(bits)))
        accumulator &= (1 << UInt32(bits)) - 1
      }
    }
    return accumulator == 0 ? output : nil
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: UInt8(ascii: "A") + value
    case 26..<52: UInt8(ascii: "a") + (value - 26)
    case 52..<62: UInt8(ascii: "0") + (value - 52)
    case 62: UInt8(ascii: "+")
    default: UInt8(ascii: "/")
    }
  }
}
