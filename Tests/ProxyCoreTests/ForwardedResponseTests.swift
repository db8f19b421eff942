import HTTPSyntax
import ProxyCore
import Testing

private func forwarded(
  _ bytes: [UInt8], to method: HTTPSyntax.Method = .get, framing: MessageFraming? = nil,
  limits: HeadLimits = HeadLimits(), _ change: (inout ForwardedResponse) -> Void = { _ in }
) -> [UInt8] {
  withResponse(bytes, to: method, limits: limits) { head, view in
    var plan = ForwardedResponse(
      framing: framing ?? head.framing, closes: false, keepsHTTP10Alive: false,
      via: ViaLine(pseudonym: Array("here".utf8)))
    change(&plan)
    let bound = plan.bytesMax(headBytes: bytes.count)
    var roomy = ByteBuffer(capacity: bound + 200_000)
    plan.write(head, view, into: &roomy)
    #expect(roomy.count <= bound, "the head is \(roomy.count - bound) bytes longer than bytesMax")
    guard roomy.count <= bound else { return roomy.contentBytes }
    var exact = ByteBuffer(capacity: bound)
    plan.write(head, view, into: &exact)
    #expect(exact.contentBytes == roomy.contentBytes)
    return exact.contentBytes
  } ?? []
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

@Suite("RFC 9110 §7.6: a response is written anew") struct ForwardedResponseTests {
  @Test("status line, the fields in their order, Via")
  func whole() {
    #expect(
      text(
        forwarded(
          head("HTTP/1.1 200 Fine", "Set-Cookie:a=1", "Content-Length: 3", "ETag:  x ", "set-cookie: b=2")))
          == """
          HTTP/1.1 200 Fine\r
          Set-Cookie: a=1\r
          Content-Length: 3\r
          ETag: x\r
          set-cookie: b=2\r
          Via: 1.1 here\r
          \r

          """)
  }

  @Test(
    "the status line is of our version and keeps code and reason",
    arguments: [
      ("HTTP/1.0 404 Not Here", "HTTP/1.1 404 Not Here", "1.0"), ("HTTP/1.1 599 ", "HTTP/1.1 599 ", "1.1"),
      ("HTTP/1.7 200 OK", "HTTP/1.1 200 OK", "1.1"),
    ])
  func statusLine(_ line: String, _ expected: String, _ received: String) {
    let result = text(forwarded(head(line, "Content-Length: 0")))
    #expect(result.hasPrefix(expected + "\r\n"))
    #expect(result.hasSuffix("Via: \(received) here\r\n\r\n"))
  }

  @Test("fields between the upstream and us do not go on, nor what Connection names")
  func removed() {
    let result = text(
      forwarded(
        head(
          "HTTP/1.1 200 OK", "Content-Length: 0", "Connection: close, X-Hop", "Keep-Alive: timeout=5",
          "x-hop: 1",
          "Proxy-Authenticate: Basic", "Proxy-Authentication-Info: x", "Proxy-Connection: close",
          "Trailer: X-Sum",
          "Upgrade: h2c", "TE: x", "X-End: 1")))
    #expect(result == "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-End: 1\r\nVia: 1.1 here\r\n\r\n")
  }

  @Test("a challenge, cookies and the server's own name go on")
  func kept() {
    let fields =
      "WWW-Authenticate: Bearer error=\"invalid_token\"\r\nServer: x\r\nWWW-Authenticate: Basic\r\nAge: 1\r\n"
    let result = text(forwarded(Array("HTTP/1.1 401 No\r\n\(fields)Content-Length: 0\r\n\r\n".utf8)))
    #expect(result.contains(fields))
  }

  @Test(
    "Content-Length by method, status and framing (RFC 9110 §8.6)",
    arguments: [
      (
        "HTTP/1.1 200 OK", HTTPSyntax.Method.get, "Content-Length: 3", MessageFraming.contentLength(3),
        "Content-Length: 3\r\n"
      ),
      ("HTTP/1.1 200 OK", .head, "Content-Length: 3", .none, "Content-Length: 3\r\n"),
      ("HTTP/1.1 304 Same", .get, "Content-Length: 3", .none, "Content-Length: 3\r\n"),
      ("HTTP/1.1 204 Empty", .get, "Content-Length: 3", .none, ""),
      ("HTTP/1.1 204 Empty", .head, "Content-Length: 0", .none, ""),
      ("HTTP/1.1 103 Early", .get, "Content-Length: 3", .none, ""),
      ("HTTP/1.1 200 OK", .get, "Transfer-Encoding: chunked", .chunked, "Transfer-Encoding: chunked\r\n"),
      ("HTTP/1.1 200 OK", .get, "Transfer-Encoding: chunked", .untilClose, ""),
      ("HTTP/1.1 200 OK", .get, "X: y", .untilClose, "X: y\r\n"),
      ("HTTP/1.1 200 OK", .get, "X: y", .chunked, "X: y\r\nTransfer-Encoding: chunked\r\n"),
      ("HTTP/1.1 200 OK", .head, "Transfer-Encoding: chunked", .none, ""),
      ("HTTP/1.1 200 OK", .get, "X: y", .contentLength(9), "X: y\r\nContent-Length: 9\r\n"),
    ])
  func framing(
    _ line: String, _ method: HTTPSyntax.Method, _ field: String, _ framing: MessageFraming,
    _ expected: String
  ) {
    let result = text(forwarded(head(line, field), to: method, framing: framing))
    #expect(result == "\(line)\r\n\(expected)Via: 1.1 here\r\n\r\n")
  }

  @Test("of identical Content-Length lines one goes on")
  func repeatedLength() {
    let result = text(forwarded(head("HTTP/1.1 200 OK", "Content-Length: 3", "X: y", "Content-Length: 3")))
    #expect(result == "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\nVia: 1.1 here\r\n\r\n")
  }

  @Test(
    "RFC 9110 §8.6: of a list of one number that number goes on; what is no length does not, without content neither",
    arguments: [
      (HTTPSyntax.Method.get, "3, 3", "Content-Length: 3\r\n"), (.head, "3,3", "Content-Length: 3\r\n"),
      (.head, "3, 4", ""), (.head, "x", ""), (.get, "007", "Content-Length: 7\r\n"),
    ])
  func listedLength(_ method: HTTPSyntax.Method, _ value: String, _ expected: String) {
    let result = text(forwarded(head("HTTP/1.1 200 OK", "Content-Length: \(value)"), to: method))
    #expect(result == "HTTP/1.1 200 OK\r\n\(expected)Via: 1.1 here\r\n\r\n")
  }

  @Test("the connection's end is announced, or its going on to HTTP/1.0")
  func connection() {
    let response = head("HTTP/1.1 200 OK", "Content-Length: 0", "Connection: keep-alive")
    #expect(
      text(forwarded(response) { $0.closes = true }).hasSuffix("Via: 1.1 here\r\nConnection: close\r\n\r\n"))
    #expect(
      text(forwarded(response) { $0.keepsHTTP10Alive = true }).hasSuffix("\r\nConnection: keep-alive\r\n\r\n")
    )
    #expect(
      text(
        forwarded(response) {
          $0.keepsHTTP10Alive = true
          $0.closes = true
        }
      ).hasSuffix("Via: 1.1 here\r\nConnection: close\r\n\r\n"))
  }

  @Test("a note is a Proxy-Status line after the upstream's own, and cannot split the head")
  func note() {
    let result = text(
      forwarded(head("HTTP/1.1 401 No", "Proxy-Status: other", "Content-Length: 0")) {
        $0.note = "a \"b\" \\ \r\nX: é"
      })
    #expect(
      result == """
        HTTP/1.1 401 No\r
        Proxy-Status: other\r
        Content-Length: 0\r
        Via: 1.1 here\r
        Proxy-Status: bearerd; details="a \\"b\\" \\\\ ??X: ?"\r
        \r

        """)
  }

  @Test(
    "Location names the gateway where it named the upstream's origin, at an authority's end only",
    arguments: [
      ("https://api.example.com/x", "http://gate:8180/x"), ("https://api.example.com", "http://gate:8180"),
      ("https://api.example.com?q", "http://gate:8180?q"),
      ("https://api.example.com#f", "http://gate:8180#f"),
      ("HTTPS://API.example.com/x", "http://gate:8180/x"),
      ("https://api.example.com.evil/x", nil), ("https://api.example.com:8443/x", nil),
      ("https://api.example.com@evil/", nil),
      ("https://api.example.comx", nil), ("http://api.example.com/x", nil), ("/x", nil), ("", nil),
      ("https://api.example.co", nil),
      ("//api.example.com/x", "//gate:8180/x"),
    ] as [(String, String?)])
  func location(_ value: String, _ expected: String?) {
    for name in ["Location", "content-location"] {
      let result = text(
        forwarded(head("HTTP/1.1 302 Go", "\(name): \(value)", "Content-Length: 0")) {
          $0.rewrite = LocationRewrite(from: Array("https://api.example.com".utf8), to: Array("http://gate:8180".utf8))
        })
      #expect(result.contains("\r\n\(name): \(expected ?? value)\r\n"))
    }
  }

  @Test(
    "with a stripped prefix a path-absolute reference gets it back, other relative ones stay",
    arguments: [
      ("/x", "/old/x"), ("/", "/old/"), ("//api.example.com/x", "//gate/old/x"), ("x", nil), ("?q", nil),
      ("https://api.example.com/x", "http://gate/old/x"),
    ] as [(String, String?)])
  func strippedPrefix(_ value: String, _ expected: String?) {
    let result = text(
      forwarded(head("HTTP/1.1 302 Go", "Location: \(value)", "Content-Length: 0")) {
        $0.rewrite = LocationRewrite(
          from: Array("https://api.example.com".utf8), to: Array("http://gate/old".utf8),
          strippedPrefix: Array("/old".utf8))
      })
    #expect(result.contains("\r\nLocation: \(expected ?? value)\r\n"))
  }

  @Test("no other field is rewritten, and none without a gateway")
  func notRewritten() {
    let response = head(
      "HTTP/1.1 302 Go", "Location: https://api.example.com/x", "X-Location: https://api.example.com/x",
      "Content-Length: 0")
    #expect(text(forwarded(response)).contains("\r\nLocation: https://api.example.com/x\r\n"))
    let rewritten = text(
      forwarded(response) {
        $0.rewrite = LocationRewrite(from: Array("https://api.example.com".utf8), to: Array("http://gate".utf8))
      })
    #expect(rewritten.contains("\r\nX-Location: https://api.example.com/x\r\n"))
    #expect(rewritten.contains("\r\nLocation: http://gate/x\r\n"))
  }

  @Test("an interim response has neither framing nor a connection option of its own")
  func interim() {
    let bytes = head("HTTP/1.1 103 Early", "Link: </a>; rel=preload", "Content-Length: 4", "Connection: x")
    let written = withResponse(bytes) { head, view in
      let response = ForwardedResponse.interim(via: ViaLine(pseudonym: Array("here".utf8)))
      var out = ByteBuffer(capacity: response.bytesMax(headBytes: view.byteCount))
      response.write(head, view, into: &out)
      return out.contentText
    }
    #expect(written == "HTTP/1.1 103 Early\r\nLink: </a>; rel=preload\r\nVia: 1.1 here\r\n\r\n")
  }

  @Test("bytesMax holds for the most field lines, tight ones and locations that grow")
  func bytesMaxOfHostileHeads() {
    for line in ["a:b", "Location:h/", "Content-Location:h/", "content-location:h"] {
      for count in [1, 128, 255] {
        let fields = (0..<count).map { _ in "\(line)\r\n" }.joined()
        for start in ["HTTP/1.1 200 \r\n", "HTTP/1.0 999 x\r\n"] {
          let written = forwarded(
            Array("\(start)\(fields)\r\n".utf8), framing: .contentLength(.max),
            limits: HeadLimits(fields: 255)
          ) {
            $0.rewrite = LocationRewrite(from: Array("h".utf8), to: Array("http://127.0.0.1:8180".utf8))
            $0.note = String(repeating: "\"", count: 300)
            $0.keepsHTTP10Alive = true
          }
          #expect(!written.isEmpty)
        }
      }
    }
  }
}

