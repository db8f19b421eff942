import Foundation
import MockBackend
import MockServer
import Testing

@Suite("RFC 9112: the mock server as a peer, plain and over TLS") struct ServingTests {
  @Test("A token opens the API on both ports, and nothing else does", arguments: ServedSession.Side.allCases)
  func token(_ side: ServedSession.Side) throws {
    let session = try ServedSession()
    let good = try session.curl(side, "/me", options: ["-i"])
    #expect(good.exit == 0 && good.output.hasPrefix("HTTP/1.1 200 OK\r\n"))
    #expect(good.output.hasSuffix("\r\n\r\n{\"user\":\"ada\"}"))
    #expect(good.output.contains("\r\ndate: ") && good.output.contains(" GMT\r\n"))
    let bad = try session.curl(side, "/me", options: ["-i"], token: "wrong")
    #expect(bad.output.hasPrefix("HTTP/1.1 401 Unauthorized\r\n"))
    #expect(bad.output.contains("\r\nwww-authenticate: Bearer realm=\"mock\", error=\"invalid_token\"\r\n"))
    #expect(session.server.counters.executed == ["GET /me": 1])
    #expect(session.server.counters.unauthorized == 1)
  }

  @Test("Requests on one connection follow each other (§9.3)", arguments: ServedSession.Side.allCases)
  func keepAlive(_ side: ServedSession.Side) throws {
    let session = try ServedSession()
    let result = try session.curl(
      side, "/me", "/echo", "/chunked?bytes=100000", "/204", "/304", "/trailers?bytes=3", "/me",
      options: ["-o", "/dev/null", "-w", "%{http_code} %{num_connects}\\n"])
    #expect(result.exit == 0)
    #expect(session.server.counters.exchanges == 7)
    let counters = session.server.connectionCounters
    #expect((side == .plain ? counters.plainAccepted : counters.tlsAccepted) == 1)
  }

  @Test("Bodies of every framing arrive whole", arguments: ServedSession.Side.allCases)
  func bodies(_ side: ServedSession.Side) throws {
    let session = try ServedSession()
    for path in ["/download", "/chunked", "/close", "/trailers"] {
      for count in [0, 1, 25, 65_519, 65_520, 65_521, 300_000] {
        let result = try session.curl(side, "\(path)?bytes=\(count)")
        #expect(result.exit == 0, "\(path) \(count)")
        #expect(Array(result.output.utf8) == ReplyBody.pattern(count: count).rendered, "\(path) \(count)")
      }
    }
  }

  @Test("A HEAD is answered without body, with the length a GET has (RFC 9110 §9.3.2)")
  func head() throws {
    let session = try ServedSession()
    let result = try session.curl(.plain, "/download?bytes=1000", "/me", options: ["-I"])
    #expect(result.exit == 0)
    #expect(result.output.contains("content-length: 1000\r\n") && !result.output.contains("{"))
    #expect(session.server.connectionCounters.plainAccepted == 1)
  }

