import Foundation
import MockBackend
import MockServer
import Testing

extension Chaos {
  @Suite("SPEC §3 single flight: daemons and the command line on one state directory") struct SharedStateTests {
    private static let session = "load-0"

    /// Each refresh is one generation: one more presentation would be one generation, or one refusal, too many.
    private func expectOneRefreshPerGeneration(
      _ stage: Stage, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
      let counters = stage.server.counters
      let generation = try #require(
        try stage.list().first { $0.name == Self.session }?.generation, sourceLocation: sourceLocation)
      #expect(generation == counters.refreshesCommitted + 1, sourceLocation: sourceLocation)
      #expect(counters.refreshTokens.count == counters.refreshesCommitted, sourceLocation: sourceLocation)
      stage.expectSinglePresentations(sourceLocation: sourceLocation)
    }

    private func stop(_ stage: Stage) throws {
      for slot in stage.slots {
        let (exit, log) = try slot.stop()
        #expect(exit == 0, "\(log.suffix(3000))")
      }
    }

    /// The bound counts expiries: a new token is due for a refresh again after at least `dueAfterSeconds`.
    @Test(
      "Two daemons with 200 clients each refresh once for each expiry, all together",
      arguments: [("refresh_ahead = \"off\"", 1.5), ("", 0.8)])
    func crowds(_ provider: String, _ dueAfterSeconds: Double) throws {
      let stage = try Stage(daemons: 2, lifetimeMilliseconds: 2000, provider: provider)
      stage.server.withBackend { $0.faults.refresh = .always(.delay(milliseconds: 200)) }
      try stage.signIn(Self.session, expiresIn: 2)
      for slot in stage.slots { try slot.start() }
      let load = Load()
      let begin = Date()
      for thread in 0..<8 {
        load.addCrowd(of: stage.slots[thread % 2], connections: 50, session: Self.session, seed: UInt64(thread))
      }
      // A run's length, not a wait for something.
      usleep(8_000_000)
      load.finish([])
      let seconds = Date().timeIntervalSince(begin)
      try stop(stage)
      let refreshes = stage.server.counters.refreshesCommitted
      print("crowds: \(refreshes) refreshes in \(seconds) s, \(load.tally.summary)")
      #expect(load.tally.violations.prefix(5) == [] && load.tally.kinds == ["200"], "\(load.tally.summary)")
      #expect(refreshes >= 3 && Double(refreshes) <= seconds / dueAfterSeconds + 2)
      try expectOneRefreshPerGeneration(stage)
    }

    @Test("'session refresh' and a daemon's own refreshes never present a token twice")
    func commandAndDaemon() throws {
      let stage = try Stage(daemons: 1, lifetimeMilliseconds: 1000)
      stage.server.withBackend { $0.faults.refresh = .always(.delay(milliseconds: 40)) }
      try stage.signIn(Self.session)
      try stage.slots[0].start()
      let load = Load()
      for client in 0..<2 { load.addClient(of: stage.slots[0], sessions: [Self.session], seed: UInt64(client)) }
      let commands = Commands(stage: stage, session: Self.session, each: 8)
      for _ in 0..<3 { load.add { commands.run() } }
      commands.wait()
      load.finish(stage.slots)
      try stop(stage)
      print("commands: \(commands.summary), \(stage.server.counters.refreshesCommitted) refreshes")
      #expect(commands.failures == [])
      #expect(load.tally.violations.prefix(5) == [] && load.tally.kinds == ["200"], "\(load.tally.summary)")
      try expectOneRefreshPerGeneration(stage)
    }
  }
}

/// Several people at the command line, each of whom refreshes the session again and again.
private final class Commands: @unchecked Sendable {
  private let stage: Stage
  private let session: String
  private let each: Int
  private let gate = NSCondition()
  private var ended = 0
  private var own = 0
  private var others = 0
  private var wrong: [String] = []
  private static let people = 3

  init(stage: Stage, session: String, each: Int) {
    (self.stage, self.session, self.each) = (stage, session, each)
  }

  func run() {
    for _ in 0..<each {
      let told: String
      do {
        let said = try stage.command(["refresh", session])
        told = said.exit == 0 ? said.output : "exit \(said.exit): \(said.error)"
      } catch {
        told = "\(error)"
      }
      gate.withLock {
        if told.hasPrefix("refreshed") {
          own += 1
        } else if told.hasPrefix("another process") {
          others += 1
        } else {
          wrong.append(told)
        }
      }
    }
    gate.withLock {
      ended += 1
      gate.broadcast()
    }
  }

  func wait() { gate.withLock { while ended < Self.people { gate.wait() } } }

  var failures: [String] { gate.withLock { wrong } }
  var summary: String { gate.withLock { "\(own) refreshed, \(others) found it done" } }
}
