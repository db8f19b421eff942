import Foundation
import MockBackend
import MockServer
import Testing

@Suite("SPEC §0 under load: short tokens and many clients") struct LoadTests {
  /// `SOAK_SECONDS` makes it a soak.
  static let seconds = ProcessInfo.processInfo.environment["SOAK_SECONDS"].flatMap { Int($0) } ?? 12

  @Test(
    "Fifty clients over tokens of three seconds see only 200, and the backend one refresh for each expiry",
    arguments: ["refresh_ahead = \"off\"", ""])
  func soak(_ provider: String) throws {
    let scene = try Scene { $0.backend.accessTokenLifetimeMilliseconds = 3000 }
    scene.settings.upstream = "default = true"
    scene.settings.loops = 2
    scene.settings.provider = provider
    try scene.signIn(expiresIn: 3)
    let daemon = try scene.start()
    let load = try Program.run(
      "node", [Binaries.peer("load.js"), daemon.url, "50", "\(Self.seconds)"], in: scene.scratch,
      within: Double(Self.seconds) + 60)
    let told = try #require(
      try JSONSerialization.jsonObject(with: Data(load.output.utf8)) as? [String: Any], "\(load.error)")
    let statuses = try #require(told["statuses"] as? [String: Int])
    #expect((told["failures"] as? [String]) == [], "\(told)")
    #expect(Array(statuses.keys) == ["200"], "\(statuses)")
    let counters = scene.server.counters
    #expect(counters.presentedAfterCommit == 0 && counters.familiesRevoked == 0 && counters.duplicatesExecuted == 0)
    #expect(counters.refreshesRefused == 0 && counters.bearersAtTokenEndpoints == 0)
    #expect(counters.refreshTokens.values.allSatisfy { $0.presented == 1 })
    // At the earliest half of a lifetime is left (refresh_ahead), less 10 % of jitter on that; at the latest none is.
    let earliest = provider.isEmpty ? 1.2 : 2.2
    let refreshes = counters.refreshesCommitted
    #expect(refreshes >= Self.seconds / 4 && Double(refreshes) <= Double(Self.seconds) / earliest + 2, "\(refreshes)")
    print("soak of \(Self.seconds) s: \(statuses), \(refreshes) refreshes, \(counters.unauthorized) 401s")
    try daemon.finish()
  }
}
