internal import TOMLKit

/// A TOML value, free of the parser that made it.
enum TOMLNode {
  case string(String)
  case integer(Int)
  case float(Double)
  case boolean(Bool)
  /// Dates and times: no setting is one.
  case time
  case array([TOMLNode])
  /// TOML tables have no order.
  case table([String: TOMLNode])

  /// The document's root table, or why it is not TOML 1.0.
  static func parse(_ text: String) -> Result<[String: TOMLNode], ConfigurationError> {
    if let fault = firstNUL(in: text) ?? firstHeaderWithoutKey(in: text) ?? TOMLSurface.firstFault(in: text) {
      return .failure(fault.error)
    }
    do {
      return .success(entries(of: try TOMLTable(string: text)))
    } catch let error as TOMLParseError {
      let at = error.source.begin
      // The parser quotes the file as it stands: a line break there would make two lines of the error.
      let message = String(
        error.description.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? " " : Character($0) })
      return .failure(TOMLSurface.Fault(message: message, line: at.line, column: at.column).error)
    } catch {
      return .failure(TOMLSurface.Fault(message: "not TOML", line: 1, column: 1).error)
    }
  }

  private static func entries(of table: TOMLTable) -> [String: TOMLNode] {
    var entries: [String: TOMLNode] = [:]
    for (key, value) in table { entries[key] = TOMLNode(value) }
    return entries
  }

  private init(_ value: any TOMLValueConvertible) {
    if let text = value.string {
      self = .string(text)
    } else if let number = value.int {
      self = .integer(number)
    } else if let flag = value.bool {
      self = .boolean(flag)
    } else if let number = value.double {
      self = .float(number)
    } else if let array = value.array {
      self = .array(array.map { TOMLNode($0) })
    } else if let table = value.table {
      self = .table(Self.entries(of: table))
    } else {
      self = .time
    }
  }

  /// The parser ends the process (an assertion) at a header whose key begins with anything but a key's first character.
  /// Refused with it: such a line inside a multi-line string or a nested array, which no setting has.
  private static func firstHeaderWithoutKey(in text: String) -> TOMLSurface.Fault? {
    func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
    let bytes = text.utf8.starts(with: [0xEF, 0xBB, 0xBF]) ? text.utf8.dropFirst(3) : text.utf8[...]
    for (index, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
      var rest = line.drop(while: isBlank)
      guard rest.popFirst() == UInt8(ascii: "[") else { continue }
      rest = rest.drop(while: isBlank)
      if rest.first == UInt8(ascii: "[") { rest = rest.dropFirst().drop(while: isBlank) }
      let first = rest.first ?? 0
      let others = [UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: "]")]
      if TOMLText.isBare(first) || others.contains(first) { continue }
      return TOMLSurface.Fault(
        message: "a table header without a key", line: index + 1, column: line.count - rest.count + 1)
    }
    return nil
  }

  /// The parser hands strings over as C strings: a NUL, written out or as an escape, would cut one short unseen.
  private static func firstNUL(in text: String) -> TOMLSurface.Fault? {
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      for needle in ["\0", "\\u0000", "\\U00000000"] {
        if let found = line.firstRange(of: needle) {
          return TOMLSurface.Fault(
            message: "a NUL character", line: index + 1,
            column: line.distance(from: line.startIndex, to: found.lowerBound) + 1)
        }
      }
    }
    return nil
  }
}

/// What must not reach the parser, because it ends the process (an assertion) there: a brace where an array's element
/// should stand, and some dates that are not whole.
enum TOMLSurface {
  struct Fault: Equatable {
    var message: String
    /// From 1; the column counts bytes.
    var line: Int
    var column: Int

    var error: ConfigurationError {
      ConfigurationError(key: "", problem: .syntax(message: message, line: line, column: column))
    }
  }

  private enum State {
    case plain
    case comment
    /// `isLong`: between three quotes, over several lines.
    case string(quote: UInt8, isLong: Bool)
  }

