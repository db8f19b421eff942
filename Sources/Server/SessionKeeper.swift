public import BearerPolicy
public import Chronology
import Dispatch
public import Logging
public import ProxyCore
public import SessionStore
import Transport

/// Which session a request uses.
public enum SessionReference: Equatable, Sendable {
  case slot(Int)
  /// One that a client named; it has a slot once the store is known to hold it.
  case named(String)
}

/// A process's authority over its sessions: knows each one's record, decides who refreshes when, and runs one flight
/// per session at a time. The lock in the store does the same between processes.
///
/// Everything is touched on its own serial queue; nothing there waits for a disk or a network but a `stat` and, when a
/// file has changed, one small read.
public final class SessionKeeper: @unchecked Sendable {
  /// Presents a refresh token for a provider; the answer may come on any queue.
  public typealias Presenter =
    @Sendable (TokenRequest, Provider, @escaping @Sendable (TokenEndpointReply) -> Void) -> Void
  /// Gives a loop new knowledge of a slot; nil: it must ask.
  public typealias Publisher = @Sendable (_ slot: Int, BearerUpdate?) -> Void
  public typealias Answer = @Sendable (_ slot: Int?, BearerUpdate?, BearerAnswer) -> Void

  public let store: FileSessionStore
  private let queue = DispatchQueue(label: "bearerd.sessions", qos: .userInitiated)
  private let disk = DispatchQueue(label: "bearerd.store", qos: .userInitiated, attributes: .concurrent)
  private let logger: Logger
  private let present: Presenter
  private var publish: Publisher = { _, _ in }
  private var providers: [String: Provider]
  private var settings: SettingsOfRefresh
  private var entries: [Entry] = []
  private var slots: [String: Int] = [:]
  private var tallies = Tallies()
  private var grounded: [@Sendable () -> Void] = []

  public struct SettingsOfRefresh: Sendable {
    public var coolDown: Interval
    public var waitersMax: Int
    public init(coolDown: Interval, waitersMax: Int) {
      self.coolDown = coolDown
      self.waitersMax = waitersMax
    }
  }

  /// What has been counted since the start.
  public struct Tallies: Sendable {
    /// By trigger and outcome, as label values.
    public var refreshes: [String: UInt64] = [:]
    public var waitersRefused: UInt64 = 0
  }

  private struct Waiter {
    let rejected: UInt64?
    let answer: @Sendable (Int, BearerUpdate?, BearerAnswer) -> Void
  }

  private struct Entry {
    let name: String
    var record: SessionRecord?
    var trouble: StoreTrouble?
    var stamp: FileStamp?
    var provider = Provider(name: "")
    var settings = ""
    /// The generation that a 401 was for, as long as nothing newer is here.
    var rejected: UInt64?
    /// Some upstream has accepted this generation.
    var accepted: UInt64 = 0
    var isRefreshing = false
    var waiters: [Waiter] = []
    /// The result of the last refresh is in memory only (I7).
    var isDegraded = false
    var coolDownUntil = Instant(nanoseconds: 0)
    var routeCoolDowns: [Int: Instant] = [:]
  }

  public init(
    store: FileSessionStore, providers: [String: Provider], settings: SettingsOfRefresh, logger: Logger,
    present: @escaping Presenter
  ) {
    self.store = store
    self.providers = providers
    self.settings = settings
    self.logger = logger
    self.present = present
  }

  /// Who is told of new tokens. Call before the first request.
  public func setPublisher(_ publish: @escaping Publisher) {
    queue.async { [self] in self.publish = publish }
  }

  /// A new configuration: what it changes of a provider may end a configuration fault.
  public func reconfigure(providers: [String: Provider], settings: SettingsOfRefresh) {
    queue.async { [self] in
      self.providers = providers
      self.settings = settings
      for slot in entries.indices {
        entries[slot].stamp = nil
        publish(slot, nil)
      }
    }
  }

  /// A slot for a name that the configuration gives, whether or not the store holds it yet.
  public func slot(for name: String) -> Int { queue.sync { makeSlot(name) } }

  private func makeSlot(_ name: String) -> Int {
    if let slot = slots[name] { return slot }
    entries.append(Entry(name: name))
    slots[name] = entries.count - 1
    return entries.count - 1
  }

  // MARK: questions

