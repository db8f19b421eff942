import BearerPolicy
import Chronology
import SessionStore

/// A session for scripts: everything but the tokens.
struct SessionJSON: Encodable {
  var name: String
  var provider: Nullable<String>
  var state: SessionReport.State
  var reason: Nullable<String>
  /// Why the outcome of its last refresh is unknown.
  var unknownCause: Nullable<String>
  /// What is wrong with the file of an unreadable one.
  var problem: Nullable<String>
  var generation: Nullable<UInt64>
  var hasAccessToken: Bool
  var hasRefreshToken: Bool
  var obtainedAt: Nullable<String>
  var expiresAt: Nullable<String>
  var expirySource: Nullable<String>
  var isImported: Bool
  var since: Nullable<String>
  var backoffUntil: Nullable<String>
  var failures: UInt32
  var refreshStartedAt: Nullable<String>
  var graceUntil: Nullable<String>
  var spentCount: Int

  enum CodingKeys: String, CodingKey {
    case name, provider, state, reason, problem, generation, since, failures
    case hasAccessToken = "has_access_token"
    case hasRefreshToken = "has_refresh_token"
    case obtainedAt = "obtained_at"
    case expiresAt = "expires_at"
    case expirySource = "expiry_source"
    case isImported = "imported"
    case backoffUntil = "backoff_until"
    case refreshStartedAt = "refresh_started_at"
    case graceUntil = "grace_until"
    case unknownCause = "unknown_cause"
    case spentCount = "spent_refresh_tokens"
  }

  init(_ report: SessionReport) {
    let record = report.record
    name = record.name
    provider = Nullable(record.provider)
    state = report.state
    reason = Nullable(report.reason)
    unknownCause = Nullable(record.unknownCause.map { printable($0) })
    problem = Nullable(nil)
    generation = Nullable(record.generation)
    hasAccessToken = record.accessToken != nil
    hasRefreshToken = record.refreshToken != nil
    obtainedAt = Nullable(record.obtainedAt.rfc3339)
    expiresAt = Nullable(record.accessToken == nil ? nil : record.expiresAt.rfc3339)
    expirySource = Nullable(record.accessToken == nil ? nil : record.expirySource.rawValue)
    isImported = record.isImported
    switch record.standing {
    case .active: since = Nullable(record.configurationFault?.since.rfc3339)
    case .fenced(_, let moment), .dead(_, let moment): since = Nullable(moment.rfc3339)
    }
    backoffUntil = Nullable(record.backoff?.until.rfc3339)
    failures = record.backoff?.failures ?? 0
    refreshStartedAt = Nullable(record.intent?.startedAt.rfc3339)
    graceUntil = Nullable(record.graceUntil?.rfc3339)
    spentCount = record.spent.count
  }

  /// One whose file cannot be read.
  init(unreadable name: String, _ fault: StoreFault) {
    self.name = name
    provider = Nullable(nil)
    state = .unreadable
    reason = Nullable(fault.trouble.kind.rawValue)
    unknownCause = Nullable(nil)
    problem = Nullable(fault.detail)
    generation = Nullable(nil)
    hasAccessToken = false
    hasRefreshToken = false
    obtainedAt = Nullable(nil)
    expiresAt = Nullable(nil)
    expirySource = Nullable(nil)
    isImported = false
    since = Nullable(nil)
    backoffUntil = Nullable(nil)
    failures = 0
    refreshStartedAt = Nullable(nil)
    graceUntil = Nullable(nil)
    spentCount = 0
  }
}