  /// The first `]` or `}` that does not close what was opened last, or the first date, which no setting is; nil where
  /// there is none. What is left open is the parser's to report.
  static func firstFault(in text: String) -> Fault? {
    let bytes = Array(text.utf8)
    var state = State.plain
    var open: [UInt8] = []
    /// A value begins at the next byte that is not white space.
    var expectsValue = false
    var line = 1
    var lineStart = 0
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      switch state {
      case .plain:
        if expectsValue, beginsDate(bytes[index...]) {
          return Fault(message: "a date: no setting is one", line: line, column: index - lineStart + 1)
        }
        expectsValue = isValueNext(after: byte, expectsValue, in: open)
        switch byte {
        case UInt8(ascii: "#"): state = .comment
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
          let isLong = repeats(byte, at: index, in: bytes)
          if isLong { index += 2 }
          state = .string(quote: byte, isLong: isLong)
        case UInt8(ascii: "["), UInt8(ascii: "{"): open.append(byte)
        case UInt8(ascii: "]"), UInt8(ascii: "}"):
          // In ASCII each closing bracket is two above its opening one.
          guard open.popLast() == byte - 2 else {
            return Fault(
              message: "'\(Character(Unicode.Scalar(byte)))' closes nothing here", line: line,
              column: index - lineStart + 1)
          }
        default: break
        }
      case .comment: break
      case .string(let quote, let isLong):
        if byte == UInt8(ascii: "\\"), quote == UInt8(ascii: "\"") {
          index += 1
        } else if byte == quote, !isLong {
          state = .plain
        } else if byte == quote, repeats(quote, at: index, in: bytes) {
          // Up to two quotes may stand before the closing three.
          while index + 3 < bytes.count, bytes[index + 3] == quote { index += 1 }
          index += 2
          state = .plain
        }
      }
      if index < bytes.count, bytes[index] == UInt8(ascii: "\n") {
        line += 1
        lineStart = index + 1
        switch state {
        case .comment, .string(_, isLong: false): state = .plain
        case .plain, .string(_, isLong: true): break
        }
      }
      index += 1
    }
    return nil
  }

  /// Whether a value, not a key, may begin behind `byte`.
  private static func isValueNext(after byte: UInt8, _ expectsValue: Bool, in open: [UInt8]) -> Bool {
    switch byte {
    case UInt8(ascii: "="), UInt8(ascii: "["): true
    case UInt8(ascii: ","): open.last == UInt8(ascii: "[")
    // A comment stands for white space.
    case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"), UInt8(ascii: "#"): expectsValue
    default: false
    }
  }

  /// `YYYY-`: no number and no other value begins so.
  private static func beginsDate(_ bytes: ArraySlice<UInt8>) -> Bool {
    let start = bytes.prefix(5)
    return start.count == 5 && start.last == UInt8(ascii: "-")
      && start.dropLast().allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
  }

  private static func repeats(_ quote: UInt8, at index: Int, in bytes: [UInt8]) -> Bool {
    index + 2 < bytes.count && bytes[index + 1] == quote && bytes[index + 2] == quote
  }
}

extension TOMLNode {
  /// The value for an error message, cut to what a line can hold; a URL whose parts may be secret is left out
  /// (I10).
  var shown: String {
    switch self {
    case .string(let text) where text.contains("://") && text.contains { $0 == "@" || $0 == "?" }:
      "a URL with user information or a query"
    case .string(let text): TOMLText.quoted(text.count <= 80 ? text : text.prefix(77) + "...")
    case .integer(let number): String(number)
    case .float(let number): String(number)
    case .boolean(let flag): String(flag)
    case .time, .array, .table: typeName
    }
  }

  var typeName: String {
    switch self {
    case .string: "a string"
    case .integer: "an integer"
    case .float: "a float"
    case .boolean: "a boolean"
    case .time: "a date or time"
    case .array: "an array"
    case .table: "a table"
    }
  }
}

/// Spelling of TOML 1.0 keys and strings.
enum TOMLText {
  /// A basic string.
  static func quoted(_ text: some StringProtocol) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\t": result += "\\t"
      case "\r": result += "\\r"
      case _ where scalar.value < 0x20 || scalar.value == 0x7F:
        let digits = String(scalar.value, radix: 16, uppercase: true)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }

  /// Bare where that is allowed.
  static func key(_ name: String) -> String { isBare(name) ? name : quoted(name) }

  static func isBare(_ name: String) -> Bool { !name.isEmpty && name.utf8.allSatisfy(isBare) }

  static func isBare(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: "-"): true
    default: false
    }
  }
}
