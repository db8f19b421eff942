import FoundationEssentials

/// A JSON text (RFC 8259) as a tree, for reading a few members of a token endpoint's answer.
///
/// Strings in it may be tokens: its description says only what kind of value it is (I10).
public enum JSONValue: Equatable, Sendable, Decodable {
  case null
  case bool(Bool)
  /// A number without a fraction that fits; `3600.0` is one too.
  case integer(Int64)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  /// Longer texts are refused; a token endpoint's answer is read up to the same length.
  public static let bytesMax = 1 << 20
  /// Deeper texts are refused before they are decoded, because the decoder recurses.
  public static let depthMax = 32
  /// Texts with more values are refused: each costs the decoder microseconds, and an answer has a dozen.
  public static let valuesMax = 4096

  /// nil for anything but one JSON text in UTF-8 inside the limits.
  public static func parse(_ bytes: [UInt8]) -> JSONValue? {
    guard isInsideLimits(bytes) else { return nil }
    return try? JSONDecoder().decode(JSONValue.self, from: Data(bytes))
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let text = try? container.decode(String.self) {
      self = .string(text)
    } else if container.decodeNil() {
      self = .null
    } else if let flag = try? container.decode(Bool.self) {
      self = .bool(flag)
    } else if let integer = try? container.decode(Int64.self) {
      self = .integer(integer)
    } else if let number = try? container.decode(Double.self) {
      self = .number(number)
    } else if let members = try? container.decode([String: JSONValue].self) {
      self = .object(members)
    } else {
      // The last kind: what fails here too is a malformed string or a number that no Double holds (1e400). The
      // whole text is refused then, lest a damaged refresh token pass for an absent one.
      self = .array(try container.decode([JSONValue].self))
    }
  }

  /// The value at a dotted path of member names and array indices (`errors.0.code`); nil where a step is absent.
  public subscript(path: String) -> JSONValue? {
    var value = self
    for step in path.split(separator: ".", omittingEmptySubsequences: false) {
      switch value {
      case .object(let members):
        guard let member = members[String(step)] else { return nil }
        value = member
      case .array(let elements):
        guard let index = Int(step), elements.indices.contains(index) else { return nil }
        value = elements[index]
      case .null, .bool, .integer, .number, .string:
        return nil
      }
    }
    return value
  }

  public var stringValue: String? {
    if case .string(let text) = self { text } else { nil }
  }

  public var isNull: Bool { self == .null }

  /// A number, or a string that is a decimal number (`"3600"`), truncated to a whole one; saturates.
  public var int64Value: Int64? {
    switch self {
    case .integer(let integer): integer
    case .number(let number): Int64(saturating: number)
    case .string(let text): Int64(numeral: text)
    case .null, .bool, .array, .object: nil
    }
  }

  /// As `int64Value`, with the fraction kept.
  public var doubleValue: Double? {
    switch self {
    case .integer(let integer): Double(integer)
    case .number(let number): number
    case .string(let text): Double(numeral: text)
    case .null, .bool, .array, .object: nil
    }
  }

  /// Counts brackets and separators outside strings, in one pass, and refuses what the decoder is lenient about.
  private static func isInsideLimits(_ bytes: [UInt8]) -> Bool {
    guard !bytes.isEmpty, bytes.count <= bytesMax else { return false }
    var depth = 0
    var values = 1
    var isInString = false
    var isEscaped = false
    var isAfterComma = false
    for byte in bytes {
      // UTF-16 and UTF-32 always have a zero byte; RFC 8259 §8.1 wants UTF-8, and this count relies on it.
      if byte == 0 { return false }
      if isInString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
        }
        continue
      }
      // The decoder lets a comma stand before a closing bracket; RFC 8259 §5 does not.
      if isAfterComma, byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}") { return false }
      if byte > 0x20 { isAfterComma = byte == UInt8(ascii: ",") }
      switch byte {
      case UInt8(ascii: "\""): isInString = true
      case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
      case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
      case UInt8(ascii: ","): values += 1
      default: break
      }
      if depth > depthMax || values > valuesMax { return false }
    }
    return true
  }
}

extension JSONValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String {
    switch self {
    case .null: "null"
    case .bool: "boolean"
    case .integer, .number: "number"
    case .string: "string"
    case .array: "array"
    case .object: "object"
    }
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

extension Int64 {
  /// Truncates towards zero; out of range saturates, NaN is zero.
  init(saturating number: Double) {
    if number.isNaN {
      self = 0
    } else if number >= 0x1p63 {
      self = .max
    } else if number <= -0x1p63 {
      self = .min
    } else {
      self.init(number)
    }
  }

  /// A decimal numeral; one out of range saturates.
  fileprivate init?(numeral text: String) {
    if let whole = Int64(text) {
      self = whole
      return
    }
    guard let number = Double(numeral: text) else { return nil }
    self.init(saturating: number)
  }
}

extension Double {
  /// The standard library's reader also takes hexadecimal, `inf` and `nan`, which are no numerals of a peer's.
  fileprivate init?(numeral text: String) {
    let isDecimal = text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
        UInt8(ascii: "e"), UInt8(ascii: "E"):
        true
      default: false
      }
    }
    guard isDecimal, let number = Double(text) else { return nil }
    self = number
  }
}
