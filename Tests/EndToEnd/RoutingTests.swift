import Foundation
import MockBackend
import MockServer
import Testing

/// What `/echo` says the upstream saw.
struct Echo {
  private var fields: [(String, String)]
  var path: String
  var query: String
  var bodyBytes: Int
  var bodyDigest: String

  init(_ response: Response) throws {
    fields = try #require(response.member("headers") as? [[String]], "\(response.status) \(response.body)")
      .map { ($0[0].lowercased(), $0[1]) }
    path = response.member("path") as? String ?? ""
    query = response.member("query") as? String ?? ""
    bodyBytes = response.member("bodyBytes") as? Int ?? -1
    bodyDigest = response.member("bodyDigest") as? String ?? ""
  }

  func values(_ name: String) -> [String] { fields.filter { $0.0 == name }.map(\.1) }
}

@Suite("SPEC §1: the route of a request, through the real daemon") struct RoutingTests {
  @Test("In forward mode a plain target goes to its upstream's TLS origin with the token")
  func forwardMode() throws {
    let scene = try Scene()
    let tokens = try scene.signIn()
    let daemon = try scene.start()
    let notes = try daemon.forward("http://api.test/notes")
    #expect(notes.exit == 0 && notes.status == 200, "\(notes.heads)\(notes.body)")
    #expect(notes.field("via")?.contains("bearerd") == true)
    let echo = try Echo(
      daemon.forward(
        "http://api.test/echo?q=1",
        ["-H", "Proxy-Connection: keep-alive", "-H", "X-Secret: s", "-H", "Connection: x-secret"]))
    #expect(echo.values("host") == ["api.test"])
    #expect(echo.values("authorization") == ["Bearer \(tokens.accessToken)"])
    #expect(echo.values("via").count == 1 && echo.values("via")[0].contains("bearerd"))
    #expect(echo.values("proxy-connection").isEmpty && echo.values("x-secret").isEmpty)
    #expect(echo.query == "q=1")
    #expect(scene.server.connectionCounters.plainAccepted == 0)
    try daemon.finish()
  }

  @Test("TRACE carries no token, because an upstream would send it back to the client")
  func trace() throws {
    let scene = try Scene()
    _ = try scene.signIn()
    let daemon = try scene.start()
    let echo = try Echo(daemon.forward("http://api.test/open/echo", ["-X", "TRACE"]))
    #expect(echo.values("host") == ["api.test"])
    #expect(echo.values("authorization").isEmpty)
    try daemon.finish()
  }

  @Test("A client's own Authorization never reaches an upstream that has a session, nor do control fields")
  func replacedCredentials() throws {
    let scene = try Scene()
    let tokens = try scene.signIn()
    let daemon = try scene.start()
    let echo = try Echo(
      daemon.forward(
        "http://api.test/echo",
        [
          "-H", "Authorization: Bearer mine", "-H", "Bearerd-Auth: required", "-H", "Bearerd-Retry: allow",
          "-H", "Bearerd-Session: ada", "-H", "Bearerd-Replayable: true",
        ]))
    #expect(echo.values("authorization") == ["Bearer \(tokens.accessToken)"])
    for name in ["bearerd-auth", "bearerd-retry", "bearerd-session", "bearerd-replayable"] {
      #expect(echo.values(name).isEmpty, "\(name)")
    }
    try daemon.finish()
  }

