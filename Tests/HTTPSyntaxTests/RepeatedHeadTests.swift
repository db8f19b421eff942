import HTTPSyntax
import Testing

@Suite("A head that comes again is not read again, and means the same") struct RepeatedHeadTests {
  static let get = "GET /a HTTP/1.1\r\nHost: h\r\nConnection: x-y, close\r\nX-Y: 1\r\nTE: trailers\r\n\r\n"

  /// Each is whole, and some are the beginning of others or differ by one byte.
  static let requests = [
    get,
    "GET /b HTTP/1.1\r\nHost: h\r\nConnection: x-y, close\r\nX-Y: 1\r\nTE: trailers\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: h\r\nConnection: x-y, close\r\nX-Y: 1\r\nTE: trailers\r\nA: b\r\n\r\n",
    "GET /a HTTP/1.0\r\nHost: h\r\nConnection: x-y, close\r\nX-Y: 1\r\nTE: trailers\r\n\r\n",
    "\r\nGET /a HTTP/1.1\r\nHost: h\r\nConnection: x-y, close\r\nX-Y: 1\r\nTE: trailers\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: other\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nA: \(String(repeating: "a", count: 2000))\r\n\r\n",
  ]

  @Test("After any other head, and after itself, a head is read as by a table that has read none")
  func pairs() {
    for first in Self.requests {
      for second in Self.requests {
        let fresh = ParsedRequest.parse(second)
        let bytes = Array(second.utf8)
        for arrivals in deliveries(of: bytes.count).prefix(120) {
          let head = RequestHead(limits: HeadLimits())
          _ = ParsedRequest.read(head, Array(first.utf8), [first.utf8.count])
          #expect(ParsedRequest.read(head, bytes, arrivals) == fresh, "\(second) after \(first) as \(arrivals.prefix(3))")
        }
      }
    }
  }

  private func numbers(_ texts: [String]) -> [UInt64] {
    let head = RequestHead(limits: HeadLimits())
    return texts.map {
      _ = ParsedRequest.read(head, Array($0.utf8), [$0.utf8.count])
      return head.textNumber
    }
  }

  @Test("The same text keeps its number, whatever follows it; another has one of its own")
  func textNumbers() {
    #expect(numbers([Self.get, Self.get, Self.get + "GET /b HT", Self.requests[5], Self.get]) == [1, 1, 1, 2, 3])
  }

  @Test("What comes in two parts is read")
  func parts() {
    let head = RequestHead(limits: HeadLimits())
    let bytes = Array(Self.get.utf8)
    for number: UInt64 in 1...3 {
      _ = ParsedRequest.read(head, bytes, [20, bytes.count])
      #expect(head.textNumber == number)
    }
  }

  @Test("A head with a secret, and a long one, is not kept", arguments: [
    "Authorization: Bearer a", "Proxy-Authorization: Basic YTpi", "cookie: a=b", "Bearerd-Client-Secret: s",
    "A: \(String(repeating: "a", count: 1000))",
  ])
  func notKept(_ line: String) {
    let text = "GET / HTTP/1.1\r\nHost: h\r\n\(line)\r\n\r\n"
    #expect(numbers([text, text]) == [1, 2])
    let head = RequestHead(limits: HeadLimits())
    _ = ParsedRequest.read(head, Array(Self.get.utf8), [Self.get.utf8.count])
    #expect(head.isKept)
    _ = ParsedRequest.read(head, Array(text.utf8), [text.utf8.count])
    #expect(!head.isKept)
  }

  @Test("A head after one that was refused is read, and so is one that was given up half-way")
  func afterFailures() {
    let refused = "GET / HTTP/1.1\r\nHost: h\r\nA\r\n\r\n"
    #expect(numbers([Self.get, refused, Self.get]) == [1, 1, 2])
    #expect(numbers([Self.get, "GET /a HTTP/1.1\r\nHo", Self.get]) == [1, 1, 2])
  }

  @Test("A table that is made ready twice still has what it kept")
  func resetTwice() {
    let head = RequestHead(limits: HeadLimits())
    let bytes = Array(Self.get.utf8)
    _ = ParsedRequest.read(head, bytes, [bytes.count])
    head.reset()
    head.reset()
    #expect(bytes.withPrefix(bytes.count) { head.parse($0) } == .complete(bytes: bytes.count))
    #expect(head.textNumber == 1)
  }

  @Test("A response that comes again is framed by the method that it answers (RFC 9112 §6.3)")
  func responses() {
    let texts = [
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
    ]
    let methods: [HTTPSyntax.Method] = [.get, .head, .connect]
    for first in texts {
      for second in texts {
        for (one, other) in methods.flatMap({ one in methods.map { (one, $0) } }) {
          let fresh = ParsedResponse.parse(second, to: other)
          let head = ResponseHead(limits: HeadLimits())
          _ = ParsedResponse.read(head, Array(first.utf8), [first.utf8.count], to: one)
          let bytes = Array(second.utf8)
          #expect(ParsedResponse.read(head, bytes, [bytes.count], to: other) == fresh, "\(second) to \(other), after \(first) to \(one)")
        }
      }
    }
  }
}
