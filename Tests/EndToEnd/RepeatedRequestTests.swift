import Foundation
import MockBackend
import MockServer
import Testing

/// A loop does not decide anew about a request that is byte for byte the one before it. Here are all things that can
/// change in between, and must be seen.
@Suite("The same request again goes by what is true now") struct RepeatedRequestTests {
  private func scene() throws -> Scene {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    return scene
  }

  /// The answer to a request that is always the same.
  private func echo(to client: RawClient) -> String {
    client.send("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client.receive(until: "}").text
  }

  @Test("What a Unix socket may ask, TCP may not, in turns")
  func listeners() throws {
    let scene = try scene()
    let path = scene.scratch("bearerd.sock")
    scene.settings.listeners += "\n\n[[listener]]\nunix = \"\(path)\"\nmode = 0o600"
    let daemon = try scene.startSignedIn()
    let options = ["-H", "Host: foreign.test", "http://127.0.0.1:\(daemon.port)/me"]
    for _ in 1...3 {
      let local = try Transfer(["--unix-socket", path] + options, in: scene.scratch).finish()
      #expect(local.status == 200, "\(local.body)")
      let remote = try Transfer(options, in: scene.scratch).finish()
      #expect(remote.code == "MISDIRECTED", "\(remote.body)")
    }
    try daemon.finish()
  }

  @Test("A refreshed token is the next request's")
  func refreshed() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    func bearer() throws -> String { String(try #require(echo(to: client).firstMatch(of: /Bearer ([^"]+)"/)).1) }
    let first = try bearer()
    #expect(try bearer() == first)
    scene.rejectAccessTokens()
    let second = try bearer()
    #expect(second != first)
    #expect(try bearer() == second)
    #expect(scene.server.counters.unauthorized == 1)
    client.leave()
    try daemon.finish()
  }

  @Test("After a reload the next request goes by the new plan, on the same connection")
  func reload() throws {
    let scene = try scene()
    let tokens = try scene.signIn()
    let daemon = try scene.start()
    let client = try RawClient(port: daemon.port)
    func isTokenSent() -> Bool { echo(to: client).contains("Bearer \(tokens.accessToken)") }
    #expect(isTokenSent() && isTokenSent())
    scene.settings.upstream = "default = true\nauth = \"none\""
    try scene.writeConfiguration()
    daemon.reload()
    try daemon.waitForLog("configuration reloaded")
    #expect(!isTokenSent() && !isTokenSent())
    client.leave()
    try daemon.finish()
  }

  @Test("A head that was begun before a reload and ended after it goes by the new plan")
  func reloadInsideHead() throws {
    let scene = try scene()
    let tokens = try scene.signIn()
    let daemon = try scene.start()
    let client = try RawClient(port: daemon.port)
    client.send("GET /open/echo HTTP/1.1\r\nHost: local")
    #expect(client.isSilent(for: 0.3))
    scene.settings.upstream = "default = true\nauth = \"none\""
    try scene.writeConfiguration()
    daemon.reload()
    try daemon.waitForLog("configuration reloaded")
    client.send("host\r\n\r\n")
    let answer = client.receive(until: "}").text
    #expect(answer.hasPrefix("HTTP/1.1 200") && !answer.contains(tokens.accessToken), "\(answer)")
    client.leave()
    try daemon.finish()
  }

  @Test("A pool's next session serves the next request")
  func pool() throws {
    let scene = try scene()
    scene.settings.session = "pool = \"load-*\"\npool_pick = \"request\""
    let tokens = try ["load-1", "load-2", "load-3"].map { try scene.signIn($0).accessToken }
    let daemon = try scene.start()
    var seen: [String: Int] = [:]
    for _ in 1...6 {
      let bearers = try Echo(daemon.gateway("/echo")).values("authorization")
      for bearer in bearers { seen[bearer, default: 0] += 1 }
    }
    #expect(seen == Dictionary(uniqueKeysWithValues: tokens.map { ("Bearer \($0)", 2) }))
    try daemon.finish()
  }

  @Test("Each write gets an idempotency key of its own")
  func idempotencyKeys() throws {
    let scene = try scene()
    scene.settings.upstream += "\nidempotency.inject = true"
    let daemon = try scene.startSignedIn()
    var keys: Set<String> = []
    for _ in 1...3 { keys.formUnion(try Echo(daemon.gateway("/echo", ["-X", "DELETE"])).values("idempotency-key")) }
    #expect(keys.count == 3)
    try daemon.finish()
  }

  @Test("One byte makes another request")
  func neighbours() throws {
    let scene = try scene()
    scene.settings.upstream += "\nsessions = [\"ada\", \"bob\"]"
    let ada = try scene.signIn().accessToken
    let bob = try scene.signIn("bob").accessToken
    let daemon = try scene.start()
    for _ in 1...3 {
      for (name, token) in [("ada", ada), ("bob", bob)] {
        let echo = try Echo(daemon.gateway("/echo?\(name)", ["-H", "Bearerd-Session: \(name)"]))
        #expect(echo.values("authorization") == ["Bearer \(token)"] && echo.query == name)
      }
    }
    try daemon.finish()
  }
}
