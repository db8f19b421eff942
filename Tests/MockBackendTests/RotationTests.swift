import Chronology
import MockBackend
import Testing

@Suite("Refresh token rotation and reuse detection (RFC 9700 §4.14.2)") struct RotationTests {
  @Test("A refresh spends the presented token and its answer carries the next")
  func rotates() {
    var session = SignedIn()
    let first = session.refreshToken
    let reply = session.refresh().reply
    #expect(reply.status == 200)
    #expect(reply.header("cache-control") == "no-store")
    let next = reply.text.member("refresh_token")
    #expect(next != nil && next != first)
    #expect(session.backend.isSpent(refreshToken: first))
    #expect(session.backend.activeRefreshToken(of: "ada") == next)
    #expect(session.backend.counters.refreshesCommitted == 1)
    #expect(session.backend.counters.presentedAfterCommit == 0)
  }

  @Test("A chain of refreshes with the newest token never revokes")
  func chain() {
    var session = SignedIn()
    for _ in 0..<50 { session.refreshAndAdopt() }
    #expect(session.backend.counters.refreshesCommitted == 50)
    #expect(session.backend.counters.familiesRevoked == 0)
    #expect(session.call("GET", "/me").reply.status == 200)
  }

  @Test("A spent token that comes back revokes the whole family, once")
  func reuseRevokes() {
    var session = SignedIn()
    let first = session.refreshToken
    session.refreshAndAdopt()
    #expect(session.refresh(first).reply.status == 400)
    #expect(session.backend.counters.presentedAfterCommit == 1)
    #expect(session.backend.counters.refreshTokens[first]?.presented == 2)
    #expect(session.backend.counters.refreshTokens[first]?.afterCommit == 1)
    #expect(session.backend.counters.familiesRevoked == 1)
    #expect(session.call("GET", "/me").reply.status == 401, "the family's access tokens are dead too")
    #expect(session.refresh().reply.text.member("error") == "invalid_grant")
    session.refresh(first)
    #expect(session.backend.counters.familiesRevoked == 1)
  }

  @Test("Reuse in one family leaves the other logins of that user alone")
  func familiesAreIndependent() {
    var session = SignedIn()
    let other = session.backend.login(user: "ada", now: SignedIn.start)
    let first = session.refreshToken
    session.refresh()
    session.refresh(first)
    #expect(session.call("GET", "/me", token: other.accessToken).reply.status == 200)
    #expect(session.refresh(other.refreshToken).reply.status == 200)
  }

  @Test("Inside the grace the parent of the active token gets another successor; older or later ones revoke")
  func grace() {
    struct Row { var at: Int64, generationsLater: Int, status: Int }
    let rows = [
      Row(at: 9_999, generationsLater: 1, status: 200), Row(at: 10_000, generationsLater: 1, status: 400),
      Row(at: 5_000, generationsLater: 2, status: 400),
    ]
    for row in rows {
      var session = SignedIn { $0.reuseGraceMilliseconds = 10_000 }
      let parent = session.refreshToken
      for _ in 0..<row.generationsLater { session.refreshAndAdopt() }
      #expect(session.refresh(parent, milliseconds: row.at).reply.status == row.status, "\(row)")
      #expect(session.backend.counters.familiesRevoked == (row.status == 200 ? 0 : 1), "\(row)")
    }
  }

  @Test("Without rotation the token stays good and is not sent back")
  func withoutRotation() {
    var session = SignedIn { $0.rotates = false }
    for _ in 0..<3 {
      let reply = session.refresh().reply
      #expect(reply.status == 200)
      #expect(reply.text.member("refresh_token") == nil)
    }
    #expect(session.backend.counters.presentedAfterCommit == 0)
  }

  @Test("A strict provider may kill the older access tokens at each refresh")
  func oldAccessTokens() {
    for isStrict in [false, true] {
      var session = SignedIn { $0.refreshRevokesOldAccessTokens = isStrict }
      let old = session.accessToken
      session.refreshAndAdopt()
      #expect(session.call("GET", "/me", token: old).reply.status == (isStrict ? 401 : 200))
      #expect(session.call("GET", "/me").reply.status == 200)
    }
  }

  @Test("Every endpoint refuses in its own words", arguments: TokenEndpoint.allCases)
  func refusals(_ endpoint: TokenEndpoint) {
    let expected: [TokenEndpoint: (unknown: (Int, String), reused: (Int, String), revoked: (Int, String))] = [
      .oauth: ((400, "invalid_grant"), (400, "invalid_grant"), (400, "invalid_grant")),
      .mobile: (
        (401, "AUTH_REFRESH_TOKEN_INVALID"), (401, "AUTH_REFRESH_TOKEN_REUSED"), (401, "AUTH_SESSION_REVOKED")
      ),
      .enveloped: (
        (401, "Invalid refresh token"), (401, "Refresh token revoked"), (401, "Refresh token revoked")
      ),
      .function: (
        (400, "refresh_token_not_found"), (400, "refresh_token_already_used"), (400, "session_not_found")
      ),
      .authenticate: (
        (401, "Invalid refresh token"), (403, "Refresh token revoked"), (403, "Refresh token revoked")
      ),
    ]
    guard let row = expected[endpoint] else {
      Issue.record("no row for \(endpoint)")
      return
    }
    var session = SignedIn()
    let unknown = session.refresh("rt-9-nobody", at: endpoint).reply
    #expect(unknown.status == row.unknown.0 && unknown.text.holds("\"\(row.unknown.1)\""))
    let first = session.refreshToken
    #expect(session.refresh(first, at: endpoint).reply.status == 200)
    let successor = session.backend.activeRefreshToken(of: "ada") ?? ""
    let reused = session.refresh(first, at: endpoint).reply
    #expect(reused.status == row.reused.0 && reused.text.holds("\"\(row.reused.1)\""))
    let revoked = session.refresh(successor, at: endpoint).reply
    #expect(revoked.status == row.revoked.0 && revoked.text.holds("\"\(row.revoked.1)\""))
    #expect(session.refresh("", at: endpoint).reply.status == 400)
  }

  @Test("Every endpoint answers with its own member names", arguments: TokenEndpoint.allCases)
  func successes(_ endpoint: TokenEndpoint) {
    let names: [TokenEndpoint: (access: String, refresh: String, lifetime: String?)] = [
      .oauth: ("access_token", "refresh_token", "\"expires_in\":3"),
      .function: ("access_token", "refresh_token", "\"expires_in\":3"),
      .mobile: ("accessToken", "refreshToken", "\"expiresIn\":3"),
      .enveloped: ("accessToken", "refreshToken", nil), .authenticate: ("token", "refreshToken", nil),
    ]
    guard let row = names[endpoint] else {
      Issue.record("no row for \(endpoint)")
      return
    }
    var session = SignedIn()
    let text = session.refresh(at: endpoint).reply.text
    let access = text.member(row.access) ?? ""
    #expect(session.call("GET", "/me", token: access).reply.status == 200)
    #expect(text.member(row.refresh) == session.backend.activeRefreshToken(of: "ada"))
    if let lifetime = row.lifetime { #expect(text.holds(lifetime)) } else { #expect(!text.holds("expire")) }
    #expect(text.hasPrefix("{\"data\":") == (endpoint == .enveloped))
  }

  @Test("A malformed refresh is refused before any token is looked at")
  func malformed() {
    let rows: [(TokenEndpoint, String, Int, String)] = [
      (.oauth, "refresh_token=x", 400, "invalid_request"),
      (.oauth, "grant_type=refresh_token&refresh_token=x&refresh_token=y", 400, "invalid_request"),
      (.oauth, "grant_type=password&refresh_token=x", 400, "unsupported_grant_type"),
      (.mobile, "{\"refreshToken\":", 400, "VALIDATION_FAILED"), (.mobile, "[]", 400, "VALIDATION_FAILED"),
      (.enveloped, "{\"refreshToken\":\"x\"}", 400, "Refresh token required"),
      (.function, "refresh_token=x", 400, "validation_failed"),
      (.authenticate, "{\"refreshToken\":\"x\"}", 400, "Refresh token required"),
    ]
    for (endpoint, body, status, code) in rows {
      var session = SignedIn()
      let reply = session.backend.handle(
        BackendRequest(method: "POST", path: endpoint.rawValue, body: Array(body.utf8)), now: SignedIn.start
      ).reply
      #expect(reply.status == status && reply.text.holds("\"\(code)\""), "\(endpoint) \(body)")
      #expect(session.backend.counters.refreshTokens.isEmpty)
    }
  }

  @Test("A percent-encoded form is decoded; a GET is 405 and spends nothing")
  func formDecoding() {
    var session = SignedIn()
    let encoded = session.refreshToken.replacing("-", with: "%2D")
    let get = BackendRequest(method: "GET", path: "/oauth/token", query: "refresh_token=\(encoded)")
    #expect(session.backend.handle(get, now: SignedIn.start).reply.status == 405)
    #expect(session.refresh(encoded).reply.status == 200)
  }

  @Test("An OAuth client authenticates as agreed and in no other way (RFC 6749 §2.3.1)")
  func clientAuthentication() {
    let basic = ("authorization", "Basic bTplOnMlM0E=")
    let inBody = "&client_id=m%3Ae&client_secret=s%3A"
    // "m:e" and "s:" are form-encoded before they are joined: bSUzQWU6cyUzQQ== is "m%3Ae:s%3A".
    let right = ("authorization", "Basic bSUzQWU6cyUzQQ==")
    let rows: [(BackendSettings.OAuthClient.Placement, [(String, String)], String, Int)] = [
      (.basic, [right], "", 200), (.basic, [basic], "", 401), (.basic, [], inBody, 401), (.basic, [], "", 401),
      (.body, [], inBody, 200), (.body, [right], "", 401), (.body, [], "&client_id=m%3Ae", 401),
    ]
    for (placement, headers, suffix, status) in rows {
      var session = SignedIn { $0.oauthClient = .init(id: "m:e", secret: "s:", placement: placement) }
      let body = TokenEndpoint.oauth.requestBody(session.refreshToken) + suffix
      let reply = session.backend.handle(
        BackendRequest(method: "POST", path: "/oauth/token", headers: headers, body: Array(body.utf8)),
        now: SignedIn.start
      ).reply
      #expect(reply.status == status, "\(placement) \(headers) \(suffix)")
      if status == 401 { #expect(reply.text.holds("invalid_client")) }
    }
  }

  @Test("The same seed and calls give the same tokens; another seed gives others")
  func determinism() {
    func tokens(_ seed: UInt64) -> [String] {
      var backend = MockBackend(seed: seed)
      return (0..<5).map { backend.login(user: "u\($0)", now: SignedIn.start).refreshToken }
    }
    #expect(tokens(3) == tokens(3))
    #expect(Set(tokens(3)).isDisjoint(with: tokens(4)))
  }
}
