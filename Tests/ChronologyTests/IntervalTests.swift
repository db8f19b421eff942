import Chronology
import Testing

@Suite("Lengths of time saturate")
struct IntervalTests {
  static let longest = Interval(nanoseconds: .max)
  static let shortest = Interval(nanoseconds: .min)

  static let table: [(Interval, Int64)] = [
    (.seconds(1), 1_000_000_000),
    (.milliseconds(-2), -2_000_000),
    (.microseconds(3), 3000),
    (.seconds(Int64.max), .max),
    (.seconds(Int64.min), .min),
    (.milliseconds(.max), .max),
    (.milliseconds(.min), .min),
    (.seconds(9_223_372_036), 9_223_372_036_000_000_000),
    (.seconds(9_223_372_037), .max),
    (.fractionalSeconds(1.5), 1_500_000_000),
    (.fractionalSeconds(-0.25), -250_000_000),
    (.fractionalSeconds(Double.infinity), .max),
    (.fractionalSeconds(-Double.infinity), .min),
    (.fractionalSeconds(Double.nan), 0),
    (.fractionalSeconds(1e300), .max),
    (longest + .seconds(1), .max),
    (shortest + .seconds(-1), .min),
    (longest + shortest, -1),
    (shortest - .seconds(1), .min),
    (longest - .seconds(-1), .max),
    (.zero - shortest, .max),
    (.seconds(3) - .seconds(5), -2_000_000_000),
    (.seconds(10) / 4, 2_500_000_000),
  ]

  @Test("Every operation stays in range", arguments: table)
  func saturates(_ interval: Interval, _ nanoseconds: Int64) {
    #expect(interval.nanoseconds == nanoseconds)
  }

  @Test(
    "Whole seconds are rounded up, milliseconds towards zero",
    arguments: [
      (Int64(0), Int64(0), Int64(0)), (1, 1, 0), (999_999, 1, 0), (1_000_000_000, 1, 1000), (1_000_000_001, 2, 1000),
      (-1_500_000_000, -1, -1500),
    ])
  func rounding(_ nanoseconds: Int64, _ seconds: Int64, _ milliseconds: Int64) {
    #expect(Interval(nanoseconds: nanoseconds).secondsRoundedUp == seconds)
    #expect(Interval(nanoseconds: nanoseconds).milliseconds == milliseconds)
  }

  @Test("Order and value in seconds")
  func order() {
    #expect(Self.shortest < .zero && .zero < Interval.seconds(1) && Interval.seconds(1) < Self.longest)
    #expect(Interval.milliseconds(1500).inSeconds == 1.5)
  }
}

@Suite("Points on the monotonic clock")
struct InstantTests {
  @Test("Adding saturates at never and at boot")
  func adding() {
    let instant = Instant(nanoseconds: 1000)
    #expect((instant + .microseconds(1)).nanoseconds == 2000)
    #expect((instant + .microseconds(-1)).nanoseconds == 0)
    #expect((instant + .microseconds(-2)).nanoseconds == 0)
    #expect((instant + Interval(nanoseconds: .min)).nanoseconds == 0)
    #expect(Instant.never + .seconds(1) == .never)
    #expect((Instant.never + .seconds(-1)) < .never)
    #expect(Instant(nanoseconds: .max - 1) + Interval(nanoseconds: .max) == .never)
  }

  @Test("The distance is signed and saturates")
  func distance() {
    let early = Instant(nanoseconds: 5)
    let late = Instant(nanoseconds: 12)
    #expect(late.since(early).nanoseconds == 7)
    #expect(early.since(late).nanoseconds == -7)
    #expect(Instant.never.since(Instant(nanoseconds: 0)).nanoseconds == .max)
    #expect(Instant(nanoseconds: 0).since(.never).nanoseconds == -.max)
    #expect(early < late && late < .never)
  }
}
