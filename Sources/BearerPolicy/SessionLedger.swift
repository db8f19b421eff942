public import Chronology

/// What one process knows of one session: its record, whether a refresh is under way, who waits for it, and which
/// tokens upstreams have refused. Decides what each request gets (SPEC §3, I5) and when a flight takes off.
///
/// Pure: the caller reads files, runs the flight and calls back. Waiters are numbers of the caller's choice.
public struct SessionLedger: Sendable {
  public let name: String
  public private(set) var record: SessionRecord?
  /// Why there is no record.
  public private(set) var trouble: StoreTrouble?
  public private(set) var provider: Provider
  /// The digest of `Provider.feedSettings`.
  public private(set) var settings = ""
  /// One flight per session and process; the store's lock does the same between processes.
  public private(set) var isRefreshing = false
  /// The result of the last refresh is in memory only (I7).
  public private(set) var isDegraded = false
  /// The generation that a 401 was for, as long as nothing newer is here.
  public private(set) var rejected: UInt64?
  /// The newest generation that some upstream has accepted.
  private var accepted: UInt64 = 0
  private var coolDownUntil = Instant(nanoseconds: 0)
  private var routeCoolDowns: [Int: Instant] = [:]
  /// A failed flight keeps the next one ahead of time away until then, for the record may hold no back-off: the disk
  /// was full, the settings make no request.
  private var aheadNotBefore: WallTime?
  private var waiters: [Waiter] = []

  /// When the present generation came, on both clocks.
  public struct Arrival: Equatable, Sendable {
    var generation: UInt64
    /// Of the token: a session that was removed and added again has the same generations.
    var obtainedAt: WallTime
    var wall: WallTime
    var at: Instant
  }

  /// Outlives the ledger of a session that nobody uses, so that its next one is not deceived by a clock set back.
  public private(set) var arrival: Arrival?

  private struct Waiter {
    let id: UInt64
    let rejected: UInt64?
  }

  public init(name: String, arrival: Arrival? = nil) {
    self.name = name
    self.arrival = arrival
    provider = Provider(name: "")
  }

  public var waiterCount: Int { waiters.count }

  /// Whether the store has been asked for it: there is a record, or the reason why there is none.
  public var isKnown: Bool { record != nil || trouble != nil }

  /// A refresh is under way, or its result is still to be written: the process should not end now.
  public var isBusy: Bool { isRefreshing || isDegraded }

  /// Whether all that it knows is in the session's file, so that it can be let go and made again from there: nothing
  /// is under way, no token is in memory only (I7), no rejection waits for its refresh, no cool-down lasts.
  public func canBeLetGo(at instant: Instant) -> Bool {
    !isBusy && waiters.isEmpty && rejected == nil && instant >= coolDownUntil
      && routeCoolDowns.values.allSatisfy { instant >= $0 }
  }

  // MARK: knowledge

  /// The session as the store has it now.
  public mutating func adopt(_ record: SessionRecord, provider: Provider, settings: String) {
    if self.record?.generation != record.generation {
      rejected = nil
      aheadNotBefore = nil
    }
    self.record = record
    trouble = nil
    self.provider = provider
    self.settings = settings
  }

  /// To be told after each new record; of one generation the first time counts.
  public mutating func noteArrival(wall: WallTime, at instant: Instant) {
    guard let record, !hasArrived(record) else { return }
    arrival = Arrival(
      generation: record.generation, obtainedAt: record.obtainedAt, wall: wall, at: instant)
  }

  /// Whether this very token has come before, and so was durable before (I7).
  public func hasArrived(_ record: SessionRecord) -> Bool {
    arrival.map { $0.generation == record.generation && $0.obtainedAt == record.obtainedAt } ?? false
  }

  /// The wall clock, but never earlier than when the present generation came and the time that has passed since: a
  /// wall clock that is set back must not keep an expired token in use. Its next token is stamped by the clock as set.
  public func time(wall: WallTime, at instant: Instant) -> WallTime {
    guard let arrival, arrival.generation == record?.generation else { return wall }
    return max(wall, arrival.wall + instant.since(arrival.at))
  }

  /// The store has no readable session of this name.
  public mutating func lose(_ trouble: StoreTrouble) {
    record = nil
    self.trouble = trouble
  }

  public func readiness(now: WallTime) -> BearerReadiness {
    guard let record else { return .unusable }
    return BearerState.judge(
      record, provider: provider, settings: settings, now: now, rejectedGeneration: rejected)
  }

  /// The generation whose token may be attached now without a question.
  public func servingGeneration(now: WallTime) -> UInt64? {
    guard let record, record.accessToken != nil, rejected != record.generation, readiness(now: now) == .ready else {
      return nil
    }
    return record.generation
  }

  // MARK: questions

  public enum Answer: Equatable, Sendable {
    /// Attach this generation.
    case ready(generation: UInt64)
    /// A cool-down: nothing newer, and none is asked for; the 401 passes through.
    case unchanged(generation: UInt64)
    /// No token. `nil`: the record itself says why.
    case refused(FlightFailure?)
    case tooManyWaiters
    /// An answer follows from `landed`. With a trigger, a flight must take off now.
    case parked(takeOff: RefreshTrigger?)
  }

