/// Providers with one endpoint for everybody.
extension Presets {
  static let clouds: [Provider] = [google, firebase]
  static let applications: [Provider] = [github, spotify, strava]

  private static let google = preset("google", "Google OAuth 2.0") {
    $0.endpoint = "https://oauth2.googleapis.com/token"
    $0.required = ["client_id", "client_secret"]
    $0.staticFields = [refreshGrant]
    $0.clientAuthentication = .body
    $0.knownCodes = ["internal_failure", "server_error", "temporarily_unavailable"]
    // That a refresh never brings a new refresh token is unverified; one that comes is stored all the same.
    $0.rotation = .never
  }

  private static let firebase = preset("firebase", "Firebase Authentication (securetoken)") {
    $0.endpoint = "https://securetoken.googleapis.com/v1/token?key={api_key}"
    $0.parameterNames = ["api_key"]
    $0.required = ["api_key"]
    $0.staticFields = [refreshGrant]
    // The identity token is the bearer; `expires_in` is a string.
    $0.response.bearer = "id_token"
    $0.response.expiresAt = nil
    $0.codePaths = ["error.message", "error"]
    $0.deadCodes = ["TOKEN_EXPIRED", "USER_DISABLED", "USER_NOT_FOUND", "INVALID_REFRESH_TOKEN"]
    $0.configCodes = ["INVALID_GRANT_TYPE", "MISSING_REFRESH_TOKEN", "PROJECT_NUMBER_MISMATCH"]
    $0.knownCodes = []
    // "Provided, or a new one": no reuse rule is documented, so unknown outcomes fail closed.
    $0.rotation = .sometimes
  }

  private static let github = preset("github", "GitHub App user tokens") {
    $0.endpoint = "https://github.com/login/oauth/access_token"
    // The secret is not sent where the device flow gave the tokens.
    $0.required = ["client_id"]
    $0.staticFields = [refreshGrant]
    $0.clientAuthentication = .body
    // The refusal may come with status 200 (unverified by GitHub's own words): the code decides.
    $0.deadCodes = ["bad_refresh_token", "invalid_grant"]
    $0.configCodes += ["incorrect_client_credentials"]
    // A refresh ends the old refresh token and the old access token at once.
    $0.rotation = .always
  }

  private static let spotify = preset("spotify", "Spotify") {
    $0.endpoint = "https://accounts.spotify.com/api/token"
    $0.required = ["client_id"]
    $0.staticFields = [refreshGrant]
    // Applications with a secret set `client_auth = "basic"`; PKCE clients name themselves in the body and may get
    // a new refresh token (unverified).
    $0.rotation = .sometimes
  }

  private static let strava = preset("strava", "Strava") {
    $0.endpoint = "https://www.strava.com/oauth/token"
    $0.required = ["client_id", "client_secret"]
    $0.staticFields = [refreshGrant]
    $0.clientAuthentication = .body
    // The code "invalid" means the session only beside the resource it speaks of (unverified).
    $0.codePaths = ["errors.0.resource+errors.0.code", "error"]
    $0.deadCodes = ["RefreshToken+invalid", "invalid_grant"]
    $0.configCodes += ["Application+invalid"]
    // Potentially changed at each refresh: what comes back is stored.
    $0.rotation = .sometimes
  }
}