  @Test("The target decides the credential, not a Host that differs (RFC 9112 §3.2.2)")
  func targetOverridesHost() throws {
    let scene = try Scene()
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    client.send("GET http://elsewhere.test/echo HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
    #expect(client.receive().text.hasPrefix("HTTP/1.1 403 "))
    let other = try RawClient(port: daemon.port)
    other.send("GET http://api.test/echo HTTP/1.1\r\nHost: elsewhere.test\r\nConnection: close\r\n\r\n")
    let text = other.receive().text
    #expect(text.hasPrefix("HTTP/1.1 200 ") && text.contains("[\"host\",\"api.test\"]"), "\(text)")
    #expect(scene.server.counters.executedTotal == 1)
    try daemon.finish()
  }

  @Test("In gateway mode the Host chooses the upstream, which sees its own")
  func gatewayByHost() throws {
    let scene = try Scene()
    scene.settings.upstream = "hosts = [\"gateway.test\"]"
    let tokens = try scene.signIn()
    let daemon = try scene.start()
    let echo = try Echo(daemon.gateway("/echo", ["-H", "Host: gateway.test"]))
    #expect(echo.values("host") == ["api.test"] && echo.path == "/echo")
    #expect(echo.values("authorization") == ["Bearer \(tokens.accessToken)"])
    let nobody = try daemon.gateway("/echo")
    #expect(nobody.status == 403 && nobody.code == "ROUTE_DENIED")
    try daemon.finish()
  }

  @Test("A prefix chooses the upstream and is stripped")
  func gatewayByPrefix() throws {
    let scene = try Scene()
    scene.settings.upstream = "path_prefix = \"/api\"\nstrip_prefix = true"
    let daemon = try scene.startSignedIn()
    let echo = try Echo(daemon.gateway("/api/echo?a=b"))
    #expect(echo.path == "/echo" && echo.query == "a=b" && echo.values("host") == ["api.test"])
    let made = try daemon.gateway("/api/notes", ["-d", "milk"])
    #expect(made.status == 201 && made.body.contains("milk"))
    #expect(try daemon.gateway("/apis/echo").code == "ROUTE_DENIED")
    try daemon.finish()
  }

  @Test(
    "A Location on the upstream's origin leads the client back through the gateway, prefix and all; others stay",
    arguments: [
      ("http://127.0.0.1:PORT/a?b=c", "http://localhost:GATE/old/a?b=c"), ("/a", "/old/a"), ("//127.0.0.1:PORT/a", "//localhost:GATE/old/a"),
      ("http://127.0.0.1:PORT.evil.test/a", nil), ("https://elsewhere.test/a", nil), ("//elsewhere.test/a", nil),
      ("a", nil),
    ])
  func location(_ given: String, _ expected: String?) throws {
    let scene = try Scene()
    let value = given.replacing("PORT", with: "@PORT@")
    let fixed = try FixedUpstream(
      "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: \(value)\r\nContent-Location: \(value)\r\n\r\n",
      in: scene.scratch)
    scene.settings.tables = fixed.table("path_prefix = \"/old\"\nstrip_prefix = true")
    let daemon = try scene.start()
    let seen = try Transfer(["http://localhost:\(daemon.port)/old/x"], in: scene.scratch).finish()
    let wanted = (expected ?? given).replacing("PORT", with: "\(fixed.port)").replacing("GATE", with: "\(daemon.port)")
    #expect(seen.status == 302)
    #expect(seen.field("location") == wanted, "\(seen.heads)")
    #expect(seen.field("content-location") == wanted)
    try daemon.finish()
  }

  @Test("A path without authentication carries no token and needs no session")
  func loginPath() throws {
    let scene = try Scene()
    scene.settings.upstream = "login_paths = [\"/open\"]\ndefault = true"
    try scene.writeConfiguration()
    let daemon = try scene.start()
    let open = try Echo(daemon.gateway("/open/echo", ["-H", "Authorization: Basic bWU6bWU="]))
    let asked = try Echo(daemon.gateway("/open/echo", ["-H", "Bearerd-Auth: required"]))
    #expect(asked.values("authorization").isEmpty, "a login path is always without a token")
    #expect(open.values("authorization") == ["Basic bWU6bWU="])
    let missing = try daemon.gateway("/echo")
    #expect(missing.status == 401 && missing.code == "SESSION_MISSING")
    // However its path is spelt; what the upstream makes of it is its own affair.
    for path in ["/o%70en/echo", "//open/echo", "/./open/echo", "/echo/../open/echo", "/open%2fecho"] {
      let spelt = try daemon.gateway(path, ["--path-as-is"])
      #expect(spelt.code != "SESSION_MISSING", "\(path): \(spelt.status)")
    }
    try daemon.finish()
  }

  @Test("A session that the client names is used where the upstream accepts it, and only there")
  func namedSession() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true\nsessions = [\"ada\", \"g*\"]"
    try scene.signIn("ada")
    try scene.signIn("grace")
    try scene.signIn("mallory")
    let daemon = try scene.start()
    for (name, user) in [("ada", "ada"), ("grace", "grace")] {
      let answer = try daemon.gateway("/me", ["-H", "Bearerd-Session: \(name)"])
      #expect(answer.member("user") as? String == user, "\(answer.body)")
    }
    let refused = try daemon.gateway("/me", ["-H", "Bearerd-Session: mallory"])
    #expect(refused.status == 403 && refused.code == "SESSION_MISSING")
    let unknown = try daemon.gateway("/me", ["-H", "Bearerd-Session: gwen"])
    #expect(unknown.status == 401 && unknown.code == "SESSION_MISSING")
    #expect(scene.server.counters.executed == ["GET /me": 2])
    try daemon.finish()
  }

  @Test("A pool spreads requests over its sessions")
  func pool() throws {
    let scene = try Scene()
    scene.settings.session = "pool = \"load-*\"\npool_pick = \"request\""
    scene.settings.upstream = "default = true"
    for index in 1...3 { try scene.signIn("load-\(index)") }
    let daemon = try scene.start()
    let users = try (0..<6).map { _ in try daemon.gateway("/me").member("user") as? String }
    #expect(Set(users) == ["load-1", "load-2", "load-3"])
    try daemon.finish()
  }
}
