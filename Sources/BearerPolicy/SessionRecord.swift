public import Chronology

/// One stored login, as its file holds it: what must survive a restart, and nothing else (SPEC §5).
///
/// A value; every change is a new value that the store makes durable before anybody acts on it.
public struct SessionRecord: Equatable, Sendable {
  /// What the user calls it; at most 200 bytes of UTF-8, percent-encoded in the file's name.
  public var name: String
  /// The provider's name: an entry of the configuration, else a preset.
  public var provider: String
  /// Counts every new access token, from 1.
  public var generation: UInt64
  /// Present while it may serve: erased when the session is dead.
  public var accessToken: Secret?
  /// Present while it may still be presented: erased when it is fenced or the session is dead.
  public var refreshToken: Secret?
  /// When the access token was received, or imported.
  public var obtainedAt: WallTime
  /// The earliest of the sources present (SPEC §3), already corrected by the server's clock.
  public var expiresAt: WallTime
  public var expirySource: ExpirySource
  /// The token was given by a person: its lifetime is unknown, so leeway is not capped by it.
  public var isImported: Bool
  public var standing: Standing
  /// Present while a failure that proves nothing against the session keeps it from refreshing.
  public var backoff: Backoff?
  /// Refreshing has stopped until the configuration changes or `session refresh` says so.
  public var configurationFault: ConfigurationFault?
  /// A refresh token is about to be presented, or has been: while this stands and nobody holds the lock, the
  /// outcome is unknown.
  public var intent: Intent?
  /// SHA-256 (lower-case hexadecimal) of the refresh tokens whose presentation succeeded, may have succeeded, or
  /// ended the session, newest last; at most `spentMax`. A token that a success left in force is not among them.
  public var spent: [Fingerprint]
  /// Whether the one extra presentation inside a declared grace has been used for the present refresh token.
  public var graceUsed: Bool
  /// Present after an outcome that is unknown while a declared grace is open: the refresh token may be presented
  /// once more before this moment, and never from then on.
  public var graceUntil: WallTime?
  /// Why the outcome of the last presentation is unknown (`timed_out`, `http_502`, `holder_died`): the tombstone of a
  /// session that ended of it still tells. A success erases it.
  public var unknownCause: String?

  /// Older fingerprints fall out: a token that many generations old is refused by any server that rotates.
  public static let spentMax = 64

  public init(
    name: String, provider: String, generation: UInt64 = 1, accessToken: Secret?, refreshToken: Secret?,
    obtainedAt: WallTime, expiresAt: WallTime, expirySource: ExpirySource, isImported: Bool,
    standing: Standing = .active, backoff: Backoff? = nil, configurationFault: ConfigurationFault? = nil,
    intent: Intent? = nil, spent: [Fingerprint] = [], graceUsed: Bool = false,
    graceUntil: WallTime? = nil, unknownCause: String? = nil
  ) {
    self.name = name
    self.provider = provider
    self.generation = generation
    self.accessToken = accessToken
    self.refreshToken = refreshToken
    self.obtainedAt = obtainedAt
    self.expiresAt = expiresAt
    self.expirySource = expirySource
    self.isImported = isImported
    self.standing = standing
    self.backoff = backoff
    self.configurationFault = configurationFault
    self.intent = intent
    self.spent = spent
    self.graceUsed = graceUsed
    self.graceUntil = graceUntil
    self.unknownCause = unknownCause
  }

  /// What is told of a session that is over or fenced: the code, and the cause behind an unknown outcome.
  public var endReason: String? {
    switch standing {
    case .active: nil
    case .fenced(let reason, _): "\(Self.outcomeUnknown), \(reason)"
    case .dead(let reason, _):
      if reason == Self.outcomeUnknown, let unknownCause { "\(reason), \(unknownCause)" } else { reason }
    }
  }
}

extension SessionRecord {
  /// Whether the session can serve, and if not, why.
  public enum Standing: Equatable, Sendable {
    case active
    /// The refresh token may have been used and is never presented again; the access token serves until its expiry.
    case fenced(reason: String, since: WallTime)
    /// Over: only a new login helps. `reason` is a code (`AUTH_REFRESH_TOKEN_REUSED`, `outcome_unknown`).
    case dead(reason: String, since: WallTime)
  }

  public struct Backoff: Equatable, Sendable {
    /// Failures in a row, from 1.
    public var failures: UInt32
    /// When the failure was, on the clock that `until` is on.
    public var since: WallTime
    public var until: WallTime
    /// One line for people; no secret, no body.
    public var reason: String
    public init(failures: UInt32, since: WallTime, until: WallTime, reason: String) {
      self.failures = failures
      self.since = since
      self.until = until
      self.reason = reason
    }

    /// Whether one more presentation has to wait. A clock that shows a time before `since` has been set back and
    /// says nothing about how long ago the failure was: then the wait is taken to be over, at the price of one early
    /// presentation, instead of lasting for as long as the clock was off.
    public func holds(at now: WallTime) -> Bool { since <= now && now < until }
  }

  public struct ConfigurationFault: Equatable, Sendable {
    /// The provider's code (`invalid_client`), or `http_404`.
    public var code: String
    public var since: WallTime
    /// Fingerprint of the provider's settings that were refused: other settings end the fault.
    public var settings: String
    public init(code: String, since: WallTime, settings: String) {
      self.code = code
      self.since = since
      self.settings = settings
    }
  }

  public struct Intent: Equatable, Sendable {
    public var fingerprint: Fingerprint
    public var startedAt: WallTime
    public var trigger: RefreshTrigger
    public init(fingerprint: Fingerprint, startedAt: WallTime, trigger: RefreshTrigger) {
      self.fingerprint = fingerprint
      self.startedAt = startedAt
      self.trigger = trigger
    }
  }
}

/// SHA-256 of a refresh token, 64 lower-case hexadecimal digits. Made above the import line.
public struct Fingerprint: Hashable, Sendable {
  public var hexadecimal: String
  public init(hexadecimal: String) { self.hexadecimal = hexadecimal }
}

/// Which of SPEC §3's sources gave the expiry.
public enum ExpirySource: String, Sendable, CaseIterable {
  case expiresAt = "expires_at"
  case expiresIn = "expires_in"
  case jwt
  case fallback
}

/// What asked for a refresh (SPEC §3).
public enum RefreshTrigger: String, Sendable, CaseIterable {
  case preflight
  case ahead
  case unauthorized = "401"
  case command
}
