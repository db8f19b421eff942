import Chronology

/// Backends with a refresh call of their own kind. Each preset does exactly what its source document describes.
extension Presets {
  static let backends: [Provider] = [mobileCoreKit, remoteAuthService, veloready, networkService]

  /// Seeds 000 and 001. The backend rotates on 200 only and answers reuse by revoking the session, so every other
  /// complete answer is known not to have rotated, and an answer that never came ends the session at once.
  private static let mobileCoreKit = preset("mobile-core-kit", "Nest backend with strict reuse detection") {
    // Neither document gives the path or the field names: overridable, like everything.
    $0.required = ["endpoint"]
    $0.encoding = .json
    $0.tokenField = "refreshToken"
    $0.response.bearer = "accessToken"
    $0.response.refresh = "refreshToken"
    $0.response.expiresIn = "expiresIn"
    $0.response.expiresAt = nil
    $0.response.tokenType = nil
    $0.expirySources = [.expiresIn]
    $0.codePaths = ["code"]
    $0.deadCodes = [
      "AUTH_REFRESH_TOKEN_INVALID", "AUTH_REFRESH_TOKEN_EXPIRED", "AUTH_REFRESH_TOKEN_REUSED",
      "AUTH_SESSION_REVOKED",
    ]
    $0.configCodes = []
    $0.knownCodes = []
    $0.everyOtherStatusIsKnown = true
    $0.rotation = .always
    $0.onUnknown = .clear
    $0.leeway = .seconds(60)
    // "Background refresh scheduling outside request flow" is a stated non-goal.
    $0.refreshAhead = nil
  }

  /// Seed 002. The answer has no expiry member: the JWT tells it, else 15 minutes.
  private static let remoteAuthService = preset("remote-auth-service", "Backend with {data:{accessToken}} replies") {
    $0.endpoint = "{base_url}/api/v1/auth/refresh"
    $0.parameterNames = ["base_url"]
    $0.required = ["base_url"]
    $0.encoding = .json
    $0.response.bearer = "data.accessToken"
    $0.response.refresh = "data.refreshToken"
    $0.response.expiresIn = nil
    $0.response.expiresAt = nil
    $0.response.tokenType = nil
    $0.expirySources = [.jwt]
    // "Refresh token revoked" comes as text without a code, so the statuses decide.
    $0.codePaths = []
    $0.deadCodes = []
    $0.configCodes = []
    $0.knownCodes = []
    $0.deadStatuses = [401, 403]
    $0.rotation = .always
    $0.leeway = .seconds(300)
  }

  /// Seed 003. A session is never given up for a failure that does not say the token is invalid: it is kept and
  /// tried again on the next call, after the back-off.
  private static let veloready = preset("veloready", "VeloReady (Supabase behind a function)") {
    $0.endpoint = "https://api.veloready.app/.netlify/functions/auth-refresh-token"
    $0.validateURL = "https://api.veloready.app/.netlify/functions/api-validate-session"
    $0.encoding = .json
    $0.response.expiresAt = nil
    $0.response.tokenType = nil
    $0.expirySources = [.expiresIn]
    // The document names no codes; these are those of the Supabase server behind it (unverified that they pass).
    $0.codePaths = ["error_code", "code", "error"]
    $0.deadCodes = supabaseDeadCodes + ["invalid_grant", "invalid_refresh_token"]
    $0.configCodes = []
    $0.knownCodes = []
    $0.everyOtherStatusIsKnown = true
    $0.rotation = .always
    // That server answers the parent of the active token with the active one.
    $0.grace = .unlimited
    $0.onUnknown = .replayInGrace
    $0.refreshAhead = .seconds(600)
    $0.timeout = .seconds(10)
  }

  /// Seed 004. Both tokens are required; the expiry is that of the JWT, and there is neither leeway nor a refresh
  /// ahead of time.
  private static let networkService = preset("network-service", "Backend with api/authenticate") {
    $0.endpoint = "{base_url}/api/authenticate"
    $0.parameterNames = ["base_url"]
    $0.required = ["base_url"]
    $0.tokenField = "refreshToken"
    $0.response.bearer = "token"
    $0.response.refresh = "refreshToken"
    $0.response.expiresIn = nil
    $0.response.expiresAt = nil
    $0.response.tokenType = nil
    $0.expirySources = [.jwt]
    // No codes are described: 401 is invalid or expired, 403 is revoked.
    $0.codePaths = []
    $0.deadCodes = []
    $0.configCodes = []
    $0.knownCodes = []
    $0.deadStatuses = [401, 403]
    $0.rotation = .always
    $0.leeway = .zero
    $0.refreshAhead = nil
  }

  static let supabaseDeadCodes = [
    "refresh_token_not_found", "refresh_token_already_used", "session_not_found", "session_expired", "user_banned",
  ]
}