@Suite("RFC 9110 §5: parse, relay, parse gives the same fields") struct ForwardedResponsePropertyTests {
  private static let names = [
    "X-A", "x-b", "Set-Cookie", "Via", "Connection", "Keep-Alive", "WWW-Authenticate", "Location", "Date",
    "Server",
    "Proxy-Status", "Content-Type", "Bearerd-Session", "Authorization", "Host", "Upgrade",
  ]

  private static func response(_ random: inout Sequence64) -> [UInt8] {
    let alphabet: [UInt8] = Array("ab,;=\"\\ ()<>:/".utf8) + [0x09, 0x80, 0xc3, 0xff]
    var bytes = Array(
      "HTTP/1.\(random.next(below: 2)) \(random.pick(["200", "401", "302", "503"])) \(random.pick(["", "Fine"]))\r\n"
        .utf8)
    for _ in 0..<random.next(below: 40) {
      let name = random.pick(names)
      bytes += Array(name.utf8) + random.pick([[0x3a], [0x3a, 0x20], [0x20, 0x3a]])
      if name == "Connection" || name == "Upgrade" {
        bytes += Array(random.pick(["close", "x-a", "X-B, te"]).utf8)
      } else {
        bytes += (0..<random.next(below: 12)).map { _ in random.pick(alphabet) }
      }
      bytes += [13, 10]
    }
    bytes += Array(
      random.pick(["", "Content-Length: 12\r\n", "Content-Length:12\r\nContent-Length:12\r\n"]).utf8)
    return bytes + [13, 10]
  }

  @Test("for random heads, in exactly the room that bytesMax names")
  func roundTrip() {
    var random = Sequence64(state: 13)
    for _ in 0..<1000 {
      let bytes = Self.response(&random)
      let expected = withResponse(bytes) { head, view in
        (
          head.status, head.framing,
          lines(head.lines, view) { !$0.isConnectionOption && $0.field != .contentLength }
        )
      }
      let written = forwarded(bytes)
      let actual = withResponse(written) { head, view in
        #expect(head.count(of: .contentLength) <= 1)
        #expect(head.lines.last?.field == .via)
        return (head.status, head.framing, lines(head.lines.dropLast(), view) { $0.field != .contentLength })
      }
      #expect(actual?.0 == expected?.0)
      #expect(actual?.1 == expected?.1)
      #expect(actual?.2 == expected?.2)
    }
  }
}
