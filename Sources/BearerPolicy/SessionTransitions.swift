public import Chronology

/// What becomes of a session, outcome by outcome (SPEC §3). Each is a new value; the store makes it durable.
extension SessionRecord {
  /// The reason of a session that ended because nobody knows what became of its refresh token.
  public static let outcomeUnknown = "outcome_unknown"
  /// The reason of an outcome whose holder died between its intent and its result.
  public static let holderDied = "holder_died"

  /// The record after an outcome. `fingerprint` is that of the refresh token presented, `settings` the digest of
  /// `Provider.feedSettings`, `jitter` at least 0 and below 1.
  public func applying(
    _ outcome: RefreshOutcome, provider: Provider, fingerprint: Fingerprint, now: WallTime, jitter: Double,
    settings: String
  ) -> SessionRecord {
    var next = self
    next.intent = nil
    switch outcome {
    case .success(let tokens):
      next.succeed(with: tokens, fingerprint: fingerprint)
    case .dead(let code):
      next.spend(fingerprint)
      next.die(reason: code, now: now)
    case .configurationFault(let code):
      next.backoff = nil
      next.configurationFault = ConfigurationFault(code: code, since: now, settings: settings)
    case .notSent(let reason):
      next.backOff(reason: reason, retryAfter: nil, now: now, jitter: jitter)
    case .knownNotSucceeded(let reason, let retryAfter):
      next.backOff(reason: reason, retryAfter: retryAfter, now: now, jitter: jitter)
    case .unknown(let reason):
      next.doubt(
        reason: reason, provider: provider, fingerprint: fingerprint, presentedAt: intent?.startedAt ?? now,
        now: now, jitter: jitter)
    }
    return next
  }

  /// An intent whose lock is free is an unknown outcome: its holder died. Unchanged where there is no intent.
  public func classifyingAbandonedIntent(
    provider: Provider, now: WallTime, jitter: Double, settings: String
  ) -> SessionRecord {
    guard let intent else { return self }
    guard standing == .active else {
      var next = self
      next.intent = nil
      return next
    }
    return applying(
      .unknown(reason: Self.holderDied), provider: provider, fingerprint: intent.fingerprint, now: now,
      jitter: jitter, settings: settings)
  }

  /// What time alone does: a grace that is over fences the session, and one fenced past its access token's expiry
  /// is dead.
  public func settled(at now: WallTime) -> SessionRecord {
    var next = self
    if standing == .active, let graceUntil, now >= graceUntil {
      next.fence(reason: Self.graceOver, now: now)
    }
    if case .fenced = next.standing, next.accessToken == nil || now >= next.expiresAt {
      next.die(reason: Self.outcomeUnknown, now: now)
    }
    return next
  }

  /// The upstream rejected the access token of `generation`: a fenced session has nothing left and is dead.
  /// Unchanged in every other case, and for a generation that is not the current one (I5).
  public func afterRejection(generation rejected: UInt64, now: WallTime) -> SessionRecord {
    guard rejected == generation, case .fenced = standing else { return self }
    var next = self
    next.die(reason: Self.outcomeUnknown, now: now)
    return next
  }

  private mutating func succeed(with tokens: NewTokens, fingerprint: Fingerprint) {
    // A file edited by hand may hold any generation: saturate, do not trap.
    generation = generation == .max ? .max : generation + 1
    accessToken = tokens.accessToken
    if let replacement = tokens.refreshToken, replacement != refreshToken {
      refreshToken = replacement
      spend(fingerprint)
    } else {
      // The server took it again and left it in force.
      spent.removeAll { $0 == fingerprint }
    }
    obtainedAt = tokens.obtainedAt
    expiresAt = tokens.expiresAt
    expirySource = tokens.expirySource
    isImported = false
    standing = .active
    backoff = nil
    configurationFault = nil
    graceUsed = false
    graceUntil = nil
    unknownCause = nil
  }

  /// An unknown outcome. What the provider declares decides whether the refresh token may be presented again.
  private mutating func doubt(
    reason: String, provider: Provider, fingerprint: Fingerprint, presentedAt: WallTime, now: WallTime,
    jitter: Double
  ) {
    configurationFault = nil
    unknownCause = reason
    if provider.rotation == .never {
      backOff(reason: reason, retryAfter: nil, now: now, jitter: jitter)
      return
    }
    spend(fingerprint)
    switch provider.onUnknown {
    case .quarantine: fence(reason: reason, now: now)
    case .clear: die(reason: Self.outcomeUnknown, now: now)
    case .replayInGrace:
      switch provider.grace {
      case .none: fence(reason: reason, now: now)
      case .unlimited: backOff(reason: reason, retryAfter: nil, now: now, jitter: jitter)
      case .seconds(let seconds):
        let grace = Interval.seconds(Int64(seconds))
        let until = presentedAt + (grace - min(Self.graceMargin, grace / 4))
        // The second presentation is the last one; so is one whose grace has run out meanwhile.
        if graceUsed || graceUntil != nil || now >= until {
          graceUsed = graceUsed || graceUntil != nil
          fence(reason: reason, now: now)
        } else {
          backoff = nil
          graceUntil = until
        }
      }
    }
    self = settled(at: now)
  }

  /// The refresh token is never sent again.
  private mutating func fence(reason: String, now: WallTime) {
    standing = .fenced(reason: reason, since: now)
    refreshToken = nil
    backoff = nil
    configurationFault = nil
    graceUntil = nil
  }

  private mutating func die(reason: String, now: WallTime) {
    standing = .dead(reason: reason, since: now)
    accessToken = nil
    refreshToken = nil
    backoff = nil
    configurationFault = nil
    graceUntil = nil
    intent = nil
  }

  /// b + U(0, b), b = 1 s · 2ⁿ up to 5 min, and never before `Retry-After`.
  private mutating func backOff(reason: String, retryAfter: Interval?, now: WallTime, jitter: Double) {
    let before = backoff?.failures ?? 0
    let base = min(Interval.seconds(Int64(1) << Int64(min(before, 20))), Self.backoffBaseMax)
    let asked = min(retryAfter ?? .zero, Self.retryAfterMax)
    let wait = max(base + base.scaled(by: min(max(jitter, 0), 1)), asked)
    backoff = Backoff(failures: before == .max ? .max : before + 1, since: now, until: now + wait, reason: reason)
    configurationFault = nil
  }

  private mutating func spend(_ fingerprint: Fingerprint) {
    if !spent.contains(fingerprint) { spent.append(fingerprint) }
    if spent.count > Self.spentMax { spent.removeFirst(spent.count - Self.spentMax) }
  }

  /// What the second presentation may take on its way: the server judges its grace when the request arrives.
  public static let graceMargin = Interval.seconds(1)

  /// A `Retry-After` that asks for more is taken to ask for this: a wrong date must not silence a session for years,
  /// and one question a day is a burden for nobody.
  public static let retryAfterMax = Interval.seconds(86_400)

  /// The last doubling: with its jitter a wait is at most twice as long.
  public static let backoffBaseMax = Interval.seconds(300)
}

extension Interval {
  func scaled(by factor: Double) -> Interval {
    .fractionalSeconds(inSeconds * factor)
  }
}