  @Test("An HTTP/1.0 client gets no chunks; its body ends with the connection (§6.1)")
  func http10() throws {
    let session = try ServedSession()
    let result = try session.curl(.plain, "/chunked?bytes=100", options: ["--http1.0", "-i"])
    #expect(result.exit == 0)
    #expect(
      !result.output.lowercased().contains("transfer-encoding") && result.output.contains("connection: close\r\n"))
    #expect(result.output.hasSuffix(String(decoding: ReplyBody.pattern(count: 100).rendered, as: UTF8.self)))
  }

  @Test("Trailers, interim responses and events are sent as such")
  func specialAnswers() throws {
    let session = try ServedSession()
    let trailers = try session.curl(.plain, "/trailers?bytes=30", options: ["-D", "-", "-o", "/dev/null"])
    #expect(trailers.output.contains("x-checksum: \(ReceivedBody.digest(of: ReplyBody.pattern(count: 30).rendered))"))
    let hints = try session.curl(.plain, "/early-hints", options: ["-i"])
    #expect(
      hints.output.hasPrefix("HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n")
    )
    let events = try session.curl(.tls, "/sse?events=3&interval=1")
    #expect(events.output == (1...3).map { ReplyBody.event($0) }.joined())
    let slow = try session.curl(.plain, "/slow?ms=1")
    #expect(slow.output == "{\"slow\":\"yes\"}")
  }

  @Test("Uploads by length and chunked are counted and hashed", arguments: ServedSession.Side.allCases)
  func uploads(_ side: ServedSession.Side) throws {
    let session = try ServedSession()
    let payload = Data((0..<200_003).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    let digest = ReceivedBody.digest(of: Array(payload))
    let chunked = try session.curl(
      side, "/echo", options: ["-T", "-", "-H", "Transfer-Encoding: chunked", "-H", "Expect:"], input: payload)
    #expect(chunked.output.contains("\"bodyBytes\":200003,\"bodyDigest\":\"\(digest)\""))
    let byLength = try session.curl(side, "/echo", options: ["--data-binary", "@-", "-H", "Expect:"], input: payload)
    #expect(byLength.output.contains("\"bodyBytes\":200003,\"bodyDigest\":\"\(digest)\""))
    let counted = try session.curl(side, "/upload", options: ["-T", "-", "-H", "X-Request-Id: u1"], input: payload)
    #expect(counted.output == "{\"bytes\":200003}")
    #expect(session.server.counters.bodyBytesByRequestID == ["u1": 200_003])
    #expect(session.server.counters.bodyBytes == 600_009)
  }

  @Test("Expect: 100-continue, honoured, ignored and refused (RFC 9110 §10.1.1)")
  func expectation() throws {
    let payload = Data(repeating: 0x78, count: 5000)
    struct Row { var policy: BackendSettings.ExpectationPolicy, isTokenGood: Bool, statuses: [String], bytes: Int }
    let rows = [
      Row(policy: .honoured, isTokenGood: true, statuses: ["100", "200"], bytes: 5000),
      Row(policy: .honoured, isTokenGood: false, statuses: ["401"], bytes: 0),
      Row(policy: .ignored, isTokenGood: true, statuses: ["200"], bytes: 5000),
      Row(policy: .ignored, isTokenGood: false, statuses: ["401"], bytes: 5000),
      Row(policy: .refused, isTokenGood: true, statuses: ["417"], bytes: 0),
    ]
    for row in rows {
      let session = try ServedSession { $0.backend.expectation = row.policy }
      let isIgnored = row.policy == .ignored
      let result = try session.curl(
        .plain, "/upload",
        options: [
          "-X", "PUT", "-D", "-", "-o", "/dev/null", "--data-binary", "@-", "-H", "Expect: 100-continue",
          "--expect100-timeout", isIgnored ? "0.05" : "20",
        ], token: row.isTokenGood ? nil : "wrong", input: payload)
      let statuses = result.output.split(separator: "\r\n").filter { $0.hasPrefix("HTTP/1.1 ") }
        .map { String($0.dropFirst(9).prefix(3)) }
      #expect(statuses == row.statuses, "\(row)")
      #expect(session.server.counters.bodyBytes == row.bytes, "\(row)")
    }
  }

  @Test("An early 401 reaches the client although its body is still coming; what came is counted")
  func earlyRejection() throws {
    let session = try ServedSession()
    let client = try RawClient(port: session.server.plainPort)
    client.send("PUT /upload HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\nX-Request-Id: e\r\n")
    session.server.withBackend { $0.faults.api = [.earlyUnauthorized] }
    client.send("\r\n")
    let head = client.receive(until: "}")
    #expect(head.hasPrefix("HTTP/1.1 401 ") && head.contains("\r\nconnection: close\r\n"))
    client.send("0123456789GET /me HTTP/1.1\r\nHost: api.test\r\n\r\n")
    #expect(client.receive() == "")
    #expect(eventually { session.server.counters.bodyBytesByRequestID["e"] == 10 })
    #expect(session.server.counters.exchanges == 1)
  }

  @Test("Pipelined requests are answered in order; request trailers reach the echo")
  func pipelining() throws {
    let session = try ServedSession()
    let client = try RawClient(port: session.server.plainPort)
    let host = "HTTP/1.1\r\nHost: api.test\r\n"
    client.send(
      "GET /open/status/201 \(host)\r\n"
        + "POST /open/echo \(host)Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n"
        + "GET /open/status/202 \(host)Connection: close\r\n\r\n")
    let text = client.receive()
    let order = [
      "HTTP/1.1 201 ", "HTTP/1.1 200 ", "\"bodyBytes\":3,", "\"trailers\":[[\"x-sum\",\"6\"]]", "HTTP/1.1 202 ",
    ]
    var rest = text[...]
    for needle in order {
      guard let found = rest.range(of: needle) else {
        Issue.record("\(needle) is missing or out of order in \(text)")
        return
      }
      rest = rest[found.upperBound...]
    }
  }

  @Test("An upgrade becomes a tunnel that echoes, bytes sent with the handshake first")
  func upgrade() throws {
    let session = try ServedSession()
    let client = try RawClient(port: session.server.plainPort)
    client.send("GET /open/upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly")
    #expect(client.receive(until: "early").hasPrefix("HTTP/1.1 101 Switching Protocols\r\n"))
    client.send(" late")
    client.finishSending()
    #expect(client.receive() == " late")
  }

  @Test("What is not HTTP is refused and closed, and never executed")
  func malformed() throws {
    let rows = [
      ("GET /open/me HTTP/1.1\r\n\r\n", "400"), ("GET /open/me HTTP/1.1\r\nHost : a\r\n\r\n", "400"),
      ("POST /open/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
      ("POST /open/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"),
      ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "400"), ("GET /open/me HTTP/2.0\r\nHost: a\r\n\r\n", "505"),
      ("GET /op", "400"),
    ]
    for (text, status) in rows {
      let session = try ServedSession()
      let client = try RawClient(port: session.server.plainPort)
      client.send(text)
      client.finishSending()
      #expect(client.receive().hasPrefix("HTTP/1.1 \(status) "), "\(text)")
      #expect(session.server.counters.executedTotal == 0)
      #expect(eventually { session.server.connectionCounters.malformedRequests == 1 })
    }
  }

  @Test("A refresh over the wire rotates; the clock offset shows in Date and in the tokens")
  func refresh() throws {
    let session = try ServedSession { $0.clockOffsetMilliseconds = -86_400_000 * 365 }
    let form = "grant_type=refresh_token&refresh_token=\(session.refreshToken)"
    let result = try session.curl(.tls, "/oauth/token", options: ["-i", "-d", form], isAnonymous: true)
    #expect(result.output.hasPrefix("HTTP/1.1 200 OK\r\n") && result.output.contains("\"expires_in\":600"))
    let year = Calendar(identifier: .gregorian).component(.year, from: Date(timeIntervalSinceNow: -86_400 * 365))
    #expect(result.output.contains(" \(year) "))
    #expect(session.server.counters.refreshesCommitted == 1)
    #expect(session.server.withBackend { $0.isSpent(refreshToken: session.refreshToken) })
    #expect(session.server.counters.bearersAtTokenEndpoints == 0)
  }
}
