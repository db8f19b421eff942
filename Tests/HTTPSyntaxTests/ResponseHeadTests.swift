import HTTPSyntax
import Testing

@Suite("RFC 9112 §4 status line")
struct StatusLineTests {
  static let accepted: [(String, Int, String, UInt8)] = [
    ("HTTP/1.1 200 OK\r\n\r\n", 200, "OK", 1),
    ("HTTP/1.0 404 Not Found\r\n\r\n", 404, "Not Found", 0),
    ("HTTP/1.1 200 \r\n\r\n", 200, "", 1),
    ("HTTP/1.1 200\r\n\r\n", 200, "", 1),
    ("HTTP/1.2 100 Continue\r\n\r\n", 100, "Continue", 1),
    ("HTTP/1.1 999 \u{e9}\tx\r\n\r\n", 999, "\u{e9}\tx", 1),
  ]

  @Test("Code and reason", arguments: accepted)
  func accepts(_ text: String, _ status: Int, _ reason: String, _ minor: UInt8) {
    let parsed = ParsedResponse.parse(text)
    #expect(parsed.result == .complete(bytes: text.utf8.count))
    #expect(parsed.status == status)
    #expect(parsed.reason == reason)
    #expect(parsed.minorVersion == minor)
  }

  static let refused: [(String, HeadError)] = [
    ("HTTP/2.0 200 OK\r\n\r\n", .version),
    ("HTTP/1.1 099 OK\r\n\r\n", .malformedStatusLine),
    ("HTTP/1.1 20 OK\r\n\r\n", .malformedStatusLine),
    ("HTTP/1.1 2000 OK\r\n\r\n", .malformedStatusLine),
    ("HTTP/1.1  200 OK\r\n\r\n", .malformedStatusLine),
    ("HTTP/1.1 +20 OK\r\n\r\n", .malformedStatusLine),
    ("HTTP/1.1 200 O\0K\r\n\r\n", .malformedStatusLine),
    ("HTTP 200 OK\r\n\r\n", .malformedStatusLine),
    ("ICY 200 OK\r\n\r\n", .malformedStatusLine),
    ("\r\nHTTP/1.1 200 OK\r\n\r\n", .malformedStatusLine),
    ("<html>", .malformedStatusLine),
    ("HTTP/1.1 200 OK\n\n", .bareLF),
    ("HTTP/1.1 200\n\n", .bareLF),
    ("HTTP/1.1 200 OK\rX\r\n\r\n", .bareCR),
    ("HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", .bareLF),
    ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", .obsFold),
    ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", .invalidFieldValue),
    ("HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", .invalidFieldName),
    ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", .invalidFieldName),
  ]

  @Test("Everything else is refused", arguments: refused)
  func refuses(_ text: String, _ error: HeadError) {
    #expect(ParsedResponse.parse(text).result == .failed(error))
  }

  @Test("White space before a colon is removed (§5.1)")
  func spaceBeforeColon() {
    let parsed = ParsedResponse.parse("HTTP/1.1 200 OK\r\nContent-Length \t: 5\r\nX : y\r\n\r\n")
    #expect(parsed.lines.map(\.name) == ["Content-Length", "X"])
    #expect(parsed.framing == .contentLength(5))
  }

  @Test("A status line of exactly the limit passes, one byte more is refused")
  func limit() {
    let limits = HeadLimits(requestLineBytes: 32, sectionBytes: 64, fields: 3)
    let exact = "HTTP/1.1 200 " + String(repeating: "x", count: 32 - 15) + "\r\n\r\n"
    #expect(ParsedResponse.parse(exact, limits: limits).result == .complete(bytes: 34))
    let longer = "HTTP/1.1 200 " + String(repeating: "x", count: 33 - 15) + "\r\n\r\n"
    #expect(ParsedResponse.parse(longer, limits: limits).result == .failed(.statusLineTooLong))
  }
}

@Suite("RFC 9112 §6.3 message body length of a response")
struct ResponseFramingTests {
  struct Row: Sendable, CustomTestStringConvertible {
    var method: Method
    var status: Int
    var fields: String
    var framing: MessageFraming
    var contentLength: UInt64?
    var testDescription: String { "\(method) \(status) \(fields)" }
  }

