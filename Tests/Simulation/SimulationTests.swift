import BearerPolicy
import Dispatch
import FoundationEssentials
import Synchronization
import Testing

@Suite("SPEC §0 holds in every simulated run") struct SimulationTests {
  /// How many seeds a run plays, and the only one, by `SIM_SEEDS` and `SIM_SEED`.
  private static let environment = ProcessInfo.processInfo.environment
  private static let seedCount = environment["SIM_SEEDS"].flatMap { UInt64($0) } ?? 1000
  private static let onlySeed = environment["SIM_SEED"].flatMap { UInt64($0) }

  /// With `SIM_SEEDS` the counts are printed too; with `SIM_SEED` the whole trace is.
  @Test("I1 to I8 and I11 hold after every step, and every row and line of the tables is reached")
  func seeds() {
    if let seed = Self.onlySeed {
      let world = World(seed: seed, keepsTrace: true)
      let violation = world.run()
      print(Self.report(world))
      #expect(violation == nil)
      return
    }
    let coverage = Self.playAll()
    if Self.environment["SIM_SEEDS"] != nil {
      for line in coverage.counts.map({ "\($0.key): \($0.value)" }).sorted() { print(line) }
      print("simulated runs: \(Self.seedCount)")
    }
    guard Self.seedCount >= 1000 else { return }
    let missed = Coverage.required.filter { coverage.counts[$0] == nil }
    #expect(missed.isEmpty, "never reached: \(missed)")
  }

  /// Plays every seed, on all processors: a run shares nothing with another.
  private static func playAll() -> Coverage {
    let total = Mutex((coverage: Coverage(), failures: [String](), played: UInt64(0)))
    let share: UInt64 = 100
    DispatchQueue.concurrentPerform(iterations: Int((seedCount + share - 1) / share)) { index in
      if total.withLock({ $0.failures.count >= 3 }) { return }
      var coverage = Coverage()
      let first = UInt64(index) * share
      for seed in first..<min(first + share, seedCount) {
        let world = World(seed: seed)
        let isViolated = world.run() != nil
        coverage.merge(world.coverage)
        guard isViolated else { continue }
        let again = World(seed: seed, keepsTrace: true)
        _ = again.run()
        let said = report(again)
        total.withLock { $0.failures.append(said) }
      }
      let played = total.withLock { total in
        total.coverage.merge(coverage)
        total.played += min(share, seedCount - first)
        return total.played
      }
      if played % 10_000 == 0 { print("simulated \(played) of \(seedCount)") }
    }
    for failure in total.withLock(\.failures) { Issue.record("\(failure)") }
    return total.withLock(\.coverage)
  }

  @Test("A planted mistake is found within a thousand seeds", arguments: PlantedBug.allCases)
  func planted(_ bug: PlantedBug) {
    guard Self.onlySeed == nil else { return }
    for seed in 0..<UInt64(1000) {
      let world = World(seed: seed, planted: bug)
      guard let violation = world.run() else { continue }
      print("\(bug.rawValue): \(violation.invariant) by seed \(seed), \(violation.detail)")
      #expect(violation.invariant == bug.invariant, "\(bug.rawValue), seed \(seed): \(violation.detail)")
      return
    }
    Issue.record("\(bug.rawValue) was not found")
  }

  @Test("The same seed plays the same run", arguments: [UInt64(3), 17, 400])
  func sameSeed(_ seed: UInt64) {
    let (first, second) = (World(seed: seed, keepsTrace: true), World(seed: seed, keepsTrace: true))
    _ = first.run()
    _ = second.run()
    #expect(first.stepCount > 100)
    #expect(first.trace == second.trace)
  }

  private static func report(_ world: World) -> String {
    let scenario = world.scenario
    let head =
      "seed \(world.seed): \(scenario.declaration.rawValue), \(scenario.processCount) processes, "
      + "\(scenario.sessionCount) sessions, \(world.stepCount) steps"
    let result = world.violation.map { "\($0.invariant): \($0.detail)" } ?? "every invariant held"
    let lines = onlySeed == nil ? world.trace.suffix(40) : world.trace[...]
    return ([head] + lines + [result, "SIM_SEED=\(world.seed) swift test --filter Simulation"]).joined(
      separator: "\n")
  }
}
