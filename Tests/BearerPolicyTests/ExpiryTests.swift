import BearerPolicy
import Chronology
import Testing

@Suite("SPEC §3 expiry of an access token") struct ExpiryTests {
  private let opaque = Secret("opaque")

  private func decide(
    _ body: String, bearer: Secret? = nil, provider used: Provider = provider(), serverDate: WallTime? = nil,
    issuedNow: Bool = true
  ) throws -> (expiresAt: WallTime, source: ExpirySource) {
    let tree = try #require(JSONValue.parse(Array(body.utf8)))
    return Expiry.decide(
      answer: Expiry.Members(of: tree, provider: used), bearer: bearer ?? opaque, provider: used, receivedAt: noon,
      serverDate: serverDate, issuedNow: issuedNow)
  }

  @Test(
    "each source alone",
    arguments: [
      (#"{"expires_in":3600}"#, 3600, ExpirySource.expiresIn), (#"{"expires_in":"3600"}"#, 3600, .expiresIn),
      (#"{"expires_in":3599.9}"#, 3599, .expiresIn), (#"{"expires_at":1738067400}"#, 1800, .expiresAt),
      (#"{"expires_at":"1738067400"}"#, 1800, .expiresAt), (#"{"expires_at":1738067400000}"#, 1800, .expiresAt),
      (#"{"expires_at":"2025-01-28T12:30:00Z"}"#, 1800, .expiresAt),
      (#"{"expires_at":"2025-01-28T14:30:00.123+02:00"}"#, 1800, .expiresAt),
      (#"{"expires_at":"2025-01-28 06:30:00-06:00"}"#, 1800, .expiresAt),
      (#"{"expires_at":"tomorrow"}"#, 900, .fallback), (#"{"expires_in":null}"#, 900, .fallback),
      (#"{"expires_in":"soon"}"#, 900, .fallback), ("{}", 900, .fallback),
    ])
  func eachSource(_ body: String, _ seconds: Int64, _ source: ExpirySource) throws {
    let decided = try decide(body)
    #expect(decided.expiresAt == after(seconds))
    #expect(decided.source == source)
  }

  @Test("the JWT's exp counts too, and the earliest of all decides")
  func earliest() throws {
    let bearer = jwt(#"{"exp":1738066500}"#)
    #expect(try decide("{}", bearer: bearer) == (after(900), .jwt))
    #expect(try decide(#"{"expires_in":800}"#, bearer: bearer) == (after(800), .expiresIn))
    #expect(try decide(#"{"expires_in":1000}"#, bearer: bearer) == (after(900), .jwt))
    let both = #"{"expires_in":1000,"expires_at":1738065700}"#
    #expect(try decide(both, bearer: bearer) == (after(100), .expiresAt))
  }

  @Test("only the sources that the provider names are used")
  func narrowed() throws {
    let bearer = jwt(#"{"exp":1738065601}"#)
    let used = provider { $0.expirySources = [.expiresIn] }
    #expect(
      try decide(#"{"expires_in":60,"expires_at":1738065601}"#, bearer: bearer, provider: used) == (
        after(60), .expiresIn
      ))
    let none = provider {
      $0.expirySources = []
      $0.fallbackLifetime = .seconds(77)
    }
    #expect(try decide(#"{"expires_in":60}"#, bearer: bearer, provider: none) == (after(77), .fallback))
    let renamed = provider { $0.response.expiresIn = "data.ttl" }
    #expect(try decide(#"{"expires_in":1,"data":{"ttl":50}}"#, provider: renamed) == (after(50), .expiresIn))
  }

  @Test(
    "absolute times are read on the server's clock, relative ones on ours",
    arguments: [
      (600, 300, ExpirySource.expiresAt),  // the server is 10 min ahead
      (-600, 1000, .expiresIn),  // 10 min behind: expires_at is then 1500 s away
    ] as [(Int64, Int64, ExpirySource)])
  func skew(_ serverAhead: Int64, _ seconds: Int64, _ source: ExpirySource) throws {
    let decided = try decide(
      #"{"expires_in":1000,"expires_at":1738066500}"#, serverDate: after(serverAhead))
    #expect(decided == (after(seconds), source))
  }

  @Test("without Date, iat of a token just issued tells the server's clock; an imported token's does not")
  func issuedAt() throws {
    let bearer = jwt(#"{"exp":1738067100,"iat":1738066200}"#)
    #expect(try decide("{}", bearer: bearer) == (after(900), .jwt))
    #expect(try decide("{}", bearer: bearer, issuedNow: false) == (after(1500), .jwt))
    #expect(try decide("{}", bearer: bearer, serverDate: after(1000)) == (after(500), .jwt))
  }

  @Test(
    "a source that calls a new token expired is no source; of an imported token it is true",
    arguments: [
      (#"{"expires_in":-5}"#, 0), (#"{"expires_in":-9223372036854775808}"#, 0), (#"{"expires_in":0}"#, 0),
      (#"{"expires_in":-1e300}"#, 0), (#"{"expires_in":"0"}"#, 0), (#"{"expires_in":0.5}"#, 0),
      (#"{"expires_at":1738065600}"#, 0), (#"{"expires_at":1738065000}"#, -600),
    ] as [(String, Int64)])
  func expiredOnArrival(_ body: String, _ imported: Int64) throws {
    #expect(try decide(body) == (noon + Provider(name: "").fallbackLifetime, .fallback))
    #expect(try decide(body, issuedNow: false).expiresAt == after(imported))
    let other = try decide(body, bearer: jwt(#"{"exp":1738066200}"#))
    #expect(other == (after(600), .jwt))
  }

  @Test(
    "what is no number of seconds is no source",
    arguments: [
      #"{"expires_in":null}"#, #"{"expires_in":true}"#, #"{"expires_in":""}"#, #"{"expires_in":" 3600 "}"#,
      #"{"expires_in":"0x10"}"#, #"{"expires_in":"inf"}"#, #"{"expires_in":[3600]}"#, #"{"expires_in":{}}"#,
    ])
  func noNumber(_ body: String) throws {
    #expect(try decide(body).source == .fallback)
  }

  @Test(
    "a promise of more than a century is a century",
    arguments: [
      #"{"expires_in":9223372036854775807}"#, #"{"expires_in":1e300}"#, #"{"expires_at":9223372036854775807}"#,
      #"{"expires_at":"9999-12-31T23:59:59Z"}"#,
    ])
  func absurd(_ body: String) throws {
    #expect(try decide(body).expiresAt == noon + Expiry.lifetimeMax)
  }

  @Test("an absolute time long past stays past, and no clock of a server's traps")
  func past() throws {
    let ended = try decide(#"{"expires_at":-9223372036854775808}"#, issuedNow: false)
    #expect(ended.expiresAt == WallTime(milliseconds: 0))
    for date in [WallTime(milliseconds: .min), WallTime(milliseconds: .max)] {
      let decided = try decide(#"{"expires_at":1738066500}"#, serverDate: date)
      #expect(decided.expiresAt <= noon + Expiry.lifetimeMax)
    }
  }

  @Test(
    "RFC 3339 dates",
    arguments: [
      ("2025-01-28T12:00:00Z", 0), ("2025-01-28t12:00:00z", 0), ("2025-01-28T12:00:00+00:00", 0),
      ("2025-01-28T12:00:00.999Z", 0), ("2025-01-28T11:59:30Z", -30), ("2025-01-28", nil),
      ("2025-01-28T12:00:00", nil),
      ("2025-13-28T12:00:00Z", nil), ("2025-02-30T12:00:00Z", nil), ("2025-01-28T12:00:00.Z", nil),
      ("2025-01-28T12:00:00+0000", nil), ("2025-01-28T12:00:00+24:00", nil), ("2025-01-28T12:00:00Zx", nil),
      ("2025-01-28X12:00:00Z", nil), ("+025-01-28T12:00:00Z", nil), ("", nil),
    ] as [(String, Int64?)])
  func dates(_ text: String, _ seconds: Int64?) {
    #expect(WallTime(rfc3339: text) == seconds.map(after))
  }
}
