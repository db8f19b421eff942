import Foundation
import MockBackend
import MockServer
import Testing

extension Chaos {
  @Suite(
    "SPEC §3, §6 a full disk, on a file system that is full",
    .enabled(if: SmallDisk.isPossible, "this process may not mount a tmpfs"))
  struct FullDiskTests {
    private static let session = "load-0"

    private func get(_ slot: Slot) throws -> Connection.Answer {
      guard let place = slot.place() else { throw Trouble("the daemon is closed") }
      return try Connection(port: place.port).get("/me", session: Self.session)
    }

    @Test("The old token serves as long as it is good; then STORE_UNWRITABLE, and nothing is sent until there is room")
    func refusedBeforeSending() throws {
      let disk = try SmallDisk()
      let stage = try Stage(daemons: 1, lifetimeMilliseconds: 3_600_000, on: disk)
      let tokens = try stage.signIn(Self.session)
      let slot = stage.slots[0]
      try slot.start()
      try disk.fill()
      #expect(try get(slot).status == 200)
      stage.server.withBackend { $0.revokeAccessTokens() }
      for _ in 0..<3 {
        let refused = try get(slot)
        #expect(refused.status == 503 && refused.code == "STORE_UNWRITABLE", "\(refused.head)\(refused.body)")
      }
      #expect(stage.server.counters.refreshTokens.isEmpty)
      #expect(try stage.list().map(\.state) == ["active"])
      try disk.free()
      try awaited("200 once there is room") { try get(slot).status == 200 ? true : nil }
      #expect(stage.server.counters.refreshTokens[tokens.refreshToken]?.presented == 1)
      #expect(try slot.stop().exit == 0)
      #expect(try stage.list().map(\.generation) == [2])
      stage.expectSinglePresentations()
    }

    @Test("A disk that fills up while the refresh is under way takes its result: the room was reserved")
    func fullBeforeTheAnswer() throws {
      let disk = try SmallDisk()
      let stage = try Stage(daemons: 1, lifetimeMilliseconds: 3_600_000, on: disk)
      let tokens = try stage.signIn(Self.session)
      let slot = stage.slots[0]
      try slot.start()
      stage.server.withBackend {
        $0.revokeAccessTokens()
        $0.faults.refresh = [.delay(milliseconds: 1500)]
      }
      guard let place = slot.place() else { throw Trouble("the daemon is closed") }
      let client = try Connection(port: place.port)
      try client.send("/me", session: Self.session)
      try awaited("the refresh under way") {
        stage.server.counters.refreshTokens[tokens.refreshToken]?.presented == 1 ? true : nil
      }
      try disk.fill()
      #expect(try client.receive().status == 200)
      slot.kill9()
      let left = try stage.list()
      #expect(left.map(\.state) == ["active"] && left.map(\.generation) == [2], "\(left)")
      try slot.start()
      #expect(try get(slot).status == 200)
      #expect(stage.server.counters.refreshesCommitted == 1)
      #expect(try slot.stop().exit == 0)
      stage.expectSinglePresentations()
    }
  }
}
