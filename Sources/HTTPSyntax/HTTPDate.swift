public import Chronology

/// Dates in fields (RFC 9110 §5.6.7). Three forms are read, one is written.
public enum HTTPDate {
  /// Bytes of an IMF-fixdate.
  public static let formattedBytes = 29

  /// nil for what is none of the three forms or no date of the calendar. The name of the day is not compared with
  /// the date. A two-digit year (RFC 850) is at most 50 years after `now`, else past; without `now` it is 1970 to
  /// 2069.
  public static func parse(_ text: RawSpan, now: WallTime? = nil) -> WallTime? {
    guard text.byteCount >= 24, text.byteCount <= 33 else { return nil }
    if text.byte(at: 3) == ByteClass.comma { return fixdate(text) }
    if text.byte(at: 3) == ByteClass.space { return asctime(text) }
    return rfc850(text, now: now)
  }

  public static func parse(_ text: String, now: WallTime? = nil) -> WallTime? {
    let bytes = unsafe text.utf8.span.bytes
    return parse(bytes, now: now)
  }

  /// As an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`. Years out of 0 to 9999, which the form cannot show, show as
  /// the nearest that it can.
  public static func format(_ time: WallTime) -> String {
    var buffer = ByteBuffer(capacity: formattedBytes)
    buffer.append(date: time)
    return buffer.withReadable { $0.string }
  }

  static let dayNames: [7 of StaticString] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  static let monthNames: [12 of StaticString] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]
  private static let longDayNames: [7 of StaticString] = [
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
  ]

  /// `Sun, 06 Nov 1994 08:49:37 GMT`
  private static func fixdate(_ text: RawSpan) -> WallTime? {
    guard text.byteCount == 29, hasDayName(text), text.contains(", ", at: 3), text.contains(" ", at: 7),
      text.contains(" ", at: 11), text.contains(" ", at: 16), text.contains(" GMT", at: 25),
      let day = number(text, at: 5, digits: 2), let month = month(text, at: 8),
      let year = number(text, at: 12, digits: 4)
    else { return nil }
    return time(text, at: 17, year: year, month: month, day: day)
  }

  /// `Sun Nov  6 08:49:37 1994`
  private static func asctime(_ text: RawSpan) -> WallTime? {
    let hasOneDigit = text.byte(at: 8) == ByteClass.space
    guard text.byteCount == 24, hasDayName(text), text.contains(" ", at: 7), text.contains(" ", at: 10),
      text.contains(" ", at: 19), let month = month(text, at: 4),
      let day = number(text, at: hasOneDigit ? 9 : 8, digits: hasOneDigit ? 1 : 2),
      let year = number(text, at: 20, digits: 4)
    else { return nil }
    return time(text, at: 11, year: year, month: month, day: day)
  }

  /// `Sunday, 06-Nov-94 08:49:37 GMT`
  private static func rfc850(_ text: RawSpan, now: WallTime?) -> WallTime? {
    for index in longDayNames.indices where text.contains(longDayNames[index], at: 0) {
      let start = longDayNames[index].utf8CodeUnitCount
      guard text.byteCount == start + 24, text.contains(", ", at: start), text.contains("-", at: start + 4),
        text.contains("-", at: start + 8), text.contains(" ", at: start + 11),
        text.contains(" GMT", at: start + 20), let day = number(text, at: start + 2, digits: 2),
        let month = month(text, at: start + 5), let short = number(text, at: start + 9, digits: 2)
      else { return nil }
      return time(text, at: start + 12, year: fullYear(short, now: now), month: month, day: day)
    }
    return nil
  }

  private static func fullYear(_ short: Int, now: WallTime?) -> Int {
    guard let now else { return short < 70 ? 2000 + short : 1900 + short }
    let current = Int(clamping: now.civil.year)
    let year = current - current % 100 + short
    if year > current + 50 { return year - 100 }
    return year <= current - 50 ? year + 100 : year
  }

  private static func time(_ text: RawSpan, at offset: Int, year: Int, month: Int, day: Int) -> WallTime? {
    guard let hour = number(text, at: offset, digits: 2), text.contains(":", at: offset + 2),
      let minute = number(text, at: offset + 3, digits: 2), text.contains(":", at: offset + 5),
      let second = number(text, at: offset + 6, digits: 2)
    else { return nil }
    return WallTime(year: Int64(year), month: month, day: day, hour: hour, minute: minute, second: second)
  }

  private static func number(_ text: RawSpan, at offset: Int, digits: Int) -> Int? {
    guard offset + digits <= text.byteCount else { return nil }
    var value = 0
    for index in offset..<offset + digits {
      let byte = text.byte(at: index)
      guard ByteClass.isDigit(byte) else { return nil }
      value = value * 10 + Int(byte - 0x30)
    }
    return value
  }

  /// 1 to 12.
  private static func month(_ text: RawSpan, at offset: Int) -> Int? {
    for index in monthNames.indices where text.contains(monthNames[index], at: offset) { return index + 1 }
    return nil
  }

  private static func hasDayName(_ text: RawSpan) -> Bool {
    for index in dayNames.indices where text.contains(dayNames[index], at: 0) { return true }
    return false
  }
}

extension ByteBuffer {
  /// An IMF-fixdate, `HTTPDate.formattedBytes` bytes.
  public mutating func append(date time: WallTime) {
    // 0000-01-01 and 9999-12-31T23:59:59.
    let shown = max(WallTime(seconds: -62_167_219_200), min(time, WallTime(seconds: 253_402_300_799)))
    let civil = shown.civil
    append(HTTPDate.dayNames[civil.weekday])
    append(", ")
    append(twoDigits: civil.day)
    append(byte: ByteClass.space)
    append(HTTPDate.monthNames[civil.month - 1])
    append(byte: ByteClass.space)
    append(twoDigits: Int(civil.year) / 100)
    append(twoDigits: Int(civil.year) % 100)
    append(byte: ByteClass.space)
    append(twoDigits: civil.hour)
    append(byte: ByteClass.colon)
    append(twoDigits: civil.minute)
    append(byte: ByteClass.colon)
    append(twoDigits: civil.second)
    append(" GMT")
  }

  private mutating func append(twoDigits value: Int) {
    append(byte: 0x30 + UInt8(value / 10 % 10))
    append(byte: 0x30 + UInt8(value % 10))
  }
}

/// The `Retry-After` field (RFC 9110 §10.2.3).
public enum RetryAfter {
  /// How long from `now` to wait: never negative, and as long as an `Interval` can be for larger numbers. nil for
  /// what is neither a number of seconds nor a date.
  public static func parse(_ value: RawSpan, now: WallTime) -> Interval? {
    guard !value.isEmpty else { return nil }
    guard ByteClass.isDigit(value.byte(at: 0)) else {
      return HTTPDate.parse(value, now: now).map { max(.zero, $0.since(now)) }
    }
    var seconds: Int64 = 0
    for offset in value.byteOffsets {
      let byte = value.byte(at: offset)
      guard ByteClass.isDigit(byte) else { return nil }
      let (product, overflow) = seconds.multipliedReportingOverflow(by: 10)
      let (sum, carried) = product.addingReportingOverflow(Int64(byte - 0x30))
      seconds = overflow || carried ? .max : sum
    }
    return .seconds(seconds)
  }

  public static func parse(_ value: String, now: WallTime) -> Interval? {
    let bytes = unsafe value.utf8.span.bytes
    return parse(bytes, now: now)
  }
}
