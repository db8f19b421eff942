import BearerPolicy
import Chronology
import Testing

/// A preset with everything its `required` names.
private func complete(_ name: String) throws -> Provider {
  var provider = try #require(Presets.named(name))
  for parameter in provider.parameterNames where provider.parameters[parameter] == nil {
    provider.parameters[parameter] = Secret(parameter == "base_url" ? "https://base.example.com" : "\(parameter)-1")
  }
  if provider.endpoint == nil { provider.endpoint = "https://id.example.com/token" }
  provider.oauthClientID = "cid"
  provider.oauthClientSecret = Secret("csec")
  return provider
}

/// The row of an outcome, with its code or reason.
private func row(_ outcome: RefreshOutcome) -> String {
  switch outcome {
  case .success(let tokens):
    "success \(tokens.accessToken.reveal()) \(tokens.refreshToken?.reveal() ?? "-") "
      + "\(tokens.expiresAt.since(noon).milliseconds / 1000) \(tokens.expirySource.rawValue)"
  case .dead(let code): "dead \(code)"
  case .configurationFault(let code): "config \(code)"
  case .notSent(let reason): "notSent \(reason)"
  case .knownNotSucceeded(let reason, _): "known \(reason)"
  case .unknown(let reason): "unknown \(reason)"
  }
}

private func check(_ name: String, _ rows: [(Int, String, String)]) throws {
  let provider = try complete(name)
  for (status, body, expected) in rows {
    let outcome = RefreshOutcome.classify(answer(status, body), provider: provider, receivedAt: noon)
    #expect(row(outcome) == expected, "\(name) \(status) \(body)")
  }
}

/// What becomes of the session when no answer comes.
private func afterSilence(_ name: String) throws -> SessionRecord {
  let provider = try complete(name)
  let outcome = RefreshOutcome.classify(.noAnswer(.timedOut), provider: provider, receivedAt: noon)
  return session().applying(
    outcome, provider: provider, fingerprint: fingerprintA, now: noon, jitter: 0, settings: "")
}

private func request(_ name: String) throws -> TokenRequest {
  try TokenRequest.make(provider: try complete(name), refreshToken: Secret("r/1")).get()
}

