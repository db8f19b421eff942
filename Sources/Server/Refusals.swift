import BearerPolicy
import Chronology
import ProxyCore

/// Why a session gives no token, in words a user can act on.
enum Refusals {
  static func missing(_ name: String) -> BearerRefusal {
    BearerRefusal(code: .sessionMissing, detail: "There is no session named '\(name)'.")
  }

  static func tooManyWaiters(_ name: String) -> BearerRefusal {
    BearerRefusal(
      code: .overloaded, detail: "Too many requests wait for the refresh of session '\(name)'.",
      retryAfterSeconds: 1)
  }

  static func unreadable(_ name: String, _ trouble: StoreTrouble?) -> BearerRefusal {
    guard let trouble, trouble.kind != .missing else { return missing(name) }
    return BearerRefusal(code: .refreshUnavailable, detail: "Session '\(name)' cannot be read: \(trouble.detail).")
  }

  /// - Parameter failure: what the flight said; nil where none was tried.
  static func make(_ ledger: SessionLedger, _ failure: FlightFailure?, now: WallTime) -> BearerRefusal {
    let name = ledger.name
    let record = ledger.record
    if let reason = record?.endReason { return dead(name, reason) }
    if let failure { return explain(name, failure, record, now) }
    guard let record else { return unreadable(name, ledger.trouble) }
    let permission = record.refreshPermission(
      provider: ledger.provider, now: now, trigger: .preflight, settings: ledger.settings)
    guard let failure = Self.failure(permission) else {
      return BearerRefusal(
        code: .refreshUnavailable, detail: "The access token of session '\(name)' was rejected.",
        retryAfterSeconds: 1)
    }
    return explain(name, failure, record, now)
  }

  private static func failure(_ permission: RefreshPermission) -> FlightFailure? {
    switch permission {
    case .allowed: nil
    case .backingOff(let until, let reason): .backingOff(until: until, reason: reason)
    case .dead(let reason): .dead(reason: reason)
    case .fenced(let reason): .fenced(reason: reason)
    case .misconfigured(let code): .misconfigured(code: code)
    case .noRefreshToken: .noRefreshToken
    }
  }

  /// For the log: no request is refused for it.
  static func fenced(_ name: String, _ reason: String) -> String {
    "Session '\(name)' is not refreshed again, because nobody knows whether its refresh token was used up (\(reason)); "
      + "its access token serves until it expires. Sign in again before that."
  }

  private static func dead(_ name: String, _ reason: String) -> BearerRefusal {
    BearerRefusal(code: .sessionExpired, detail: "Session '\(name)' is over (\(reason)).")
  }

  private static func explain(_ name: String, _ failure: FlightFailure, _ record: SessionRecord?, _ now: WallTime)
    -> BearerRefusal
  {
    switch failure {
    case .dead(let reason): return dead(name, reason)
    case .fenced(let reason), .outcomeUnknown(let reason):
      return dead(name, "\(SessionRecord.outcomeUnknown), \(reason)")
    case .noRefreshToken:
      return BearerRefusal(
        code: .sessionExpired,
        detail: "The access token of session '\(name)' has expired and the session has no refresh token.")
    case .missing: return missing(name)
    case .misconfigured(let code):
      return BearerRefusal(
        code: .refreshMisconfigured, detail: "The provider refused to refresh session '\(name)' (\(code)).")
    case .noEndpoint(let missing):
      return BearerRefusal(
        code: .refreshMisconfigured,
        detail: "Session '\(name)' cannot be refreshed: its provider's settings lack \(missing).")
    case .storeUnwritable(let detail):
      return BearerRefusal(
        code: .storeUnwritable, detail: "Session '\(name)' was not refreshed: \(detail).", retryAfterSeconds: 1)
    case .lockHeld:
      return BearerRefusal(
        code: .refreshUnavailable,
        detail: "Another process has been refreshing session '\(name)' for longer than a refresh may take.",
        retryAfterSeconds: 1)
    case .storeUnreadable(let detail):
      return BearerRefusal(code: .refreshUnavailable, detail: "Session '\(name)' cannot be read: \(detail).")
    case .backingOff(let until, let reason): return unavailable(name, reason, until: until, now)
    case .notSent(let reason), .knownFailure(let reason, _):
      return unavailable(name, reason, until: record?.backoff?.until, now)
    }
  }

  private static func unavailable(_ name: String, _ reason: String, until: WallTime?, _ now: WallTime) -> BearerRefusal {
    let wait = until.map { max($0.since(now).secondsRoundedUp, 1) }
    return BearerRefusal(
      code: .refreshUnavailable, detail: "Session '\(name)' could not be refreshed now (\(reason)).",
      retryAfterSeconds: wait ?? 1)
  }

  /// For metrics and logs: the row of SPEC §3's table.
  static func label(_ failure: FlightFailure) -> String {
    switch failure {
    case .dead: "dead"
    case .fenced: "fenced"
    case .backingOff: "backing_off"
    case .misconfigured, .noEndpoint: "configuration_fault"
    case .notSent: "not_sent"
    case .knownFailure: "known_not_succeeded"
    case .outcomeUnknown: "unknown"
    case .storeUnwritable: "store_unwritable"
    case .storeUnreadable: "store_unreadable"
    case .lockHeld: "lock_held"
    case .missing: "missing"
    case .noRefreshToken: "no_refresh_token"
    }
  }
}
