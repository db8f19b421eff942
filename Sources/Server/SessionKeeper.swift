public import BearerPolicy
import CLinux
public import Chronology
import Dispatch
public import Logging
public import ProxyCore
public import SessionStore
import Synchronization
public import Transport

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
  public typealias Answer = @Sendable (_ slot: Int?, BearerUpdate?, BearerAnswer) -> Void

  /// A question that may be withdrawn.
  public struct Ticket: Sendable {
    let number: UInt64
    let session: SessionReference
  }

  /// The loops, as the keeper sees them.
  public struct Loops: Sendable {
    /// Gives every loop new knowledge of a slot; nil: it must ask.
    public var publish: @Sendable (_ slot: Int, BearerUpdate?) -> Void = { _, _ in }
    /// Finds out when any loop last used each of these slots, nil: never; the answer may come on any queue.
    public var lastUses: @Sendable (_ slots: [Int], _ answer: @escaping @Sendable ([Instant?]) -> Void) -> Void = {
      $1($0.map { _ in nil })
    }
    /// Gives every loop the pools' sessions.
    public var publishPools: @Sendable (SessionPools.Snapshot) -> Void = { _ in }
    public init() {}
  }

  public let store: FileSessionStore
  let queue = DispatchQueue(label: "bearerd.sessions", qos: .userInitiated)
  let disk = DispatchQueue(label: "bearerd.store", qos: .userInitiated, attributes: .concurrent)
  let logger: Logger
  let present: Presenter
  private(set) var loops = Loops()
  private var providers: [String: Provider]
  private(set) var settings: SettingsOfRefresh
  var sessions = SessionTable()
  private var pools = SessionPools()
  private var arePoolsTold = true
  var tallies = Tallies()
  private let ticketCount = Atomic<UInt64>(0)
  var pacers: [String: RefreshPacer] = [:]
  let ahead: AheadSchedule
  private let letGoTimer: any DispatchSourceTimer
  private var isLettingGo = false
  var grounded: [@Sendable () -> Void] = []
  /// The process is about to end: nothing begins that nobody waits for.
  var isStopping = false

  public struct SettingsOfRefresh: Sendable {
    public var coolDown: Interval
    public var waitersMax: Int
    /// Sessions used within it are refreshed ahead of time.
    public var aheadWindow: Interval
    /// After it the tokens of a session that nobody uses leave memory; its next request reads its file (SPEC §5).
    public var idleTime: Interval
    public init(coolDown: Interval, waitersMax: Int, aheadWindow: Interval, idleTime: Interval) {
      self.coolDown = coolDown
      self.waitersMax = waitersMax
      self.aheadWindow = aheadWindow
      self.idleTime = idleTime
    }
  }

  /// What has been counted since the start.
  public struct Tallies: Sendable {
    /// By trigger and outcome, as label values.
    public var refreshes: [String: UInt64] = [:]
    public var waitersRefused: UInt64 = 0
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
    ahead = AheadSchedule(on: queue)
    letGoTimer = DispatchSource.makeTimerSource(queue: queue)
    letGoTimer.setEventHandler { [weak self] in self?.letIdleGo() }
    letGoTimer.activate()
    ahead.due = { [weak self] slot, at, now in self?.aheadDue(slot, at, now) }
  }

  deinit { letGoTimer.cancel() }

  /// Call before the first request.
  public func setLoops(_ loops: Loops) { queue.async { [self] in self.loops = loops } }

  /// A new configuration: what it changes of a provider may end a configuration fault.
  public func reconfigure(providers: [String: Provider], settings: SettingsOfRefresh) {
    queue.async { [self] in
      self.providers = providers
      self.settings = settings
      for slot in sessions.indices {
        guard let live = sessions[slot].live else { continue }
        live.stamp = nil
        loops.publish(slot, nil)
      }
    }
  }

  /// A slot for a name that the configuration gives, whether or not the store holds it yet.
  public func slot(for name: String) -> Int { queue.sync { sessions.makeSlot(name) } }

  // MARK: questions

  /// Asks for a token; `answer` is called once, unless the question is withdrawn.
  ///
  /// - Parameters:
  ///   - rejected: the generation that was answered 401.
  ///   - route: which upstream that was, for the cool-down.
  ///   - loop: on whose queue `answer` is called; nil: the keeper's.
  @discardableResult
  public func ask(
    _ session: SessionReference, rejected: UInt64?, route: Int, on loop: EventLoop? = nil, answer: @escaping Answer
  ) -> Ticket {
    let asker = Asker(loop: loop, answer: answer)
    let number = ticketCount.add(1, ordering: .relaxed).newValue
    queue.async { [self] in
      switch session {
      case .slot(let slot): ask(number, slot, rejected: rejected, route: route, asker)
      case .named(let name):
        if sessions.slot(of: name) == nil, store.stamp(name) == nil {
          return asker.tell(nil, nil, .unavailable(Refusals.missing(name)))
        }
        ask(number, sessions.makeSlot(name), rejected: rejected, route: route, asker)
      }
    }
    return Ticket(number: number, session: session)
  }

  /// Who asked is gone: its place among the waiters is another's.
  public func withdraw(_ ticket: Ticket) {
    queue.async { [self] in
      let slot: Int? =
        switch ticket.session {
        case .slot(let slot): slot
        case .named(let name): sessions.slot(of: name)
        }
      guard let live = slot.flatMap({ sessions[$0].live }), live.parked.removeValue(forKey: ticket.number) != nil
      else { return }
      live.ledger.withdraw(ticket.number)
    }
  }

  private func ask(
    _ waiter: UInt64, _ slot: Int, rejected: UInt64?, route: Int, _ asker: Asker
  ) {
    let live = look(slot)
    let outcome = live.ledger.ask(
      waiter, rejected: rejected, route: route, waitersMax: settings.waitersMax, now: now(slot), at: BootClock.now)
    if rejected != nil, live.ledger.rejected != nil {
      loops.publish(slot, nil)
      saveEnd(slot, live.ledger.endIfFenced(now: now(slot)))
    }
    switch outcome {
    case .parked(let trigger):
      live.parked[waiter] = asker
      if let trigger { takeOff(slot, trigger: trigger) }
    case .ready, .unchanged, .refused, .tooManyWaiters:
      let (update, bearer) = told(outcome, of: slot)
      asker.tell(slot, update, bearer)
    }
  }

  /// What who asked is told of what the ledger has answered.
  func told(_ outcome: SessionLedger.Answer, of slot: Int) -> (BearerUpdate?, BearerAnswer) {
    switch outcome {
    case .ready(let generation): return (update(slot), .ready(generation: generation))
    case .unchanged(let generation): return (nil, .ready(generation: generation))
    case .refused(let failure): return (nil, .unavailable(refusal(slot, failure)))
    case .tooManyWaiters:
      tallies.waitersRefused += 1
      return (nil, .unavailable(Refusals.tooManyWaiters(sessions[slot].name)))
    case .parked: preconditionFailure("a parked waiter is told by its flight")
    }
  }

  // MARK: knowledge

  /// Reads the session's file if it has changed: another process, a command or a person may have written it.
  @discardableResult
  func look(_ slot: Int) -> LiveSession {
    let live = sessions.live(slot)
    armLetGo()
    if live.ledger.isRefreshing || live.ledger.isDegraded { return live }
    let stamp = store.stamp(live.ledger.name)
    if stamp != nil, stamp == live.stamp { return live }
    do throws(StoreFault) {
      let record = try store.load(live.ledger.name)
      // I7: another process's new token, or that of one that died before we started, may be visible before its rename
      // is durable, and must not be used before.
      if !live.ledger.hasArrived(record) { try store.makeDurable(live.ledger.name) }
      adopt(record, slot, live)
      live.stamp = stamp
    } catch {
      live.ledger.lose(error.trouble)
      live.stamp = nil
      loops.publish(slot, nil)
      if error.trouble.kind == .missing { seatInPools(live.ledger.name, isThere: false) }
    }
    return live
  }

  /// What a watcher of the store says: sessions changed by others are seen at once, and who waits for a lock tries.
  public func noticed(_ change: StoreWatcher.Change) {
    queue.async { [self] in
      switch change {
      case .session(let name): lookAgain(name)
      case .lockReleased(let name):
        if let slot = sessions.slot(of: name) { sessions[slot].live?.runner?.lockMayBeFree() }
      case .everything:
        for slot in sessions.indices where slot < SessionTable.keptMax || sessions[slot].live != nil {
          lookAgain(sessions[slot].name)
        }
        seatAllInPools()
      case .unwatched(let directory, let code):
        logger.warning(
          "a directory cannot be watched: changes there are noticed at the next question only",
          metadata: ["directory": "\(directory)", "errno": "\(code)"])
      }
    }
  }

  /// Of one that is not in memory nothing is read before a request uses it (SPEC §5); its pool wants to know of it.
  private func lookAgain(_ name: String) {
    if store.stamp(name) != nil {
      seatInPools(name, isThere: true)
    } else if isMissing(name) {
      seatInPools(name, isThere: false)
    }
    guard let slot = sessions.slot(of: name), slot < SessionTable.keptMax || sessions[slot].live != nil else { return }
    // Another owner or mode leaves the stamp as it is.
    sessions.live(slot).stamp = nil
    look(slot)
  }

  /// While the store's directory is away or unreadable nothing is known of a session: it is not missing.
  private func isMissing(_ name: String) -> Bool {
    do throws(StoreFault) {
      _ = try store.load(name)
      return false
    } catch {
      return error.trouble.kind == .missing
    }
  }

  private func adopt(_ record: SessionRecord, _ slot: Int, _ live: LiveSession) {
    if providers[record.provider] == nil {
      logger.error(
        "the session's provider is not configured: it cannot be refreshed",
        metadata: ["session": "\(record.name)", "provider": "\(record.provider)"])
    }
    let provider = providers[record.provider] ?? Provider(name: record.provider)
    live.ledger.adopt(record, provider: provider, settings: Self.digest(of: provider))
    live.ledger.noteArrival(wall: WallClock.now, at: BootClock.now)
    planAhead(slot, isAgain: true)
    loops.publish(slot, update(slot))
  }

  /// The time by which a session's token is judged: a clock that is set back does not prolong its life.
  func now(_ slot: Int) -> WallTime {
    let (wall, at) = (WallClock.now, BootClock.now)
    return sessions[slot].live?.ledger.time(wall: wall, at: at) ?? wall
  }

  func instant(of time: WallTime, _ slot: Int) -> Instant { BootClock.now + time.since(now(slot)) }

  /// The digest that ties a configuration fault to the settings it was for.
  public static func digest(of provider: Provider) -> String {
    var all: [UInt8] = []
    provider.feedSettings { all.append(contentsOf: $0) }
    return FileSessionStore.fingerprint(of: Secret(taking: &all)).hexadecimal
  }

  /// What loops may know: nil where the token does not serve now.
  func update(_ slot: Int) -> BearerUpdate? {
    guard let ledger = sessions[slot].live?.ledger, let record = ledger.record, let accessToken = record.accessToken,
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
      freshUntil: min(freshUntil, instant(of: record.expiresAt, slot)), aheadAt: sessions[slot].aheadAt)
  }

  func refusal(_ slot: Int, _ failure: FlightFailure?) -> BearerRefusal {
    // A back-off is stored, and ends by the clock that all processes share.
    Refusals.make(sessions.live(slot).ledger, failure, now: WallClock.now)
  }

  // MARK: pools

  /// A new configuration's pools, one pattern or none for each upstream; `names` are those in the store now.
  public func replacePools(_ patterns: [String?], names: [String]) -> SessionPools.Snapshot {
    queue.sync {
      pools.replace(patterns, names: names) { sessions.makeSlot($0) }
      return pools.snapshot
    }
  }

  /// After events were lost: the store is walked, away from the keeper's queue.
  private func seatAllInPools() {
    guard pools.areAny else { return }
    disk.async { [self] in
      guard let names = try? store.names(limit: .max) else { return }
      queue.async { [self] in
        for name in names { seatInPools(name, isThere: true) }
      }
    }
  }

  /// A session's file has come or gone, as far as its pools are concerned.
  private func seatInPools(_ name: String, isThere: Bool) {
    let hasChanged =
      if isThere {
        pools.want(name) && pools.join(sessions.makeSlot(name), name)
      } else {
        sessions.slot(of: name).map { pools.leave($0) } ?? false
      }
    guard hasChanged, arePoolsTold else { return }
    // Many sessions may be added at once: the loops are told of them together.
    arePoolsTold = false
    queue.async { [self] in
      arePoolsTold = true
      loops.publishPools(pools.snapshot)
    }
  }

  // MARK: memory

  private static let letGoBatch = 4096
  private static let releaseCount = 256
  private static let letGoPeriodMax = Interval.seconds(15)

  /// Looks through those in use from time to time, as long as there are any that may be let go.
  private func armLetGo(isHurried: Bool = false) {
    guard !isLettingGo, !sessions.order.isEmpty else { return }
    isLettingGo = true
    let period = isHurried ? .seconds(1) : min(settings.idleTime / 4, Self.letGoPeriodMax)
    letGoTimer.schedule(
      deadline: .now() + .milliseconds(Int(max(period.milliseconds, 100))), leeway: .milliseconds(50))
  }

  private func letIdleGo() {
    let slots = sessions.takeOldest(Self.letGoBatch)
    loops.lastUses(slots) { [self] uses in
      queue.async { [self] in
        let now = BootClock.now
        var count = 0
        for (slot, used) in zip(slots, uses) {
          guard let live = sessions[slot].live, !Self.isRecent(used, settings.idleTime, at: now),
            live.canBeLetGo(at: now)
          else {
            sessions.keep(slot)
            continue
          }
          sessions.letGo(slot)
          loops.publish(slot, nil)
          count += 1
        }
        // Tokens lie between what stays: 100 000 that were freed one by one left 85 MB resident (measured).
        if count >= Self.releaseCount { disk.async { bearerd_release_freed_memory() } }
        isLettingGo = false
        armLetGo(isHurried: slots.count == Self.letGoBatch)
      }
    }
  }

  // MARK: what is told

  /// The name that a slot stands for; waits for the keeper's queue.
  public func name(of slot: Int) -> String { queue.sync { slot < sessions.count ? sessions[slot].name : "" } }

  /// What metrics tell.
  public struct Snapshot: Sendable {
    public var tallies: Tallies
    /// Sessions that the process has heard of, and those of them that are in memory.
    public var count: Int
    public var liveCount: Int
    /// The first ones, one by one.
    public var first: [SessionView]
  }

  /// Waits for the keeper's queue.
  public func snapshot() -> Snapshot {
    queue.sync {
      let first = sessions.indices.prefix(SessionTable.keptMax).map { slot in
        let place = sessions[slot]
        return SessionView(
          place.live?.ledger ?? SessionLedger(name: place.name, arrival: place.arrival), now: now(slot))
      }
      let liveCount = sessions.places.reduce(0) { $0 + ($1.live == nil ? 0 : 1) }
      return Snapshot(tallies: tallies, count: sessions.count, liveCount: liveCount, first: first)
    }
  }
}