@Suite("Presets: the seed systems, exactly") struct SeedPresetTests {
  private let exp15 = jwt(#"{"exp":1738066500}"#).reveal()

  @Test("mobile-core-kit (seeds 000 and 001)")
  func mobileCoreKit() throws {
    let good = #"{"accessToken":"a","refreshToken":"r","expiresIn":900}"#
    try check(
      "mobile-core-kit",
      [
        (200, good, "success a r 900 expires_in"),
        (401, #"{"code":"AUTH_REFRESH_TOKEN_INVALID"}"#, "dead AUTH_REFRESH_TOKEN_INVALID"),
        (401, #"{"code":"AUTH_REFRESH_TOKEN_EXPIRED"}"#, "dead AUTH_REFRESH_TOKEN_EXPIRED"),
        (401, #"{"code":"AUTH_REFRESH_TOKEN_REUSED"}"#, "dead AUTH_REFRESH_TOKEN_REUSED"),
        (400, #"{"code":"AUTH_SESSION_REVOKED"}"#, "dead AUTH_SESSION_REVOKED"),
        (401, #"{"code":"UNAUTHORIZED"}"#, "known http_401"), (401, "", "known http_401"),
        (400, #"{"code":"VALIDATION_FAILED"}"#, "known http_400"),
        (403, #"{"code":"FORBIDDEN"}"#, "known http_403"),
        (404, "", "known http_404"), (429, "", "known http_429"), (500, "", "known http_500"),
        (503, "", "known http_503"), (502, "<html>", "known http_502"), (302, "", "known http_302"),
        (200, #"{"accessToken":"a","expiresIn":900}"#, "unknown refresh_token_missing"),
        (200, "", "unknown reply_undecodable"),
      ])
    #expect(try afterSilence("mobile-core-kit").standing == .dead(reason: "outcome_unknown", since: noon))
    let sent = try request("mobile-core-kit")
    #expect(sent.method == "POST")
    #expect(sent.body.reveal().contains(#""refreshToken":"r/1""#))
    let provider = try #require(Presets.named("mobile-core-kit"))
    #expect(provider.missingSettings == ["endpoint"])
    #expect(provider.leeway == .seconds(60) && provider.refreshAhead == nil)
  }

  @Test("remote-auth-service (seed 002)")
  func remoteAuthService() throws {
    try check(
      "remote-auth-service",
      [
        (200, #"{"data":{"accessToken":"\#(exp15)","refreshToken":"r"}}"#, "success \(exp15) r 900 jwt"),
        (200, #"{"data":{"accessToken":"opaque","refreshToken":"r"}}"#, "success opaque r 900 fallback"),
        (401, #"{"message":"Refresh token revoked"}"#, "dead http_401"), (403, "", "dead http_403"),
        (500, "", "unknown http_500"), (429, "", "known http_429"),
        (200, #"{"accessToken":"a"}"#, "unknown access_token_missing"),
      ])
    #expect(try afterSilence("remote-auth-service").standing == .fenced(reason: "timed_out", since: noon))
    let sent = try request("remote-auth-service")
    #expect(sent.url == "https://base.example.com/api/v1/auth/refresh")
    #expect(sent.body.reveal().contains(#""refresh_token":"r/1""#))
    let provider = try #require(Presets.named("remote-auth-service"))
    #expect(provider.leeway == .seconds(300) && provider.missingSettings == ["base_url"])
    #expect(provider.fallbackLifetime == .seconds(900))
  }

  @Test("veloready (seed 003)")
  func veloready() throws {
    try check(
      "veloready",
      [
        (200, #"{"access_token":"a","refresh_token":"r","expires_in":3600}"#, "success a r 3600 expires_in"),
        (400, #"{"error":"invalid_refresh_token"}"#, "dead invalid_refresh_token"),
        (400, #"{"code":400,"error_code":"refresh_token_not_found"}"#, "dead refresh_token_not_found"),
        (401, "", "known http_401"), (404, "", "known http_404"), (500, #"{"error":"x"}"#, "known http_500"),
        (200, #"{"access_token":"a"}"#, "unknown refresh_token_missing"),
      ])
    let silent = try afterSilence("veloready")
    #expect(silent.standing == .active && silent.refreshToken != nil && silent.backoff?.until == after(1))
    let provider = try #require(Presets.named("veloready"))
    #expect(provider.missingSettings.isEmpty)
    #expect(provider.timeout == .seconds(10) && provider.refreshAhead == .seconds(600))
    #expect(provider.validateURL == "https://api.veloready.app/.netlify/functions/api-validate-session")
    let sent = try request("veloready")
    #expect(sent.url == "https://api.veloready.app/.netlify/functions/auth-refresh-token")
    let body = try TokenRequest.make(provider: provider, refreshToken: Secret("r1")).get().body.reveal()
    #expect(body == #"{"refresh_token":"r1"}"#)
  }

  @Test("network-service (seed 004)")
  func networkService() throws {
    try check(
      "network-service",
      [
        (200, #"{"token":"\#(exp15)","refreshToken":"r"}"#, "success \(exp15) r 900 jwt"),
        (200, #"{"token":"a"}"#, "unknown refresh_token_missing"),
        (200, #"{"refreshToken":"r"}"#, "unknown access_token_missing"),
        (200, "not json", "unknown reply_undecodable"), (401, "", "dead http_401"), (403, "", "dead http_403"),
        (500, "", "unknown http_500"),
      ])
    #expect(try afterSilence("network-service").standing == .fenced(reason: "timed_out", since: noon))
    var provider = try #require(Presets.named("network-service"))
    #expect(provider.leeway == .zero && provider.refreshAhead == nil)
    provider.parameters["base_url"] = Secret("https://base.example.com")
    let sent = try TokenRequest.make(provider: provider, refreshToken: Secret("r/1")).get()
    #expect(sent.url == "https://base.example.com/api/authenticate")
    #expect(sent.body.reveal() == "refreshToken=r%2F1")
    #expect(RefreshTiming(record: session(), provider: provider).staleAt == session().expiresAt)
  }
}

@Suite("Presets: providers") struct ProviderPresetTests {
  @Test("oauth2")
  func oauth2() throws {
    try check(
      "oauth2",
      [
        (200, #"{"access_token":"a","token_type":"Bearer","expires_in":60}"#, "success a - 60 expires_in"),
        (400, #"{"error":"invalid_grant"}"#, "dead invalid_grant"),
        (401, #"{"error":"invalid_client"}"#, "config invalid_client"),
        (400, #"{"error":"unauthorized_client"}"#, "config unauthorized_client"), (500, "", "unknown http_500"),
      ])
    #expect(try request("oauth2").body.reveal() == "grant_type=refresh_token&refresh_token=r%2F1&client_id=cid")
    #expect(Presets.named("oauth2")?.missingSettings == ["endpoint"])
  }

  @Test("supabase")
  func supabase() throws {
    let good =
      #"{"access_token":"a","refresh_token":"r","expires_in":3600,"expires_at":1738069200,"#
      + #""token_type":"bearer","user":{}}"#
    try check(
      "supabase",
      [
        (200, good, "success a r 3600 expires_at"),
        (400, #"{"code":"refresh_token_not_found","message":"x"}"#, "dead refresh_token_not_found"),
        (
          400, #"{"code":400,"error_code":"refresh_token_already_used","msg":"x"}"#,
          "dead refresh_token_already_used"
        ),
        (403, #"{"error_code":"user_banned"}"#, "dead user_banned"),
        (400, #"{"code":"session_expired"}"#, "dead session_expired"),
        (400, #"{"code":"validation_failed"}"#, "config validation_failed"),
        (429, #"{"code":"over_request_rate_limit"}"#, "known over_request_rate_limit"),
        (409, #"{"message":"Too many concurrent token refresh requests"}"#, "known http_409"),
        (500, "", "unknown http_500"), (200, #"{"access_token":"a"}"#, "unknown refresh_token_missing"),
      ])
    let sent = try request("supabase")
    #expect(sent.url == "https://base.example.com/auth/v1/token?grant_type=refresh_token")
    #expect(sent.headers.contains { $0.name == "apikey" && $0.value == Secret("api_key-1") })
    #expect(sent.body.reveal().hasPrefix(#"{"refresh_token":"r/1""#))
    let silent = try afterSilence("supabase")
    #expect(silent.standing == .active && silent.backoff != nil)
    #expect(Presets.named("supabase")?.missingSettings == ["base_url", "api_key"])
  }

  @Test("auth0")
  func auth0() throws {
    let refused = #"{"error":"invalid_grant","error_description":"Unknown or invalid refresh token."}"#
    try check(
      "auth0",
      [
        (200, #"{"access_token":"a","expires_in":86400,"token_type":"Bearer"}"#, "success a - 86400 expires_in"),
        (403, refused, "dead invalid_grant"), (429, "", "known http_429"),
        (401, #"{"error":"invalid_client"}"#, "config invalid_client"),
      ])
    #expect(try request("auth0").url == "https://domain-1/oauth/token")
    #expect(Presets.named("auth0")?.missingSettings == ["domain", "client_id"])
    #expect(try afterSilence("auth0").refreshToken == nil)
  }

  @Test("okta")
  func okta() throws {
    try check(
      "okta",
      [
        (
          200, #"{"access_token":"a","refresh_token":"r","expires_in":3600,"token_type":"Bearer"}"#,
          "success a r 3600 expires_in"
        ),
        (
          400, #"{"error":"invalid_grant","error_description":"The refresh token is invalid or expired."}"#,
          "dead invalid_grant"
        ),
      ])
    #expect(Presets.named("okta")?.missingSettings == ["domain", "client_id"])
    #expect(try request("okta").url == "https://domain-1/oauth2/default/v1/token")
    #expect(try afterSilence("okta").graceUntil == after(29))
  }

  @Test("keycloak")
  func keycloak() throws {
    try check(
      "keycloak",
      [
        (
          200,
          #"{"access_token":"a","expires_in":300,"refresh_expires_in":1800,"refresh_token":"r","token_type":"Bearer"}"#,
          "success a r 300 expires_in"
        ),
        (400, #"{"error":"invalid_grant","error_description":"Session not active"}"#, "dead invalid_grant"),
        (500, #"{"error":"server_error"}"#, "unknown http_500"),
        (500, #"{"error":"unknown_error"}"#, "unknown http_500"),
        (401, #"{"error":"invalid_client"}"#, "config invalid_client"),
      ])
    #expect(try request("keycloak").url == "https://base.example.com/realms/realm-1/protocol/openid-connect/token")
    #expect(Presets.named("keycloak")?.missingSettings == ["base_url", "realm", "client_id"])
    #expect(try afterSilence("keycloak").standing == .fenced(reason: "timed_out", since: noon))
  }

  @Test("entra")
  func entra() throws {
    try check(
      "entra",
      [
        (
          200,
          #"{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"a","refresh_token":"r"}"#,
          "success a r 3599 expires_in"
        ),
        (400, #"{"error":"invalid_grant","error_codes":[70043],"suberror":"token_expired"}"#, "dead invalid_grant"),
        (400, #"{"error":"interaction_required"}"#, "dead interaction_required"),
        (401, #"{"error":"invalid_client","error_codes":[7000222]}"#, "config invalid_client"),
        (503, #"{"error":"temporarily_unavailable"}"#, "known temporarily_unavailable"),
      ])
    #expect(try request("entra").url == "https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token")
    let silent = try afterSilence("entra")
    #expect(silent.standing == .active && silent.refreshToken != nil)
  }

  @Test("cognito")
  func cognito() throws {
    let good =
      #"{"AuthenticationResult":{"AccessToken":"a","ExpiresIn":3600,"IdToken":"i","#
      + #""RefreshToken":"r","TokenType":"Bearer"},"ChallengeParameters":{}}"#
    try check(
      "cognito",
      [
        (200, good, "success a r 3600 expires_in"),
        (
          400, #"{"__type":"NotAuthorizedException","message":"Refresh Token has been revoked"}"#,
          "dead NotAuthorizedException"
        ),
        (400, #"{"__type":"com.amazonaws.x#RefreshTokenReuseException"}"#, "dead RefreshTokenReuseException"),
        (400, #"{"__type":"TooManyRequestsException"}"#, "known TooManyRequestsException"),
        (400, #"{"__type":"ResourceNotFoundException"}"#, "config ResourceNotFoundException"),
        (500, #"{"__type":"InternalErrorException"}"#, "unknown http_500"),
      ])
    let sent = try request("cognito")
    #expect(sent.url == "https://cognito-idp.region-1.amazonaws.com/")
    #expect(sent.body.reveal() == #"{"RefreshToken":"r/1","ClientId":"cid","ClientSecret":"csec"}"#)
    #expect(
      sent.headers.filter { $0.name == "Content-Type" }.map { $0.value.reveal() } == ["application/x-amz-json-1.1"])
    #expect(Presets.named("cognito")?.missingSettings == ["region", "client_id"])
  }

  @Test("google")
  func google() throws {
    try check(
      "google",
      [
        (
          200, #"{"access_token":"a","expires_in":3599,"scope":"s","token_type":"Bearer"}"#,
          "success a - 3599 expires_in"
        ),
        (
          400, #"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#,
          "dead invalid_grant"
        ),
        (400, #"{"error":"invalid_grant","error_subtype":"invalid_rapt"}"#, "dead invalid_grant"),
        (500, #"{"error":"internal_failure"}"#, "known internal_failure"),
        (401, #"{"error":"invalid_client"}"#, "config invalid_client"),
      ])
    #expect(
      try request("google").body.reveal()
        == "grant_type=refresh_token&refresh_token=r%2F1&client_id=cid&client_secret=csec")
    #expect(Presets.named("google")?.missingSettings == ["client_id", "client_secret"])
    let silent = try afterSilence("google")
    #expect(silent.standing == .active && silent.refreshToken != nil && silent.spent.isEmpty)
  }

  @Test("firebase")
  func firebase() throws {
    let good =
      #"{"expires_in":"3600","token_type":"Bearer","refresh_token":"r","id_token":"i","#
      + #""user_id":"u","project_id":"1","access_token":"x"}"#
    func error(_ message: String) -> String {
      #"{"error":{"code":400,"message":"\#(message)","status":"INVALID_ARGUMENT"}}"#
    }
    try check(
      "firebase",
      [
        (200, good, "success i r 3600 expires_in"), (400, error("TOKEN_EXPIRED"), "dead TOKEN_EXPIRED"),
        (400, error("USER_DISABLED"), "dead USER_DISABLED"), (400, error("USER_NOT_FOUND"), "dead USER_NOT_FOUND"),
        (400, error("INVALID_REFRESH_TOKEN : malformed"), "dead INVALID_REFRESH_TOKEN"),
        (400, error("PROJECT_NUMBER_MISMATCH"), "config PROJECT_NUMBER_MISMATCH"),
        (400, error("API key not valid. Please pass a valid API key."), "config http_400"),
      ])
    let sent = try request("firebase")
    #expect(sent.url == "https://securetoken.googleapis.com/v1/token?key=api_key-1")
    #expect("\(sent)" == "POST https://securetoken.googleapis.com/v1/token")
    #expect(Presets.named("firebase")?.missingSettings == ["api_key"])
  }

  @Test("github")
  func github() throws {
    let good =
      #"{"access_token":"ghu_a","expires_in":28800,"refresh_token":"ghr_r","#
      + #""refresh_token_expires_in":15897600,"scope":"","token_type":"bearer"}"#
    try check(
      "github",
      [
        (200, good, "success ghu_a ghr_r 28800 expires_in"),
        (200, #"{"error":"bad_refresh_token","error_description":"x"}"#, "dead bad_refresh_token"),
        (200, #"{"error":"incorrect_client_credentials"}"#, "config incorrect_client_credentials"),
        (200, "access_token=ghu_a&expires_in=28800", "unknown reply_undecodable"),
      ])
    let sent = try request("github")
    #expect(sent.headers.contains { $0.name == "Accept" && $0.value == Secret("application/json") })
    #expect(sent.body.reveal().hasSuffix("&client_id=cid&client_secret=csec"))
    #expect(Presets.named("github")?.missingSettings == ["client_id"])
    #expect(try afterSilence("github").refreshToken == nil)
  }

  @Test("spotify")
  func spotify() throws {
    try check(
      "spotify",
      [
        (
          200, #"{"access_token":"a","token_type":"Bearer","expires_in":3600,"scope":"s"}"#,
          "success a - 3600 expires_in"
        ),
        (400, #"{"error":"invalid_grant","error_description":"Refresh token revoked"}"#, "dead invalid_grant"),
      ])
    #expect(try request("spotify").body.reveal() == "grant_type=refresh_token&refresh_token=r%2F1&client_id=cid")
    #expect(try afterSilence("spotify").refreshToken == nil)
  }

  @Test("strava")
  func strava() throws {
    func bad(_ resource: String) -> String {
      #"{"message":"Bad Request","errors":[{"resource":"\#(resource)","field":"x","code":"invalid"}]}"#
    }
    try check(
      "strava",
      [
        (
          200,
          #"{"token_type":"Bearer","access_token":"a","expires_at":1738069200,"expires_in":21600,"refresh_token":"r"}"#,
          "success a r 3600 expires_at"
        ),
        (400, bad("RefreshToken"), "dead RefreshToken+invalid"),
        (400, bad("Application"), "config Application+invalid"),
        (400, bad("Other"), "config http_400"),
      ])
    #expect(Presets.named("strava")?.missingSettings == ["client_id", "client_secret"])
  }

  @Test("every preset is named once, says what it is, and makes a request when what it requires is given")
  func all() throws {
    let names = Presets.all.map(\.name)
    let expected: Set = [
      "mobile-core-kit", "remote-auth-service", "veloready", "network-service", "oauth2", "supabase", "auth0",
      "github",
      "google", "firebase", "keycloak", "okta", "entra", "cognito", "spotify", "strava",
    ]
    #expect(Set(names) == expected && names.count == expected.count)
    #expect(Presets.named("nobody") == nil)
    for preset in Presets.all {
      #expect(!preset.summary.isEmpty)
      #expect(try request(preset.name).method == "POST")
      // A code in two lists would have two outcomes.
      let codes = preset.deadCodes + preset.configCodes + preset.knownCodes
      #expect(Set(codes).count == codes.count)
      #expect(Set(preset.deadStatuses).isDisjoint(with: preset.knownStatuses))
      // What is required can be given.
      let keys = preset.parameterNames + ["endpoint", "client_id", "client_secret"]
      #expect(preset.required.allSatisfy { keys.contains($0) })
      #expect(Set(preset.missingSettings) == Set(preset.required))
      #expect(preset.onUnknown != .replayInGrace || preset.grace != .none)
    }
  }
}
