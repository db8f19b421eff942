import Foundation
import MockBackend
import MockServer
import Testing

@Suite("I1, SPEC §3 crash safety: kill -9 at the worst moments") struct CrashTests {
  /// What a crash at a point leaves.
  enum Left: Sendable {
    /// Nobody knows whether the refresh token was used.
    case unknown
    /// The new tokens.
    case newTokens
  }

  @Test(
    "A crash inside a refresh never lets a refresh token be presented twice",
    arguments: [
      ("after-intent", Left.unknown), ("after-answer", .unknown), ("before-rename", .unknown),
      ("after-rename", .newTokens),
    ])
  func crash(_ point: String, _ left: Left) throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    // The first answer is a refresh of a token that expires soon, so that its end can be awaited.
    let tokens = try scene.signIn(expiresIn: 4)
    let doomed = try scene.start(binary: Binaries.withFaultPoints, environment: ["BEARERD_FAULT": point])
    let broken = try doomed.gateway("/me")
    #expect(broken.exit != 0 && broken.status == 0, "the daemon died under the request")
    #expect(try doomed.program.end() == -SIGKILL)
    let presentedBefore = scene.server.counters.refreshTokens[tokens.refreshToken]?.presented ?? 0
    #expect(presentedBefore == (point == "after-intent" ? 0 : 1))
    let shown = try scene.session(["show", "ada"])
    #expect(shown.exit == 0, "\(shown.error)")
    let daemon = try scene.start(binary: Binaries.withFaultPoints)
    switch left {
    case .unknown:
      #expect(shown.output.contains("unknown"), "\(shown.output)")
      #expect(try eventually { try daemon.gateway("/me").code == "SESSION_EXPIRED" })
      let over = try daemon.gateway("/me")
      #expect(over.status == 401 && (over.member("detail") as? String)?.contains("outcome_unknown") == true)
      #expect(try scene.session(["show", "ada"]).output.contains("outcome_unknown"))
    case .newTokens:
      for _ in 0..<3 { #expect(try daemon.gateway("/me").status == 200) }
      #expect(scene.server.counters.unauthorized == 0)
    }
    let counters = scene.server.counters
    #expect(counters.refreshTokens[tokens.refreshToken]?.presented ?? 0 == presentedBefore)
    #expect(counters.presentedAfterCommit == 0 && counters.familiesRevoked == 0)
    try daemon.finish()
  }
}
