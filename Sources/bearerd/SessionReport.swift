import BearerPolicy
import Chronology
import SessionStore

/// Whether the holder of an intent is still at it.
enum IntentHolder: Equatable {
  /// There is no intent.
  case none
  case alive
  /// Its lock is free: the outcome is unknown.
  case gone
  /// The lock could not be asked for.
  case unknown
}

/// A session in words and columns. Shows no token (I10).
struct SessionReport {
  let record: SessionRecord
  /// nil where neither the configuration nor a preset has that name.
  let provider: Provider?
  let intent: IntentHolder
  let now: WallTime

  /// - Parameter record: as the file has it; what time alone does to it is applied here.
  init(_ record: SessionRecord, provider: Provider?, intent: IntentHolder, now: WallTime) {
    self.record = record.settled(at: now)
    self.provider = provider
    self.intent = intent
    self.now = now
  }

  /// SPEC §5's states, and what can keep an active session from serving or refreshing.
  enum State: String, Encodable, CaseIterable {
    case active, refreshing, interrupted, backoff, misconfigured, fenced, expired, dead, unreadable
  }

  var state: State {
    switch record.standing {
    case .dead: return .dead
    case .fenced: return .fenced
    case .active: break
    }
    switch intent {
    case .alive: return .refreshing
    case .gone: return .interrupted
    case .none, .unknown: break
    }
    if record.configurationFault != nil { return .misconfigured }
    if let backoff = record.backoff, backoff.holds(at: now) { return .backoff }
    if record.refreshToken == nil, record.accessToken == nil || now >= record.expiresAt { return .expired }
    return .active
  }

  /// A stable word of the state's cause; nil where there is none.
  var reason: String? {
    switch record.standing {
    case .dead(let reason, _), .fenced(let reason, _): return printable(reason)
    case .active: break
    }
    switch state {
    case .misconfigured: return record.configurationFault.map { printable($0.code) }
    case .backoff: return record.backoff.map { printable($0.reason) }
    case .expired: return "no_refresh_token"
    case .interrupted: return SessionRecord.holderDied
    case .active, .refreshing, .fenced, .dead, .unreadable: return nil
    }
  }

  /// The last four lines of `session add`.
  var abstract: String {
    field("provider", printable(record.provider)) + field("generation", "\(record.generation)")
      + field("access token", accessToken) + field("refreshing", refreshing)
  }

  var accessToken: String {
    guard record.accessToken != nil else {
      switch record.standing {
      case .dead: return "erased"
      case .active, .fenced: return "none yet: the first request refreshes"
      }
    }
    let verb = now < record.expiresAt ? "expires" : "expired"
    return "\(verb) \(record.expiresAt.described(at: now)), \(source)"
  }

  private var source: String {
    switch record.expirySource {
    case .expiresAt: "by expires_at"
    case .expiresIn: "by expires_in"
    case .jwt: "by its JWT exp claim"
    case .fallback: "assumed, because nothing says when"
    }
  }

  var refreshing: String {
    switch record.standing {
    case .dead, .fenced: return "no"
    case .active: break
    }
    guard record.refreshToken != nil else { return "no, there is no refresh token" }
    guard let provider else {
      return "no, provider “\(printable(record.provider))” is neither in the configuration nor a preset"
    }
    let missing = provider.missingSettings
    guard missing.isEmpty else {
      return "not until the configuration gives " + missing.map { "`\($0)`" }.joined(separator: ", ")
    }
    let timing = RefreshTiming(record: record, provider: provider)
    if record.accessToken == nil || now >= timing.staleAt { return "with the next request" }
    guard let ahead = timing.aheadAt(jitter: 0.5) else {
      return "by a request from \(timing.staleAt.described(at: now))"
    }
    return now < ahead
      ? "ahead of time, about \(ahead.described(at: now))" : "at any time now, if the session is used"
  }

  /// What the state means.
  var explanation: String {
    switch state {
    case .active where record.accessToken != nil && now < record.expiresAt: return "its access token serves"
    case .active where record.graceUntil != nil:
      return "the outcome of a refresh is unknown, and the provider's grace lets it be tried once more"
    case .active: return "it has no access token that serves; the next request refreshes first"
    case .refreshing: return "a refresh has been under way since \(intentStart)"
    case .interrupted:
      return
        "a refresh was under way since \(intentStart) by a process that is gone: its outcome is unknown, and it "
        + "will be classified at the next use"
    case .backoff:
      let until = record.backoff.map { $0.until.described(at: now) } ?? ""
      let count = record.backoff?.failures ?? 1
      return
        "\(count == 1 ? "a refresh" : "\(count) refreshes in a row") failed in a way that may pass; the next one "
        + "is tried after \(until)"
    case .misconfigured:
      return "the provider refused bearerd's settings or request, not the session; refreshing has stopped"
    case .fenced:
      return
        "nobody knows whether its refresh token was used up, so it is never sent again; the access token serves "
        + "until it expires"
    case .expired: return "its access token has expired and it has no refresh token"
    case .dead: return explanationOfDeath
    case .unreadable: return "its file cannot be read"
    }
  }

  private var explanationOfDeath: String {
    guard reason == SessionRecord.outcomeUnknown else { return "the provider says that it is over" }
    let cause = record.unknownCause.map { " (\(printable($0)))" } ?? ""
    return "nobody knows whether its refresh token was used up\(cause), and its access token serves no longer"
  }

  private var intentStart: String { record.intent.map { $0.startedAt.described(at: now) } ?? "a moment ago" }

  /// What a person can do; nil where nothing is needed.
  var remedy: String? {
    let add = "sign in again: bearerd session add \(argument) --provider \(Self.quoted(record.provider))"
    switch state {
    case .active, .refreshing, .backoff: return nil
    case .interrupted: return "nothing, or classify it now: bearerd session refresh \(argument)"
    case .misconfigured:
      return "mend `[provider.\(printable(record.provider))]`, then: bearerd session refresh \(argument)"
    case .fenced: return "before it expires, \(add)"
    case .expired, .dead: return add
    case .unreadable: return "repair the file, or remove it: bearerd session remove \(argument)"
    }
  }

  private var argument: String { Self.quoted(record.name) }

  /// As one word of a shell.
  static func quoted(_ text: String) -> String {
    let isPlain =
      !text.isEmpty
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "-_.@%+=:,/".utf8.contains(byte)
        }
      }
    return isPlain ? text : "'\(printable(text).replacing("'", with: "'\\''"))'"
  }

  func field(_ label: String, _ value: String) -> String {
    "  \(label)\(String(repeating: " ", count: max(1, 14 - label.count)))\(value)\n"
  }
}

extension FileSessionStore {
  /// The session, and whether a refresh is under way. Looks at the lock only where there is an intent: taking it,
  /// if only for a moment, keeps a refresh waiting.
  func look(_ name: String) throws(StoreFault) -> (record: SessionRecord, intent: IntentHolder) {
    let record = try load(name)
    guard record.intent != nil else { return (record, .none) }
    let lock: SessionLock?
    do {
      lock = try tryLock(name)
    } catch {
      return (record, .unknown)
    }
    guard let lock else { return (record, .alive) }
    defer { lock.release() }
    // Its holder may have finished in between.
    let again = try load(name)
    return (again, again.intent == nil ? .none : .gone)
  }
}
