import Chronology

/// The identity provider's memory: families of tokens that descend from one login, and what became of each token.
///
///     refresh token:  active ──rotated──▶ spent ──presented again──▶ the whole family is revoked
///                                               └─in grace, successor still active─▶ another successor
struct TokenAuthority: Sendable {
  struct Issued: Equatable, Sendable {
    var user: String
    var accessToken: String
    var accessExpiresAt: WallTime
    /// The token to use from now on; the presented one where the provider does not rotate.
    var refreshToken: String
  }

  enum Verdict: Equatable, Sendable {
    case issued(Issued)
    case unknown
    case expired
    /// A spent token came back; `familyRevokedNow` is false where the family had been revoked already.
    case reused(familyRevokedNow: Bool)
    case revoked
  }

  private struct Family: Sendable {
    var user: String
    var isRevoked = false
    var activeRefreshToken: String
    var accessTokens: [String] = []
  }

  private struct RefreshToken: Sendable {
    enum State: Sendable {
      case active
      case spent(at: WallTime, successor: String)
    }
    var family: Int
    var issuedAt: WallTime
    var state = State.active
  }

  private struct AccessToken: Sendable {
    var family: Int
    var expiresAt: WallTime
    var isRevoked = false
  }

  private var families: [Family] = []
  private var refreshTokens: [String: RefreshToken] = [:]
  private var accessTokens: [String: AccessToken] = [:]
  private var random: SplitMix64

  init(seed: UInt64) { random = SplitMix64(seed: seed) }

  mutating func login(user: String, settings: BackendSettings, now: WallTime) -> Issued {
    let family = families.count
    let refreshToken = newRefreshToken(family: family, now: now)
    families.append(Family(user: user, activeRefreshToken: refreshToken))
    return issue(family: family, refreshToken: refreshToken, settings: settings, now: now)
  }

  /// What presenting that refresh token leads to, committed at once.
  mutating func present(_ presented: String, settings: BackendSettings, now: WallTime) -> Verdict {
    guard let record = refreshTokens[presented] else { return .unknown }
    if families[record.family].isRevoked {
      if case .spent = record.state { return .reused(familyRevokedNow: false) }
      return .revoked
    }
    switch record.state {
    case .active:
      if let lifetime = settings.refreshTokenLifetimeMilliseconds, now >= record.issuedAt + .milliseconds(lifetime) {
        return .expired
      }
      guard settings.rotates else {
        return .issued(issue(family: record.family, refreshToken: presented, settings: settings, now: now))
      }
      return .issued(rotate(presented, spentAt: now, settings: settings, now: now))
    case .spent(let at, let successor):
      let isInGrace = now < at + .milliseconds(settings.reuseGraceMilliseconds)
      guard isInGrace, families[record.family].activeRefreshToken == successor else {
        revoke(family: record.family)
        return .reused(familyRevokedNow: true)
      }
      refreshTokens[successor] = nil
      return .issued(rotate(presented, spentAt: at, settings: settings, now: now))
    }
  }

  /// Whether that token was rotated away by an earlier presentation.
  func isSpent(_ refreshToken: String) -> Bool {
    guard case .spent = refreshTokens[refreshToken]?.state else { return false }
    return true
  }

  /// The user of a token that is known, unrevoked and unexpired; `now` at the expiry itself is too late.
  func user(ofAccessToken token: String, now: WallTime) -> String? {
    guard let record = accessTokens[token], !record.isRevoked, now < record.expiresAt else { return nil }
    return families[record.family].user
  }

  /// The latest family of that user that is not revoked.
  func activeRefreshToken(of user: String) -> String? {
    families.last { $0.user == user && !$0.isRevoked }?.activeRefreshToken
  }

  /// nil: of every user.
  mutating func revokeAccessTokens(of user: String?) {
    for index in families.indices where user == nil || families[index].user == user {
      revokeAccessTokens(family: index)
    }
  }

  /// How many families were revoked now.
  mutating func revokeFamilies(of user: String) -> Int {
    let affected = families.indices.filter { families[$0].user == user && !families[$0].isRevoked }
    for index in affected { revoke(family: index) }
    return affected.count
  }

  private mutating func revoke(family: Int) {
    families[family].isRevoked = true
    revokeAccessTokens(family: family)
  }

  private mutating func revokeAccessTokens(family: Int) {
    for token in families[family].accessTokens { accessTokens[token]?.isRevoked = true }
  }

  private mutating func rotate(
    _ presented: String, spentAt: WallTime, settings: BackendSettings, now: WallTime
  ) -> Issued {
    guard let family = refreshTokens[presented]?.family else { preconditionFailure("only a known token rotates") }
    let successor = newRefreshToken(family: family, now: now)
    refreshTokens[presented]?.state = .spent(at: spentAt, successor: successor)
    families[family].activeRefreshToken = successor
    if settings.refreshRevokesOldAccessTokens { revokeAccessTokens(family: family) }
    return issue(family: family, refreshToken: successor, settings: settings, now: now)
  }

  private mutating func newRefreshToken(family: Int, now: WallTime) -> String {
    let token = "rt-\(family)-" + hexadecimal(random.next()) + hexadecimal(random.next())
    refreshTokens[token] = RefreshToken(family: family, issuedAt: now)
    return token
  }

  /// Expired tokens of the family are forgotten here, so that a long run does not grow by one token per refresh.
  private mutating func issue(
    family: Int, refreshToken: String, settings: BackendSettings, now: WallTime
  ) -> Issued {
    let expiresAt = now + .milliseconds(settings.accessTokenLifetimeMilliseconds)
    let token: String
    switch settings.accessTokenShape {
    case .opaque: token = "at-\(family)-" + hexadecimal(random.next()) + hexadecimal(random.next())
    case .jwt: token = newJWT(user: families[family].user, issuedAt: now, expiresAt: expiresAt)
    }
    let expired = families[family].accessTokens.filter { accessTokens[$0].map { $0.expiresAt <= now } ?? true }
    for old in expired { accessTokens[old] = nil }
    families[family].accessTokens.removeAll { accessTokens[$0] == nil }
    families[family].accessTokens.append(token)
    accessTokens[token] = AccessToken(family: family, expiresAt: expiresAt)
    return Issued(
      user: families[family].user, accessToken: token, accessExpiresAt: expiresAt, refreshToken: refreshToken)
  }

  /// RFC 7519 in the compact form of RFC 7515 §7.1. Nobody may take the signature for one.
  private mutating func newJWT(user: String, issuedAt: WallTime, expiresAt: WallTime) -> String {
    let header = JSONValue.object([("alg", .string("ES256")), ("typ", .string("JWT"))])
    let claims = JSONValue.object([
      ("sub", .string(user)), ("iat", .milliseconds(issuedAt.milliseconds)),
      ("exp", .milliseconds(expiresAt.milliseconds)), ("jti", .string(hexadecimal(random.next()))),
    ])
    return [Base64.url(header.bytes), Base64.url(claims.bytes), Base64.url(Array("not a signature".utf8))]
      .joined(separator: ".")
  }
}
