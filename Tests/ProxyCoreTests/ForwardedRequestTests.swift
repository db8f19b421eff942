import HTTPSyntax
import ProxyCore
import Testing

/// What a route decides, with the path taken from the target as the router does.
private func forwarded(
  _ bytes: [UInt8], path: Range<Int>? = nil, framing: MessageFraming? = nil,
  limits: HeadLimits = HeadLimits(),
  _ change: (inout ForwardedRequest) -> Void = { _ in }
) -> [UInt8] {
  withRequest(bytes, limits: limits) { head, view in
    var range = head.target
    if case .success(.absolute(_, _, let pathAndQuery)) = RequestTarget.parse(
      view, head.target, method: head.method)
    {
      range = pathAndQuery
    }
    if let path { range = ByteRange(path) }
    var plan = ForwardedRequest(
      path: range, authorizationLine: Array("Authorization: Bearer ours\r\n".utf8), keepsClientAuthorization: false,
      via: ViaLine(pseudonym: Array("here".utf8)), framing: framing ?? head.framing, sendsExpect: false)
    change(&plan)
    let hostLine = Array("Host: api.example.com\r\n".utf8)
    let bound = plan.bytesMax(headBytes: bytes.count, hostLine: hostLine)
    var roomy = ByteBuffer(capacity: bound + 100_000)
    plan.write(head, view, hostLine: hostLine, into: &roomy)
    #expect(roomy.count <= bound, "the head is \(roomy.count - bound) bytes longer than bytesMax")
    guard roomy.count <= bound else { return roomy.contentBytes }
    var exact = ByteBuffer(capacity: bound)
    plan.write(head, view, hostLine: hostLine, into: &exact)
    #expect(exact.contentBytes == roomy.contentBytes)
    return exact.contentBytes
  } ?? []
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

@Suite("RFC 9110 §7.6: a request is written anew") struct ForwardedRequestTests {
  @Test("request line, our Host and Authorization, the fields in their order, Via")
  func whole() {
    let request = head(
      "GET https://api.example.com/x?q=1 HTTP/1.1", "Host: client.example", "Accept:   a/b", "X-Two: 2",
      "accept: c/d")
    #expect(
      text(forwarded(request)) == """
        GET /x?q=1 HTTP/1.1\r
        Host: api.example.com\r
        Authorization: Bearer ours\r
        Accept: a/b\r
        X-Two: 2\r
        accept: c/d\r
        Via: 1.1 here\r
        \r

        """)
  }

  @Test(
    "the request line",
    arguments: [
      ("GET /x HTTP/1.1", "GET /x HTTP/1.1"), ("GET http://a/x HTTP/1.1", "GET /x HTTP/1.1"),
      ("GET http://a HTTP/1.1", "GET / HTTP/1.1"), ("GET http://a?q HTTP/1.1", "GET /?q HTTP/1.1"),
      ("OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1"), ("OPTIONS http://a/x HTTP/1.1", "OPTIONS /x HTTP/1.1"),
      // RFC 9112 §3.2.4: the last proxy sends an empty path of OPTIONS as an asterisk.
      ("OPTIONS http://a HTTP/1.1", "OPTIONS * HTTP/1.1"),
      ("OPTIONS http://a?q HTTP/1.1", "OPTIONS /?q HTTP/1.1"),
      ("OPTIONS http://a/ HTTP/1.1", "OPTIONS / HTTP/1.1"),
      ("PURGE /x HTTP/1.1", "PURGE /x HTTP/1.1"), ("GET /x HTTP/1.0", "GET /x HTTP/1.1"),
      ("GET /x HTTP/1.9", "GET /x HTTP/1.1"),
    ])
  func requestLine(_ line: String, _ expected: String) {
    #expect(text(forwarded(head(line, "Host: a"))).hasPrefix(expected + "\r\n"))
  }

  @Test(
    "a path whose prefix was stripped to nothing is a slash, for OPTIONS too", arguments: ["GET", "OPTIONS"])
  func strippedPath(_ method: String) {
    let request = head("\(method) /api HTTP/1.1", "Host: a")
    let end = method.utf8.count + 5
    #expect(text(forwarded(request, path: end..<end)).hasPrefix("\(method) / HTTP/1.1\r\n"))
  }

  @Test(
    "fields between the client and us do not go on",
    arguments: [
      "Connection: close", "Proxy-Connection: keep-alive", "Keep-Alive: timeout=5", "TE: gzip", "Bearerd-Client-Secret: s", "HTTP2-Settings: AAMA",
      "Trailer: X-Sum",
      "Upgrade: h2c", "Proxy-Authorization: Basic eA==", "Proxy-Authenticate: Basic",
      "Proxy-Authentication-Info: x",
      "Host: client.example", "Bearerd-Session: s", "Bearerd-Auth: none", "Bearerd-Retry: allow",
      "Bearerd-Replayable: true",
      "Authorization: Bearer theirs", "Expect: 100-continue", "BEARERD-SESSION: s",
      "proxy-authorization: Basic eA==",
    ])
  func removed(_ line: String) {
    let host = line.hasPrefix("Host") ? [] : ["Host: a"]
    let bytes = Array(
      (["GET /x HTTP/1.1"] + host + [line, "X-Last: 1", "", ""]).joined(separator: "\r\n").utf8)
    #expect(
      text(forwarded(bytes)) == """
        GET /x HTTP/1.1\r
        Host: api.example.com\r
        Authorization: Bearer ours\r
        X-Last: 1\r
        Via: 1.1 here\r
        \r

        """)
  }

  @Test("what Connection names does not go on, in any case and from any of its lines")
  func connectionNamed() {
    let request = head(
      "GET /x HTTP/1.1", "Host: a", "X-One: 1", "Connection: x-one, X-TWO", "x-two: 2", "X-Three: 3",
      "X-Four: 4",
      "Connection: x-four", "X-One: again")
    let result = text(forwarded(request))
    #expect(result.contains("X-Three: 3\r\n"))
    for gone in ["X-One", "x-two", "X-Four", "Connection"] { #expect(!result.contains(gone)) }
  }

  @Test("Connection cannot take our own Host, Authorization or framing away")
  func connectionNamesOurs() {
    let request = head(
      "POST /x HTTP/1.1", "Host: a", "Content-Length: 5", "Authorization: Bearer theirs",
      "Connection: host, authorization, content-length, via", "Via: 1.1 before")
    #expect(
      text(forwarded(request)) == """
        POST /x HTTP/1.1\r
        Host: api.example.com\r
        Authorization: Bearer ours\r
        Content-Length: 5\r
        Via: 1.1 here\r
        \r

        """)
  }

  @Test("a client's own Authorization goes on only where the route keeps it, every line of it")
  func keptAuthorization() {
    let request = head("GET /x HTTP/1.1", "Host: a", "Authorization: Bearer one", "authorization: Basic two")
    let kept = text(
      forwarded(request) {
        $0.keepsClientAuthorization = true
        $0.authorizationLine = []
      })
    #expect(kept.contains("Authorization: Bearer one\r\nauthorization: Basic two\r\n"))
    #expect(!kept.contains("ours"))
    let replaced = text(forwarded(request))
    #expect(!replaced.contains("one") && !replaced.contains("two"))
    #expect(replaced.contains("Authorization: Bearer ours\r\n"))
  }

  @Test(
    "the framing is ours",
    arguments: [
      (MessageFraming.none, ""), (.contentLength(0), "Content-Length: 0\r\n"),
      (.contentLength(UInt64(Int64.max)), "Content-Length: 9223372036854775807\r\n"),
      (.chunked, "Transfer-Encoding: chunked\r\n"),
    ])
  func framing(_ framing: MessageFraming, _ line: String) {
    for own in ["Content-Length: 7", "Transfer-Encoding: chunked", "X: y"] {
      let request = head("POST /x HTTP/1.1", "Host: a", own)
      let result = text(forwarded(request, framing: framing))
      let after = own == "X: y" ? "X: y\r\n" : ""
      #expect(result.hasSuffix("ours\r\n\(after)\(line)Via: 1.1 here\r\n\r\n"))
    }
  }

  @Test("Expect and Idempotency-Key are written where asked for")
  func additions() {
    let result = text(
      forwarded(head("POST /x HTTP/1.1", "Host: a", "Content-Length: 1", "Expect: 100-continue")) {
        $0.sendsExpect = true
        $0.idempotencyLine = Array("Idempotency-Key: k\r\n".utf8)
      })
    #expect(result.contains("Idempotency-Key: k\r\nExpect: 100-continue\r\nContent-Length: 1\r\n"))
  }

  @Test(
    "Via is appended after those that came, with the version received (RFC 9110 §7.6.3)",
    arguments: [
      ("1.0", "1.0"), ("1.1", "1.1"), ("1.9", "1.1"),
    ])
  func via(_ version: String, _ received: String) {
    let result = text(
      forwarded(head("GET /x HTTP/\(version)", "Host: a", "Via: 1.0 first", "Via: 1.1 second (x)")))
    #expect(result.hasSuffix("Via: 1.0 first\r\nVia: 1.1 second (x)\r\nVia: \(received) here\r\n\r\n"))
  }

  @Test("repeated lines, empty values and bytes above ASCII stay as they came")
  func kept() {
    let odd: [UInt8] = [0x80, 0xff, 0x20, 0xc3, 0x09, 0x41]
    let request =
      Array("GET /x HTTP/1.1\r\nHost: a\r\nX: ".utf8) + odd
      + Array("\r\nX:\r\nCookie: a=1\r\nX: 2\r\nCookie: b=2\r\n\r\n".utf8)
    let expected =
      Array("ours\r\nX: ".utf8) + odd + Array("\r\nX: \r\nCookie: a=1\r\nX: 2\r\nCookie: b=2\r\nVia".utf8)
    #expect(forwarded(request).contains(expected))
  }

  @Test("bytesMax holds for a head of the most field lines, none with a space after its colon")
  func bytesMaxOfTightLines() {
    for count in [1, 128, 254] {
      let fields = (0..<count).map { _ in "a:b\r\n" }.joined()
      let request = Array("POST / HTTP/1.1\r\nHost:a\r\n\(fields)\r\n".utf8)
      let written = forwarded(request, framing: .chunked, limits: HeadLimits(fields: 255)) {
        $0.sendsExpect = true
        $0.via = ViaLine(pseudonym: Array(repeating: 0x70, count: 40))
      }
      #expect(!written.isEmpty)
    }
  }
}

