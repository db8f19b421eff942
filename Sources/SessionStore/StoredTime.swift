internal import Chronology

/// A time as a session's file has it: RFC 3339 with milliseconds where a calendar year 0 to 9999 shows it, else
/// a number of milliseconds since 1970 (an expiry that saturated must come back as it was).
struct StoredTime: Codable {
  var time: WallTime

  /// 0000-01-01T00:00:00.000Z to 9999-12-31T23:59:59.999Z: the years that RFC 3339 can write.
  private static let calendarRange: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

  init(_ time: WallTime) { self.time = time }

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let milliseconds = try? container.decode(Int64.self) {
      time = WallTime(milliseconds: milliseconds)
      return
    }
    guard let parsed = Self.parse(try container.decode(String.self)) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a time")
    }
    time = parsed
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    guard Self.calendarRange.contains(time.milliseconds) else {
      try container.encode(time.milliseconds)
      return
    }
    let civil = time.civil
    if civil.millisecond == 0 {
      try container.encode(time.rfc3339)
    } else {
      let digits = String(civil.millisecond)
      let fraction = String(repeating: "0", count: 3 - digits.utf8.count) + digits
      try container.encode(time.rfc3339.dropLast() + ".\(fraction)Z")
    }
  }

  /// RFC 3339 §5.6 `date-time`; digits of the fraction past the third are dropped.
  static func parse(_ text: String) -> WallTime? {
    var scanner = Scanner(rest: Array(text.utf8)[...])
    guard let year = scanner.number(digits: 4), scanner.take("-"), let month = scanner.number(digits: 2),
      scanner.take("-"), let day = scanner.number(digits: 2), scanner.take("T") || scanner.take("t"),
      let hour = scanner.number(digits: 2), scanner.take(":"), let minute = scanner.number(digits: 2),
      scanner.take(":"), let second = scanner.number(digits: 2), let milliseconds = scanner.fraction(),
      let offset = scanner.offsetMinutes(), scanner.rest.isEmpty,
      let time = WallTime(
        year: Int64(year), month: month, day: day, hour: hour, minute: minute, second: second)
    else { return nil }
    return time + .milliseconds(Int64(milliseconds)) + .seconds(Int64(-offset * 60))
  }

  private struct Scanner {
    var rest: ArraySlice<UInt8>

    mutating func take(_ character: Unicode.Scalar) -> Bool {
      guard rest.first == UInt8(ascii: character) else { return false }
      rest.removeFirst()
      return true
    }

    mutating func digit() -> Int? {
      guard let byte = rest.first, (0x30...0x39).contains(byte) else { return nil }
      rest.removeFirst()
      return Int(byte - 0x30)
    }

    mutating func number(digits: Int) -> Int? {
      var value = 0
      for _ in 0..<digits {
        guard let next = digit() else { return nil }
        value = value * 10 + next
      }
      return value
    }

    /// Milliseconds; 0 where there is no fraction.
    mutating func fraction() -> Int? {
      guard take(".") else { return 0 }
      guard var value = digit() else { return nil }
      var count = 1
      while let next = digit() {
        if count < 3 { value = value * 10 + next }
        count += 1
      }
      for _ in min(count, 3)..<3 { value *= 10 }
      return value
    }

    mutating func offsetMinutes() -> Int? {
      if take("Z") || take("z") { return 0 }
      let isNegative = take("-")
      guard isNegative || take("+"), let hours = number(digits: 2), hours < 24, take(":"),
        let minutes = number(digits: 2), minutes < 60
      else { return nil }
      return (isNegative ? -1 : 1) * (hours * 60 + minutes)
    }
  }
}
