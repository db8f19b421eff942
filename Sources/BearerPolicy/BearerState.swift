public import Chronology

/// What a request finds before it is sent.
public enum BearerReadiness: Equatable, Sendable {
  /// The access token serves.
  case ready
  /// It is stale or absent and a refresh may be tried: wait for it.
  case refreshFirst
  /// No access token that serves, and no refresh that may be tried now.
  case unusable
}

/// The preflight decision (SPEC §3, trigger (a)).
public enum BearerState {
  /// `rejectedGeneration` is the newest generation that the upstream answered 401 and that no refresh has followed:
  /// its token does not count as one that serves. `settings` is the digest of `Provider.feedSettings`.
  ///
  /// A token inside its leeway still serves where a refresh may not be tried: nobody waits through a back-off.
  public static func judge(
    _ record: SessionRecord, provider: Provider, settings: String, now: WallTime,
    rejectedGeneration: UInt64? = nil
  ) -> BearerReadiness {
    if case .dead = record.standing { return .unusable }
    let isRejected = rejectedGeneration == record.generation
    let serves = record.accessToken != nil && !isRejected && now < record.expiresAt
    let timing = RefreshTiming(record: record, provider: provider)
    if serves, now < timing.staleAt { return .ready }
    let permission = record.refreshPermission(
      provider: provider, now: now, trigger: .preflight, settings: settings)
    switch permission {
    case .allowed: return .refreshFirst
    case .backingOff, .dead, .fenced, .misconfigured, .noRefreshToken: return serves ? .ready : .unusable
    }
  }
}

/// When one access token is due.
///
/// For tokens that bearerd obtained itself, the leeway is at most a quarter of the lifetime and the refresh ahead
/// of time at most a half, so that short tokens do not refresh in a loop. What an imported token had of life when
/// it came is unknown: no cap.
public struct RefreshTiming: Equatable, Sendable {
  /// From here on a request refreshes first.
  public let staleAt: WallTime
  private let expiresAt: WallTime
  private let ahead: Interval?

  public init(record: SessionRecord, provider: Provider) {
    let lifetime = max(record.expiresAt.since(record.obtainedAt), .zero)
    let leeway = max(provider.leeway, .zero)
    expiresAt = record.expiresAt
    staleAt = record.expiresAt + (.zero - (record.isImported ? leeway : min(leeway, lifetime / 4)))
    guard let refreshAhead = provider.refreshAhead, record.standing == .active, record.refreshToken != nil else {
      ahead = nil
      return
    }
    // The cap leaves room for the jitter, so that short tokens spread too and still keep to their half.
    ahead = max(record.isImported ? refreshAhead : min(refreshAhead, lifetime.scaled(by: 0.5 / 1.1)), .zero)
  }

  /// When the timer refreshes: `refresh_ahead` before expiry, ±10 %. `jitter` is at least 0 and below 1; nil where
  /// the provider has no refresh ahead of time or the session has nothing to refresh with.
  public func aheadAt(jitter: Double) -> WallTime? {
    guard let ahead else { return nil }
    let spread: Double = 0.9 + 0.2 * min(max(jitter, 0), 1)
    return expiresAt + ahead.scaled(by: -spread)
  }
}
