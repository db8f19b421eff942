import BearerPolicy
import Chronology
import ProxyCore

/// One process of bearerd, or one command: what it knows of each session and who waits for what, in the order of the
/// server's session keeper. Ends by `die`.
final class SimProcess {
  unowned let world: World
  let index: Int
  let incarnation: Int
  private(set) var isUp = true
  private(set) var entries: [Entry] = []
  private var cache: [CachedBearer?] = []
  private var running: [ExchangeDriver] = []
  private var waiterCount: UInt64 = 0
  /// Access tokens that are in memory only.
  private var unsaved: Set<String> = []
  /// Until when each access token lives that this process got to know, from then on counted by the monotonic clock.
  private var lives: [String: Instant] = [:]

  typealias Answer = (CachedBearer?, BearerAnswer) -> Void

  struct Entry {
    var ledger: SessionLedger
    /// Of the file that the record was read from; nil: read it again.
    var stamp: Int?
    /// When a refresh ahead of time is due.
    var aheadAt = Instant.never
    var lastUse: Instant?
    var parked: [UInt64: Answer] = [:]
    var flights = 0
  }

  /// What an event loop keeps to serve a request without a question.
  struct CachedBearer {
    var generation: UInt64
    var accessToken: String
    var freshUntil: Instant
    var aheadAt: Instant
    var isAccepted = false
  }

  init(world: World, index: Int, incarnation: Int) {
    self.world = world
    self.index = index
    self.incarnation = incarnation
    for session in world.directories.indices {
      entries.append(Entry(ledger: SessionLedger(name: "session\(session)")))
      cache.append(nil)
    }
  }

  var isBusy: Bool { isUp && entries.contains { $0.ledger.isBusy || $0.flights > 0 } }

  /// kill -9, or the power.
  func die() {
    guard isUp else { return }
    isUp = false
    for session in world.locks.indices where world.locks[session]?.process === self {
      world.locks[session] = nil
    }
    world.obtained.subtract(unsaved)
    let cut = running
    running = []
    for exchange in cut { exchange.processDied() }
  }

  // MARK: requests

  func begin(_ request: SimRequest) {
    entries[request.session].lastUse = world.now
    let exchange = ExchangeDriver(request, process: self)
    running.append(exchange)
    exchange.begin()
  }

  func finished(_ exchange: ExchangeDriver) { running.removeAll { $0 === exchange } }

  func fresh(_ session: Int) -> CachedBearer? {
    guard let entry = cache[session], world.now < entry.freshUntil else { return nil }
    return entry
  }

  func cached(_ session: Int) -> CachedBearer? { cache[session] }

  func refreshAheadIfDue(_ session: Int) {
    guard let entry = cache[session], world.now >= entry.aheadAt else { return }
    cache[session]?.aheadAt = .never
    goAhead(session)
  }

  private func goAhead(_ session: Int) {
    look(session)
    if entries[session].ledger.isDueAhead(now: now(session)) {
      takeOff(session, trigger: .ahead, cause: nil)
    } else {
      publish(session)
    }
  }

  /// The timer for a refresh ahead of time, once for each new record; a session that nobody uses is left alone.
  private func planAhead(_ session: Int) {
    let due =
      entries[session].ledger.aheadAt(now: now(session), jitter: world.chance.fraction())
      .map { instant(of: $0, session) } ?? .never
    entries[session].aheadAt = due
    guard due != .never else { return }
    world.after(max(due.since(world.now), .zero), self) { [self] in
      let entry = entries[session]
      guard entry.aheadAt == due, !entry.ledger.isRefreshing else { return }
      if let used = entry.lastUse, used + Self.aheadWindow >= world.now { goAhead(session) }
    }
  }

  private static let aheadWindow = Interval.seconds(60)

  func accepted(_ session: Int, generation: UInt64) {
    guard let entry = cache[session], entry.generation == generation, !entry.isAccepted else { return }
    cache[session]?.isAccepted = true
    entries[session].ledger.accept(generation: generation)
  }

  func rejectedAfterReplay(_ session: Int, generation: UInt64, route: Int) {
    entries[session].ledger.rejectAfterReplay(
      generation: generation, route: route, coolDown: .seconds(30), at: world.now)
  }

  // MARK: questions

