public import BearerPolicy
import Chronology
import Dispatch
import Logging
import ProxyCore
import SessionStore
import Transport

/// When refreshes take off, and what becomes of them.
extension SessionKeeper {
  // MARK: ahead of time

  /// A request has found that a refresh ahead of time is due; it does not wait for it.
  public func refreshAhead(_ slot: Int) { queue.async { [self] in goAhead(slot) } }

  private func goAhead(_ slot: Int) {
    if isStopping { return }
    let live = look(slot)
    if live.ledger.isDueAhead(now: now(slot)) {
      takeOff(slot, trigger: .ahead)
    } else {
      loops.publish(slot, update(slot))
    }
  }

  /// Enters the session's next refresh ahead of time. Where the same record was read again, the entry stands.
  func planAhead(_ slot: Int, isAgain: Bool = false) {
    let ledger = sessions.live(slot).ledger
    var hasher = Hasher()
    hasher.combine(ledger.record?.generation)
    hasher.combine(ledger.record?.backoff?.until)
    hasher.combine(ledger.settings)
    hasher.combine(ledger.provider.refreshAhead)
    let key = hasher.finalize()
    if isAgain, key == sessions[slot].aheadKey, sessions[slot].aheadAt > BootClock.now { return }
    sessions[slot].aheadKey = key
    let due = ledger.aheadAt(now: now(slot), jitter: .random(in: 0..<1))
    sessions[slot].aheadAt = due.map { instant(of: $0, slot) } ?? .never
    if due != nil { ahead.enter(slot, at: sessions[slot].aheadAt) }
  }

  /// A session that nobody has used for long waits for its next request.
  func aheadDue(_ slot: Int, _ at: Instant, _ now: Instant) {
    guard sessions[slot].aheadAt == at, sessions[slot].live?.ledger.isRefreshing != true else { return }
    loops.lastUses([slot]) { [self] uses in
      queue.async { [self] in
        if Self.isRecent(uses[0], settings.aheadWindow, at: now) { goAhead(slot) }
      }
    }
  }

  /// - Parameter used: nil where there was no use.
  static func isRecent(_ used: Instant?, _ window: Interval, at now: Instant) -> Bool {
    used.map { $0 + window >= now } ?? false
  }

  /// `bearerd session refresh`: refreshes now whatever the expiry.
  public func refreshByCommand(_ name: String, answer: @escaping @Sendable (FlightResult) -> Void) {
    queue.async { [self] in
      let slot = sessions.makeSlot(name)
      let live = look(slot)
      guard live.ledger.record != nil else {
        let trouble = live.ledger.trouble ?? StoreTrouble(kind: .missing, detail: "")
        return answer(.failed(nil, FlightFailure(trouble)))
      }
      live.commands.append(answer)
      takeOff(slot, trigger: .command)
    }
  }

  /// An upstream has answered other than 401 to this generation.
  public func accepted(_ slot: Int, generation: UInt64) {
    queue.async { [self] in sessions[slot].live?.ledger.accept(generation: generation) }
  }

  /// A replay with `generation` was answered 401 too.
  public func rejectedAfterReplay(_ slot: Int, generation: UInt64, route: Int) {
    queue.async { [self] in
      look(slot).ledger.rejectAfterReplay(
        generation: generation, route: route, coolDown: settings.coolDown, at: BootClock.now)
      logger.warning(
        "a token was rejected right after its refresh; 401s pass through for a while",
        metadata: ["session": "\(sessions[slot].name)", "generation": "\(generation)"])
    }
  }

  // MARK: flights

  func takeOff(_ slot: Int, trigger: RefreshTrigger) {
    let live = sessions.live(slot)
    guard let flight = live.ledger.takeOff(trigger) else { return }
    let provider = live.ledger.provider
    let name = live.ledger.name
    let present = present
    let settling = Settling()
    logger.debug("refresh begins", metadata: ["session": "\(name)", "trigger": "\(trigger.rawValue)"])
    let runner = FlightRunner(
      name: name, flight: flight, timeout: provider.timeout, store: store, queue: disk,
      present: { request, reply in present(request, provider, reply) },
      ended: { [self] result, keepsLock in queue.async { [self] in landed(slot, trigger, result, keepsLock ? settling : nil) } },
      settled: { [self] in queue.async { [self] in settled(slot, settling) } })
    live.runner = runner
    let wait = pacers[provider.name, default: RefreshPacer()].admit(
      perSecond: provider.refreshesPerSecond, at: BootClock.now)
    if wait == .zero { return runner.start() }
    queue.asyncAfter(deadline: .now() + .milliseconds(Int(clamping: wait.milliseconds))) { runner.start() }
  }

