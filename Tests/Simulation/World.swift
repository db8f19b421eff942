import BearerPolicy
import Chronology
import MockBackend

/// One run: processes that share a store, clients that use them, and the servers behind, all in one virtual time.
final class World {
  let seed: UInt64
  var scenario: Scenario
  let planted: PlantedBug?
  var chance: Chance
  var timeline = Timeline()
  private(set) var now = Instant(nanoseconds: 3_600_000_000_000)
  private let startedAt = Instant(nanoseconds: 3_600_000_000_000)
  /// How far our wall clock has been set since the start.
  var clockSet = Interval.zero

  var backend: MockBackend
  var directories: [VirtualDirectory] = []
  /// Which flight or command holds each session's lock.
  var locks: [LockHolder?] = []
  var processes: [SimProcess] = []
  /// Commands, each a process of its own that is not started again.
  private var commands: [SimProcess] = []
  private(set) var requests: [SimRequest] = []
  var presentations: [Presentation] = []
  /// Access tokens of refreshes whose process has not died before they were saved.
  var obtained: Set<String> = []
  /// Whose each token is, by what the servers issued.
  var owners: [String: Int] = [:]
  /// Intents that stayed in a file though their process had sent nothing.
  var unsentIntents: [Fingerprint: SimProcess] = [:]
  /// Access tokens that at some moment no power loss could have taken.
  var everDurable: Set<String> = []
  /// By session: the last state that a flight reported durable.
  var promised: [SessionRecord?] = []
  var lastUploader: SimRequest?
  var coverage = Coverage()
  private(set) var violation: Violation?
  /// No fault happens any more.
  private(set) var isCalm = false
  /// Until then the disk fails in that way.
  private var outage: (until: Instant, fault: DiskFault)?
  private(set) var trace: [String] = []
  private let keepsTrace: Bool
  private(set) var stepCount = 0
  let settings: String

  init(seed: UInt64, planted: PlantedBug? = nil, keepsTrace: Bool = false) {
    self.seed = seed
    self.planted = planted
    self.keepsTrace = keepsTrace
    scenario = Scenario(seed: seed)
    chance = Chance(seed: ~seed)
    backend = MockBackend(settings: scenario.backend, seed: scenario.backendSeed)
    settings = "settings"
    for session in 0..<scenario.sessionCount {
      locks.append(nil)
      promised.append(nil)
      var directory = VirtualDirectory()
      directory.create(.session)
      directory.write(signIn(session, generation: 1, spent: []), .session)
      directory.sync(.session)
      directory.syncDirectory()
      directories.append(directory)
    }
    noteDurable()
    for index in 0..<scenario.processCount {
      processes.append(SimProcess(world: self, index: index, incarnation: 1))
    }
    planRequests()
  }

  var wallNow: WallTime { Scenario.start + now.since(startedAt) + clockSet }
  var serverNow: WallTime { Scenario.start + now.since(startedAt) + scenario.serverAhead }

  /// A person signs in; the tokens are handed to the store by `session add`.
  func signIn(_ session: Int, generation: UInt64, spent: [Fingerprint]) -> SessionRecord {
    let tokens = backend.login(user: "user\(session)", now: serverNow)
    let lifetime = Interval.milliseconds(scenario.backend.accessTokenLifetimeMilliseconds)
    owners[tokens.accessToken] = session
    owners[tokens.refreshToken] = session
    return SessionRecord(
      name: "session\(session)", provider: Scenario.providerName(of: session), generation: generation,
      accessToken: Secret(tokens.accessToken),
      refreshToken: scenario.hasRefreshToken ? Secret(tokens.refreshToken) : nil, obtainedAt: wallNow,
      expiresAt: wallNow + lifetime, expirySource: .fallback, isImported: true, spent: spent)
  }

  // MARK: running

