import Foundation
import MockBackend
import MockServer
import Testing

@Suite("SPEC §6: bearerd's own answers") struct AnswerTests {
  /// Both lines of an answer are there, and the header that says the same to intermediaries.
  private func check(
    _ answer: Response, _ code: String, _ status: Int, _ error: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(answer.code == code, "\(answer.heads)\(answer.body)", sourceLocation: sourceLocation)
    #expect(answer.status == status, sourceLocation: sourceLocation)
    #expect(answer.member("status") as? Int == status, sourceLocation: sourceLocation)
    for name in ["type", "title", "detail"] {
      #expect((answer.member(name) as? String)?.isEmpty == false, "\(name)", sourceLocation: sourceLocation)
    }
    let said = answer.field("proxy-status") ?? ""
    #expect(said.hasPrefix("bearerd; error=\(error);"), "\(said)", sourceLocation: sourceLocation)
  }

  @Test("What is denied by rule is answered with its code and touches no upstream")
  func denied() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.top = "pseudonym = \"gate\""
    let daemon = try scene.startSignedIn()
    check(try daemon.forward("http://other.test/"), "ROUTE_DENIED", 403, "http_request_denied")
    for field in ["Sec-Fetch-Site: cross-site", "Origin: https://evil.test"] {
      check(try daemon.gateway("/me", ["-H", field]), "CROSS_SITE_DENIED", 403, "http_request_denied")
    }
    check(try daemon.gateway("/me", ["-H", "Host: evil.test"]), "MISDIRECTED", 421, "http_request_denied")
    check(try daemon.gateway("/me", ["-H", "Via: 1.1 before, 1.1 gate"]), "LOOP_DETECTED", 508, "proxy_loop_detected")
    #expect(try daemon.gateway("/me", ["-H", "Origin: http://localhost:3000"]).status == 200)
    #expect(scene.server.counters.exchanges == 1)
    try daemon.finish()
  }

  @Test("CONNECT is refused with the way out")
  func connect() throws {
    let scene = try Scene()
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    client.send("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
    let text = client.receive(until: "\n}\n").text
    #expect(text.hasPrefix("HTTP/1.1 403 ") && text.contains("\"code\": \"CONNECT_DENIED\""), "\(text)")
    #expect(text.contains("http://"))
    client.leave()
    try daemon.finish()
  }

  struct RefusedHead: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var bytes: String
    var status = 400
    var code = "BAD_REQUEST"
  }

  static let refusedHeads = [
    RefusedHead(testDescription: "two Hosts", bytes: "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    RefusedHead(testDescription: "no Host", bytes: "GET / HTTP/1.1\r\n\r\n"),
    RefusedHead(testDescription: "space before the colon", bytes: "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"),
    RefusedHead(
      testDescription: "Content-Length with Transfer-Encoding",
      bytes: "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
    RefusedHead(
      testDescription: "differing Content-Lengths",
      bytes: "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    RefusedHead(testDescription: "obs-fold", bytes: "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"),
    RefusedHead(
      testDescription: "long target",
      bytes: "GET /\(String(repeating: "a", count: 9000)) HTTP/1.1\r\nHost: localhost\r\n\r\n", status: 414,
      code: "TARGET_TOO_LONG"),
    RefusedHead(
      testDescription: "long field",
      bytes: "GET / HTTP/1.1\r\nHost: localhost\r\nX: \(String(repeating: "a", count: 40_000))\r\n\r\n",
      status: 431, code: "HEADER_TOO_LARGE"),
    RefusedHead(
      testDescription: "many fields",
      bytes: "GET / HTTP/1.1\r\nHost: localhost\r\n\(String(repeating: "X: a\r\n", count: 140))\r\n", status: 431,
      code: "HEADER_TOO_LARGE"),
  ]

  @Test("A head that is not HTTP, or too large, is refused and the connection closed", arguments: refusedHeads)
  func refusedHead(_ head: RefusedHead) throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    client.send(head.bytes)
    let (text, ending) = client.receive()
    #expect(text.hasPrefix("HTTP/1.1 \(head.status) ") && text.contains("\"code\": \"\(head.code)\""), "\(text)")
    #expect(text.contains("error=http_request_error") && ending == .closed)
    #expect(scene.server.counters.exchanges == 0)
    try daemon.finish()
  }

  @Test("A head that does not come in time is answered 408")
  func slowHead() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.tables = "[timeouts]\nheader = \"300ms\""
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    client.send("GET / HTTP/1.1\r\nHo")
    let (text, ending) = client.receive()
    #expect(text.hasPrefix("HTTP/1.1 408 ") && text.contains("\"code\": \"REQUEST_TIMEOUT\"") && ending == .closed)
    try daemon.finish()
  }

  @Test("An upstream that cannot be reached is 502 UPSTREAM_UNREACHABLE")
  func unreachable() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    // The discard port: nothing listens there.
    scene.settings.address = "127.0.0.1:9"
    let daemon = try scene.startSignedIn()
    check(try daemon.gateway("/me"), "UPSTREAM_UNREACHABLE", 502, "destination_unavailable")
    try daemon.finish()
  }

  @Test("A certificate of another authority, or for another name, is 502 UPSTREAM_TLS and no token leaves")
  func wrongCertificates() throws {
    let scene = try Scene()
    let stranger = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.caFile = stranger.scratch("ca.pem")
    let strange = try scene.startSignedIn()
    check(try strange.gateway("/me"), "UPSTREAM_TLS", 502, "tls_certificate_error")
    try strange.finish()
    scene.settings.caFile = scene.scratch("ca.pem")
    scene.settings.origin = "https://unnamed.test"
    let unnamed = try scene.start()
    check(try unnamed.gateway("/me"), "UPSTREAM_TLS", 502, "tls_certificate_error")
    #expect(scene.server.counters.exchanges == 0)
    try unnamed.finish()
  }

  @Test("An upstream that stays silent is 504, one that hangs up or speaks nonsense 502")
  func brokenUpstreams() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.tables = "[timeouts]\nresponse_header = \"400ms\""
    let daemon = try scene.startSignedIn()
    check(try daemon.gateway("/slow?ms=20000"), "UPSTREAM_TIMEOUT", 504, "http_response_timeout")
    scene.setFaults { $0.api = [.resetAfterCommit] }
    check(try daemon.gateway("/notes", ["-d", "x"]), "UPSTREAM_PROTOCOL", 502, "connection_terminated")
    scene.setFaults { $0.api = [.junk] }
    check(try daemon.gateway("/me"), "UPSTREAM_PROTOCOL", 502, "http_protocol_error")
    #expect(scene.server.counters.executed["POST /notes"] == 1, "never repeated")
    try daemon.finish()
  }
}
