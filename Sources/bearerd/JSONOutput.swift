import Chronology
import FoundationEssentials

/// The form for scripts: keys sorted, times in RFC 3339, absent values as null.
enum JSONOutput {
  static func write(_ value: some Encodable) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    try Output.write(String(decoding: try encoder.encode(value), as: UTF8.self) + "\n")
  }
}

/// A value that is written as null where it is absent, so that a script always finds the key.
struct Nullable<Value: Encodable>: Encodable {
  var value: Value?
  init(_ value: Value?) { self.value = value }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    if let value { try container.encode(value) } else { try container.encodeNil() }
  }
}
