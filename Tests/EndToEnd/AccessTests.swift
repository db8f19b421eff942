import Foundation
import MockBackend
import MockServer
import Testing

@Suite("SPEC §1: who may use the proxy, and for what") struct AccessTests {
  private static let secret = "0123456789abcdef0123"

  private func scene(_ client: String = "") throws -> Scene {
    let scene = try Scene()
    try scene.scratch.write(Self.secret + "\n", to: "ci")
    scene.settings.upstream = "default = true\nsessions = [\"ada\", \"bob\"]"
    scene.settings.tables = "[client.ci]\nsecret_file = \"\(scene.scratch("ci"))\"\n\(client)\n"
    return scene
  }

  @Test("In forward mode a client authenticates as to any proxy; without that nothing is forwarded or told")
  func forward() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    let name = "127.0.0.1:\(daemon.port)"
    for wrong in ["http://\(name)", "http://ci:wrong@\(name)", "http://other:\(Self.secret)@\(name)"] {
      for target in ["http://api.test/me", "http://unknown.test/"] {
        let refused = try Transfer(["-x", wrong, target], in: scene.scratch).finish()
        #expect(refused.status == 407 && refused.code == "CLIENT_UNAUTHENTICATED", "\(refused.heads)")
        #expect(refused.field("proxy-authenticate")?.hasPrefix("Basic realm=") == true)
      }
    }
    #expect(scene.server.counters.executedTotal == 0)
    let served = try Transfer(["-x", "http://ci:\(Self.secret)@\(name)", "http://api.test/echo"], in: scene.scratch).finish()
    let echo = try Echo(served)
    #expect(echo.values("proxy-authorization").isEmpty && echo.values("authorization").count == 1)
    #expect(!daemon.log.contains(Self.secret) && !daemon.log.contains("Y2k6"))
    try daemon.finish()
  }

  @Test("In gateway mode the secret has a field of its own, which goes no further")
  func gateway() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    for fields in [[], ["-H", "Bearerd-Client-Secret: nonsense"], ["-U", "ci:\(Self.secret)"]] {
      let refused = try daemon.gateway("/me", fields)
      #expect(refused.status == 401 && refused.code == "CLIENT_UNAUTHENTICATED", "\(refused.heads)")
      #expect(refused.field("www-authenticate")?.hasPrefix("Bearerd-Client-Secret") == true)
    }
    #expect(scene.server.counters.executedTotal == 0)
    let echo = try Echo(daemon.gateway("/echo", ["-H", "Bearerd-Client-Secret: \(Self.secret)"]))
    #expect(echo.values("bearerd-client-secret").isEmpty && echo.values("authorization").count == 1)
    #expect(!daemon.log.contains(Self.secret))
    try daemon.finish()
  }

  @Test("A client uses its own sessions only, however it names another")
  func sessions() throws {
    let scene = try scene("sessions = [\"b*\"]")
    try scene.signIn("ada")
    let bob = try scene.signIn("bob")
    let daemon = try scene.start()
    let client = ["-H", "Bearerd-Client-Secret: \(Self.secret)"]
    for choice in [[], ["-H", "Bearerd-Session: ada"]] {
      let refused = try daemon.gateway("/me", client + choice)
      #expect(refused.status == 403 && refused.code == "SESSION_MISSING", "\(refused.heads)")
    }
    let echo = try Echo(daemon.gateway("/echo", client + ["-H", "Bearerd-Session: bob"]))
    #expect(echo.values("authorization") == ["Bearer \(bob.accessToken)"])
    try daemon.finish()
  }

  @Test("SIGHUP decides from then on who must authenticate, on connections that are open too")
  func reload() throws {
    let scene = try scene()
    let tables = scene.settings.tables
    scene.settings.tables = ""
    let daemon = try scene.startSignedIn()
    let kept = try RawClient(port: daemon.port)
    func status(_ fields: String = "") -> String {
      kept.send("GET /open/echo HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
      let head = kept.receive(until: "\r\n\r\n").text
      let body = head.firstMatch(of: #/Content-Length: (\d+)/#.ignoresCase()).flatMap { Int($0.1) } ?? 0
      let have = head.firstRange(of: "\r\n\r\n").map { head[$0.upperBound...].utf8.count } ?? 0
      _ = kept.receive(count: body - have)
      return String(head.dropFirst(9).prefix(3))
    }
    #expect(status() == "200")
    scene.settings.tables = tables
    try scene.writeConfiguration()
    daemon.reload()
    #expect(try eventually { try daemon.gateway("/me").status == 401 })
    #expect(status() == "401")
    #expect(status("Bearerd-Client-Secret: \(Self.secret)\r\n") == "200")
    scene.settings.tables = ""
    try scene.writeConfiguration()
    daemon.reload()
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    kept.leave()
    try daemon.finish()
  }

  @Test("Names that look alike are names of their own: one spelling does not open another's session")
  func canonicalEquivalence() throws {
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}")
    let scene = try scene("sessions = [\"\(decomposed)\"]")
    scene.settings.session = "session = \"\(composed)\""
    scene.settings.upstream = "default = true\nsessions = [\"*\"]"
    let other = try scene.signIn(composed).accessToken
    let own = try scene.signIn(decomposed).accessToken
    #expect(own != other)
    let daemon = try scene.start()
    func named(_ name: String) throws -> Response {
      try daemon.gateway("/echo", ["-H", "Bearerd-Client-Secret: \(Self.secret)", "-H", "Bearerd-Session: \(name)"])
    }
    #expect(try Echo(named(decomposed)).values("authorization") == ["Bearer \(own)"])
    #expect(try named(composed).status == 403)
    try daemon.finish()
  }

  @Test("Of a pool a client gets the sessions that it may use, each time")
  func pool() throws {
    let scene = try scene("sessions = [\"load-1\"]")
    scene.settings.session = "pool = \"load-*\"\npool_pick = \"request\""
    scene.settings.upstream = "default = true"
    for index in 0..<3 { try scene.signIn("load-\(index)") }
    let daemon = try scene.start()
    for _ in 0..<5 {
      let answer = try daemon.gateway("/me", ["-H", "Bearerd-Client-Secret: \(Self.secret)"])
      #expect(answer.status == 200 && answer.body.contains("load-1"), "\(answer.status) \(answer.body)")
    }
    try daemon.finish()
  }

  @Test("Without client authentication the proxy's user name chooses the session, if the upstream accepts it")
  func userName() throws {
    let scene = try scene()
    scene.settings.tables = ""
    try scene.signIn("ada")
    let bob = try scene.signIn("bob")
    let daemon = try scene.start()
    func forward(_ user: String) throws -> Response {
      try Transfer(["-x", "http://\(user)@127.0.0.1:\(daemon.port)", "http://api.test/echo"], in: scene.scratch).finish()
    }
    #expect(try Echo(forward("bob:")).values("authorization") == ["Bearer \(bob.accessToken)"])
    let refused = try forward("eve:x")
    #expect(refused.status == 403 && refused.code == "SESSION_MISSING")
    try daemon.finish()
  }

  @Test("CONNECT opens a blind tunnel to a listed host, end to end over TLS, and to no other")
  func tunnel() throws {
    let scene = try Scene()
    let tls = scene.server.tlsPort
    scene.settings.tables = "[forward]\nconnect = \"tunnel\"\nconnect_allow = [\"127.0.0.1:\(tls)\"]"
    let daemon = try scene.startSignedIn()
    let options = ["-p", "--cacert", scene.scratch("ca.pem"), "--connect-to", "api.test:443:127.0.0.1:\(tls)"]
    let seen = try daemon.forward("https://api.test/open/echo", options)
    let echo = try Echo(seen)
    // What is inside the tunnel is the program's: no token, no Via.
    #expect(echo.values("authorization").isEmpty && echo.values("via").isEmpty)
    let size = 3 << 20
    let path = try scene.scratch.writePattern(bytes: size, to: "body")
    let sent = try daemon.forward("https://api.test/open/echo", options + ["-T", path])
    #expect(try Echo(sent).bodyBytes == size)
    let client = try RawClient(port: daemon.port)
    client.send("CONNECT 127.0.0.1:\(scene.server.plainPort) HTTP/1.1\r\nHost: x\r\n\r\n")
    let refused = client.receive(until: "\n}\n").text
    #expect(refused.hasPrefix("HTTP/1.1 403 ") && refused.contains("CONNECT_DENIED"), "\(refused)")
    client.leave()
    try daemon.finish()
  }

  @Test("RFC 9110 §9.3.6: a CONNECT with content is refused, a dead host is 502, a tunnel passes on each side's end")
  func tunnelEdges() throws {
    let origin = try RawOrigin()
    let dead = try FreePort.take()
    let scene = try RawScene(
      "[forward]\nconnect = \"tunnel\"\nconnect_allow = [\"127.0.0.1:\(origin.port)\", \"127.0.0.1:\(dead)\"]")
    for framing in ["Content-Length: 3", "Transfer-Encoding: chunked"] {
      let client = try scene.client()
      client.send("CONNECT 127.0.0.1:\(origin.port) HTTP/1.1\r\nHost: x\r\n\(framing)\r\n\r\nabc")
      #expect(client.receive().text.hasPrefix("HTTP/1.1 400 "))
    }
    let unlucky = try scene.client()
    unlucky.send("CONNECT 127.0.0.1:\(dead) HTTP/1.1\r\nHost: x\r\n\r\n")
    #expect(unlucky.receive(until: "\n}\n").text.hasPrefix("HTTP/1.1 502 "))
    unlucky.leave()

    // The first bytes may come with the head.
    let client = try scene.client()
    client.send("CONNECT 127.0.0.1:\(origin.port) HTTP/1.1\r\nHost: x\r\n\r\nfirst")
    let peer = try origin.accept()
    #expect(client.receive(until: "\r\n\r\n").text == "HTTP/1.1 200 Connection established\r\n\r\n")
    #expect(peer.receive(until: "first").text == "first")
    peer.send("answer")
    #expect(client.receive(until: "answer").text == "answer")
    client.finishSending()
    #expect(peer.receive().ending == .closed)
    peer.send("late")
    peer.leave()
    #expect(client.receive().text == "late")
    try scene.daemon.finish()
  }
}

