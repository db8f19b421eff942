/// A point of civil time: milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted (as POSIX and the
/// JWT `exp` claim do). What is written to a session's file is on this clock, because it must survive a reboot.
public struct WallTime: Comparable, Hashable, Sendable {
  public var milliseconds: Int64

  public init(milliseconds: Int64) { self.milliseconds = milliseconds }

  /// Saturates for values no clock shows.
  public init(seconds: Int64) {
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    milliseconds = overflow ? (seconds < 0 ? .min : .max) : product
  }

  /// Rounded down. Division comes before any subtraction, because peers' values reach the ends of the range.
  public var seconds: Int64 { milliseconds / 1000 - (milliseconds % 1000 < 0 ? 1 : 0) }

  public static func < (left: WallTime, right: WallTime) -> Bool { left.milliseconds < right.milliseconds }

  public static func + (time: WallTime, interval: Interval) -> WallTime {
    let (sum, overflow) = time.milliseconds.addingReportingOverflow(interval.milliseconds)
    return WallTime(milliseconds: overflow ? (interval.nanoseconds < 0 ? .min : .max) : sum)
  }

  public func since(_ earlier: WallTime) -> Interval {
    let (difference, overflow) = milliseconds.subtractingReportingOverflow(earlier.milliseconds)
    return .milliseconds(overflow ? (milliseconds < 0 ? .min : .max) : difference)
  }
}

extension WallTime {
  /// The calendar fields in UTC, by the proleptic Gregorian calendar.
  public struct Civil: Equatable, Sendable {
    public var year: Int64
    /// 1 to 12.
    public var month: Int
    /// 1 to 31.
    public var day: Int
    public var hour: Int
    public var minute: Int
    public var second: Int
    public var millisecond: Int
    /// 0 is Sunday.
    public var weekday: Int
  }

  /// Days are counted from 0000-03-01, so that the leap day is the last of its year and months have a regular pattern.
  public var civil: Civil {
    var days = milliseconds / 86_400_000
    var rest = Int(milliseconds % 86_400_000)
    if rest < 0 {
      days -= 1
      rest += 86_400_000
    }
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let month = Int(marchMonth < 10 ? marchMonth + 3 : marchMonth - 9)
    return Civil(
      year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month: month,
      day: Int(dayOfYear - (153 * marchMonth + 2) / 5 + 1),
      hour: rest / 3_600_000, minute: rest / 60_000 % 60, second: rest / 1000 % 60, millisecond: rest % 1000,
      weekday: Int(((days + 4) % 7 + 7) % 7))
  }

  /// nil where a field is out of its range; a leap second (60) counts as the next second.
  public init?(year: Int64, month: Int, day: Int, hour: Int, minute: Int, second: Int) {
    guard (1...12).contains(month), (1...31).contains(day), (0...23).contains(hour), (0...59).contains(minute),
      (0...60).contains(second), (-100_000...100_000).contains(year)
    else { return nil }
    let y = month <= 2 ? year - 1 : year
    let era = (y >= 0 ? y : y - 399) / 400
    let yearOfEra = y - era * 400
    let dayOfYear = (153 * Int64(month > 2 ? month - 3 : month + 9) + 2) / 5 + Int64(day) - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    let days = era * 146_097 + dayOfEra - 719_468
    self.init(seconds: days * 86_400 + Int64(hour * 3600 + minute * 60 + second))
    // 31 April and the like come back as another date; the seconds are left out, because a 60th moves on by itself.
    let date = WallTime(seconds: days * 86_400).civil
    guard date.day == day, date.month == month else { return nil }
  }

  /// RFC 3339 in UTC to the second: what people and files are shown.
  public var rfc3339: String {
    let c = civil
    func two(_ n: Int) -> String { n < 10 ? "0\(n)" : "\(n)" }
    let year = String(c.year)
    let padded = String(repeating: "0", count: max(0, 4 - year.count)) + year
    return "\(padded)-\(two(c.month))-\(two(c.day))T\(two(c.hour)):\(two(c.minute)):\(two(c.second))Z"
  }
}
