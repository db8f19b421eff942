import BearerPolicy
import Chronology
import Dispatch
import SessionStore
import Synchronization

/// Carries one refresh flight out: its files off the loops, its presentation on one.
///
/// Each step starts after the one before has ended, so nothing here is touched by two threads at once.
final class FlightRunner: @unchecked Sendable {
  private let name: String
  private let store: FileSessionStore
  private let queue: DispatchQueue
  private let present: @Sendable (TokenRequest, @escaping @Sendable (TokenEndpointReply) -> Void) -> Void
  private let ended: @Sendable (FlightResult, Bool) -> Void
  private let settled: @Sendable () -> Void
  private var flight: RefreshFlight
  private var lock: SessionLock?
  /// What the file holds: read or written last under the lock.
  private var stored: SessionRecord?
  private var reserved: ReservedResult?
  private let lockPatience: Interval
  private var lockDeadline = Instant.never
  /// Set while nobody tries: whoever clears it, the clock or a released lock, tries next.
  private let isWaitingForLock = Atomic<Bool>(false)

  /// SPEC §5: who waits for a lock also tries every 100 ms.
  private static let lockRetry = DispatchTimeInterval.milliseconds(100)
  /// What a holder's disk may take beside its refresh.
  private static let lockSlack = Interval.seconds(10)

  /// - Parameters:
  ///   - timeout: of one refresh, and so of another process's, which is waited for.
  ///   - queue: concurrent; files are read and written there.
  ///   - present: sends the request once and answers on any queue.
  ///   - ended: called once, with what everybody who waits is told, and whether the lock is kept: something is still
  ///     to be written, or put away.
  ///   - settled: called later, once, where the lock was kept: all is on disk, and the lock is free.
  init(
    name: String, flight: RefreshFlight, timeout: Interval, store: FileSessionStore, queue: DispatchQueue,
    present: @escaping @Sendable (TokenRequest, @escaping @Sendable (TokenEndpointReply) -> Void) -> Void,
    ended: @escaping @Sendable (FlightResult, _ keepsLock: Bool) -> Void, settled: @escaping @Sendable () -> Void
  ) {
    self.name = name
    self.flight = flight
    self.store = store
    self.queue = queue
    self.present = present
    self.ended = ended
    self.settled = settled
    lockPatience = timeout + Self.lockSlack
  }

  func start() {
    queue.async { [self] in
      lockDeadline = BootClock.now + lockPatience
      perform(flight.start())
    }
  }

  private func input(_ input: RefreshFlight.Input) {
    perform(flight.handle(input, now: WallClock.now, jitter: .random(in: 0..<1)))
  }

  private func perform(_ action: RefreshFlight.Action) {
    switch action {
    case .acquireLock: acquireLock()
    case .load: load()
    case .writeIntent(let record): writeIntent(record)
    case .send(let request): send(request)
    case .writeResult(let record): writeResult(record)
    case .releaseLock: releaseLock()
    case .finish(let result): ended(result, false)
    case .finishAndRelease(let result):
      ended(result, true)
      releaseLock()
    case .finishKeepingLock(let result, let record, let after):
      ended(result, true)
      retry(record, after)
    case .retryWriteResult(let record, let after): retry(record, after)
    case .end: settled()
    case .ignore: break
    }
  }

  private func acquireLock() {
    do throws(StoreFault) {
      if let lock = try store.tryLock(name) {
        self.lock = lock
        return input(.lockAcquired)
      }
    } catch {
      return input(.lockUnavailable(error.trouble))
    }
    if BootClock.now >= lockDeadline {
      let detail = "another process holds the lock of session '\(name)': wait for it to finish, then try again"
      return input(.lockUnavailable(StoreTrouble(kind: .lockTimeout, detail: detail)))
    }
    isWaitingForLock.store(true, ordering: .releasing)
    queue.asyncAfter(deadline: .now() + Self.lockRetry) { [self] in lockMayBeFree() }
  }

  /// Somebody has released the session's lock: tries at once if it is waited for.
  func lockMayBeFree() {
    guard isWaitingForLock.exchange(false, ordering: .acquiring) else { return }
    queue.async { [self] in acquireLock() }
  }

  private func load() {
    do throws(StoreFault) {
      let record = try store.load(name)
      if flight.isNews(record) { try store.makeDurable(name) }
      stored = record
      input(.loaded(record, record.refreshToken.map { FileSessionStore.fingerprint(of: $0) }))
    } catch {
      input(.loadFailed(error.trouble))
    }
  }

  private func writeIntent(_ record: SessionRecord) {
    guard let lock else { return }
    do throws(StoreFault) {
      reserved = try store.writeIntent(record, over: stored, lock: lock)
      stored = record
      FaultPoint.reached("after-intent")
      input(.intentDurable)
    } catch {
      // What cannot be read may hold it.
      let isLeft = (try? store.load(name)).map { $0.intent == record.intent } ?? true
      input(.intentFailed(error.trouble, isLeft: isLeft))
    }
  }

  private func send(_ request: TokenRequest) {
    present(request) { [self] reply in
      queue.async { [self] in
        FaultPoint.reached("after-answer")
        input(.replied(reply, at: WallClock.now))
      }
    }
  }

  private func writeResult(_ record: SessionRecord) {
    guard let lock else { return }
    do throws(StoreFault) {
      if let reserved {
        try store.writeResult(record, over: stored, into: reserved, lock: lock)
      } else {
        try store.replace(record, lock: lock)
      }
      stored = record
      input(.resultDurable)
    } catch {
      closeReserved()
      input(.resultFailed(error.trouble))
    }
  }

  private func retry(_ record: SessionRecord, _ after: Interval) {
    queue.asyncAfter(deadline: .now() + .milliseconds(Int(after.milliseconds))) { [self] in writeResult(record) }
  }

  private func closeReserved() {
    reserved?.close()
    reserved = nil
  }

  private func releaseLock() {
    closeReserved()
    lock?.release()
    lock = nil
    input(.lockReleased)
  }
}
