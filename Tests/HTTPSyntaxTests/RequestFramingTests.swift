import HTTPSyntax
import Testing

@Suite("RFC 9112 §6.3 message body length of a request")
struct RequestFramingTests {
  static let accepted: [(String, MessageFraming)] = [
    ("", .none),
    ("Content-Length: 0\r\n", .contentLength(0)),
    ("Content-Length: 5\r\n", .contentLength(5)),
    ("content-length:007\r\n", .contentLength(7)),
    ("Content-Length: 9223372036854775807\r\n", .contentLength(9_223_372_036_854_775_807)),
    ("Transfer-Encoding: chunked\r\n", .chunked),
    ("tRANSFER-eNCODING: \t ChunKed \r\n", .chunked),
  ]

  @Test("One framing field decides", arguments: accepted)
  func accepts(_ fields: String, _ framing: MessageFraming) {
    #expect(ParsedRequest.parse("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n").framing == framing)
  }

  static let refused: [(String, HeadError)] = [
    // Both
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", .contentLengthWithTransferEncoding),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", .contentLengthWithTransferEncoding),
    ("Content-Length: x\r\nTransfer-Encoding: chunked\r\n", .contentLengthWithTransferEncoding),
    ("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", .contentLengthWithTransferEncoding),
    (
      "Connection: Content-Length\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
      .contentLengthWithTransferEncoding
    ),
    // Content-Length
    ("Content-Length:\r\n", .contentLengthMalformed),
    ("Content-Length: \r\n", .contentLengthMalformed),
    ("Content-Length: +5\r\n", .contentLengthMalformed),
    ("Content-Length: -5\r\n", .contentLengthMalformed),
    ("Content-Length: 5 5\r\n", .contentLengthMalformed),
    ("Content-Length: 0x5\r\n", .contentLengthMalformed),
    ("Content-Length: 5a\r\n", .contentLengthMalformed),
    ("Content-Length: 5.0\r\n", .contentLengthMalformed),
    ("Content-Length: 1e2\r\n", .contentLengthMalformed),
    ("Content-Length: 1_000\r\n", .contentLengthMalformed),
    ("Content-Length: \"5\"\r\n", .contentLengthMalformed),
    ("Content-Length: ,5\r\n", .contentLengthMalformed),
    ("Content-Length: 5,\r\n", .contentLengthMalformed),
    ("Content-Length: 5;6\r\n", .contentLengthMalformed),
    ("Content-Length: ５\r\n", .contentLengthMalformed),
    ("Content-Length: 9223372036854775808\r\n", .contentLengthMalformed),
    ("Content-Length: 18446744073709551616\r\n", .contentLengthMalformed),
    ("Content-Length: 18446744073709551621\r\n", .contentLengthMalformed),
    ("Content-Length: 00000000000000000005\r\n", .contentLengthMalformed),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", .contentLengthDiffers),
    ("Content-Length: 5, 6\r\n", .contentLengthDiffers),
    ("Content-Length: 6\r\nX: y\r\ncontent-length: 5\r\n", .contentLengthDiffers),
    ("Content-Length: 5\r\nContent-Length: 5\r\n", .contentLengthRepeated),
    ("Content-Length: 5, 5\r\n", .contentLengthRepeated),
    ("Content-Length: 5\r\nContent-Length: x\r\n", .contentLengthMalformed),
    // Transfer-Encoding
    ("Transfer-Encoding:\r\n", .transferEncodingMalformed),
    ("Transfer-Encoding: ,chunked\r\n", .transferEncodingMalformed),
    ("Transfer-Encoding: chunked,\r\n", .transferEncodingMalformed),
    ("Transfer-Encoding: chunked, chunked\r\n", .transferEncodingMalformed),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", .transferEncodingMalformed),
    ("Transfer-Encoding: identity\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: gzip\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: chunked, identity\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: chunked, gzip\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: xchunked\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: chunkedx\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: \"chunked\"\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: chunked;q=1\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: x chunked\r\n", .transferEncodingNotChunked),
    ("Transfer-Encoding: \u{b}chunked\r\n", .invalidFieldValue),
    ("Transfer-Encoding : chunked\r\n", .spaceBeforeColon),
    ("Transfer-Encoding\r\n: chunked\r\n", .invalidFieldName),
    ("Transfer-Encoding:\r\n chunked\r\n", .obsFold),
    ("X: y\nTransfer-Encoding: chunked\r\n", .bareLF),
    ("X: y\rTransfer-Encoding: chunked\r\n", .bareCR),
    ("\0Transfer-Encoding: chunked\r\n", .invalidFieldName),
    ("Transfer-Encoding: gzip, chunked\r\n", .unsupportedTransferCoding),
    ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", .unsupportedTransferCoding),
  ]

  @Test("What peers frame in two ways is refused", arguments: refused)
  func refuses(_ fields: String, _ error: HeadError) {
    #expect(ParsedRequest.parse("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n").result == .failed(error))
  }

  @Test(
    "A name that only resembles a framing field frames nothing",
    arguments: [
      "Transfer_Encoding: chunked", "Transfer-Encodin: chunked", "X-Transfer-Encoding: chunked", "Content_Length: 5",
      "Content-Lengt: 5",
    ])
  func resemblance(_ line: String) {
    #expect(ParsedRequest.parse("POST / HTTP/1.1\r\nHost: h\r\n\(line)\r\n\r\n").framing == .none)
  }

  @Test("Transfer-Encoding in HTTP/1.0 is refused (§6.1)")
  func transferEncodingInHTTP10() {
    let parsed = ParsedRequest.parse("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    #expect(parsed.result == .failed(.transferEncodingInHTTP10))
  }
}

