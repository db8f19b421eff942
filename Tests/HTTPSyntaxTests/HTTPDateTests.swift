import Chronology
import HTTPSyntax
import Testing

@Suite("RFC 9110 §5.6.7 dates")
struct HTTPDateTests {
  static let now = WallTime(seconds: 1_784_000_000)  // 2026-07-14

  static let dates: [(String, Int64?)] = [
    ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
    ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
    ("Sun Nov  6 08:49:37 1994", 784_111_777),
    ("Wed Nov 16 08:49:37 1994", 784_975_777),
    ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
    ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
    ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
    ("Fri, 31 Dec 1999 23:59:60 GMT", 946_684_800),
    ("Wednesday, 01-Jan-25 00:00:00 GMT", 1_735_689_600),
    ("Thursday, 01-Jan-70 00:00:00 GMT", 3_155_760_000),
    ("Friday, 01-Jan-77 00:00:00 GMT", 220_924_800),
    ("", nil),
    ("0", nil),
    ("Sun, 06 Nov 1994 08:49:37 UTC", nil),
    ("Sun, 06 Nov 1994 08:49:37", nil),
    ("Sun, 6 Nov 1994 08:49:37 GMT", nil),
    ("Sun, 06 nov 1994 08:49:37 GMT", nil),
    ("Son, 06 Nov 1994 08:49:37 GMT", nil),
    ("Sun, 06 Nov 1994 24:49:37 GMT", nil),
    ("Sun, 06 Nov 1994 08:60:37 GMT", nil),
    ("Sun, 31 Feb 1994 08:49:37 GMT", nil),
    ("Sun, 00 Nov 1994 08:49:37 GMT", nil),
    ("Sun, 06 Nov 19x4 08:49:37 GMT", nil),
    ("Sun, 06 Nov 1994 08-49-37 GMT", nil),
    ("Sun, 06 Nov 1994  8:49:37 GMT", nil),
    ("Sunday, 06 Nov 94 08:49:37 GMT", nil),
    ("Sunday, 06-Nov-1994 08:49:37 GMT", nil),
    ("Sun Nov  6 08:49:37 1994 GMT", nil),
    ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777),
    ("2026-07-14T00:00:00Z     ", nil),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", nil),
  ]

  @Test("Three forms are read", arguments: dates)
  func parses(_ text: String, _ seconds: Int64?) {
    #expect(HTTPDate.parse(text, now: Self.now)?.seconds == seconds)
    let bytes = Array(text.utf8)
    #expect(bytes.withPrefix(bytes.count) { HTTPDate.parse($0, now: Self.now) }?.seconds == seconds)
  }

  @Test("Without a clock a two-digit year is 1970 to 2069")
  func pivot() {
    #expect(HTTPDate.parse("Thursday, 01-Jan-70 00:00:00 GMT")?.seconds == 0)
    #expect(HTTPDate.parse("Tuesday, 01-Jan-69 00:00:00 GMT")?.seconds == 3_124_224_000)
  }

  @Test("No byte of a date can be cut or changed into a trap")
  func mutations() {
    for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Wednesday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
      let bytes = Array(text.utf8)
      #expect(HTTPDate.parse(text) != nil)
      for count in 0..<bytes.count {
        #expect(bytes.withPrefix(count) { HTTPDate.parse($0) } == nil)
      }
      for index in bytes.indices {
        var changed = bytes
        changed[index] = 0xFF
        #expect(changed.withPrefix(changed.count) { HTTPDate.parse($0) } == nil)
      }
    }
  }

  @Test(
    "One form is written",
    arguments: [
      (Int64(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
      (951_825_600, "Tue, 29 Feb 2000 12:00:00 GMT"), (-62_167_219_200, "Sat, 01 Jan 0000 00:00:00 GMT"),
      (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"), (.max, "Fri, 31 Dec 9999 23:59:59 GMT"),
      (.min, "Sat, 01 Jan 0000 00:00:00 GMT"),
    ])
  func formats(_ seconds: Int64, _ text: String) {
    #expect(HTTPDate.format(WallTime(seconds: seconds)) == text)
  }

  @Test("What is written is read back")
  func roundTrip() {
    for day in Int64(0)..<1000 {
      let time = WallTime(seconds: day * 86_400 * 37 + day * 61)
      #expect(HTTPDate.parse(HTTPDate.format(time)) == time)
    }
  }
}

@Suite("RFC 9110 §10.2.3 Retry-After")
struct RetryAfterTests {
  static let now = WallTime(seconds: 784_111_777)

  static let values: [(String, Interval?)] = [
    ("0", .zero),
    ("120", .seconds(120)),
    ("9223372036854775807", Interval(nanoseconds: .max)),
    ("99999999999999999999999999999999", Interval(nanoseconds: .max)),
    ("Sun, 06 Nov 1994 08:50:37 GMT", .seconds(60)),
    ("Sun, 06 Nov 1994 08:49:37 GMT", .zero),
    ("Sun, 06 Nov 1994 08:00:00 GMT", .zero),
    ("Sunday, 06-Nov-94 08:49:38 GMT", .seconds(1)),
    ("", nil),
    ("-1", nil),
    ("+1", nil),
    ("1.5", nil),
    ("1s", nil),
    ("99999999999999999999999999999999x", nil),
    ("soon", nil),
  ]

  @Test("Seconds or a date, never negative, saturating", arguments: values)
  func parses(_ text: String, _ expected: Interval?) {
    #expect(RetryAfter.parse(text, now: Self.now) == expected)
  }
}
