import Foundation
import MockBackend
import MockServer
import Testing

@Suite("SPEC §4: what is sent again after a 401, and what is not") struct ReplayTests {
  private func scene(_ upstream: String = "") throws -> Scene {
    let scene = try Scene()
    scene.settings.upstream = "default = true\n" + upstream
    return scene
  }

  @Test("A GET with a rejected token is answered as if the token had been good")
  func get() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    #expect(try daemon.gateway("/notes").status == 200)
    let counters = scene.server.counters
    #expect(counters.unauthorized == 1 && counters.refreshesCommitted == 1 && counters.executed == ["GET /notes": 1])
    try daemon.finish()
  }

  @Test("A POST without Idempotency-Key gets its 401 with the reason, and the next one succeeds")
  func postWithoutKey() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let refused = try daemon.gateway("/notes", ["-d", "milk"])
    #expect(refused.status == 401)
    #expect(refused.field("www-authenticate") == "Bearer realm=\"mock\", error=\"invalid_token\"")
    #expect(refused.body == "{\"error\":\"invalid_token\"}")
    #expect(
      refused.field("proxy-status") == "bearerd; details=\"session refreshed; not replayed: no Idempotency-Key\"")
    #expect(try daemon.gateway("/notes", ["-d", "milk"]).status == 201)
    let counters = scene.server.counters
    #expect(counters.refreshesCommitted == 1 && counters.executed == ["POST /notes": 1])
    try daemon.finish()
  }

  @Test(
    "A POST is sent again where a key, a field of the request or the configuration says so",
    arguments: [
      ("", ["-H", "Idempotency-Key: k1"]), ("", ["-H", "Bearerd-Retry: allow"]), ("writes = \"always\"", []),
      ("idempotency.inject = true", []),
    ])
  func replayedPost(_ upstream: String, _ options: [String]) throws {
    let scene = try scene(upstream)
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let made = try daemon.gateway("/notes", options + ["-H", "X-Request-Id: r1", "-d", "milk"])
    #expect(made.status == 201 && made.body.contains("milk"), "\(made.heads)\(made.body)")
    let counters = scene.server.counters
    #expect(counters.executedByRequestID == ["r1": 1] && counters.refreshesCommitted == 1)
    #expect(try daemon.metric("bearerd_replays_total") ?? 0 >= 1)
    try daemon.finish()
  }

  @Test("A key that goes no further than here is none", arguments: ["Connection: Idempotency-Key", "Idempotency-Key;"])
  func keyOfThisHop(_ field: String) throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let key = field.hasPrefix("Connection") ? ["-H", "Idempotency-Key: k"] : []
    let sent = try daemon.gateway("/notes", ["-d", "milk", "-H", field] + key)
    #expect(sent.status == 401 && sent.field("proxy-status")?.contains("no Idempotency-Key") == true, "\(sent.heads)")
    #expect(scene.server.counters.unauthorized == 1)
    try daemon.finish()
  }

  @Test("A GET that must not be sent again is not")
  func denied() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let refused = try daemon.gateway("/notes", ["-H", "Bearerd-Retry: deny"])
    #expect(refused.status == 401)
    #expect(refused.field("proxy-status")?.contains("not replayed: Bearerd-Retry is deny") == true)
    #expect(scene.server.counters.executedTotal == 0)
    try daemon.finish()
  }

  @Test("A small upload that is refused before it was read is replayed from its copy")
  func smallEarly401() throws {
    let scene = try scene()
    scene.setBackend { $0.rejectsBeforeBody = true }
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let path = try scene.scratch.writePattern(bytes: 300_000, to: "small")
    let sent = try daemon.gateway(
      "/echo", ["-T", path, "-H", "Idempotency-Key: k", "-H", "Expect:", "-H", "X-Request-Id: small"])
    let echo = try Echo(sent)
    #expect(sent.status == 200 && echo.bodyBytes == 300_000)
    #expect(echo.bodyDigest == ReceivedBody.digest(of: ReplyBody.pattern(count: 300_000).rendered))
    #expect(scene.server.counters.executedByRequestID == ["small": 1])
    try daemon.finish()
  }

  @Test("A large upload that is refused after it has left gets its 401 with the reason, and left once")
  func largeLate401() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let size = 20 << 20
    let path = try scene.scratch.writePattern(bytes: size, to: "large")
    let options = ["-T", path, "-H", "Idempotency-Key: k", "-H", "Expect:", "-H"]
    let refused = try daemon.gateway("/upload", options + ["X-Request-Id: first"])
    #expect(refused.status == 401, "\(refused.exit) \(refused.heads)")
    #expect(refused.field("proxy-status")?.contains("not replayed: body sent") == true, "\(refused.heads)")
    #expect(scene.server.counters.bodyBytesByRequestID["first"] == size)
    let sent = try daemon.gateway("/upload", options + ["X-Request-Id: second"])
    #expect(sent.status == 200 && sent.body == "{\"bytes\":\(size)}", "\(sent.heads)\(sent.body)")
    #expect(scene.server.counters.executedByRequestID == ["second": 1])
    try daemon.finish()
  }

  /// Whether a byte of the body left before the 401 came is a race; either way none may leave twice (I3).
  @Test("A large upload that is refused at its head is replayed if nothing of its body has left, else refused")
  func largeEarly401() throws {
    let scene = try scene()
    scene.setBackend { $0.rejectsBeforeBody = true }
    let daemon = try scene.startSignedIn()
    let size = 20 << 20
    let path = try scene.scratch.writePattern(bytes: size, to: "large")
    for turn in 1...5 {
      scene.rejectAccessTokens()
      let answer = try daemon.gateway(
        "/upload",
        ["-T", path, "-H", "Idempotency-Key: k\(turn)", "-H", "Expect:", "-H", "X-Request-Id: r\(turn)"])
      let counters = scene.server.counters
      let left = counters.bodyBytesByRequestID["r\(turn)"] ?? 0
      switch answer.status {
      case 200:
        #expect(left == size && counters.executedByRequestID["r\(turn)"] == 1)
        #expect(answer.body == "{\"bytes\":\(size)}")
      case 401:
        #expect(left <= size && counters.executedByRequestID["r\(turn)"] == nil)
        #expect(answer.field("proxy-status")?.contains("not replayed: body sent") == true, "\(answer.heads)")
      case let other: Issue.record("\(other): \(answer.heads)")
      }
    }
    #expect(scene.server.counters.refreshesCommitted == 5)
    try daemon.finish()
  }

  @Test("With Expect: 100-continue a stale token costs no body: it leaves once, with the new one")
  func expectation() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    scene.rejectAccessTokens()
    let size = 5 << 20
    let path = try scene.scratch.writePattern(bytes: size, to: "body")
    let sent = try daemon.gateway(
      "/upload",
      [
        "-T", path, "-H", "Expect: 100-continue", "--expect100-timeout", "20", "-H", "Idempotency-Key: k", "-H",
        "X-Request-Id: expected",
      ])
    #expect(sent.status == 200 && sent.body == "{\"bytes\":\(size)}", "\(sent.heads)\(sent.body)")
    let counters = scene.server.counters
    #expect(counters.unauthorized == 1 && counters.executedByRequestID == ["expected": 1])
    #expect(counters.bodyBytesByRequestID == ["expected": size])
    try daemon.finish()
  }

  @Test("The client's own expectation that the upstream refuses passes through as 417")
  func refusedExpectation() throws {
    let scene = try scene()
    scene.setBackend { $0.expectation = .refused }
    let daemon = try scene.startSignedIn()
    let path = try scene.scratch.writePattern(bytes: 100_000, to: "body")
    let client = try RawClient(port: daemon.port)
    client.send(
      "PUT /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n")
    #expect(client.receive(until: "\r\n\r\n").text.hasPrefix("HTTP/1.1 417 "))
    client.leave()
    let sent = try daemon.gateway("/upload", ["-T", path, "-H", "Expect:"])
    #expect(sent.status == 200 && sent.body == "{\"bytes\":100000}", "\(sent.heads)")
    try daemon.finish()
  }

  @Test("A 403 passes untouched: no refresh, no second try")
  func forbidden() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    let refused = try daemon.gateway("/forbidden")
    #expect(refused.status == 403 && refused.body == "{\"error\":\"insufficient_scope\"}")
    #expect(refused.field("proxy-status") == nil)
    let counters = scene.server.counters
    #expect(counters.forbidden == 1 && counters.refreshTokens.isEmpty)
    try daemon.finish()
  }

  @Test("A route that always says 401 gets one replay and then a cool-down, not a refresh each time")
  func eternal401() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    #expect(try daemon.gateway("/me").status == 200)
    for _ in 0..<6 {
      let refused = try daemon.gateway("/always-401")
      #expect(refused.status == 401 && refused.body == "{\"error\":\"invalid_token\"}")
    }
    #expect(scene.server.counters.refreshesCommitted == 1)
    // The generation has worked nowhere yet, so the whole session cools down; its token is sent all the same.
    #expect(try daemon.gateway("/me").status == 200)
    try daemon.finish()
  }
}

