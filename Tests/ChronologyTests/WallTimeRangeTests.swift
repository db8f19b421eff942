import Chronology
import Testing

@Suite("WallTime at the ends of its range") struct WallTimeRangeTests {
  @Test("no value traps, whatever a peer sends", arguments: [Int64.min, .min + 1, -1, 0, .max - 1, .max])
  func everyValueHasAForm(_ milliseconds: Int64) {
    let time = WallTime(milliseconds: milliseconds)
    #expect(time.rfc3339.hasSuffix("Z"))
    #expect(time.seconds <= milliseconds / 1000)
    #expect((0...999).contains(time.civil.millisecond))
  }

  @Test("a leap second does not hide a date that is not in the calendar")
  func leapSecondOfNoDay() {
    #expect(WallTime(year: 2001, month: 2, day: 29, hour: 0, minute: 0, second: 60) == nil)
    #expect(WallTime(year: 2016, month: 12, day: 31, hour: 23, minute: 59, second: 60)?.rfc3339 == "2017-01-01T00:00:00Z")
  }
}
