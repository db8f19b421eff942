import Chronology
import FoundationEssentials
import MockBackend
import Testing

@Suite("Expiry of tokens, at exact instants") struct ExpiryTests {
  @Test("An access token is good until the millisecond it expires")
  func accessToken() {
    let rows: [(lifetime: Int64, at: Int64, status: Int)] = [
      (3000, 0, 200), (3000, 2999, 200), (3000, 3000, 401), (3000, 3001, 401), (1, 0, 200), (1, 1, 401), (0, 0, 401),
    ]
    for row in rows {
      for shape in BackendSettings.AccessTokenShape.allCases {
        var session = SignedIn {
          $0.accessTokenLifetimeMilliseconds = row.lifetime
          $0.accessTokenShape = shape
        }
        #expect(session.call("GET", "/me", at: row.at).reply.status == row.status, "\(row) \(shape)")
      }
    }
  }

  @Test("A refresh token expires only where a lifetime is set")
  func refreshToken() {
    let rows: [(lifetime: Int64?, at: Int64, status: Int)] = [
      (nil, 1_000_000_000, 200), (5000, 4999, 200), (5000, 5000, 401),
    ]
    for row in rows {
      var session = SignedIn { $0.refreshTokenLifetimeMilliseconds = row.lifetime }
      let reply = session.refresh(at: .mobile, milliseconds: row.at).reply
      #expect(reply.status == row.status, "\(row)")
      if row.status == 401 { #expect(reply.text.member("code") == "AUTH_REFRESH_TOKEN_EXPIRED") }
      #expect(session.backend.counters.familiesRevoked == 0)
    }
  }

  @Test("The rejection names the error (RFC 6750 §3.1), for every way a token can be wrong")
  func rejections() {
    let rows: [[(String, String)]] = [
      [], [("authorization", "Bearer unknown")], [("authorization", "Basic YTpi")], [("authorization", "Bearer ")],
      [("authorization", "Bearer a"), ("authorization", "Bearer b")],
    ]
    for headers in rows {
      var session = SignedIn()
      let request = BackendRequest(method: "GET", path: "/notes", headers: headers)
      let reply = session.backend.handle(request, now: SignedIn.start).reply
      #expect(reply.status == 401)
      #expect(reply.header("www-authenticate") == "Bearer realm=\"mock\", error=\"invalid_token\"")
      #expect(session.backend.counters.unauthorized == 1)
      #expect(session.backend.counters.executedTotal == 0)
    }
  }

  @Test("The lifetime is told as the settings say")
  func lifetimeField() {
    let rows: [(BackendSettings.LifetimeField, Int64, String)] = [
      (.number, 3000, "\"expires_in\":3,"), (.number, 1250, "\"expires_in\":1.250,"),
      (.number, 7, "\"expires_in\":0.007,"), (.string, 3000, "\"expires_in\":\"3\","),
      (.absolute, 3000, "\"expires_at\":1700000003,"),
    ]
    for (field, lifetime, expected) in rows {
      var session = SignedIn {
        $0.lifetimeField = field
        $0.accessTokenLifetimeMilliseconds = lifetime
      }
      #expect(session.refresh().reply.text.holds(expected), "\(expected)")
    }
    var silent = SignedIn { $0.lifetimeField = .absent }
    #expect(!silent.refresh().reply.text.holds("expires"))
  }

  @Test("A JWT carries its user and both instants, and no other token ends like it")
  func jwtClaims() throws {
    struct Claims: Decodable, Equatable {
      var sub: String
      var iat: Double
      var exp: Double
    }
    let session = SignedIn {
      $0.accessTokenShape = .jwt
      $0.accessTokenLifetimeMilliseconds = 2500
    }
    let parts = session.accessToken.split(separator: ".", omittingEmptySubsequences: false)
    #expect(parts.count == 3)
    var base64 = String(parts[1]).replacing("-", with: "+").replacing("_", with: "/")
    base64 += String(repeating: "=", count: (4 - base64.count % 4) % 4)
    let data = try #require(Data(base64Encoded: base64))
    let claims = try JSONDecoder().decode(Claims.self, from: data)
    #expect(claims == Claims(sub: "ada", iat: 1_700_000_000, exp: 1_700_000_002.5))
  }

  @Test("Revoked access tokens are rejected although unexpired, and a refresh helps")
  func revocation() {
    var session = SignedIn()
    let other = session.backend.login(user: "bob", now: SignedIn.start)
    session.backend.revokeAccessTokens(of: "ada")
    #expect(session.call("GET", "/me").reply.status == 401)
    #expect(session.call("GET", "/me", token: other.accessToken).reply.status == 200)
    session.refreshAndAdopt()
    #expect(session.call("GET", "/me").reply.status == 200)
    session.backend.revokeFamilies(of: "ada")
    #expect(session.call("GET", "/me").reply.status == 401)
    #expect(session.refresh(at: .mobile).reply.text.member("code") == "AUTH_SESSION_REVOKED")
    #expect(session.backend.activeRefreshToken(of: "ada") == nil)
  }
}
