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
  /// Finds out when any loop last used a slot; the answer may come on any queue.
  public typealias LastUse = @Sendable (_ slot: Int, @escaping @Sendable (Instant) -> Void) -> Void
  public typealias Answer = @Sendable (_ slot: Int?, BearerUpdate?, BearerAnswer) -> Void

  public let store: FileSessionStore
  private let queue = DispatchQueue(label: "bearerd.sessions", qos: .userInitiated)
  private let disk = DispatchQueue(label: "bearerd.store", qos: .userInitiated, attributes: .concurrent)
  private let logger: Logger
  private let present: Presenter
  private var publish: Publisher = { _, _ in }
  private var lastUse: LastUse = { $1(Instant(nanoseconds: 0)) }
  private var providers: [String: Provider]
  private var settings: SettingsOfRefresh
  private var entries: [Entry] = []
  private var slots: [String: Int] = [:]
  private var tallies = Tallies()
  private var waiterCount: UInt64 = 0
  private var pacers: [String: RefreshPacer] = [:]
  // Refreshes ahead of time: the earliest is what the timer is armed for.
  private var ahead = DeadlineHeap<Int>()
  private let aheadTimer: any DispatchSourceTimer
  private var aheadArmedFor = Instant.never
  private var grounded: [@Sendable () -> Void] = []

  public struct SettingsOfRefresh: Sendable {
    public var coolDown: Interval
    public var waitersMax: Int
    /// Sessions used within it are refreshed ahead of time.
    public var aheadWindow: Interval
    public init(coolDown: Interval, waitersMax: Int, aheadWindow: Interval) {
      self.coolDown = coolDown
      self.waitersMax = waitersMax
      self.aheadWindow = aheadWindow
    }
  }

  /// What has been counted since the start.
  public struct Tallies: Sendable {
    /// By trigger and outcome, as label values.
    public var refreshes: [String: UInt64] = [:]
    public var waitersRefused: UInt64 = 0
  }

  private struct Entry {
    var ledger: SessionLedger
    /// Of the file that the ledger's record was read from; nil: read it again.
    var stamp: FileStamp?
    /// When a refresh ahead of time is due, and the heap's entry for it.
    var aheadAt = Instant.never
    var parked: [UInt64: Parked] = [:]
    var commands: [@Sendable (FlightResult) -> Void] = []
    var runner: FlightRunner?
    /// The generation whose end by a 401 has been told and is being stored.
    var endSaved: UInt64?
    /// A flight has told its result and still writes the file.
    var keepsLock = false

    /// The process should not end now.
    var isBusy: Bool { ledger.isBusy || keepsLock }
  }

  private typealias Parked = @Sendable (Int, BearerUpdate?, BearerAnswer) -> Void

  public init(
    store: FileSessionStore, providers: [String: Provider], settings: SettingsOfRefresh, logger: Logger,
    present: @escaping Presenter
  ) {
    self.store = store
    self.providers = providers
    self.settings = settings
    self.logger = logger
    self.present = present
    aheadTimer = DispatchSource.makeTimerSource(queue: queue)
    aheadTimer.setEventHandler { [weak self] in self?.aheadDue() }
    aheadTimer.activate()
  }

  deinit { aheadTimer.cancel() }

  /// Who is told of new tokens, and who knows of their use. Call before the first request.
  public func setLoops(publish: @escaping Publisher, lastUse: @escaping LastUse) {
    queue.async { [self] in
      self.publish = publish
      self.lastUse = lastUse
    }
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
    entries.append(Entry(ledger: SessionLedger(name: name)))
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

  private func ask(_ slot: Int, rejected: UInt64?, route: Int, answer: @escaping Parked) {
    look(slot)
    waiterCount += 1
    let waiter = waiterCount
    let outcome = entries[slot].ledger.ask(
      waiter, rejected: rejected, route: route, waitersMax: settings.waitersMax, now: now(slot), at: BootClock.now)
    if rejected != nil, entries[slot].ledger.rejected != nil {
      publish(slot, nil)
      saveEnd(slot, entries[slot].ledger.endIfFenced(now: now(slot)))
    }
    switch outcome {
    case .parked(let trigger):
      entries[slot].parked[waiter] = answer
      if let trigger { takeOff(slot, trigger: trigger) }
    case .ready, .unchanged, .refused, .tooManyWaiters: tell(slot, outcome, answer)
    }
  }

  private func tell(_ slot: Int, _ outcome: SessionLedger.Answer, _ answer: Parked) {
    switch outcome {
    case .ready(let generation): answer(slot, update(slot), .ready(generation: generation))
    case .unchanged(let generation): answer(slot, nil, .ready(generation: generation))
    case .refused(let failure): answer(slot, nil, .unavailable(refusal(slot, failure)))
    case .tooManyWaiters:
      tallies.waitersRefused += 1
      answer(slot, nil, .unavailable(Refusals.tooManyWaiters(entries[slot].ledger.name)))
    case .parked: preconditionFailure("a parked waiter is told by its flight")
    }
  }

  // MARK: ahead of time

  /// A request has found that a refresh ahead of time is due; it does not wait for it.
  public func refreshAhead(_ slot: Int) { queue.async { [self] in goAhead(slot) } }

  private func goAhead(_ slot: Int) {
    look(slot)
    if entries[slot].ledger.isDueAhead(now: now(slot)) {
      takeOff(slot, trigger: .ahead)
    } else {
      publish(slot, update(slot))
    }
  }

  /// Enters the session's next refresh ahead of time, once for each new record; no session is ever searched for.
  private func planAhead(_ slot: Int) {
    let due = entries[slot].ledger.aheadAt(now: now(slot), jitter: .random(in: 0..<1))
    entries[slot].aheadAt = due.map { instant(of: $0, slot) } ?? .never
    guard due != nil else { return }
    ahead.insert(entries[slot].aheadAt, slot)
    armAhead()
  }

  private func armAhead() {
    guard let (instant, _) = ahead.first, instant < aheadArmedFor else { return }
    aheadArmedFor = instant
    aheadTimer.schedule(
      deadline: .now() + .nanoseconds(Int(clamping: max(0, instant.since(BootClock.now).nanoseconds))),
      leeway: .milliseconds(20))
  }

  private func aheadDue() {
    aheadArmedFor = .never
    let now = BootClock.now
    while let (instant, slot) = ahead.first, instant <= now {
      ahead.removeFirst()
      guard entries[slot].aheadAt == instant else { continue }
      if entries[slot].ledger.isRefreshing { continue }
      askWhetherUsed(slot, now)
    }
    armAhead()
  }

  /// A session that nobody has used for long waits for its next request.
  private func askWhetherUsed(_ slot: Int, _ now: Instant) {
    lastUse(slot) { [self] used in
      queue.async { [self] in
        if used + settings.aheadWindow >= now { goAhead(slot) }
      }
    }
  }

  /// `bearerd session refresh`: refreshes now whatever the expiry.
  public func refreshByCommand(_ name: String, answer: @escaping @Sendable (FlightResult) -> Void) {
    queue.async { [self] in
      let slot = makeSlot(name)
      look(slot)
      guard entries[slot].ledger.record != nil else {
        let trouble = entries[slot].ledger.trouble ?? StoreTrouble(kind: .missing, detail: "")
        return answer(.failed(nil, FlightFailure(trouble)))
      }
      entries[slot].commands.append(answer)
      takeOff(slot, trigger: .command)
    }
  }

  /// An upstream has answered other than 401 to this generation.
  public func accepted(_ slot: Int, generation: UInt64) {
    queue.async { [self] in entries[slot].ledger.accept(generation: generation) }
  }

  /// A replay with `generation` was answered 401 too.
  public func rejectedAfterReplay(_ slot: Int, generation: UInt64, route: Int) {
    queue.async { [self] in
      entries[slot].ledger.rejectAfterReplay(
        generation: generation, route: route, coolDown: settings.coolDown, at: BootClock.now)
      logger.warning(
        "a token was rejected right after its refresh; 401s pass through for a while",
        metadata: ["session": "\(entries[slot].ledger.name)", "generation": "\(generation)"])
    }
  }

  // MARK: knowledge

  /// Reads the session's file if it has changed: another process, a command or a person may have written it.
  private func look(_ slot: Int) {
    let ledger = entries[slot].ledger
    if ledger.isRefreshing || ledger.isDegraded { return }
    let stamp = store.stamp(ledger.name)
    if stamp != nil, stamp == entries[slot].stamp { return }
    do throws(StoreFault) {
      let record = try store.load(ledger.name)
      // I7: another process's new token, or that of one that died before we started, may be visible before its rename
      // is durable, and must not be used before.
      if ledger.record?.generation != record.generation { try store.makeDurable(ledger.name) }
      adopt(record, slot)
    } catch {
      entries[slot].ledger.lose(error.trouble)
      publish(slot, nil)
    }
    entries[slot].stamp = stamp
  }

  /// Another owner or mode leaves the stamp as it is.
  private func lookAgain(_ slot: Int) {
    entries[slot].stamp = nil
    look(slot)
  }

  /// What a watcher of the store says: sessions changed by others are seen at once, and who waits for a lock tries.
  public func noticed(_ change: StoreWatcher.Change) {
    queue.async { [self] in
      switch change {
      case .session(let name): if let slot = slots[name] { lookAgain(slot) }
      case .lockReleased(let name): if let slot = slots[name] { entries[slot].runner?.lockMayBeFree() }
      case .everything:
        for slot in entries.indices where slot < Self.readEarlyMax || entries[slot].ledger.isKnown { lookAgain(slot) }
      case .unwatched(let directory, let code):
        logger.warning(
          "a directory cannot be watched: changes there are noticed at the next question only",
          metadata: ["directory": "\(directory)", "errno": "\(code)"])
      }
    }
  }

  /// So many sessions are read before they are asked for, which is as many as metrics tell one by one; those of a
  /// large pool are read one at a time, when a request uses them (SPEC §5).
  private static let readEarlyMax = 200

  private func adopt(_ record: SessionRecord, _ slot: Int) {
    if providers[record.provider] == nil {
      logger.error(
        "the session's provider is not configured: it cannot be refreshed",
        metadata: ["session": "\(record.name)", "provider": "\(record.provider)"])
    }
    let provider = providers[record.provider] ?? Provider(name: record.provider)
    entries[slot].ledger.adopt(record, provider: provider, settings: Self.digest(of: provider))
    entries[slot].ledger.noteArrival(wall: WallClock.now, at: BootClock.now)
    planAhead(slot)
    publish(slot, update(slot))
  }

  /// The time by which a session's token is judged: a clock that is set back does not prolong its life.
  private func now(_ slot: Int) -> WallTime { entries[slot].ledger.time(wall: WallClock.now, at: BootClock.now) }

  private func instant(of time: WallTime, _ slot: Int) -> Instant { BootClock.now + time.since(now(slot)) }

  /// The digest that ties a configuration fault to the settings it was for.
  public static func digest(of provider: Provider) -> String {
    var all: [UInt8] = []
    provider.feedSettings { all.append(contentsOf: $0) }
    return FileSessionStore.fingerprint(of: Secret(taking: &all)).hexadecimal
  }

  /// What loops may know: nil where the token does not serve now.
  private func update(_ slot: Int) -> BearerUpdate? {
    let ledger = entries[slot].ledger
    guard let record = ledger.record, let accessToken = record.accessToken,
      ledger.servingGeneration(now: now(slot)) != nil
    else { return nil }
    let timing = RefreshTiming(record: record, provider: ledger.provider)
    var line = Array("Authorization: Bearer ".utf8)
    accessToken.append(to: &line)
    line += [0x0d, 0x0a]
    // A token that serves inside its leeway, because no refresh may be tried now, is asked for again soon.
    let freshUntil = max(instant(of: timing.staleAt, slot), BootClock.now + .seconds(1))
    return BearerUpdate(
      generation: record.generation, line: line,
      freshUntil: min(freshUntil, instant(of: record.expiresAt, slot)), aheadAt: entries[slot].aheadAt)
  }

  private func refusal(_ slot: Int, _ failure: FlightFailure?) -> BearerRefusal {
    // A back-off is stored, and ends by the clock that all processes share.
    Refusals.make(entries[slot].ledger, failure, now: WallClock.now)
  }

  // MARK: flights

  private func takeOff(_ slot: Int, trigger: RefreshTrigger) {
    guard let flight = entries[slot].ledger.takeOff(trigger) else { return }
    let provider = entries[slot].ledger.provider
    let name = entries[slot].ledger.name
    let present = present
    logger.debug("refresh begins", metadata: ["session": "\(name)", "trigger": "\(trigger.rawValue)"])
    let runner = FlightRunner(
      name: name, flight: flight, timeout: provider.timeout, store: store, queue: disk,
      present: { request, reply in present(request, provider, reply) },
      ended: { [self] result, keepsLock in queue.async { [self] in landed(slot, trigger, result, keepsLock) } },
      settled: { [self] in queue.async { [self] in becameDurable(slot) } })
    entries[slot].runner = runner
    let wait = pacers[provider.name, default: RefreshPacer()].admit(
      perSecond: provider.refreshesPerSecond, at: BootClock.now)
    if wait == .zero { return runner.start() }
    queue.asyncAfter(deadline: .now() + .milliseconds(Int(clamping: wait.milliseconds))) { runner.start() }
  }

  private func landed(_ slot: Int, _ trigger: RefreshTrigger, _ result: FlightResult, _ keepsLock: Bool) {
    // New tokens are judged by the clock they were stamped with.
    let time = if case .failed = result { now(slot) } else { WallClock.now }
    let wakeups = entries[slot].ledger.landed(result, now: time)
    entries[slot].ledger.noteArrival(wall: WallClock.now, at: BootClock.now)
    entries[slot].runner = nil
    entries[slot].keepsLock = keepsLock
    switch result {
    case .refreshed(let record, let isDurable):
      entries[slot].stamp = isDurable ? store.stamp(record.name) : nil
      count(trigger, "success")
      logRefreshed(record, trigger, isDurable: isDurable)
    case .alreadyNewer:
      entries[slot].stamp = nil
      count(trigger, "already_newer")
    case .failed(_, let failure):
      entries[slot].stamp = nil
      saveEnd(slot, entries[slot].ledger.record)
      count(trigger, Refusals.label(failure))
      logFailed(slot, failure, trigger)
    }
    planAhead(slot)
    publish(slot, update(slot))
    for wakeup in wakeups {
      if let answer = entries[slot].parked.removeValue(forKey: wakeup.waiter) { tell(slot, wakeup.answer, answer) }
    }
    // A command's process ends with its answer, and with it a token that is only in memory: it waits for the disk.
    if case .refreshed(_, isDurable: false) = result {} else { answerCommands(slot, result) }
    tellGrounded()
  }

  private func answerCommands(_ slot: Int, _ result: FlightResult) {
    let commands = entries[slot].commands
    entries[slot].commands = []
    for answer in commands { answer(result) }
  }

  /// A result that was in memory only has reached the disk (I7).
  private func becameDurable(_ slot: Int) {
    entries[slot].keepsLock = false
    // Else it was an intent that had not been sent: the file is what it was before, and is read again.
    guard entries[slot].ledger.isDegraded, let record = entries[slot].ledger.record else {
      entries[slot].stamp = nil
      return tellGrounded()
    }
    entries[slot].ledger.becomeDurable()
    entries[slot].stamp = store.stamp(record.name)
    logger.notice("the refreshed session has been saved after all", metadata: ["session": "\(record.name)"])
    // Commands that came later wait for a flight of their own.
    if !entries[slot].ledger.isRefreshing { answerCommands(slot, .refreshed(record, isDurable: true)) }
    tellGrounded()
  }

  /// Tells and stores that a fenced session has ended by a 401.
  private func saveEnd(_ slot: Int, _ record: SessionRecord?) {
    guard let record, case .dead = record.standing, let rejected = entries[slot].ledger.rejected,
      entries[slot].endSaved != rejected
    else { return }
    entries[slot].endSaved = rejected
    logger.warning(
      "the session is over: its access token was rejected, and it cannot be refreshed",
      metadata: ["session": "\(record.name)", "generation": "\(rejected)", "reason": "\(record.endReason ?? "")"])
    SessionEnding(name: record.name, rejected: rejected, store: store, queue: disk, logger: logger).save()
  }

  /// Calls `done` when no refresh is under way: a daemon that stops lets them end, because a presentation cut off is
  /// an outcome nobody knows.
  public func whenNoFlight(_ done: @escaping @Sendable () -> Void) {
    queue.async { [self] in
      if entries.contains(where: \.isBusy) { grounded.append(done) } else { done() }
    }
  }

  private func tellGrounded() {
    guard !grounded.isEmpty, !entries.contains(where: \.isBusy) else { return }
    let all = grounded
    grounded = []
    for done in all { done() }
  }

  // MARK: what is told

  private func count(_ trigger: RefreshTrigger, _ outcome: String) {
    tallies.refreshes["trigger=\"\(trigger.rawValue)\",outcome=\"\(outcome)\"", default: 0] += 1
  }

  private func logRefreshed(_ record: SessionRecord, _ trigger: RefreshTrigger, isDurable: Bool) {
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
        "session": "\(entries[slot].ledger.name)", "trigger": "\(trigger.rawValue)",
        "outcome": "\(Refusals.label(failure))", "detail": "\(detail(slot, failure))",
      ])
  }

  /// A fenced session's token may serve for long: nobody should read that it is over.
  private func detail(_ slot: Int, _ failure: FlightFailure) -> String {
    let ledger = entries[slot].ledger
    if case .fenced(let reason, _)? = ledger.record?.standing, ledger.servingGeneration(now: now(slot)) != nil {
      return Refusals.fenced(ledger.name, reason)
    }
    return refusal(slot, failure).detail
  }

  /// The name that a slot stands for; waits for the keeper's queue.
  public func name(of slot: Int) -> String { queue.sync { slot < entries.count ? entries[slot].ledger.name : "" } }

  /// For metrics and status; waits for the keeper's queue.
  public func snapshot() -> (tallies: Tallies, sessions: [SessionView]) {
    queue.sync {
      let views = entries.indices.map { slot in
        SessionView(entries[slot].ledger, now: now(slot))
      }
      return (tallies, views)
    }
  }
}