/// Goal: what a recipient reads in our head is what we read in the client's, field by field. Method: heads drawn
/// by lot from awkward parts, parsed, forwarded and parsed again.
@Suite("RFC 9110 §5: parse, forward, parse gives the same fields") struct ForwardedRequestPropertyTests {
  private static let names = [
    "Accept", "X-A", "x-b", "Cookie", "Via", "Connection", "TE", "Keep-Alive", "Proxy-Authorization",
    "Authorization",
    "Bearerd-Retry", "Content-Type", "Idempotency-Key", "Origin", "Max-Forwards", "!#$%&'*+-.^_`|~0",
    "Upgrade", "Expect",
  ]

  private static func value(_ random: inout Sequence64) -> [UInt8] {
    let alphabet: [UInt8] = Array("ab,;=\"\\ ()<>:/".utf8) + [0x09, 0x80, 0xc3, 0xff]
    return (0..<random.next(below: 12)).map { _ in random.pick(alphabet) }
  }

  private static func request(_ random: inout Sequence64) -> [UInt8] {
    let targets = [
      "/", "/a?b", "http://h", "http://h?x", "https://h:1/p", "/" + String(repeating: "x", count: 50),
    ]
    var bytes = Array(
      "\(random.pick(["GET", "POST", "OPTIONS", "X"])) \(random.pick(targets)) HTTP/1.\(random.next(below: 2))\r\n"
        .utf8)
    bytes += Array("Host:h\r\n".utf8)
    for _ in 0..<random.next(below: 40) {
      let name = random.pick(names)
      let isToken = name == "Connection" || name == "Upgrade"
      bytes += Array(name.utf8) + [0x3a] + random.pick([[], [0x20], [0x20, 0x09]])
      bytes += isToken ? Array(random.pick(["close", "x-a", "X-B, te"]).utf8) : value(&random)
      bytes += random.pick([[], [0x20]]) + [13, 10]
    }
    bytes += Array(random.pick(["", "Content-Length: 12\r\n"]).utf8)
    return bytes + [13, 10]
  }

  private static let ours: Set<KnownField> = [
    .host, .contentLength, .expect, .authorization, .bearerdSession, .bearerdAuth, .bearerdRetry,
    .bearerdReplayable,
  ]

  @Test("for random heads, in exactly the room that bytesMax names")
  func roundTrip() {
    var random = Sequence64(state: 11)
    for _ in 0..<1000 {
      let bytes = Self.request(&random)
      let expected = withRequest(bytes) { head, view in
        lines(head.lines, view) { !$0.isConnectionOption && !Self.ours.contains($0.field) }
      }
      let sendsExpect = random.next(below: 2) == 0
      let written = forwarded(bytes) {
        $0.authorizationLine = []
        $0.sendsExpect = sendsExpect
      }
      let actual = withRequest(written) { head, view in
        #expect(head.minorVersion == 1)
        #expect(head.expectsContinue == sendsExpect)
        #expect(head.lines.last?.field == .via)
        return lines(head.lines.dropLast(), view) { !Self.ours.contains($0.field) }
      }
      #expect(actual == expected)
      let framings = [bytes, written].map { head in withRequest(head) { parsed, _ in parsed.framing } }
      #expect(framings[0] == framings[1])
    }
  }
}
