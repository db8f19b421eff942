public import Chronology

/// How one token endpoint is spoken to and understood: data, so that a new provider needs no code (SPEC §3).
///
/// A preset fills it; the configuration may override each field. Header and field values may be secret.
public struct Provider: Equatable, Sendable {
  public var name: String
  /// Absolute `http` or `https` URL of the token endpoint; nil until the configuration gives it. `{name}` stands
  /// for the parameter of that name.
  public var endpoint: String?
  /// Names that may stand in braces in `endpoint` and in the values of `headers` (`domain`, `tenant`, `api_key`).
  /// Each is a setting of the same name.
  public var parameterNames: [String] = []
  /// The values given so far, by name.
  public var parameters: [String: Secret] = [:]
  public var method: Method = .post
  public var encoding: Encoding = .form
  /// The name under which the refresh token is sent.
  public var tokenField: String = "refresh_token"
  /// Further fields of the request, in order (`grant_type`, `scope`).
  public var staticFields: [Field] = []
  /// Further header fields of the request.
  public var headers: [Field] = []
  public var clientAuthentication: ClientAuthentication = .none
  public var oauthClientID: String?
  public var oauthClientSecret: Secret?
  /// The names under which the client's identifier and secret are sent in the body.
  public var clientIDField: String = "client_id"
  public var clientSecretField: String = "client_secret"
  public var response = ResponsePaths()
  public var expirySources: [ExpirySource] = [.expiresAt, .expiresIn, .jwt]
  /// Lifetime assumed where no source is present.
  public var fallbackLifetime: Interval = .seconds(900)
  /// Where an error's code stands in a JSON body, dotted (`error`, `error.message`, `errors.0.code`). Of the codes
  /// that are present, the first that one of the lists below names decides. `a+b` joins two members with a plus
  /// sign, for providers whose code means something only beside another member.
  public var codePaths: [String] = ["error"]
  public var deadCodes: [String] = ["invalid_grant"]
  public var deadStatuses: [Int] = []
  public var configCodes: [String] = [
    "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_request",
  ]
  public var knownCodes: [String] = ["temporarily_unavailable", "server_error", "slow_down"]
  public var knownStatuses: [Int] = [429]
  /// Every complete answer other than 200 that is not dead leaves the session as it was (seeds 000 and 003).
  public var everyOtherStatusIsKnown = false
  public var rotation: Rotation = .sometimes
  public var grace: Grace = .none
  public var onUnknown: OnUnknown = .quarantine
  public var leeway: Interval = .seconds(60)
  /// nil: no refresh ahead of time.
  public var refreshAhead: Interval? = .seconds(300)
  /// From connecting to the last byte of the answer.
  public var timeout: Interval = .seconds(10)
  /// Ceiling of refreshes in one second, for all sessions together; those beyond wait their turn.
  public var refreshesPerSecond = 100
  /// `session add --verify` sends the access token here; nil where the provider has none.
  public var validateURL: String?
  /// One line for people.
  public var summary: String = ""
  /// Settings that the configuration must give, by their key (`endpoint`, `client_id`): a clear error for each one
  /// that is missing.
  public var required: [String] = []

  public init(name: String) { self.name = name }

  public enum Method: String, Sendable, CaseIterable { case post = "POST", get = "GET", put = "PUT" }
  public enum Encoding: String, Sendable, CaseIterable { case form, json, query }
  /// `mtls` presents the certificate of the endpoint's TLS settings and sends the client id in the body.
  public enum ClientAuthentication: String, Sendable, CaseIterable { case none, basic, body, mtls }
  public enum Rotation: String, Sendable, CaseIterable { case always, sometimes, never }
  public enum OnUnknown: String, Sendable, CaseIterable {
    case quarantine, clear
    case replayInGrace = "replay-in-grace"
  }
  public enum Grace: Equatable, Sendable {
    case none
    case seconds(Int)
    case unlimited
  }

  public struct Field: Equatable, Sendable {
    public var name: String
    public var value: Secret
    public init(name: String, value: Secret) {
      self.name = name
      self.value = value
    }
  }

  /// Where the answer's members stand, dotted (`data.accessToken`); nil: not given by this provider.
  public struct ResponsePaths: Equatable, Sendable {
    /// The token that is sent to the API (`id_token` for Firebase).
    public var bearer: String = "access_token"
    public var refresh: String? = "refresh_token"
    public var expiresIn: String? = "expires_in"
    public var expiresAt: String? = "expires_at"
    public var tokenType: String? = "token_type"
    public init() {}
  }
}
