import Chronology
import Foundation
import MockBackend
import MockServer
import SessionStore
import Testing

@Suite("SPEC §3: what becomes of a refresh, as clients and operators see it") struct RefreshTests {
  private func scene(_ provider: String = "") throws -> Scene {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.provider = provider
    return scene
  }

  @Test("A token inside the leeway is refreshed before the request leaves")
  func preflight() throws {
    let scene = try scene()
    let tokens = try scene.signIn(expiresIn: 30)
    let daemon = try scene.start()
    let sent = try Echo(daemon.gateway("/echo")).values("authorization")
    #expect(sent.count == 1 && sent != ["Bearer \(tokens.accessToken)"])
    let counters = scene.server.counters
    #expect(counters.unauthorized == 0 && counters.refreshTokens[tokens.refreshToken]?.presented == 1)
    #expect(counters.bearersAtTokenEndpoints == 0)
    try daemon.finish()
  }

  @Test("A request that waited for its token counts as a use: the next refresh comes ahead of time")
  func aheadAfterWaiting() throws {
    let scene = try Scene { $0.backend.accessTokenLifetimeMilliseconds = 4000 }
    scene.settings.upstream = "default = true"
    scene.settings.provider = "refresh_ahead = \"1s\""
    scene.settings.tables = "[refresh]\nahead_window = \"10s\""
    try scene.signIn(expiresIn: 1)
    let daemon = try scene.start()
    #expect(try daemon.gateway("/me").status == 200)
    #expect(scene.server.counters.refreshesCommitted == 1)
    try daemon.waitForLog("trigger=ahead")
    #expect(scene.server.counters.refreshesCommitted == 2)
    try daemon.finish()
  }