  /// Plays the run to its end, or to the first violation.
  func run() -> Violation? {
    drain()
    if violation == nil {
      calm()
      drain()
    }
    if violation == nil {
      settle()
      drain()
    }
    if violation == nil { violation = Invariants.judgeAtRest(self) }
    return violation
  }

  private func drain() {
    while violation == nil, let event = timeline.next() {
      now = max(now, event.at)
      if let process = event.process, !process.isUp { continue }
      stepCount += 1
      event.run()
      if violation == nil { violation = Invariants.judge(self) }
      if stepCount > Self.stepsMax {
        violation = Violation(invariant: "I11", detail: "no rest after \(stepCount) steps")
      }
    }
  }

  private static let stepsMax = 60_000

  func after(_ interval: Interval, _ process: SimProcess? = nil, _ run: @escaping () -> Void) {
    timeline.add(at: now + interval, process: process, run)
  }

  func note(_ text: @autoclosure () -> String) {
    guard keepsTrace else { return }
    let at = now.since(startedAt).milliseconds
    trace.append("\(at / 1000).\(String(at % 1000 + 1000).dropFirst()) s  \(text())")
  }

  func judge(_ fact: Fact) {
    if violation == nil { violation = Invariants.judge(fact, in: self) }
  }

  func fail(_ invariant: String, _ detail: String) {
    if violation == nil { violation = Violation(invariant: invariant, detail: detail) }
  }

  /// Earlier presentations of the same refresh token that may have succeeded.
  func doubtful(before presentation: Presentation) -> [Presentation] {
    presentations.filter {
      $0 !== presentation && $0.refreshToken == presentation.refreshToken && $0.fate == .perhaps
    }
  }

  // MARK: the plan of a run

  private func planRequests() {
    var at = Interval.zero
    for number in 0..<scenario.requestCount {
      at = at + (chance.happens(0.65) ? chance.milliseconds(0...300) : chance.milliseconds(1000...25_000))
      let request = SimRequest(number: number, session: chance.number(0...scenario.sessionCount - 1), &chance)
      let process = chance.number(0...scenario.processCount - 1)
      requests.append(request)
      after(at) { [unowned self] in
        disturb(request.session)
        begin(request, process)
      }
    }
  }

  private func begin(_ request: SimRequest, _ index: Int) {
    let process = processes[index]
    if process.isUp {
      process.begin(request)
    } else {
      // Its connection is refused.
      request.startedAt = now
      ended(request, "refused: process \(index) is down")
    }
  }

  func ended(_ request: SimRequest, _ how: String) {
    request.endings += 1
    note("\(request.label) ends: \(how)")
    judge(.ended(request, after: now.since(request.startedAt)))
  }

  private func disturb(_ session: Int) {
    let rates = scenario.rates
    if chance.happens(rates.clockStep) {
      clockSet = clockSet + .seconds(Int64(chance.number(-90...90)))
      note("the wall clock is set: \(clockSet.inSeconds) s")
    }
    if chance.happens(rates.revocation) {
      backend.revokeAccessTokens(of: "user\(session)")
      note("the server revokes the access tokens of session \(session)")
    }
    if chance.happens(rates.logout) {
      backend.revokeFamilies(of: "user\(session)")
      note("the server ends the login of session \(session)")
    }
    if chance.happens(rates.diskOutage) {
      let fault: DiskFault = chance.happens(0.5) ? .full : .broken
      outage = (now + chance.milliseconds(500...40_000), fault)
      note("the disk is \(fault) for a while")
    }
    if chance.happens(rates.command) { command(session) }
    if chance.happens(rates.letGo) {
      for process in processes where process.isUp { process.letGo(session) }
    }
  }

  private func command(_ session: Int) {
    switch chance.number(0...9) {
    case 0: newCommand().remove(session)
    case 1, 2: newCommand().add(session)
    case 3...5: newCommand().refreshByCommand(session)
    default:
      let process = chance.pick(processes)
      if process.isUp { process.refreshByCommand(session) }
    }
  }

