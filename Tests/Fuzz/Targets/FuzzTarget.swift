/// One kind of input and what must hold for every string of bytes: the fuzzer looks for bytes that break it, the
/// tests play those that are kept.
public enum FuzzTarget: String, CaseIterable, Sendable {
  case request, chunked, response, authority, date, jwt, json, preface, record, configuration, exchange
  case tokenResponse = "token-response"

  /// - Throws: `Broken`, with the rule that does not hold.
  public func check(_ bytes: [UInt8]) throws {
    switch self {
    case .request: try RequestTarget.check(bytes)
    case .chunked: try ChunkedTarget.check(bytes)
    case .response: try ResponseTarget.check(bytes)
    case .authority: try AuthorityTarget.check(bytes)
    case .date: try DateTarget.check(bytes)
    case .jwt: try JWTTarget.check(bytes)
    case .json: try JSONTarget.check(bytes)
    case .preface: try PrefaceTarget.check(bytes)
    case .record: try RecordTarget.check(bytes)
    case .configuration: try ConfigurationTarget.check(bytes)
    case .exchange: try ExchangeTarget.check(bytes)
    case .tokenResponse: try TokenResponseTarget.check(bytes)
    }
  }
}

/// A rule that does not hold for these bytes.
public struct Broken: Error, CustomStringConvertible {
  public var description: String
}

func require(_ condition: Bool, _ rule: @autoclosure () -> String) throws {
  if !condition { throw Broken(description: rule()) }
}

func requireEqual<Value: Equatable>(_ left: Value, _ right: Value, _ rule: @autoclosure () -> String) throws {
  if left != right { throw Broken(description: "\(rule()): \(left) is not \(right)") }
}

/// How many bytes have arrived after each step. All at once comes first; then one byte at a time, and for short
/// inputs a cut at every place.
func deliveries(of count: Int) -> [[Int]] {
  let cuts = count <= 96 ? (0...count).map { [$0, count] } : [[count / 3, count], [count / 2, count - 1, count]]
  return [[count], Array(0...count)] + cuts
}

/// Takes what it needs from the front of the input: the choices of a scenario. Zero when nothing is left.
struct ByteSource {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  var isEmpty: Bool { rest.isEmpty }
  var remainder: [UInt8] { Array(rest) }

  mutating func next() -> UInt8 { rest.popFirst() ?? 0 }
  mutating func next(below bound: Int) -> Int { Int(next()) % bound }
  mutating func flag() -> Bool { next() & 1 == 1 }
  mutating func pick<Value>(_ values: [Value]) -> Value { values[next(below: values.count)] }
}