  @Test("Twenty requests that find an expired token, on two loops, make one refresh")
  func singleFlight() throws {
    let scene = try scene()
    scene.settings.loops = 2
    try scene.signIn(expiresIn: 1)
    let daemon = try scene.start()
    scene.setFaults { $0.refresh = [.delay(milliseconds: 700)] }
    let transfers = try (0..<20).map { _ in try Transfer([daemon.url + "/me"], in: scene.scratch) }
    for transfer in transfers { #expect(try transfer.finish().status == 200) }
    let counters = scene.server.counters
    #expect(counters.refreshesCommitted == 1 && counters.unauthorized == 0 && counters.executedTotal == 20)
    try daemon.finish()
  }

  @Test("invalid_grant ends the session: SESSION_EXPIRED with the way back, and 'session show' says so")
  func invalidGrant() throws {
    let scene = try scene()
    scene.settings.upstream += "\nlogin_url = \"https://app.test/login\""
    let tokens = try scene.signIn(expiresIn: 30)
    let daemon = try scene.start()
    scene.server.withBackend { $0.revokeFamilies(of: "ada") }
    let over = try daemon.gateway("/me")
    #expect(over.status == 401 && over.code == "SESSION_EXPIRED", "\(over.heads)\(over.body)")
    #expect(over.field("www-authenticate")?.contains("error=\"invalid_token\"") == true)
    #expect(over.member("login_url") as? String == "https://app.test/login")
    #expect(try daemon.gateway("/me").code == "SESSION_EXPIRED")
    #expect(scene.server.counters.refreshTokens[tokens.refreshToken]?.presented == 1)
    let shown = try scene.session(["show", "ada"])
    #expect(shown.output.contains("dead") && shown.output.contains("invalid_grant"), "\(shown.output)\(shown.error)")
    #expect(shown.output.contains("session add"))
    try daemon.finish()
  }

  @Test(
    "After an outcome that nobody knows the refresh token is never presented again; the access token serves on",
    arguments: [
      Fault.hangAfterCommit, .hangBeforeCommit, .resetAfterCommit, .resetBeforeCommit, .truncateBody, .junk,
      .unparsableBody, .missingField("access_token"), .statusAfterCommit(502),
      .code("surprise", status: 500),
    ])
  func unknownOutcome(_ fault: Fault) throws {
    let scene = try scene("timeout = \"500ms\"")
    let tokens = try scene.signIn(expiresIn: 30)
    let daemon = try scene.start()
    scene.setFaults { $0.refresh = [fault] }
    // The token in force is unexpired and unrejected, so the request that triggered the refresh is served with it.
    for _ in 0..<3 { #expect(try daemon.gateway("/me").status == 200) }
    #expect(try scene.session(["show", "ada"]).output.contains("fenced"))
    try daemon.waitForLog("its access token serves until it expires")
    #expect(!daemon.log.contains("is over"), "\(daemon.log)")
    // Once it is rejected nothing is left.
    scene.rejectAccessTokens()
    let over = try daemon.gateway("/me")
    #expect(over.status == 401 && over.code == "SESSION_EXPIRED", "\(over.heads)\(over.body)")
    #expect((over.member("detail") as? String)?.contains("outcome_unknown") == true, "\(over.body)")
    // Stored behind the answer.
    #expect(try eventually { try scene.session(["show", "ada"]).output.contains("outcome_unknown") })
    let counters = scene.server.counters
    #expect(counters.refreshTokens[tokens.refreshToken]?.presented == 1)
    #expect(counters.refreshTokens.count == 1 && counters.presentedAfterUnanswered == 0)
    try daemon.finish()
  }

  @Test("A fenced session that a 401 ends: answer, field, command and log tell one story, and it is stored in the end")
  func endOfFenced() throws {
    let scene = try scene("timeout = \"500ms\"")
    let daemon = try scene.startSignedIn(expiresIn: 30)
    scene.setFaults { $0.refresh = [.statusAfterCommit(502)] }
    #expect(try daemon.gateway("/me").status == 200)
    scene.rejectAccessTokens()
    // Somebody else has the session's lock when it ends: storing waits, answering does not.
    let lock = try scene.store().lock("ada", until: Instant(nanoseconds: .max))
    let over = try daemon.gateway("/me")
    #expect(over.status == 401 && over.code == "SESSION_EXPIRED", "\(over.heads)\(over.body)")
    let story = "outcome_unknown, http_502"
    #expect((over.member("detail") as? String)?.contains(story) == true, "\(over.body)")
    #expect(over.field("proxy-status")?.contains(story) == true, "\(over.heads)")
    try daemon.waitForLog("reason=\"\(story)\"")
    #expect(try scene.session(["show", "ada"]).output.contains("fenced"))
    lock.release()
    #expect(try eventually { try scene.session(["show", "ada"]).output.contains("dead") })
    let shown = try scene.session(["show", "ada"]).output
    #expect(shown.contains("outcome_unknown") && shown.contains("(http_502)"), "\(shown)")
    #expect(try daemon.gateway("/me").code == "SESSION_EXPIRED")
    try daemon.finish()
  }

  @Test("A lock that another process keeps for too long: nothing is sent, and the answer says so")
  func lockHeld() throws {
    let scene = try scene("timeout = \"1s\"")
    let tokens = try scene.signIn(expiresIn: 30)
    let daemon = try scene.start()
    scene.rejectAccessTokens()
    let lock = try scene.store().lock("ada", until: Instant(nanoseconds: .max))
    let refused = try daemon.gateway("/me")
    #expect(refused.status == 503 && refused.code == "REFRESH_UNAVAILABLE", "\(refused.heads)\(refused.body)")
    #expect((refused.member("detail") as? String)?.contains("Another process") == true, "\(refused.body)")
    #expect(scene.server.counters.refreshTokens[tokens.refreshToken]?.presented ?? 0 == 0)
    lock.release()
    #expect(try daemon.gateway("/me").status == 200)
    try daemon.finish()
  }

  @Test("on_unknown = clear ends the session at once")
  func clear() throws {
    let scene = try scene("timeout = \"500ms\"\non_unknown = \"clear\"")
    let daemon = try scene.startSignedIn(expiresIn: 30)
    scene.setFaults { $0.refresh = [.resetAfterCommit] }
    let over = try daemon.gateway("/me")
    #expect(over.code == "SESSION_EXPIRED", "\(over.body)")
    #expect(try scene.session(["show", "ada"]).output.contains("outcome_unknown"))
    try daemon.finish()
  }

  @Test("429 keeps the session: 503 with the provider's Retry-After when no token is left, and no storm")
  func tooManyRequests() throws {
    let scene = try scene()
    let tokens = try scene.signIn(expiresIn: 30)
    let daemon = try scene.start()
    scene.setFaults { $0.refresh = .always(.tooManyRequests(retryAfterSeconds: 120)) }
    #expect(try daemon.gateway("/me").status == 200, "the token in force is good")
    scene.rejectAccessTokens()
    for _ in 0..<3 {
      let unavailable = try daemon.gateway("/me")
      #expect(unavailable.status == 503 && unavailable.code == "REFRESH_UNAVAILABLE", "\(unavailable.body)")
      let wait = try #require(unavailable.field("retry-after").flatMap { Int($0) })
      #expect((60...120).contains(wait), "\(wait)")
    }
    #expect(scene.server.counters.refreshTokens[tokens.refreshToken]?.presented == 1)
    try daemon.finish()
  }

  @Test("An unreachable token endpoint keeps the session, which refreshes once it is back")
  func notSent() throws {
    let scene = try scene()
    let tokens = try scene.signIn(expiresIn: 30)
    scene.settings.endpoint = "http://127.0.0.1:9/oauth/token"
    let daemon = try scene.start()
    scene.rejectAccessTokens()
    let unavailable = try daemon.gateway("/me")
    #expect(unavailable.status == 503 && unavailable.code == "REFRESH_UNAVAILABLE", "\(unavailable.body)")
    #expect(Int(unavailable.field("retry-after") ?? "") != nil)
    scene.settings.endpoint = "http://127.0.0.1:\(scene.server.plainPort)/oauth/token"
    try scene.writeConfiguration()
    daemon.reload()
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    #expect(scene.server.counters.refreshTokens[tokens.refreshToken]?.presented == 1)
    try daemon.finish()
  }

  @Test("invalid_client is our configuration's fault: the session is kept, and the error says what to mend")
  func misconfigured() throws {
    let scene = try scene()
    scene.setBackend { $0.oauthClient = .init(id: "bearerd", secret: "s3cret", placement: .basic) }
    let tokens = try scene.signIn(expiresIn: 30)
    let daemon = try scene.start()
    scene.rejectAccessTokens()
    for _ in 0..<3 {
      let refused = try daemon.gateway("/me")
      #expect(refused.status == 502 && refused.code == "REFRESH_MISCONFIGURED", "\(refused.body)")
    }
    try scene.scratch.write("s3cret\n", to: "secret")
    scene.settings.provider =
      "client_auth = \"basic\"\nclient_id = \"bearerd\"\nclient_secret_file = \"\(scene.scratch("secret"))\""
    try scene.writeConfiguration()
    daemon.reload()
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    #expect(scene.server.counters.refreshTokens[tokens.refreshToken]?.presented == 1)
    #expect(!daemon.log.contains("s3cret"))
    try daemon.finish()
  }

  @Test("A store that cannot be written sends nothing: STORE_UNWRITABLE")
  func storeUnwritable() throws {
    let scene = try scene()
    let tokens = try scene.signIn(expiresIn: 30)
    // No file may grow: writing the intent fails, reading does not, and root is bound by it too. The log takes a pipe.
    let limited = "exec 2> >(cat >&2); trap '' XFSZ; exec prlimit --fsize=0:0 -- \"$@\""
    let daemon = try scene.start(launcher: ["bash", "-c", limited, "bash"])
    scene.rejectAccessTokens()
    let refused = try daemon.gateway("/me")
    #expect(refused.status == 503 && refused.code == "STORE_UNWRITABLE", "\(refused.heads)\(refused.body)")
    #expect(scene.server.counters.refreshTokens[tokens.refreshToken] == nil)
    try daemon.finish()
  }

  @Test("The daemon says nothing of any token, whatever happens")
  func secrecy() throws {
    let scene = try scene("timeout = \"500ms\"")
    let tokens = try scene.signIn(expiresIn: 30)
    let daemon = try scene.start()
    #expect(try daemon.gateway("/me").status == 200)
    let second = try #require(scene.server.withBackend { $0.activeRefreshToken(of: "ada") })
    scene.rejectAccessTokens()
    scene.setFaults { $0.refresh = [.unparsableBody] }
    let over = try daemon.gateway("/me?access=\(tokens.accessToken)")
    let told = [
      daemon.log, over.body, over.heads, try daemon.admin("/metrics").body, try daemon.admin("/status").body,
      try scene.session(["show", "ada"]).output, try scene.session(["list"]).output,
    ]
    for text in told {
      for secret in [tokens.accessToken, tokens.refreshToken, second] { #expect(!text.contains(secret)) }
    }
    let commandLine = text(ofFile: "/proc/\(daemon.program.pid)/cmdline")
    #expect(commandLine.contains("run") && !commandLine.contains(tokens.refreshToken))
    try daemon.finish()
  }
}
