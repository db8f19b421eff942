import Testing

/// Ways to deliver `count` bytes: as a whole first, then split at every point, then one byte at a time. Each way is
/// how many bytes have arrived after each step.
func deliveries(of count: Int) -> [[Int]] {
  [[count]] + (0...count).map { [$0, count] } + [Array(0...count)]
}

/// Runs `parse` for each delivery, expects the same outcome of all, and returns it.
func sameAtEverySplit<Outcome: Equatable>(
  _ text: String, sourceLocation: SourceLocation = #_sourceLocation, _ parse: ([UInt8], [Int]) -> Outcome
) -> Outcome {
  let bytes = Array(text.utf8)
  let whole = parse(bytes, [bytes.count])
  for arrivals in deliveries(of: bytes.count) {
    let outcome = parse(bytes, arrivals)
    if outcome != whole {
      Issue.record("\(outcome) after \(arrivals.prefix(3))…, not \(whole)", sourceLocation: sourceLocation)
      break
    }
  }
  return whole
}

extension [UInt8] {
  /// The view of the first bytes, for the length of the call.
  func withPrefix<Result>(_ count: Int, _ body: (RawSpan) -> Result) -> Result {
    body(span.bytes.extracting(0..<count))
  }

  func text(_ offsets: Range<Int>) -> String { String(decoding: self[offsets], as: UTF8.self) }
}

/// Numbers that look random and are the same in every run.
struct Sequence64 {
  var state: UInt64

  mutating func next(below bound: Int) -> Int {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int((state >> 33) % UInt64(bound))
  }
}
