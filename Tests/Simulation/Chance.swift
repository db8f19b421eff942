import Chronology

/// Everything that a run draws comes from here (SplitMix64): the same seed gives the same run.
struct Chance: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// At least 0 and below 1.
  mutating func fraction() -> Double { Double(next() >> 11) / 9_007_199_254_740_992 }

  mutating func happens(_ probability: Double) -> Bool { fraction() < probability }

  mutating func number(_ range: ClosedRange<Int>) -> Int {
    range.lowerBound + Int(next() % UInt64(range.upperBound - range.lowerBound + 1))
  }

  mutating func milliseconds(_ range: ClosedRange<Int>) -> Interval { .milliseconds(Int64(number(range))) }

  mutating func pick<Element>(_ elements: [Element]) -> Element { elements[number(0...elements.count - 1)] }

  /// A fault's rate for one run: none in two runs of five, else up to `most`, the small ones more often.
  mutating func rate(_ most: Double) -> Double {
    let drawn = fraction()
    return happens(0.4) ? 0 : most * drawn * drawn
  }
}