  /// Asks for a token; `answer` is called once, on the keeper's queue.
  ///
  /// - Parameters:
  ///   - rejected: the generation that was answered 401.
  ///   - route: which upstream that was, for the cool-down.
  public func ask(_ session: SessionReference, rejected: UInt64?, route: Int, answer: @escaping Answer) {
    queue.async { [self] in
      switch session {
      case .slot(let slot): ask(slot, rejected: rejected, route: route) { answer($0, $1, $2) }
      case .named(let name):
        if slots[name] == nil, store.stamp(name) == nil {
          return answer(nil, nil, .unavailable(Refusals.missing(name)))
        }
        ask(makeSlot(name), rejected: rejected, route: route) { answer($0, $1, $2) }
      }
    }
  }

  private func ask(
    _ slot: Int, rejected: UInt64?, route: Int,
    answer: @escaping @Sendable (Int, BearerUpdate?, BearerAnswer) -> Void
  ) {
    look(slot)
    guard let record = entries[slot].record else {
      let trouble = entries[slot].trouble
      return answer(slot, nil, .unavailable(Refusals.unreadable(entries[slot].name, trouble)))
    }
    if let rejected {
      // I5: somebody has refreshed since, or the answer was for a token long replaced.
      if rejected != record.generation { return answerNow(slot, answer) }
      if isCoolingDown(slot, route) { return answer(slot, nil, .ready(generation: rejected)) }
      entries[slot].rejected = rejected
      publish(slot, nil)
      endIfFenced(slot)
    }
    switch readiness(slot) {
    case .ready, .unusable: answerNow(slot, answer)
    case .refreshFirst:
      guard entries[slot].waiters.count < settings.waitersMax else {
        tallies.waitersRefused += 1
        return answer(slot, nil, .unavailable(Refusals.tooManyWaiters(entries[slot].name)))
      }
      entries[slot].waiters.append(Waiter(rejected: rejected, answer: answer))
      takeOff(slot, trigger: rejected == nil ? .preflight : .unauthorized)
    }
  }

  /// Refreshes ahead of time; nobody waits.
  public func refreshAhead(_ slot: Int) {
    queue.async { [self] in
      look(slot)
      guard let record = entries[slot].record, !entries[slot].isRefreshing else { return }
      let timing = RefreshTiming(record: record, provider: entries[slot].provider)
      // Another process may have been quicker.
      guard let ahead = timing.aheadAt(jitter: 0.5), WallClock.now + .seconds(1) >= ahead else {
        return publish(slot, update(slot))
      }
      takeOff(slot, trigger: .ahead)
    }
  }

  /// `bearerd session refresh`: refreshes now whatever the expiry.
  public func refreshByCommand(_ name: String, answer: @escaping @Sendable (FlightResult) -> Void) {
    queue.async { [self] in
      let slot = makeSlot(name)
      look(slot)
      guard entries[slot].record != nil else {
        let trouble = entries[slot].trouble ?? StoreTrouble(kind: .missing, detail: "no session named “\(name)”")
        return answer(.failed(nil, trouble.kind == .missing ? .missing : .storeUnreadable(detail: trouble.detail)))
      }
      commandAnswers[slot, default: []].append(answer)
      takeOff(slot, trigger: .command)
    }
  }

  private var commandAnswers: [Int: [@Sendable (FlightResult) -> Void]] = [:]

  /// An upstream has answered other than 401 to this generation.
  public func accepted(_ slot: Int, generation: UInt64) {
    queue.async { [self] in
      entries[slot].accepted = max(entries[slot].accepted, generation)
      entries[slot].coolDownUntil = Instant(nanoseconds: 0)
    }
  }

  /// A replay with `generation` was answered 401 too: no storm of refreshes (SPEC §3).
  public func rejectedAfterReplay(_ slot: Int, generation: UInt64, route: Int) {
    queue.async { [self] in
      let until = BootClock.now + settings.coolDown
      if entries[slot].accepted >= generation {
        entries[slot].routeCoolDowns[route] = until
      } else {
        entries[slot].coolDownUntil = until
      }
      logger.warning(
        "a token was rejected right after its refresh; 401s pass through for a while",
        metadata: ["session": "\(entries[slot].name)", "generation": "\(generation)"])
    }
  }

  private func isCoolingDown(_ slot: Int, _ route: Int) -> Bool {
    let now = BootClock.now
    return now < entries[slot].coolDownUntil || now < entries[slot].routeCoolDowns[route] ?? Instant(nanoseconds: 0)
  }

  // MARK: knowledge

  /// Reads the session's file if it has changed: another process, a command or a person may have written it.
  private func look(_ slot: Int) {
    if entries[slot].isRefreshing || entries[slot].isDegraded { return }
    let stamp = store.stamp(entries[slot].name)
    if stamp != nil, stamp == entries[slot].stamp { return }
    do throws(StoreFault) {
      adopt(try store.load(entries[slot].name), slot)
    } catch {
      entries[slot].record = nil
      entries[slot].trouble = error.trouble
      publish(slot, nil)
    }
    entries[slot].stamp = stamp
  }

