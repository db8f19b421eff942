import BearerPolicy
import Chronology
import Dispatch
import FoundationEssentials
import Glibc
import Logging
import ProxyCore
import Server
import SessionStore
import Synchronization
import Testing
import Transport

/// A keeper on a store of its own, with a disk that can be made to fail and a provider that answers from memory.
private final class Bench: Sendable {
  let directory: String
  let store: FileSessionStore
  let keeper: SessionKeeper
  let script: Script
  let counter: Counter
  static let name = "ada"

  init(lifetime: Interval = .seconds(3600), waitersMax: Int = 100) throws {
    directory = FileManager.default.temporaryDirectory.path + "/bearerd-keeper-\(UInt64.random(in: 0 ... .max))"
    let script = Script()
    let plain = try FileSessionStore(stateDirectory: directory)
    let now = WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    let record = SessionRecord(
      name: Self.name, provider: "test", accessToken: Secret("access-1"), refreshToken: Secret("refresh-1"),
      obtainedAt: now, expiresAt: now + lifetime, expirySource: .expiresIn, isImported: true)
    let lock = try plain.lock(Self.name, until: .never)
    try plain.create(record, lock: lock)
    lock.release()
    store = try FileSessionStore(stateDirectory: directory, disk: script.disk)
    var provider = Provider(name: "test")
    provider.endpoint = "https://id.example.com/token"
    let counter = Counter()
    keeper = SessionKeeper(
      store: store, providers: ["test": provider],
      settings: .init(
        coolDown: .seconds(30), waitersMax: waitersMax, aheadWindow: .seconds(3600), idleTime: .seconds(60)),
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      present: { _, _, reply in counter.answer(reply) })
    self.script = script
    self.counter = counter
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  /// What the disk was asked, and what it is to refuse. Kept by a queue: the thread sanitizer does not see a Mutex that is
  /// inlined here.
  final class Script: @unchecked Sendable {
    private let queue = DispatchQueue(label: "script")
    private var calls: [Disk.Call] = []
    private var fails: @Sendable (Disk.Call, String) -> Bool = { _, _ in false }

    var disk: Disk {
      Disk { [self] call, path in
        queue.sync {
          calls.append(call)
          return fails(call, path) ? 5 : nil
        }
      }
    }
    func fail(_ rule: @escaping @Sendable (Disk.Call, String) -> Bool) { queue.sync { fails = rule } }
    func count(_ wanted: Disk.Call) -> Int { queue.sync { calls.count { $0 == wanted } } }
  }

  /// The token endpoint: holds its answers back until it is told to give them.
  final class Counter: Sendable {
    typealias Reply = @Sendable (TokenEndpointReply) -> Void
    private let state = Mutex<(count: Int, held: [Reply], holds: Bool)>((0, [], false))
    var count: Int { state.withLock(\.count) }
    func answer(_ reply: @escaping Reply) {
      let isHeld = state.withLock { state in
        state.count += 1
        if state.holds { state.held.append(reply) }
        return state.holds
      }
      if !isHeld { reply(Self.good) }
    }
    func hold() { state.withLock { $0.holds = true } }
    func release(_ answer: TokenEndpointReply = good) {
      let held = state.withLock { state in
        defer { state.held = [] }
        state.holds = false
        return state.held
      }
      for reply in held { reply(answer) }
    }
    static let good = TokenEndpointReply.answer(
      status: 200, serverDate: nil, retryAfter: nil,
      body: Array(#"{"access_token":"access-2","refresh_token":"refresh-2","expires_in":3600}"#.utf8))
  }

  /// Answers are awaited, never slept for.
  final class Answers: Sendable {
    private let all = Mutex<[BearerAnswer]>([])
    private let arrived = DispatchSemaphore(value: 0)
    func note(_ answer: BearerAnswer) {
      all.withLock { $0.append(answer) }
      arrived.signal()
    }
    func next() throws -> BearerAnswer {
      guard arrived.wait(timeout: .now() + 30) == .success else { throw TimedOut() }
      return all.withLock { $0.removeFirst() }
    }
  }

  struct TimedOut: Error {}

  func ask(_ answers: Answers, rejected: UInt64? = nil) {
    keeper.ask(.named(Self.name), rejected: rejected, route: 0) { _, _, answer in answers.note(answer) }
  }

  func answer(rejected: UInt64? = nil) throws -> BearerAnswer {
    let answers = Answers()
    ask(answers, rejected: rejected)
    return try answers.next()
  }

  /// Looks again until it holds; the disk tells nobody.
  func eventually(_ holds: () throws -> Bool) rethrows -> Bool {
    for _ in 0..<3000 {
      if try holds() { return true }
      var nap = timespec(tv_sec: 0, tv_nsec: 10_000_000)
      nanosleep(&nap, nil)
    }
    return false
  }
}

@Suite("SPEC §3, §5: the session keeper and a disk that fails") struct SessionKeeperTests {
  @Test("I7: what another process wrote is made durable before it is used, and not used where that fails")
  func durableAtFirstRead() throws {
    let bench = try Bench()
    bench.script.fail { call, _ in call == .syncDirectory }
    guard case .unavailable(let refusal) = try bench.answer() else {
      Issue.record("a token was given whose file a power loss could take back")
      return
    }
    #expect(refusal.code == .storeUnwritable)
    bench.script.fail { _, _ in false }
    let before = bench.script.count(.syncDirectory)
    #expect(try bench.answer() == .ready(generation: 1))
    #expect(bench.script.count(.syncDirectory) == before + 1)
    // Once for each generation.
    #expect(try bench.answer() == .ready(generation: 1))
    #expect(bench.script.count(.syncDirectory) == before + 1)
  }

  @Test("I8: an intent that was not sent is taken out again, and until then nobody takes it for an unknown outcome")
  func unsentIntent() throws {
    let bench = try Bench(lifetime: .seconds(5))
    #expect(try bench.store.load(Bench.name).intent == nil)
    // The intent gets its name, and then neither it nor what was there before can be made durable.
    let renamed = Mutex(false)
    bench.script.fail { call, _ in
      renamed.withLock { wasRenamed in
        defer { if call == .rename { wasRenamed = true } }
        return (call == .rename || call == .syncDirectory) && wasRenamed
      }
    }
    guard case .unavailable(let refusal) = try bench.answer(rejected: 1) else {
      Issue.record("a token was given after its rejection")
      return
    }
    #expect(refusal.code == .storeUnwritable && bench.counter.count == 0)
    #expect(try bench.store.load(Bench.name).intent != nil, "the fault left the intent in the file")
    // The process should not end now, and nobody else gets the lock.
    let grounded = Mutex(false)
    bench.keeper.whenNoFlight { grounded.withLock { $0 = true } }
    #expect(try bench.store.tryLock(Bench.name) == nil)
    bench.script.fail { _, _ in false }
    #expect(try bench.eventually { try bench.store.load(Bench.name).intent == nil })
    #expect(bench.eventually { grounded.withLock { $0 } })
    let record = try bench.store.load(Bench.name)
    #expect(record.standing == .active && record.refreshToken == Secret("refresh-1") && record.spent == [])
    #expect(try bench.answer(rejected: 1) == .ready(generation: 2))
    #expect(bench.counter.count == 1)
  }

  @Test("I1: who has been told that no refresh is under way may end the process: none begins ahead of time any more")
  func grounded() throws {
    for isStopping in [false, true] {
      let bench = try Bench(lifetime: .seconds(60))
      let slot = bench.keeper.slot(for: Bench.name)
      if isStopping { bench.keeper.whenNoFlight {} }
      bench.keeper.refreshAhead(slot)
      let landed = DispatchSemaphore(value: 0)
      bench.keeper.whenNoFlight { landed.signal() }
      #expect(landed.wait(timeout: .now() + 30) == .success)
      #expect(bench.counter.count == (isStopping ? 0 : 1))
      #expect(try bench.store.load(Bench.name).generation == (isStopping ? 1 : 2))
    }
  }

  @Test("A session is refreshed ahead of time if it has been used: one that never was is not, however young the machine")
  func aheadOnlyIfUsed() throws {
    for isUsed in [false, true] {
      let bench = try Bench(lifetime: .seconds(120))
      let asked = DispatchSemaphore(value: 0)
      var loops = SessionKeeper.Loops()
      loops.lastUses = { slots, answer in
        answer(slots.map { _ in isUsed ? BootClock.now : nil })
        asked.signal()
      }
      bench.keeper.setLoops(loops)
      #expect(try bench.answer() == .ready(generation: 1))
      #expect(asked.wait(timeout: .now() + 30) == .success, "it was due at once")
      // What was decided has been done when the keeper's queue comes to this.
      let landed = DispatchSemaphore(value: 0)
      bench.keeper.whenNoFlight { landed.signal() }
      #expect(landed.wait(timeout: .now() + 30) == .success)
      #expect(bench.counter.count == (isUsed ? 1 : 0))
      #expect(try bench.store.load(Bench.name).generation == (isUsed ? 2 : 1))
    }
  }

  @Test("Waiters share one flight; one too many is refused at once; a failed flight tells all who wait")
  func waiters() throws {
    let bench = try Bench(waitersMax: 3)
    bench.counter.hold()
    let (parked, refused) = (Bench.Answers(), Bench.Answers())
    for _ in 0..<3 { bench.ask(parked, rejected: 1) }
    bench.ask(refused, rejected: 1)
    guard case .unavailable(let refusal) = try refused.next() else {
      Issue.record("the fourth of three waiters was let in")
      return
    }
    #expect(refusal.code == .overloaded)
    #expect(bench.eventually { bench.counter.count == 1 })
    bench.counter.release(.answer(status: 429, serverDate: nil, retryAfter: .seconds(7), body: []))
    for _ in 0..<3 {
      guard case .unavailable(let told) = try parked.next() else {
        Issue.record("a waiter of a failed flight got a token")
        return
      }
      #expect(told.code == .refreshUnavailable && (told.retryAfterSeconds ?? 0) >= 6)
    }
    #expect(bench.counter.count == 1)
  }

  /// Goal: a loop is not woken for each of many who wait there. Method: it reads its clock once for each time it is woken
  /// by a post, and who is told notes what it reads.
  @Test("All who wait on a loop are told there, 128 at a time")
  func wakings() throws {
    let bench = try Bench(waitersMax: 1000)
    let loop = try EventLoop(index: 0)
    defer { loop.stop() }
    bench.counter.hold()
    let seen = Mutex<[(Instant, BearerAnswer)]>([])
    let told = DispatchSemaphore(value: 0)
    for _ in 0..<200 {
      bench.keeper.ask(.named(Bench.name), rejected: 1, route: 0, on: loop) { _, _, answer in
        dispatchPrecondition(condition: .onQueue(loop.queue))
        seen.withLock { $0.append((loop.now, answer)) }
        told.signal()
      }
    }
    #expect(bench.eventually { bench.counter.count == 1 })
    bench.counter.release()
    for _ in 0..<200 { try #require(told.wait(timeout: .now() + 30) == .success) }
    let all = seen.withLock { $0 }
    #expect(all.allSatisfy { $0.1 == .ready(generation: 2) })
    #expect(Set(all.map(\.0)).map { at in all.count { $0.0 == at } }.sorted() == [72, 128])
  }
}