@Suite("I9: a reset is never an end") struct ResetTests {
  /// An upstream of the test's own behind a session, with a token endpoint that takes its time.
  private func started(_ configure: (Scene) -> Void = { _ in }) throws -> (Scene, RawOrigin, Bearerd) {
    let scene = try Scene()
    let origin = try RawOrigin()
    scene.settings.origin = "http://127.0.0.1:\(origin.port)"
    scene.settings.address = "127.0.0.1:\(origin.port)"
    scene.settings.upstream = "default = true"
    configure(scene)
    return (scene, origin, try scene.startSignedIn())
  }

  @Test("in the body of a 401 that is held back", arguments: ["1.1", "1.0"])
  func held(_ version: String) throws {
    let (scene, origin, daemon) = try started { $0.setFaults { $0.refresh = [.delay(milliseconds: 400)] } }
    let client = try RawClient(port: daemon.port)
    client.send("POST /x HTTP/\(version)\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    let peer = try origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n\r\nfirst half")
    usleep(150_000)
    peer.reset()
    let (text, ending) = client.receive()
    #expect(!text.hasSuffix("0\r\n\r\n"), "\(text)")
    #expect(ending == .reset || ending == .closed && version == "1.1", "\(ending): \(text)")
    _ = scene
    try daemon.finish()
  }

  @Test("of an early answer while the upload goes on", arguments: ["1.1", "1.0"])
  func upload(_ version: String) throws {
    let (scene, origin, daemon) = try started()
    let client = try RawClient(port: daemon.port)
    client.send("PUT /x HTTP/\(version)\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n")
    let peer = try origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    let piece = [UInt8](repeating: 0x61, count: 1 << 20)
    for _ in 0..<20 { _ = client.offer(piece[...]) }
    peer.send("HTTP/1.1 200 OK\r\n\r\npart one")
    for _ in 0..<20 { _ = client.offer(piece[...]) }
    #expect(client.receive(until: "part one").text.contains("part one"))
    // Much of the upload is on its way still. (To offer more here could use up the very error that is waited for.)
    peer.reset()
    let (text, ending) = client.receive()
    #expect(!text.hasSuffix("0\r\n\r\n"), "\(text)")
    #expect(ending == .reset || ending == .closed && version == "1.1", "\(ending): \(text)")
    _ = scene
    try daemon.finish()
  }
}
