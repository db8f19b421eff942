/// Steele, Lea and Flood's SplitMix64: all that is random here, from one seed.
struct SplitMix64: Sendable {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }
}

/// Sixteen lower-case digits.
func hexadecimal(_ value: UInt64) -> String {
  let digits = String(value, radix: 16)
  return String(repeating: "0", count: 16 - digits.count) + digits
}

/// RFC 4648 §4 (with padding) or §5 without it, as JWT wants it.
enum Base64 {
  static func standard(_ bytes: [UInt8]) -> String {
    let text = encode(bytes, alphabet: common + [UInt8(ascii: "+"), UInt8(ascii: "/")])
    return text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
  }

  static func url(_ bytes: [UInt8]) -> String {
    encode(bytes, alphabet: common + [UInt8(ascii: "-"), UInt8(ascii: "_")])
  }

  private static let common = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

  private static func encode(_ bytes: [UInt8], alphabet: [UInt8]) -> String {
    var out: [UInt8] = []
    var bits: UInt32 = 0
    var bitCount = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      bitCount += 8
      while bitCount >= 6 {
        bitCount -= 6
        out.append(alphabet[Int(bits >> UInt32(bitCount) & 63)])
      }
    }
    if bitCount > 0 { out.append(alphabet[Int(bits << UInt32(6 - bitCount) & 63)]) }
    return String(decoding: out, as: UTF8.self)
  }
}

/// `application/x-www-form-urlencoded` (WHATWG URL §5.1), also the shape of a query.
struct FormFields {
  private var fields: [(name: String, value: String)] = []

  init(_ text: some StringProtocol) {
    for part in text.split(separator: "&") {
      let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      fields.append((Self.decoded(sides[0]), sides.count > 1 ? Self.decoded(sides[1]) : ""))
    }
  }

  /// The value of a field that is there exactly once (RFC 6749 §3.2: parameters must not be repeated).
  func value(_ name: String) -> String? {
    let found = fields.filter { $0.name == name }
    return found.count == 1 ? found.first?.value : nil
  }

  /// The unreserved characters stay, the rest is percent-encoded: what RFC 6749 §2.3.1 asks for before Basic.
  static func encoded(_ text: String) -> String {
    var out = ""
    for byte in text.utf8 {
      let scalar = Unicode.Scalar(byte)
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        out.unicodeScalars.append(scalar)
      default:
        let digits = String(byte, radix: 16, uppercase: true)
        out += digits.count == 1 ? "%0\(digits)" : "%\(digits)"
      }
    }
    return out
  }

  private static func decoded(_ text: some StringProtocol) -> String {
    var out: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "+") {
        out.append(UInt8(ascii: " "))
      } else if byte == UInt8(ascii: "%"), let value = hexadecimalByte(rest.prefix(2)) {
        out.append(value)
        rest = rest.dropFirst(2)
      } else {
        out.append(byte)
      }
    }
    return String(decoding: out, as: UTF8.self)
  }

  private static func hexadecimalByte(_ digits: ArraySlice<UInt8>) -> UInt8? {
    let values = digits.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
    return values.count == 2 ? UInt8(values[0] << 4 | values[1]) : nil
  }
}

/// JSON for answers: members keep their order, and a member can be left out at any depth.
indirect enum JSONValue {
  case string(String)
  case number(Int)
  /// Thousandths, written as a whole number where they are zero.
  case milliseconds(Int64)
  case array([JSONValue])
  case object([(String, JSONValue)])

  var text: String {
    switch self {
    case .string(let text): Self.quoted(text)
    case .number(let number): String(number)
    case .milliseconds(let count): Self.decimal(count)
    case .array(let values): "[" + values.map(\.text).joined(separator: ",") + "]"
    case .object(let members):
      "{" + members.map { Self.quoted($0.0) + ":" + $0.1.text }.joined(separator: ",") + "}"
    }
  }

  var bytes: [UInt8] { Array(text.utf8) }

  func without(_ name: String) -> JSONValue {
    switch self {
    case .string, .number, .milliseconds: self
    case .array(let values): .array(values.map { $0.without(name) })
    case .object(let members): .object(members.filter { $0.0 != name }.map { ($0.0, $0.1.without(name)) })
    }
  }

  /// Thousandths of a second as JSON writes a number.
  static func decimal(_ milliseconds: Int64) -> String {
    let whole = milliseconds / 1000
    let rest = milliseconds.magnitude % 1000
    if rest == 0 { return String(whole) }
    let digits = String(rest)
    let sign = milliseconds < 0 && whole == 0 ? "-" : ""
    return "\(sign)\(whole)." + String(repeating: "0", count: 3 - digits.count) + digits
  }

  private static func quoted(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case "\u{00}"..."\u{1f}":
        let digits = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}
