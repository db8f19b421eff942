public import Chronology

/// What everybody who waited for a flight is told.
public enum FlightResult: Equatable, Sendable {
  /// New tokens. Where they are not durable they serve all the same, the flight goes on trying to write them, and
  /// the session is reported degraded (I7).
  case refreshed(SessionRecord, isDurable: Bool)
  /// Somebody else had refreshed before the lock was ours: nothing was presented.
  case alreadyNewer(SessionRecord)
  /// The record as it now stands, where it could be read: its access token may still serve.
  case failed(SessionRecord?, FlightFailure)
}

public enum FlightFailure: Equatable, Sendable {
  case dead(reason: String)
  case fenced(reason: String)
  case backingOff(until: WallTime, reason: String)
  case misconfigured(code: String)
  case notSent(reason: String)
  case knownFailure(reason: String, retryAfter: Interval?)
  case outcomeUnknown(reason: String)
  /// The intent could not be made durable: nothing was presented.
  case storeUnwritable(detail: String)
  /// Another process has kept the session's lock for longer than a refresh may take: nothing was presented.
  case lockHeld
  case storeUnreadable(detail: String)
  /// No session of that name.
  case missing
  case noRefreshToken
  /// The provider's settings make no request; the text says what is missing.
  case noEndpoint(missing: String)

  public init(_ trouble: StoreTrouble) {
    switch trouble.kind {
    case .missing: self = .missing
    case .unreadable, .unparsable, .undecryptable, .insecure: self = .storeUnreadable(detail: trouble.detail)
    case .lockTimeout: self = .lockHeld
    case .unwritable, .full, .lockUnavailable, .alreadyExists:
      self = .storeUnwritable(detail: trouble.detail)
    }
  }

  /// nil where a refresh is allowed.
  init?(_ permission: RefreshPermission) {
    switch permission {
    case .allowed: return nil
    case .backingOff(let until, let reason): self = .backingOff(until: until, reason: reason)
    case .dead(let reason): self = .dead(reason: reason)
    case .fenced(let reason): self = .fenced(reason: reason)
    case .misconfigured(let code): self = .misconfigured(code: code)
    case .noRefreshToken: self = .noRefreshToken
    }
  }

  /// nil for a success.
  init?(_ outcome: RefreshOutcome) {
    switch outcome {
    case .success: return nil
    case .dead(let code): self = .dead(reason: code)
    case .configurationFault(let code): self = .misconfigured(code: code)
    case .notSent(let reason): self = .notSent(reason: reason)
    case .knownNotSucceeded(let reason, let after): self = .knownFailure(reason: reason, retryAfter: after)
    case .unknown(let reason): self = .outcomeUnknown(reason: reason)
    }
  }
}