  /// A request asks for a token.
  ///
  /// - Parameters:
  ///   - waiter: the caller's number for it, given back by `landed`.
  ///   - rejected: the generation that was answered 401; nil before the first attempt.
  ///   - route: where that was, for the cool-down.
  public mutating func ask(
    _ waiter: UInt64, rejected: UInt64?, route: Int, waitersMax: Int, now: WallTime, at instant: Instant
  ) -> Answer {
    guard let record else { return .refused(trouble.map(FlightFailure.init)) }
    if let rejected {
      // I5: only a 401 for the current generation may refresh.
      guard rejected == record.generation else { return answerNow(now) }
      if isCoolingDown(route, at: instant) { return .unchanged(generation: rejected) }
      self.rejected = rejected
    }
    switch readiness(now: now) {
    case .ready, .unusable: return answerNow(now)
    case .refreshFirst:
      guard waiters.count < waitersMax else { return .tooManyWaiters }
      waiters.append(Waiter(id: waiter, rejected: rejected))
      return .parked(takeOff: isRefreshing ? nil : rejected == nil ? .preflight : .unauthorized)
    }
  }

  /// Nobody waits for this answer any more: it has no place among the waiters, and `landed` does not name it. The flight
  /// goes on, for a presentation that is cut off is an outcome nobody knows.
  public mutating func withdraw(_ waiter: UInt64) { waiters.removeAll { $0.id == waiter } }

  private func answerNow(_ now: WallTime) -> Answer {
    servingGeneration(now: now).map { .ready(generation: $0) } ?? .refused(nil)
  }

  /// Whether a refresh ahead of time is due: another process may have been quicker.
  public func isDueAhead(now: WallTime) -> Bool {
    guard let record, !isRefreshing, let ahead = aheadAt(now: now, jitter: 1) else { return false }
    return record.accessToken != nil && now >= ahead
  }

  /// When a refresh ahead of time may be tried: not before a back-off is over, nor within `aheadRetry` of a flight
  /// that failed; nil where none may be.
  public func aheadAt(now: WallTime, jitter: Double) -> WallTime? {
    guard let record, let due = RefreshTiming(record: record, provider: provider).aheadAt(jitter: jitter) else {
      return nil
    }
    let ahead = aheadNotBefore.map { max(due, $0) } ?? due
    switch record.refreshPermission(provider: provider, now: now, trigger: .ahead, settings: settings) {
    case .allowed: return ahead
    case .backingOff(let until, _): return max(ahead, until)
    case .dead, .fenced, .misconfigured, .noRefreshToken: return nil
    }
  }

  /// Nobody waits for a refresh ahead of time, so a failure that the record does not remember is not tried at once.
  public static let aheadRetry = Interval.seconds(10)

  // MARK: flights

  /// nil where one is under way, or there is nothing to refresh.
  public mutating func takeOff(_ trigger: RefreshTrigger) -> RefreshFlight? {
    guard !isRefreshing, let record else { return nil }
    isRefreshing = true
    return RefreshFlight(
      provider: provider, trigger: trigger, seenGeneration: record.generation, seenObtainedAt: record.obtainedAt,
      settings: settings)
  }

  public struct Wakeup: Equatable, Sendable {
    public var waiter: UInt64
    /// `ready` or `refused`.
    public var answer: Answer
  }

  /// The flight has ended: all who waited share one result. A request fails only when no unexpired, unrejected access
  /// token is left.
  public mutating func landed(_ result: FlightResult, now: WallTime) -> [Wakeup] {
    isRefreshing = false
    var failure: FlightFailure?
    switch result {
    case .refreshed(let record, let isDurable):
      adopt(record, provider: provider, settings: settings)
      isDegraded = !isDurable
    case .alreadyNewer(let record):
      adopt(record, provider: provider, settings: settings)
      isDegraded = false
    case .failed(let record, let cause):
      // A record was read under the lock, so an earlier flight that kept it has saved its result. Without one that
      // flight may still be trying: what is in memory stays the session's newest state (I7).
      if let record {
        adopt(record, provider: provider, settings: settings)
        isDegraded = false
      }
      aheadNotBefore = now + Self.aheadRetry
      failure = cause
      _ = endIfFenced(now: now)
    }
    let woken = waiters
    waiters = []
    let serving = servingGeneration(now: now)
    return woken.map { waiter in
      if let serving, waiter.rejected != serving { return Wakeup(waiter: waiter.id, answer: .ready(generation: serving)) }
      return Wakeup(waiter: waiter.id, answer: .refused(failure))
    }
  }

  /// The result that was in memory only has reached the disk (I7).
  public mutating func becomeDurable() { isDegraded = false }

  /// A fenced session whose token was rejected has nothing left and is dead at once: the new record, to be stored.
  public mutating func endIfFenced(now: WallTime) -> SessionRecord? {
    guard let record, let rejected else { return nil }
    let ended = record.afterRejection(generation: rejected, now: now)
    guard ended != record else { return nil }
    self.record = ended
    return ended
  }

  // MARK: what upstreams say of tokens

  /// An upstream has answered other than 401 to this generation.
  public mutating func accept(generation: UInt64) {
    accepted = max(accepted, generation)
    coolDownUntil = Instant(nanoseconds: 0)
  }

  /// A replay with `generation` was answered 401 too. No storm of refreshes (SPEC §3): a cool-down for the whole
  /// session if nobody has accepted that generation, else for this route.
  public mutating func rejectAfterReplay(generation: UInt64, route: Int, coolDown: Interval, at instant: Instant) {
    if accepted >= generation {
      routeCoolDowns[route] = instant + coolDown
    } else {
      coolDownUntil = instant + coolDown
    }
  }

  private func isCoolingDown(_ route: Int, at instant: Instant) -> Bool {
    if instant < coolDownUntil { return true }
    guard let until = routeCoolDowns[route] else { return false }
    return instant < until
  }
}
