import Chronology
import Testing

@Suite("Civil time by the proleptic Gregorian calendar")
struct WallTimeTests {
  struct Row: Sendable, CustomTestStringConvertible {
    var seconds: Int64
    var text: String
    /// 0 is Sunday.
    var weekday: Int
    var testDescription: String { text }
  }

  static let dates: [Row] = [
    Row(seconds: 0, text: "1970-01-01T00:00:00Z", weekday: 4),
    Row(seconds: -1, text: "1969-12-31T23:59:59Z", weekday: 3),
    Row(seconds: 68_169_600, text: "1972-02-29T00:00:00Z", weekday: 2),
    Row(seconds: 951_782_400, text: "2000-02-29T00:00:00Z", weekday: 2),
    Row(seconds: 951_868_799, text: "2000-02-29T23:59:59Z", weekday: 2),
    Row(seconds: 951_868_800, text: "2000-03-01T00:00:00Z", weekday: 3),
    Row(seconds: 978_307_199, text: "2000-12-31T23:59:59Z", weekday: 0),
    Row(seconds: 2_147_483_647, text: "2038-01-19T03:14:07Z", weekday: 2),
    Row(seconds: 2_147_483_648, text: "2038-01-19T03:14:08Z", weekday: 2),
    Row(seconds: -2_208_988_800, text: "1900-01-01T00:00:00Z", weekday: 1),
    Row(seconds: -2_203_977_600, text: "1900-02-28T00:00:00Z", weekday: 3),
    Row(seconds: -2_203_891_200, text: "1900-03-01T00:00:00Z", weekday: 4),
    Row(seconds: 4_107_542_400, text: "2100-03-01T00:00:00Z", weekday: 1),
    Row(seconds: 253_402_300_799, text: "9999-12-31T23:59:59Z", weekday: 5),
    Row(seconds: -62_167_219_200, text: "0000-01-01T00:00:00Z", weekday: 6),
  ]

  @Test("Known dates, there and back", arguments: dates)
  func known(_ row: Row) {
    let time = WallTime(seconds: row.seconds)
    #expect(time.rfc3339 == row.text)
    let c = time.civil
    #expect(c.weekday == row.weekday)
    #expect(
      WallTime(year: c.year, month: c.month, day: c.day, hour: c.hour, minute: c.minute, second: c.second) == time)
  }

  @Test("Each day of 400 years follows the one before")
  func calendar() {
    let first: Int64 = -11_644_473_600  // 1601-01-01
    var day = WallTime(seconds: first).civil
    #expect((day.year, day.month, day.day, day.weekday) == (1601, 1, 1, 1))
    var mismatches = 0
    for number in Int64(1)..<146_097 {
      let time = WallTime(seconds: first + number * 86_400)
      let next = time.civil
      let back = WallTime(year: next.year, month: next.month, day: next.day, hour: 0, minute: 0, second: 0)
      let follows = next.day == day.day + 1 && next.month == day.month || next.day == 1
      if back != time || !follows || next.weekday != (day.weekday + 1) % 7 { mismatches += 1 }
      day = next
    }
    #expect(mismatches == 0)
    #expect((day.year, day.month, day.day) == (2000, 12, 31))
  }

  static let invalid: [[Int]] = [
    [2001, 2, 29, 0, 0, 0], [1900, 2, 29, 0, 0, 0], [2000, 2, 30, 0, 0, 0], [2001, 4, 31, 0, 0, 0],
    [2001, 0, 1, 0, 0, 0], [2001, 13, 1, 0, 0, 0], [2001, 1, 0, 0, 0, 0], [2001, 1, 32, 0, 0, 0],
    [2001, 1, 1, 24, 0, 0], [2001, 1, 1, -1, 0, 0], [2001, 1, 1, 0, 60, 0], [2001, 1, 1, 0, 0, 61],
    [2001, 1, 1, 0, 0, -1], [100_001, 1, 1, 0, 0, 0], [-100_001, 1, 1, 0, 0, 0],
  ]

  @Test("A date that no calendar has is nil", arguments: invalid)
  func refused(_ f: [Int]) {
    #expect(WallTime(year: Int64(f[0]), month: f[1], day: f[2], hour: f[3], minute: f[4], second: f[5]) == nil)
  }

  @Test("A leap second is the next second")
  func leapSecond() {
    let time = WallTime(year: 2016, month: 12, day: 31, hour: 23, minute: 59, second: 60)
    #expect(time?.rfc3339 == "2017-01-01T00:00:00Z")
  }

  @Test(
    "Whole seconds are rounded down, before 1970 too",
    arguments: [(Int64(1999), Int64(1)), (-1, -1), (-1000, -1), (-1001, -2), (0, 0)])
  func seconds(_ milliseconds: Int64, _ seconds: Int64) {
    #expect(WallTime(milliseconds: milliseconds).seconds == seconds)
  }

  @Test("Milliseconds are kept apart from the second")
  func milliseconds() {
    #expect(WallTime(milliseconds: -1).civil.millisecond == 999)
    #expect(WallTime(milliseconds: 1_234).civil.millisecond == 234)
    #expect(WallTime(milliseconds: 1_234).civil.second == 1)
  }

  @Test("Arithmetic saturates")
  func saturates() {
    let latest = WallTime(milliseconds: .max)
    let earliest = WallTime(milliseconds: .min)
    #expect(latest + .seconds(1) == latest)
    #expect(earliest + .seconds(-1) == earliest)
    #expect(WallTime(seconds: .max) == latest)
    #expect(WallTime(seconds: .min) == earliest)
    #expect(latest.since(earliest) == Interval(nanoseconds: .max))
    #expect(earliest.since(latest) == Interval(nanoseconds: .min))
    #expect(WallTime(seconds: 5).since(WallTime(seconds: 7)) == .seconds(-2))
  }

  @Test("Far years have calendar fields", arguments: [Int64.max, Int64.max - 1, Int64.min / 2])
  func extremes(_ milliseconds: Int64) {
    let civil = WallTime(milliseconds: milliseconds).civil
    #expect((1...12).contains(civil.month) && (1...31).contains(civil.day) && (0...6).contains(civil.weekday))
  }
}