  private func landed(_ slot: Int, _ trigger: RefreshTrigger, _ result: FlightResult, _ settling: Settling?) {
    let live = sessions.live(slot)
    // New tokens are judged by the clock they were stamped with.
    let time = if case .failed = result { now(slot) } else { WallClock.now }
    let wakeups = live.ledger.landed(result, now: time)
    live.ledger.noteArrival(wall: WallClock.now, at: BootClock.now)
    live.runner = nil
    live.stamp = nil
    switch result {
    case .refreshed(let record, let isDurable):
      if isDurable { live.stamp = store.stamp(record.name) }
      count(trigger, "success")
      logRefreshed(record, trigger, isDurable: isDurable)
    case .alreadyNewer:
      count(trigger, "already_newer")
    case .failed(_, let failure):
      saveEnd(slot, live.ledger.record)
      count(trigger, Refusals.label(failure))
      logFailed(slot, failure, trigger)
    }
    planAhead(slot)
    loops.publish(slot, update(slot))
    var answers = Answers()
    for wakeup in wakeups {
      guard let asker = live.parked.removeValue(forKey: wakeup.waiter) else { continue }
      let (update, bearer) = told(wakeup.answer, of: slot)
      answers.add(slot, update, bearer, to: asker)
    }
    answers.tell()
    // Commands that come later wait for a flight of their own.
    let commands = live.commands
    live.commands = []
    if let settling { live.settling.append(settling) }
    if let settling, case .refreshed(let record, _) = result {
      // A command's process ends with its answer, and with it a token that is only in memory: it waits for the disk.
      settling.generation = record.generation
      settling.commands = commands.map { command in { command(.refreshed(record, isDurable: true)) } }
    } else {
      for command in commands { command(result) }
    }
    tellGrounded()
  }

  /// A flight that kept its lock has given it back, and the file is as it should be: a result that was in memory only
  /// is on disk (I7), or what was there before an intent that was not sent.
  ///
  /// The next flight may have landed before: it can have the lock as soon as this one has given it back.
  private func settled(_ slot: Int, _ settling: Settling) {
    let live = sessions.live(slot)
    live.stamp = nil
    if live.ledger.isDegraded, let record = live.ledger.record, record.generation == settling.generation {
      live.ledger.becomeDurable()
      logger.notice("the refreshed session has been saved after all", metadata: ["session": "\(record.name)"])
    }
    live.settling.removeAll { $0 === settling }
    for answer in settling.commands { answer() }
    tellGrounded()
  }

  /// Tells and stores that a fenced session has ended by a 401.
  func saveEnd(_ slot: Int, _ record: SessionRecord?) {
    let live = sessions.live(slot)
    guard let record, case .dead = record.standing, let rejected = live.ledger.rejected, live.endSaved != rejected
    else { return }
    live.endSaved = rejected
    logger.warning(
      "the session is over: its access token was rejected, and it cannot be refreshed",
      metadata: ["session": "\(record.name)", "generation": "\(rejected)", "reason": "\(record.endReason ?? "")"])
    SessionEnding(name: record.name, rejected: rejected, store: store, queue: disk, logger: logger).save()
  }

  /// Calls `done` when no refresh is under way: a daemon that stops lets them end, because a presentation cut off is
  /// an outcome nobody knows. None begins ahead of time any more, which between `done` and the end would be cut off.
  public func whenNoFlight(_ done: @escaping @Sendable () -> Void) {
    queue.async { [self] in
      isStopping = true
      if isAnyBusy { grounded.append(done) } else { done() }
    }
  }

  private var isAnyBusy: Bool { sessions.places.contains { $0.live?.isBusy ?? false } }

  private func tellGrounded() {
    guard !grounded.isEmpty, !isAnyBusy else { return }
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
        "session": "\(sessions[slot].name)", "trigger": "\(trigger.rawValue)",
        "outcome": "\(Refusals.label(failure))", "detail": "\(detail(slot, failure))",
      ])
  }

  /// A fenced session's token may serve for long: nobody should read that it is over.
  private func detail(_ slot: Int, _ failure: FlightFailure) -> String {
    let ledger = sessions.live(slot).ledger
    if case .fenced(let reason, _)? = ledger.record?.standing, ledger.servingGeneration(now: now(slot)) != nil {
      return Refusals.fenced(ledger.name, reason)
    }
    return refusal(slot, failure).detail
  }
}