  private func newCommand() -> SimProcess {
    commands.append(SimProcess(world: self, index: 100 + commands.count, incarnation: 1))
    return commands[commands.count - 1]
  }

  // MARK: the end of a run

  /// All faults stop and everybody comes back.
  private func calm() {
    isCalm = true
    scenario.rates = Scenario.Rates()
    scenario.crashTarget = nil
    outage = nil
    note("no more faults")
    for process in processes where !process.isUp { restart(process.index) }
  }

  /// A last use of each session by each process, and a holder of each lock that sweeps what the dead left behind.
  private func settle() {
    for process in processes {
      for session in directories.indices {
        let request = SimRequest(number: requests.count, session: session, &chance)
        requests.append(request)
        after(chance.milliseconds(700_000...900_000)) { [unowned self] in begin(request, process.index) }
      }
    }
    for session in directories.indices {
      after(.seconds(1000)) { [unowned self] in
        if directories[session].record == nil {
          newCommand().add(session)
        } else {
          newCommand().refreshByCommand(session)
        }
      }
    }
  }

  // MARK: crashes

  /// Whether the process dies here: then nothing of it goes on.
  func crashes(_ process: SimProcess, at step: DiskStep, isBefore: Bool) -> Bool {
    guard !isCalm else { return false }
    var dies = chance.happens(scenario.rates.crash)
    var takesPower = dies && chance.happens(scenario.rates.powerShare)
    if let target = scenario.crashTarget, target.step == step, target.isBefore == isBefore {
      scenario.crashTarget?.passesLeft -= 1
      if target.passesLeft <= 0 {
        scenario.crashTarget = nil
        dies = true
        takesPower = target.takesPower
      }
    }
    guard dies else { return false }
    coverage.note(.crash(step, isBefore: isBefore))
    if takesPower {
      losePower(step, isBefore: isBefore)
    } else {
      coverage.note(.processCrash)
      note("process \(process.index) dies \(isBefore ? "before" : "after") \(step)")
      kill(process)
    }
    return true
  }

  private func kill(_ process: SimProcess) {
    process.die()
    guard process.index < processes.count else { return }
    after(chance.milliseconds(100...15_000)) { [unowned self] in restart(process.index) }
  }

  private func restart(_ index: Int) {
    guard !processes[index].isUp else { return }
    processes[index] = SimProcess(world: self, index: index, incarnation: processes[index].incarnation + 1)
    note("process \(index) starts again")
  }

  private func losePower(_ step: DiskStep, isBefore: Bool) {
    coverage.note(.powerLoss)
    note("the power goes \(isBefore ? "before" : "after") \(step)")
    for process in processes where process.isUp { kill(process) }
    for process in commands { process.die() }
    for session in directories.indices {
      directories[session].losePower(&chance)
      if let promise = promised[session] {
        judge(.recovered(promised: promise, now: directories[session].record))
      }
    }
  }

  // MARK: the disk

  func diskFault(_ step: DiskStep) -> DiskFault? {
    guard step.mayFail, !isCalm else { return nil }
    if let outage, now < outage.until {
      switch outage.fault {
      case .full: if step.needsRoom { return .full }
      case .broken, .missing: return .broken
      }
    }
    guard chance.happens(scenario.rates.diskFault) else { return nil }
    return step.needsRoom && chance.happens(0.5) ? .full : .broken
  }

  /// Who watches the store learns of a new file at once, or not at all.
  func tellWatchers(_ session: Int, of author: SimProcess) {
    for process in processes where process !== author && chance.happens(0.7) {
      after(chance.milliseconds(0...3), process) { process.noticed(session) }
    }
  }

  /// After a change of what the disk holds.
  func noteDurable() {
    for directory in directories {
      if let token = directory.certainRecord?.accessToken { everDurable.insert(token.reveal()) }
    }
  }
}

/// Who has a session's lock: the end of its process gives it back.
final class LockHolder {
  let process: SimProcess
  init(_ process: SimProcess) { self.process = process }
}