  static let accepted: [Row] = [
    // Rules 1 and 2: no body, whatever the fields say.
    Row(method: .head, status: 200, fields: "Content-Length: 5\r\n", framing: .none, contentLength: 5),
    Row(method: .head, status: 200, fields: "Transfer-Encoding: chunked\r\n", framing: .none),
    Row(method: .head, status: 200, fields: "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", framing: .none),
    Row(method: .head, status: 200, fields: "Content-Length: 5, 6\r\n", framing: .none),
    Row(method: .get, status: 100, fields: "Content-Length: 5\r\n", framing: .none, contentLength: 5),
    Row(method: .get, status: 101, fields: "", framing: .none),
    Row(method: .get, status: 204, fields: "Transfer-Encoding: chunked\r\n", framing: .none),
    Row(method: .get, status: 304, fields: "Content-Length: 5\r\n", framing: .none, contentLength: 5),
    Row(method: .connect, status: 200, fields: "Content-Length: 5\r\n", framing: .none, contentLength: 5),
    Row(method: .connect, status: 299, fields: "Transfer-Encoding: gzip\r\n", framing: .none),
    Row(method: .connect, status: 407, fields: "Content-Length: 5\r\n", framing: .contentLength(5), contentLength: 5),
    // Rules 4, 6 and 8.
    Row(method: .get, status: 200, fields: "Transfer-Encoding: Chunked\r\n", framing: .chunked),
    Row(method: .get, status: 200, fields: "Content-Length: 5\r\n", framing: .contentLength(5), contentLength: 5),
    Row(method: .get, status: 200, fields: "", framing: .untilClose),
    Row(method: .post, status: 401, fields: "", framing: .untilClose),
    // Rule 5: one number, however often.
    Row(method: .get, status: 200, fields: "Content-Length: 5, 5\r\n", framing: .contentLength(5), contentLength: 5),
    Row(
      method: .get, status: 200, fields: "Content-Length: 5\r\nContent-Length: 5\r\n", framing: .contentLength(5),
      contentLength: 5),
  ]

  @Test("The rules in order", arguments: accepted)
  func accepts(_ row: Row) {
    let parsed = ParsedResponse.parse("HTTP/1.1 \(row.status) X\r\n\(row.fields)\r\n", to: row.method)
    #expect(parsed.framing == row.framing)
    #expect(parsed.contentLength == row.contentLength)
    #expect(parsed.status == row.status)
  }

  static let refused: [(String, HeadError)] = [
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", .contentLengthWithTransferEncoding),
    ("Content-Length: 5, 6\r\n", .contentLengthDiffers),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", .contentLengthDiffers),
    ("Content-Length: five\r\n", .contentLengthMalformed),
    ("Content-Length:\r\n", .contentLengthMalformed),
    ("Content-Length: 5,\r\n", .contentLengthMalformed),
    ("Content-Length: 99999999999999999999\r\n", .contentLengthMalformed),
    ("Transfer-Encoding: gzip\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: chunked, identity\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: chunked, chunked\r\n", .transferEncodingMalformed),
    ("Transfer-Encoding: gzip, chunked\r\n", .unsupportedTransferCoding),
  ]

  @Test("What peers frame in two ways is refused", arguments: refused)
  func refuses(_ fields: String, _ error: HeadError) {
    #expect(ParsedResponse.parse("HTTP/1.1 200 OK\r\n\(fields)\r\n").result == .failed(error))
  }

  @Test("Transfer-Encoding in HTTP/1.0 is refused (§6.1)")
  func transferEncodingInHTTP10() {
    let parsed = ParsedResponse.parse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    #expect(parsed.result == .failed(.transferEncodingInHTTP10))
  }

  static let persistence: [(String, Bool)] = [
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\n\r\n", false),
    ("HTTP/1.1 204 No\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false),
    ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
    ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
    ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", false),
  ]

  @Test("A connection goes on after a body that ends by itself", arguments: persistence)
  func persists(_ text: String, _ isPersistent: Bool) {
    #expect(ParsedResponse.parse(text).isPersistent == isPersistent)
  }

  @Test("Lines that Connection names end here")
  func marks() {
    let parsed = ParsedResponse.parse("HTTP/1.1 204 No\r\nX-A: 1\r\nConnection: x-a\r\nTrailer: x\r\nX-B: 2\r\n\r\n")
    #expect(parsed.lines.map(\.isConnectionOption) == [true, true, true, false])
  }
}