  func ask(_ session: Int, rejected: UInt64?, route: Int, answer: @escaping Answer) {
    look(session)
    waiterCount += 1
    let waiter = waiterCount
    var told = rejected
    if world.planted == .refreshesStaleGeneration, rejected != nil {
      told = entries[session].ledger.record?.generation
    }
    if let rejected, let current = entries[session].ledger.record?.generation, rejected != current {
      world.coverage.note(.staleRejection)
    }
    let outcome = entries[session].ledger.ask(
      waiter, rejected: told, route: route, waitersMax: 100, now: now(session), at: world.now)
    if rejected != nil, entries[session].ledger.rejected != nil {
      cache[session] = nil
      saveEnd(session, entries[session].ledger.endIfFenced(now: now(session)))
    }
    switch outcome {
    case .parked(let trigger):
      entries[session].parked[waiter] = answer
      if let trigger { takeOff(session, trigger: trigger, cause: rejected) }
    case .ready, .unchanged, .refused, .tooManyWaiters: tell(session, outcome, answer)
    }
  }

  /// The answer reaches the request's loop a moment later.
  private func tell(_ session: Int, _ outcome: SessionLedger.Answer, _ answer: @escaping Answer) {
    let update: CachedBearer?
    let said: BearerAnswer
    switch outcome {
    case .ready(let generation): (update, said) = (self.update(session), .ready(generation: generation))
    case .unchanged(let generation):
      world.coverage.note(.coolDown)
      (update, said) = (nil, .ready(generation: generation))
    case .refused(let failure):
      let detail = failure.map { Coverage.name($0) } ?? "no token"
      (update, said) = (nil, .unavailable(BearerRefusal(code: .refreshUnavailable, detail: detail)))
    case .tooManyWaiters:
      (update, said) = (nil, .unavailable(BearerRefusal(code: .overloaded, detail: "too many")))
    case .parked: preconditionFailure("a parked waiter is told by its flight")
    }
    if let update { remember(session, update) }
    world.after(world.chance.milliseconds(0...2), self) { answer(update, said) }
  }

  /// Nobody has used the session for a while: its tokens leave memory.
  func letGo(_ session: Int) {
    guard entries[session].flights == 0, entries[session].ledger.canBeLetGo(at: world.now) else { return }
    world.coverage.note(.letGo)
    entries[session].ledger = SessionLedger(
      name: entries[session].ledger.name, arrival: entries[session].ledger.arrival)
    entries[session].stamp = nil
    cache[session] = nil
  }

  func refreshByCommand(_ session: Int) {
    look(session)
    guard entries[session].ledger.record != nil else { return }
    takeOff(session, trigger: .command, cause: nil)
  }

  // MARK: knowledge

  /// A watcher tells that another process has changed the session's file.
  func noticed(_ session: Int) { look(session) }

  /// Reads the session's file if it has changed.
  private func look(_ session: Int) {
    let ledger = entries[session].ledger
    if ledger.isRefreshing || ledger.isDegraded { return }
    let stamp = world.directories[session].stamp
    if stamp != nil, stamp == entries[session].stamp { return }
    switch readSession(session) {
    case .success(let record):
      if !ledger.hasArrived(record), let trouble = makeDurable(session) {
        entries[session].ledger.lose(trouble)
        cache[session] = nil
        break
      }
      adopt(record, session)
      planAhead(session)
      publish(session)
    case .failure(let trouble):
      entries[session].ledger.lose(trouble)
      cache[session] = nil
    }
    entries[session].stamp = stamp
  }

  private func adopt(_ record: SessionRecord, _ session: Int) {
    let name = world.planted == .mixesProviders ? Scenario.providerName(of: session + 1) : record.provider
    entries[session].ledger.adopt(record, provider: world.scenario.provider(named: name), settings: world.settings)
    noteArrival(session)
  }

  private func noteArrival(_ session: Int) {
    entries[session].ledger.noteArrival(wall: world.wallNow, at: world.now)
    guard let record = entries[session].ledger.record, let token = record.accessToken?.reveal(), lives[token] == nil
    else { return }
    lives[token] = world.now + record.expiresAt.since(world.wallNow)
  }

  /// What has been read may have been renamed by a process that died before the directory was synced (I7).
  private func makeDurable(_ session: Int) -> StoreTrouble? {
    if world.planted == .trustsWhatItReads { return nil }
    if let fault = world.diskFault(.syncFound) { return fault.trouble }
    world.directories[session].syncDirectory()
    world.noteDurable()
    return nil
  }

  /// The time by which a session's token is judged: a clock that is set back does not prolong its life.
  private func now(_ session: Int) -> WallTime {
    if world.planted == .trustsWallClock { return world.wallNow }
    return entries[session].ledger.time(wall: world.wallNow, at: world.now)
  }

  func readSession(_ session: Int) -> Result<SessionRecord, StoreTrouble> {
    let directory = world.directories[session]
    if world.chance.happens(world.scenario.rates.readFault) {
      return .failure(StoreTrouble(kind: .unreadable, detail: "input/output error"))
    }
    if let record = directory.record { return .success(record) }
    return .failure(StoreTrouble(kind: directory.isDamaged ? .unparsable : .missing, detail: ""))
  }

