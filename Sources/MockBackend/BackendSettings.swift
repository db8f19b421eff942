/// How strict the identity provider is and what its tokens look like.
public struct BackendSettings: Equatable, Sendable {
  public enum AccessTokenShape: Equatable, Sendable, CaseIterable {
    case opaque
    /// Three base64url parts with `sub`, `iat`, `exp` and `jti`; the signature is a dummy. `exp` has
    /// decimals where the instant is not a whole second (RFC 7519 §2 NumericDate).
    case jwt
  }

  /// How the lifetime is told beside the tokens, where the endpoint's shape tells it at all.
  public enum LifetimeField: Equatable, Sendable, CaseIterable {
    /// Seconds as a JSON number, with decimals where they are needed.
    case number
    /// The same in a string (Firebase).
    case string
    /// `expires_at`, seconds since 1970, instead.
    case absolute
    case absent
  }

  /// What the API does with `Expect: 100-continue` (RFC 9110 §10.1.1).
  public enum ExpectationPolicy: Equatable, Sendable, CaseIterable {
    case honoured
    /// No 100 and no early answer: the client has to give up waiting by itself.
    case ignored
    /// Answered 417 at the head.
    case refused
  }

  public var accessTokenShape = AccessTokenShape.opaque
  /// Three seconds by default, so that tests and the demonstration see expiry. At the very instant it ends the
  /// token is no longer accepted.
  public var accessTokenLifetimeMilliseconds: Int64 = 3000
  /// nil: a refresh token does not expire by itself.
  public var refreshTokenLifetimeMilliseconds: Int64?
  public var lifetimeField = LifetimeField.number
  /// A successful refresh spends the refresh token and issues another. When false the token stays good and the
  /// answer carries none.
  public var rotates = true
  /// For how long a spent token's first successor may be asked for again; zero is strict: any reuse revokes.
  public var reuseGraceMilliseconds: Int64 = 0
  /// A successful refresh makes the family's earlier access tokens invalid at once (as GitHub does).
  public var refreshRevokesOldAccessTokens = false
  /// A request without a valid token is answered at its head, its body unread. With an honoured
  /// `Expect: 100-continue` that happens in any case.
  public var rejectsBeforeBody = false
  public var expectation = ExpectationPolicy.honoured
  /// The OAuth client that token endpoints insist on; nil: none.
  public var oauthClient: OAuthClient?

  public init() {}

  public struct OAuthClient: Equatable, Sendable {
    public var id: String
    public var secret: String
    public var placement: Placement
    public enum Placement: Equatable, Sendable, CaseIterable { case basic, body }
    public init(id: String, secret: String, placement: Placement) {
      self.id = id
      self.secret = secret
      self.placement = placement
    }
  }
}