@Suite("SPEC §4: uploads that could not be sent again are asked for first") struct ProbedUploadTests {
  private func scene() throws -> Scene {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.tables = "[uploads]\nprobe = \"expect\"\nprobe_wait = \"60s\""
    return scene
  }

  @Test("A stale token costs no body: it leaves once, with the new one, and the client is told nothing of it")
  func refreshed() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let size = 5 << 20
    let path = try scene.scratch.writePattern(bytes: size, to: "body")
    let sent = try daemon.gateway(
      "/upload", ["-T", path, "-H", "Expect:", "-H", "Idempotency-Key: k", "-H", "X-Request-Id: probed"])
    #expect(sent.status == 200 && sent.body == "{\"bytes\":\(size)}", "\(sent.heads)\(sent.body)")
    #expect(!sent.heads.contains("100 Continue"), "\(sent.heads)")
    let counters = scene.server.counters
    #expect(counters.unauthorized == 1 && counters.executedByRequestID == ["probed": 1])
    #expect(counters.bodyBytesByRequestID == ["probed": size])
    try daemon.finish()
  }

  @Test("The same of a chunked body that would not fit a copy")
  func refreshedChunked() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let size = 3 << 20
    let path = try scene.scratch.writePattern(bytes: size, to: "body")
    let sent = try daemon.gateway(
      "/upload", ["-T", path, "-H", "Transfer-Encoding: chunked", "-H", "Expect:", "-H", "Idempotency-Key: k"])
    #expect(sent.status == 200 && sent.body == "{\"bytes\":\(size)}", "\(sent.heads)\(sent.body)")
    #expect(scene.server.counters.unauthorized == 1)
    try daemon.finish()
  }

  @Test("A 417 to bearerd's own expectation is answered by sending without it")
  func refused() throws {
    let scene = try scene()
    scene.setBackend { $0.expectation = .refused }
    let daemon = try scene.startSignedIn()
    let path = try scene.scratch.writePattern(bytes: 2 << 20, to: "body")
    let sent = try daemon.gateway("/upload", ["-T", path, "-H", "Expect:"])
    #expect(sent.status == 200 && sent.body == "{\"bytes\":\(2 << 20)}", "\(sent.heads)")
    try daemon.finish()
  }

  @Test("An origin that ignores it gets the body after the wait, and is not asked again")
  func ignored() throws {
    let scene = try RawScene(
      """
      [uploads]
      probe = "expect"
      probe_wait = "200ms"
      [replay]
      max_body = "0B"
      """)
    // The upstream `raw` sends no token, so nothing could be refreshed: it is never asked.
    let client = try scene.client()
    client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")
    let peer = try scene.origin.accept()
    let seen = peer.receive(until: "abc").text
    #expect(!seen.contains("Expect"), "\(seen)")
    peer.send("HTTP/1.1 204 No Content\r\n\r\n")
    #expect(client.receive(until: "\r\n\r\n").text.hasPrefix("HTTP/1.1 204 "))
    client.leave()
    try scene.daemon.finish()

    let asking = try Scene()
    let origin = try RawOrigin()
    asking.settings.origin = "http://127.0.0.1:\(origin.port)"
    asking.settings.address = "127.0.0.1:\(origin.port)"
    asking.settings.upstream = "default = true"
    asking.settings.tables = "[uploads]\nprobe = \"expect\"\nprobe_wait = \"200ms\"\n[replay]\nmax_body = \"0B\""
    let daemon = try asking.startSignedIn()
    for asks in [true, false] {
      let client = try RawClient(port: daemon.port)
      client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")
      let peer = try origin.accept()
      let seen = peer.receive(until: "abc").text
      #expect(seen.contains("Expect: 100-continue\r\n") == asks, "\(seen)")
      peer.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
      #expect(client.receive(until: "\r\n\r\n").text.hasPrefix("HTTP/1.1 204 "))
      client.leave()
      peer.leave()
    }
    try daemon.finish()
  }
}
