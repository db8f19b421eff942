import Chronology

/// Identity providers whose endpoint depends on a domain, a tenant or a realm.
extension Presets {
  static let identityProviders: [Provider] = [supabase, auth0, okta, keycloak, entra, cognito]

  private static let supabase = preset("supabase", "Supabase Auth (GoTrue)") {
    $0.endpoint = "{base_url}/auth/v1/token?grant_type=refresh_token"
    $0.parameterNames = ["base_url", "api_key"]
    $0.required = ["base_url", "api_key"]
    $0.encoding = .json
    // The project's publishable key; that hosted projects ask for it is unverified.
    $0.headers = [Provider.Field(name: "apikey", value: Secret("{api_key}"))]
    // `code` is a number in answers of the older interface version, `error_code` never is.
    $0.codePaths = ["error_code", "code", "error"]
    $0.deadCodes = supabaseDeadCodes + ["invalid_grant"]
    // A malformed token, or another project's.
    $0.configCodes += ["validation_failed", "no_authorization"]
    $0.knownCodes = ["over_request_rate_limit"]
    // 409 is "Too many concurrent token refresh requests".
    $0.knownStatuses = [429, 409]
    $0.rotation = .always
    // The parent of the active token is always answered with the active one.
    $0.grace = .unlimited
    $0.onUnknown = .replayInGrace
  }

  private static let auth0 = preset("auth0", "Auth0") {
    // Path and field names unverified.
    $0.endpoint = "https://{domain}/oauth/token"
    $0.parameterNames = ["domain"]
    $0.required = ["domain", "client_id"]
    $0.staticFields = [refreshGrant]
    // 403 with invalid_grant is how a refresh token ends: the code comes before the status.
    $0.rotation = .sometimes
    // The rotation overlap period is a tenant's setting, its default unverified: with its seconds as `grace` and
    // `on_unknown = "replay-in-grace"`, one replay is allowed. Until then unknown outcomes fail closed.
  }

  private static let okta = preset("okta", "Okta") {
    // Path unverified.
    $0.endpoint = "https://{domain}/oauth2/{authorization_server}/v1/token"
    $0.parameterNames = ["domain", "authorization_server"]
    $0.parameters = ["authorization_server": Secret("default")]
    $0.required = ["domain", "client_id"]
    $0.staticFields = [refreshGrant]
    // The default of an authorization server; reuse after it revokes the newest tokens.
    $0.grace = .seconds(30)
    $0.onUnknown = .replayInGrace
  }

  private static let keycloak = preset("keycloak", "Keycloak") {
    // Path unverified.
    $0.endpoint = "{base_url}/realms/{realm}/protocol/openid-connect/token"
    $0.parameterNames = ["base_url", "realm"]
    $0.required = ["base_url", "realm", "client_id"]
    $0.staticFields = [refreshGrant]
    // A failing server may have used up the reuse budget in a transaction that it rolled back: none of its own
    // errors proves that nothing happened.
    $0.knownCodes = ["slow_down"]
    // A new token comes each time; whether the old one stays good is the realm's setting: fail closed.
    $0.rotation = .sometimes
  }

  private static let entra = preset("entra", "Microsoft Entra ID") {
    $0.endpoint = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token"
    $0.parameterNames = ["tenant"]
    $0.required = ["tenant", "client_id"]
    $0.staticFields = [refreshGrant]
    // interaction_required wants a person (unverified).
    $0.deadCodes = ["invalid_grant", "interaction_required"]
    // Old refresh tokens are not revoked when they are used.
    $0.grace = .unlimited
    $0.onUnknown = .replayInGrace
  }

  private static let cognito = preset("cognito", "Amazon Cognito (GetTokensFromRefreshToken)") {
    // Endpoint, header fields and member names unverified.
    $0.endpoint = "https://cognito-idp.{region}.amazonaws.com/"
    $0.parameterNames = ["region"]
    $0.required = ["region", "client_id"]
    $0.encoding = .json
    $0.headers = [
      Provider.Field(name: "Content-Type", value: Secret("application/x-amz-json-1.1")),
      Provider.Field(
        name: "X-Amz-Target", value: Secret("AWSCognitoIdentityProviderService.GetTokensFromRefreshToken")),
    ]
    $0.tokenField = "RefreshToken"
    $0.clientAuthentication = .body
    $0.clientIDField = "ClientId"
    $0.clientSecretField = "ClientSecret"
    $0.response.bearer = "AuthenticationResult.AccessToken"
    $0.response.refresh = "AuthenticationResult.RefreshToken"
    $0.response.expiresIn = "AuthenticationResult.ExpiresIn"
    $0.response.expiresAt = nil
    $0.response.tokenType = "AuthenticationResult.TokenType"
    $0.codePaths = ["__type", "code"]
    $0.deadCodes = ["NotAuthorizedException", "RefreshTokenReuseException", "UserNotFoundException"]
    $0.configCodes = [
      "InvalidParameterException", "ResourceNotFoundException", "UnrecognizedClientException",
      "UnsupportedOperationException",
    ]
    // Both come as 400.
    $0.knownCodes = ["TooManyRequestsException", "ThrottlingException"]
    // With rotation on, RetryGracePeriodSeconds (0 to 60) of the user pool is the `grace` to give, with
    // `on_unknown = "replay-in-grace"`. Until then unknown outcomes fail closed.
  }
}