  private func update(_ session: Int) -> CachedBearer? {
    let ledger = entries[session].ledger
    guard let record = ledger.record, let accessToken = record.accessToken,
      ledger.servingGeneration(now: now(session)) != nil
    else { return nil }
    let timing = RefreshTiming(record: record, provider: ledger.provider)
    let freshUntil = max(instant(of: timing.staleAt, session), world.now + .seconds(1))
    return CachedBearer(
      generation: record.generation, accessToken: accessToken.reveal(),
      freshUntil: min(freshUntil, instant(of: record.expiresAt, session)), aheadAt: entries[session].aheadAt)
  }

  private func instant(of time: WallTime, _ session: Int) -> Instant { world.now + time.since(now(session)) }

  private func publish(_ session: Int) {
    guard let update = update(session) else {
      cache[session] = nil
      return
    }
    remember(session, update)
  }

  private func remember(_ session: Int, _ update: CachedBearer) {
    // In the keeper's order: a session that was removed and added again begins at generation 1.
    let isAccepted = cache[session].map { $0.generation == update.generation && $0.isAccepted } ?? false
    cache[session] = update
    cache[session]?.isAccepted = isAccepted
  }

  // MARK: flights

  private func takeOff(_ session: Int, trigger: RefreshTrigger, cause: UInt64?) {
    guard let flight = entries[session].ledger.takeOff(trigger) else { return }
    world.coverage.note(.trigger(trigger))
    world.note("process \(index): flight of session \(session) for \(trigger.rawValue)")
    entries[session].flights += 1
    FlightDriver(session: session, flight: flight, cause: cause, process: self).start()
  }

  func landed(_ session: Int, _ result: FlightResult) {
    // New tokens are judged by the clock they were stamped with.
    let time = if case .failed = result { now(session) } else { world.wallNow }
    var wakeups = entries[session].ledger.landed(result, now: time)
    noteArrival(session)
    switch result {
    case .refreshed(let record, let isDurable):
      entries[session].stamp = isDurable ? world.directories[session].stamp : nil
      obtained(record, session, isDurable: isDurable)
    case .alreadyNewer:
      entries[session].stamp = nil
      world.coverage.note(.alreadyNewer)
    case .failed(_, let failure):
      entries[session].stamp = nil
      saveEnd(session, entries[session].ledger.record)
      world.coverage.note(.failure(Coverage.name(failure)))
    }
    world.note("process \(index): flight of session \(session) lands: \(Self.describe(result))")
    planAhead(session)
    publish(session)
    if world.planted == .forgetsWaiter, wakeups.count > 1 { wakeups.removeFirst() }
    for wakeup in wakeups {
      if let answer = entries[session].parked.removeValue(forKey: wakeup.waiter) {
        tell(session, wakeup.answer, answer)
      }
    }
  }

  private func obtained(_ record: SessionRecord, _ session: Int, isDurable: Bool) {
    guard let token = record.accessToken?.reveal() else { return }
    world.obtained.insert(token)
    if isDurable {
      world.promised[session] = record
    } else {
      world.coverage.note(.degraded)
      unsaved.insert(token)
    }
  }

  func becameDurable(_ session: Int) {
    guard entries[session].ledger.isDegraded else {
      entries[session].stamp = nil
      return
    }
    entries[session].ledger.becomeDurable()
    entries[session].stamp = world.directories[session].stamp
    world.promised[session] = entries[session].ledger.record
    if let token = entries[session].ledger.record?.accessToken?.reveal() { unsaved.remove(token) }
    world.coverage.note(.degradedSaved)
    world.note("process \(index): session \(session) is saved after all")
  }

  func flightEnded(_ session: Int) { entries[session].flights -= 1 }

  /// Whether a flight's kept result makes this use of a token known to be at risk.
  func isDegraded(_ session: Int) -> Bool { entries[session].ledger.isDegraded }

  /// What is known of a token at the moment it leaves with a request.
  func attached(_ accessToken: String, _ session: Int) -> Attached {
    Attached(
      owner: world.owners[accessToken], isRefreshToken: accessToken.hasPrefix("rt-"),
      isDurable: world.everDurable.contains(accessToken), isDegraded: isDegraded(session),
      expiresAt: lives[accessToken] ?? Instant(nanoseconds: 0), now: world.now)
  }

  static func describe(_ result: FlightResult) -> String {
    switch result {
    case .refreshed(let record, let isDurable):
      "generation \(record.generation), \(isDurable ? "durable" : "in memory only")"
    case .alreadyNewer(let record): "generation \(record.generation) was there"
    case .failed(_, let failure): Coverage.name(failure)
    }
  }
}
