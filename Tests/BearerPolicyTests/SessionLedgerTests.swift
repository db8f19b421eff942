import BearerPolicy
import Chronology
import Testing

@Suite("SPEC §0 I7: tokens that are in memory only") struct SessionLedgerDegradedTests {
  /// A ledger whose last refresh could not be saved; the flight that brought it keeps the lock and tries again.
  private static func degraded() -> SessionLedger {
    var ledger = SessionLedger(name: "alice")
    ledger.adopt(session(), provider: provider(), settings: "s")
    _ = ledger.takeOff(.preflight)
    let refreshed = session {
      $0.generation = 8
      $0.accessToken = Secret("access-8")
    }
    _ = ledger.landed(.refreshed(refreshed, isDurable: false), now: noon)
    return ledger
  }

  @Test(
    "A flight that never had the lock leaves them the session's newest state",
    arguments: [StoreTrouble.Kind.lockTimeout, .unwritable, .full])
  func failedBeforeTheLock(_ kind: StoreTrouble.Kind) {
    var ledger = Self.degraded()
    _ = ledger.takeOff(.ahead)
    _ = ledger.landed(.failed(nil, FlightFailure(StoreTrouble(kind: kind, detail: ""))), now: noon)
    #expect(ledger.isDegraded && ledger.isBusy)
    #expect(ledger.record?.generation == 8)
    #expect(ledger.servingGeneration(now: noon) == 8)
  }

  @Test("What a later flight reads under the lock, or what is saved at last, ends that")
  func ends() {
    let later = session { $0.generation = 9 }
    let results: [FlightResult] = [
      .alreadyNewer(later), .refreshed(later, isDurable: true), .failed(later, .notSent(reason: "connect")),
    ]
    for result in results {
      var ledger = Self.degraded()
      _ = ledger.takeOff(.ahead)
      _ = ledger.landed(result, now: noon)
      #expect(!ledger.isDegraded && ledger.record?.generation == 9)
    }
    var saved = Self.degraded()
    saved.becomeDurable()
    #expect(!saved.isBusy && saved.record?.generation == 8)
  }
}

@Suite("SPEC §3 trigger (b): refresh ahead of time") struct SessionLedgerAheadTests {
  @Test(
    "A failure that the record does not remember is not tried again at once",
    arguments: [FlightFailure.storeUnwritable(detail: ""), .storeUnreadable(detail: ""), .noEndpoint(missing: "")])
  func failed(_ failure: FlightFailure) throws {
    var ledger = SessionLedger(name: "alice")
    let due = session { $0.expiresAt = after(120) }
    ledger.adopt(due, provider: provider(), settings: "s")
    #expect(ledger.isDueAhead(now: noon))
    _ = ledger.takeOff(.ahead)
    _ = ledger.landed(.failed(due, failure), now: noon)
    let next = try #require(ledger.aheadAt(now: noon, jitter: 0))
    #expect(next == noon + SessionLedger.aheadRetry)
    #expect(!ledger.isDueAhead(now: noon) && ledger.isDueAhead(now: next))
    // New tokens start afresh.
    ledger.adopt(session { $0.generation = 8 }, provider: provider(), settings: "s")
    #expect(ledger.aheadAt(now: noon, jitter: 0) != next)
  }
}

@Suite("SPEC §0: expiry on a clock that nobody sets") struct SessionLedgerClockTests {
  private static let arrival = Instant(nanoseconds: 5_000_000_000)

  private static func ledger() -> SessionLedger {
    var ledger = SessionLedger(name: "alice")
    ledger.adopt(session { $0.expiresAt = after(60) }, provider: provider(), settings: "s")
    ledger.noteArrival(wall: noon, at: arrival)
    return ledger
  }

  @Test("A wall clock that is set back does not prolong a token's life, nor does reading it again")
  func setBack() {
    var ledger = Self.ledger()
    let later = Self.arrival + .seconds(61)
    #expect(ledger.time(wall: after(-3539), at: later) == after(61))
    #expect(ledger.servingGeneration(now: ledger.time(wall: after(-3539), at: later)) == nil)
    ledger.adopt(session { $0.expiresAt = after(60) }, provider: provider(), settings: "s")
    ledger.noteArrival(wall: after(-3539), at: later)
    #expect(ledger.time(wall: after(-3539), at: later) == after(61))
  }

  @Test("A wall clock that runs on, or is set forward, is believed")
  func setForward() {
    let ledger = Self.ledger()
    #expect(ledger.time(wall: after(10), at: Self.arrival + .seconds(10)) == after(10))
    #expect(ledger.time(wall: after(7200), at: Self.arrival + .seconds(10)) == after(7200))
  }

  @Test("The next generation goes by the clock as it was set")
  func nextGeneration() {
    var ledger = Self.ledger()
    let later = Self.arrival + .seconds(61)
    ledger.adopt(
      session {
        $0.generation = 8
        $0.expiresAt = after(-3000)
      }, provider: provider(), settings: "s")
    #expect(ledger.time(wall: after(-3539), at: later) == after(-3539))
    ledger.noteArrival(wall: after(-3539), at: later)
    #expect(ledger.time(wall: after(-7200), at: later + .seconds(10)) == after(-3529))
  }
}

@Suite("SPEC §3: waiters of one session") struct SessionLedgerWaiterTests {
  @Test("Past the limit a request is refused; one that is withdrawn leaves its place and is told nothing")
  func withdrawn() {
    var ledger = SessionLedger(name: "alice")
    ledger.adopt(session(), provider: provider(), settings: "s")
    func ask(_ waiter: UInt64) -> SessionLedger.Answer {
      ledger.ask(
        waiter, rejected: session().generation, route: 0, waitersMax: 2, now: noon, at: Instant(nanoseconds: 0))
    }
    #expect(ask(1) == .parked(takeOff: .unauthorized))
    _ = ledger.takeOff(.unauthorized)
    #expect(ask(2) == .parked(takeOff: nil))
    #expect(ask(3) == .tooManyWaiters)
    ledger.withdraw(1)
    #expect(ask(4) == .parked(takeOff: nil))
    #expect(ledger.isRefreshing && ledger.waiterCount == 2)
    let woken = ledger.landed(.failed(nil, .notSent(reason: "connect")), now: noon)
    #expect(woken.map(\.waiter) == [2, 4])
  }
}