  private func adopt(_ record: SessionRecord, _ slot: Int) {
    let before = entries[slot].record?.generation
    entries[slot].record = record
    entries[slot].trouble = nil
    if let provider = providers[record.provider] {
      entries[slot].provider = provider
    } else {
      entries[slot].provider = Provider(name: record.provider)
      logger.error(
        "the session's provider is not configured: it cannot be refreshed",
        metadata: ["session": "\(record.name)", "provider": "\(record.provider)"])
    }
    entries[slot].settings = Self.digest(of: entries[slot].provider)
    if before != record.generation { entries[slot].rejected = nil }
    publish(slot, update(slot))
  }

  /// The digest that ties a configuration fault to the settings it was for.
  public static func digest(of provider: Provider) -> String {
    var all: [UInt8] = []
    provider.feedSettings { all.append(contentsOf: $0) }
    let digest = FileSessionStore.fingerprint(of: Secret(bytes: all)).hexadecimal
    for index in all.indices { all[index] = 0 }
    return digest
  }

  private func readiness(_ slot: Int) -> BearerReadiness {
    guard let record = entries[slot].record else { return .unusable }
    return BearerState.judge(
      record, provider: entries[slot].provider, settings: entries[slot].settings, now: WallClock.now,
      rejectedGeneration: entries[slot].rejected)
  }

  /// What loops may know: nil where the token does not serve now.
  private func update(_ slot: Int) -> BearerUpdate? {
    guard let record = entries[slot].record, let accessToken = record.accessToken,
      entries[slot].rejected != record.generation, readiness(slot) == .ready
    else { return nil }
    let timing = RefreshTiming(record: record, provider: entries[slot].provider)
    var line = Array("Authorization: Bearer ".utf8)
    accessToken.append(to: &line)
    line += [0x0d, 0x0a]
    // A token that serves inside its leeway, because no refresh may be tried now, is asked for again soon.
    let freshUntil = max(BootClock.instant(of: timing.staleAt), BootClock.now + .seconds(1))
    let ahead = timing.aheadAt(jitter: .random(in: 0..<1)).map { BootClock.instant(of: $0) } ?? .never
    return BearerUpdate(
      generation: record.generation, line: line,
      freshUntil: min(freshUntil, BootClock.instant(of: record.expiresAt)), aheadAt: ahead)
  }

  private func answerNow(_ slot: Int, _ answer: @Sendable (Int, BearerUpdate?, BearerAnswer) -> Void) {
    if let update = update(slot) {
      return answer(slot, update, .ready(generation: update.generation))
    }
    answer(slot, nil, .unavailable(refusal(slot, nil)))
  }

  private func refusal(_ slot: Int, _ failure: FlightFailure?) -> BearerRefusal {
    let entry = entries[slot]
    return Refusals.make(
      entry.name, entry.record, failure, provider: entry.provider, settings: entry.settings, now: WallClock.now)
  }

  // MARK: flights

  private func takeOff(_ slot: Int, trigger: RefreshTrigger) {
    guard !entries[slot].isRefreshing, let record = entries[slot].record else { return }
    entries[slot].isRefreshing = true
    let provider = entries[slot].provider
    let flight = RefreshFlight(
      provider: provider, trigger: trigger, seenGeneration: record.generation, settings: entries[slot].settings)
    let present = present
    logger.debug(
      "refresh begins", metadata: ["session": "\(record.name)", "trigger": "\(trigger.rawValue)"])
    FlightRunner(
      name: record.name, flight: flight, store: store, queue: disk,
      present: { request, reply in present(request, provider, reply) },
      ended: { [self] result in queue.async { [self] in landed(slot, trigger, result) } }
    ).start()
  }

  private func landed(_ slot: Int, _ trigger: RefreshTrigger, _ result: FlightResult) {
    entries[slot].isRefreshing = false
    entries[slot].isDegraded = false
    switch result {
    case .refreshed(let record, let isDurable):
      entries[slot].isDegraded = !isDurable
      adopt(record, slot)
      entries[slot].stamp = isDurable ? store.stamp(record.name) : nil
      count(trigger, "success")
      logRefreshed(slot, record, trigger, isDurable: isDurable)
      wake(slot, failure: nil)
    case .alreadyNewer(let record):
      adopt(record, slot)
      count(trigger, "already_newer")
      wake(slot, failure: nil)
    case .failed(let record, let failure):
      if let record { adopt(record, slot) }
      entries[slot].stamp = nil
      endIfFenced(slot)
      count(trigger, Refusals.label(failure))
      logFailed(slot, failure, trigger)
      wake(slot, failure: failure)
    }
    for answer in commandAnswers.removeValue(forKey: slot) ?? [] { answer(result) }
    tellGrounded()
  }

