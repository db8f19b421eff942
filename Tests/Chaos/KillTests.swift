import Foundation
import MockBackend
import MockServer
import Testing

/// Tests that want the machine's processes to themselves, one after the other.
@Suite("Chaos on the real binary", .serialized) struct Chaos {}

extension Chaos {
  /// Two daemons on one state directory under load, with tokens of about a second and a token endpoint that answers
  /// after anything up to a seventh of that, so that a kill at a random instant meets every phase of a refresh.
  @Suite("I1, SPEC §3 crash safety: kill -9 at any instant") struct KillTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// `CHAOS_KILLS` and `CHAOS_SEED` choose another run.
    static let kills = environment["CHAOS_KILLS"].flatMap { Int($0) } ?? 30
    static let seed = environment["CHAOS_SEED"].flatMap { UInt64($0) } ?? .random(in: 0...UInt64(UInt32.max))
    static let sessions = (0..<4).map { "load-\($0)" }

    @Test("No refresh token comes twice, every session works or says why not, and no file is half written")
    func kills() throws {
      print("chaos: CHAOS_KILLS=\(Self.kills) CHAOS_SEED=\(Self.seed)")
      let stage = try Stage(
        daemons: 2, lifetimeMilliseconds: 1000, provider: "timeout = \"5s\"", tables: "[refresh]\ncool_down = \"1s\"")
      var run = Run(stage: stage, chance: Chance(seed: Self.seed))
      for session in Self.sessions { try stage.signIn(session) }
      for slot in stage.slots { try slot.start() }
      let load = Load()
      for client in 0..<6 {
        load.addClient(
          of: stage.slots[client % 2], sessions: Self.sessions, seed: run.chance.next())
      }
      do {
        defer { load.finish(stage.slots) }
        while run.kills < Self.kills, load.tally.violations.isEmpty {
          try run.killOne()
          try run.signInAgain(load.tally.takeOver())
        }
      }
      print("chaos: \(run.kills) kills, \(run.report)")
      print("chaos: answers: \(load.tally.summary)")
      #expect(load.tally.violations.prefix(5) == [], "CHAOS_SEED=\(Self.seed)")
      #expect(run.kills == Self.kills && load.tally.count("200") > 0)
      stage.expectSinglePresentations()
      try run.settle()
      stage.expectSinglePresentations()
    }
  }
}

/// The course of one run: who is killed when, and who signs in again.
private struct Run {
  let stage: Stage
  var chance: Chance
  var kills = 0
  private var starts = 0
  private var killsInStart = 0
  private var ended: [String: Int] = [:]

  init(stage: Stage, chance: Chance) {
    self.stage = stage
    self.chance = chance
  }

  /// Kills one of the daemons at a random instant, looks at what it left, and starts the next; some of those die
  /// before they serve.
  mutating func killOne() throws {
    stage.server.withBackend { [delays = delays()] in $0.faults.refresh = FaultSchedule(delays) }
    usleep(UInt32(chance.number(in: 10...300) * 1000))
    let slot = stage.slots[chance.number(in: 0...1)]
    #expect(slot.isAlive, "a daemon died by itself: \(slot.log.suffix(3000))")
    slot.kill9()
    kills += 1
    try look()
    if chance.number(in: 0...5) == 0, kills < Chaos.KillTests.kills {
      try slot.launch()
      usleep(UInt32(chance.number(in: 0...40) * 1000))
      slot.kill9()
      kills += 1
      killsInStart += 1
    }
    try slot.start()
    starts += 1
  }

  private mutating func delays() -> [Fault] {
    (0..<100).map { _ in .delay(milliseconds: chance.number(in: 0...150)) }
  }

  /// What a reader finds in the middle of it all: whole files, and no refresh token that came twice.
  private func look() throws {
    let listed = try stage.list()
    #expect(listed.map(\.name) == Chaos.KillTests.sessions)
    let counters = stage.server.counters
    #expect(counters.presentedAfterCommit == 0 && counters.familiesRevoked == 0, "after \(kills) kills")
  }

  /// A new login for each of these sessions that is over; clients of a session that was renewed meanwhile may still
  /// have been told so.
  mutating func signInAgain(_ names: Set<String>) throws {
    guard !names.isEmpty else { return }
    for session in try stage.list() where names.contains(session.name) && session.state == "dead" {
      #expect(session.reason == "outcome_unknown", "\(session)")
      ended[session.reason ?? "?", default: 0] += 1
      try stage.signIn(session.name)
    }
  }

  /// With the killing over, every session works at both daemons, and no refresh leaves anything lying about.
  mutating func settle() throws {
    stage.server.withBackend { $0.faults.refresh = [] }
    for slot in stage.slots {
      let (exit, log) = try slot.stop()
      #expect(exit == 0, "\(log.suffix(3000))")
    }
    // A token that is still good would hide, until the next flight, that its session is over with the holder.
    usleep(1_100_000)
    let calm = stage.slots.map { _ in Slot(configuration: stage.configuration, in: stage.scratch) }
    for slot in calm { try slot.start() }
    for session in Chaos.KillTests.sessions {
      for slot in calm {
        guard let place = slot.place() else { throw Trouble("the daemon is closed") }
        try awaited("200 for \(session)") { () -> Bool? in
          let answer = try Connection(port: place.port).get("/me", session: session)
          if answer.code == "SESSION_EXPIRED" { try signInAgain([session]) }
          return answer.status == 200 ? true : nil
        }
      }
      // The last flight sweeps what killed ones left.
      let refreshed = try stage.command(["refresh", session])
      #expect(refreshed.exit == 0, "\(refreshed.error)")
    }
    for slot in calm {
      let (exit, log) = try slot.stop()
      #expect(exit == 0, "\(log.suffix(3000))")
    }
    #expect(try stage.list().allSatisfy { $0.state == "active" })
    let files = stage.sessionFiles()
    #expect(Set(files.keys) == ["json", "lock"], "\(files)")
    #expect(files["json"]?.count == Chaos.KillTests.sessions.count)
  }

  var report: String {
    let counters = stage.server.counters
    return "\(killsInStart) of them before serving, \(starts) restarts, \(counters.refreshesCommitted) refreshes, "
      + "\(counters.logins) logins, sessions ended: \(ended)"
  }
}
