import BearerPolicy
import FoundationEssentials
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
    var coverage = Coverage()
    var failures = 0
    for seed in 0..<Self.seedCount {
      let world = World(seed: seed)
      if world.run() != nil {
        let again = World(seed: seed, keepsTrace: true)
        _ = again.run()
        Issue.record("\(Self.report(again))")
        failures += 1
        if failures == 3 { return }
      }
      coverage.merge(world.coverage)
    }
    if Self.environment["SIM_SEEDS"] != nil {
      for line in coverage.counts.map({ "\($0.key): \($0.value)" }).sorted() { print(line) }
    }
    guard Self.seedCount >= 1000 else { return }
    let missed = Coverage.required.filter { coverage.counts[$0] == nil }
    #expect(missed.isEmpty, "never reached: \(missed)")
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