  /// All who waited share one result; a request fails only when no unexpired, unrejected token is left.
  private func wake(_ slot: Int, failure: FlightFailure?) {
    let waiters = entries[slot].waiters
    entries[slot].waiters = []
    let update = update(slot)
    publish(slot, update)
    for waiter in waiters {
      if let update, waiter.rejected != update.generation {
        waiter.answer(slot, update, .ready(generation: update.generation))
      } else {
        waiter.answer(slot, nil, .unavailable(refusal(slot, failure)))
      }
    }
  }

  /// A fenced session whose token was rejected has nothing left: it is dead at once, and its file says so.
  private func endIfFenced(_ slot: Int) {
    guard let record = entries[slot].record, let rejected = entries[slot].rejected else { return }
    let ended = record.afterRejection(generation: rejected, now: WallClock.now)
    guard ended != record else { return }
    entries[slot].record = ended
    publish(slot, nil)
    let store = store
    disk.async {
      // Whoever holds the lock is writing something newer; the next flight settles the rest.
      guard let lock = try? store.tryLock(record.name), let stored = try? store.load(record.name) else { return }
      let next = stored.afterRejection(generation: rejected, now: WallClock.now)
      if next != stored { _ = try? store.replace(next, lock: lock) }
      lock.release()
    }
  }

  /// Calls `done` when no refresh is under way: a daemon that stops lets them end, because a presentation cut off is
  /// an outcome nobody knows.
  public func whenNoFlight(_ done: @escaping @Sendable () -> Void) {
    queue.async { [self] in
      if entries.contains(where: \.isRefreshing) { grounded.append(done) } else { done() }
    }
  }

  private func tellGrounded() {
    guard !grounded.isEmpty, !entries.contains(where: \.isRefreshing) else { return }
    let all = grounded
    grounded = []
    for done in all { done() }
  }

  // MARK: what is told

  private func count(_ trigger: RefreshTrigger, _ outcome: String) {
    tallies.refreshes["trigger=\"\(trigger.rawValue)\",outcome=\"\(outcome)\"", default: 0] += 1
  }

  private func logRefreshed(_ slot: Int, _ record: SessionRecord, _ trigger: RefreshTrigger, isDurable: Bool) {
    logger.info(
      "session refreshed",
      metadata: [
        "session": "\(record.name)", "generation": "\(record.generation)", "trigger": "\(trigger.rawValue)",
        "expires_at": "\(record.expiresAt.rfc3339)", "expiry_source": "\(record.expirySource.rawValue)",
      ])
    if !isDurable {
      logger.error(
        "the new token could not be saved: it is kept in memory and used, and saving is tried again",
        metadata: ["session": "\(record.name)"])
    }
  }

  private func logFailed(_ slot: Int, _ failure: FlightFailure, _ trigger: RefreshTrigger) {
    logger.warning(
      "session not refreshed",
      metadata: [
        "session": "\(entries[slot].name)", "trigger": "\(trigger.rawValue)",
        "outcome": "\(Refusals.label(failure))", "detail": "\(refusal(slot, failure).detail)",
      ])
  }

  /// The name that a slot stands for; waits for the keeper's queue.
  public func name(of slot: Int) -> String { queue.sync { slot < entries.count ? entries[slot].name : "" } }

  /// For metrics and status; waits for the keeper's queue.
  public func snapshot() -> (tallies: Tallies, sessions: [SessionView]) {
    queue.sync {
      let views = entries.indices.map { slot in
        SessionView(
          name: entries[slot].name, record: entries[slot].record, trouble: entries[slot].trouble,
          isRefreshing: entries[slot].isRefreshing, isDegraded: entries[slot].isDegraded,
          waiterCount: entries[slot].waiters.count, isUsable: readiness(slot) != .unusable)
      }
      return (tallies, views)
    }
  }
}

/// One session as the keeper sees it, for people and metrics.
public struct SessionView: Sendable {
  public var name: String
  public var record: SessionRecord?
  public var trouble: StoreTrouble?
  public var isRefreshing: Bool
  public var isDegraded: Bool
  public var waiterCount: Int
  public var isUsable: Bool
}
