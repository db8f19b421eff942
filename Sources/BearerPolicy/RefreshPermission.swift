public import Chronology

/// Whether a session may present its refresh token now.
public enum RefreshPermission: Equatable, Sendable {
  case allowed
  case backingOff(until: WallTime, reason: String)
  case dead(reason: String)
  /// The refresh token may have been used up; the access token serves on until its expiry.
  case fenced(reason: String)
  /// The provider refused these very settings before.
  case misconfigured(code: String)
  /// The session was added without one.
  case noRefreshToken
}

extension SessionRecord {
  /// A refresh by command overrides a configuration fault, for somebody may have mended the other side. It does
  /// not override a back-off: the authorization server asked for it.
  ///
  /// `settings` is the digest of `Provider.feedSettings`.
  public func refreshPermission(
    provider: Provider, now: WallTime, trigger: RefreshTrigger, settings: String
  ) -> RefreshPermission {
    switch standing {
    case .dead(let reason, _): return .dead(reason: reason)
    case .fenced(let reason, _): return .fenced(reason: reason)
    case .active: break
    }
    guard refreshToken != nil else { return .noRefreshToken }
    if let graceUntil, now >= graceUntil { return .fenced(reason: Self.graceOver) }
    if let fault = configurationFault, fault.settings == settings, trigger != .command {
      return .misconfigured(code: fault.code)
    }
    if let backoff, backoff.holds(at: now) { return .backingOff(until: backoff.until, reason: backoff.reason) }
    return .allowed
  }

  static let graceOver = "grace_over"
}