@Suite("RFC 9112 §3.2 Host")
struct HostTests {
  static let table: [(String, HeadError?)] = [
    ("GET / HTTP/1.1\r\n\r\n", .missingHost),
    ("GET http://h/ HTTP/1.1\r\n\r\n", .missingHost),
    ("GET / HTTP/1.0\r\n\r\n", nil),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", nil),
    ("GET / HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n", .repeatedHost),
    ("GET / HTTP/1.0\r\nHost: h\r\nhost: i\r\n\r\n", .repeatedHost),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", .invalidHost),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", .invalidHost),
    ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", .invalidHost),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", .invalidHost),
    ("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", .invalidHost),
    ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", .invalidHost),
    ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", .invalidHost),
    ("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", nil),
  ]

  @Test("Exactly one valid Host in HTTP/1.1, at most one in HTTP/1.0", arguments: table)
  func hosts(_ text: String, _ error: HeadError?) {
    #expect(ParsedRequest.parse(text).result == (error.map { .failed($0) } ?? .complete(bytes: text.utf8.count)))
  }
}

@Suite("RFC 9110 §7.6.1 Connection, RFC 9112 §9.3 persistence")
struct ConnectionTests {
  static let persistence: [(String, String, Bool)] = [
    ("1.1", "", true),
    ("1.1", "Connection: close\r\n", false),
    ("1.1", "Connection: Keep-Alive, CLOSE\r\n", false),
    ("1.1", "Connection: x\r\nConnection: close\r\n", false),
    ("1.1", "Connection: closed\r\n", true),
    ("1.1", "Connection: \"close\"\r\n", true),
    ("1.1", "Proxy-Connection: close\r\n", true),
    ("1.0", "", false),
    ("1.0", "Connection: keep-alive\r\n", true),
    ("1.0", "Connection: keep-alive, close\r\n", false),
    ("1.0", "Proxy-Connection: keep-alive\r\n", false),
  ]

  @Test("Options decide, then the version", arguments: persistence)
  func persists(_ version: String, _ fields: String, _ isPersistent: Bool) {
    #expect(ParsedRequest.parse("GET / HTTP/\(version)\r\nHost: h\r\n\(fields)\r\n").isPersistent == isPersistent)
  }

  @Test("Lines that Connection names, and hop-by-hop lines, end here; Host and Content-Length never do")
  func marks() {
    let parsed = ParsedRequest.parse(
      """
      POST / HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nConnection: x-one, , X-TWO,host, content-length,upgrade\r
      x-two: 2\r\nx-three: 3\r\nX-ONE: 1\r\nContent-Length: 0\r\nUpgrade: websocket\r\nTE: trailers, gzip\r
      Keep-Alive: x\r\nProxy-Connection: x\r\nProxy-Authorization: x\r\nAuthorization: x\r\n\r\n
      """)
    let ended = parsed.lines.filter(\.isConnectionOption).map { $0.name.lowercased() }
    #expect(
      ended == [
        "x-one", "connection", "x-two", "x-one", "upgrade", "te", "keep-alive", "proxy-connection",
        "proxy-authorization",
      ])
    #expect(parsed.connectionHasUpgrade)
    #expect(parsed.teTrailers)
    #expect(parsed.framing == .contentLength(0))
  }

  static let expectations: [(String, String, Bool, Bool)] = [
    ("1.1", "", false, false),
    ("1.1", "Expect: 100-continue\r\n", true, false),
    ("1.1", "Expect: 100-Continue\r\n", true, false),
    ("1.0", "Expect: 100-continue\r\n", false, false),
    ("1.1", "Expect: other\r\n", false, true),
    ("1.1", "Expect: 100-continue, other=\"a, b\"\r\n", true, true),
  ]

  @Test("Expect (RFC 9110 §10.1.1)", arguments: expectations)
  func expects(_ version: String, _ fields: String, _ continues: Bool, _ unknown: Bool) {
    let parsed = ParsedRequest.parse("POST / HTTP/\(version)\r\nHost: h\r\n\(fields)\r\n")
    #expect(parsed.expectsContinue == continues)
    #expect(parsed.hasUnknownExpectation == unknown)
  }

  @Test("Lines are found by field and counted")
  func lookup() {
    let bytes = Array("GET / HTTP/1.1\r\nVia: a\r\nHost: h\r\nvia: b\r\nX: y\r\nVIA: c\r\n\r\n".utf8)
    let head = RequestHead(limits: HeadLimits())
    bytes.withPrefix(bytes.count) { span in
      #expect(head.parse(span) == .complete(bytes: bytes.count))
      #expect(head.firstIndex(of: .via) == 0)
      #expect(head.firstIndex(of: .host) == 1)
      #expect(head.firstIndex(of: .te) == nil)
      #expect(head.count(of: .via) == 3)
      #expect(head.count(of: .te) == 0)
      #expect(head.withValue(of: head.lines[4], in: span) { $0.string } == "c")
    }
  }
}
