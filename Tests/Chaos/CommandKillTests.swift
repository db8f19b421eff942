import BearerPolicy
import Foundation
import MockBackend
import MockServer
import SessionStore
import Testing

extension Chaos {
  /// Each command is killed at a random instant between its start and a little after its usual end, and then has to
  /// find what it left behind.
  @Suite("I1, SPEC §5: kill -9 of the commands at any instant") struct CommandKillTests {
    private static let kills = max(8, KillTests.kills / 4)

    /// Kills what `start` begins, each time at another instant of its usual course; `check` comes after each.
    private static func each(
      _ what: String, usual seconds: Double, _ start: (Int) throws -> Child, check: (Int) throws -> Void
    ) throws {
      var chance = Chance(seed: KillTests.seed ^ UInt64(what.utf8.reduce(0) { $0 &+ UInt64($1) }))
      var cut = 0
      for round in 0..<kills {
        let child = try start(round)
        // Where in its course a process is killed is what this is about; nothing is waited for.
        usleep(UInt32(Double(chance.next() % 1000) / 1000 * 1.2 * seconds * 1e6))
        if child.end == nil { cut += 1 }
        child.kill9()
        child.forgetFiles()
        try check(round)
      }
      print("chaos: \(what): \(cut) of \(kills) cut short, CHAOS_SEED=\(KillTests.seed)")
    }

    private static func seconds(_ body: () throws -> Void) rethrows -> Double {
      let begin = Date()
      try body()
      return Date().timeIntervalSince(begin)
    }

    private func start(_ stage: Stage, _ arguments: [String], input: String? = nil) throws -> Child {
      try Child(
        Binary.path, arguments.prefix(2) + ["--config", stage.configuration] + arguments.dropFirst(2),
        in: stage.scratch, input: input)
    }

    @Test("session add: the session is whole or not there, and adding it again works")
    func add() throws {
      let stage = try Stage(daemons: 0, lifetimeMilliseconds: 3_600_000)
      let usual = try Self.seconds { try stage.signIn("load-usual") }
      var answers: [String] = []
      func arguments(_ round: Int) -> [String] {
        ["session", "add", "load-\(round)", "--provider", "mock", "--from-json", "-", "--if-absent"]
      }
      try Self.each("session add", usual: usual) { round in
        let tokens = stage.server.login(user: "load-\(round)")
        answers.append(
          #"{"access_token":"\#(tokens.accessToken)","refresh_token":"\#(tokens.refreshToken)","expires_in":3600}"#)
        return try start(stage, arguments(round), input: answers[round])
      } check: { round in
        let there = try stage.list().filter { $0.name == "load-\(round)" }
        #expect(there.allSatisfy { $0.state == "active" && $0.generation == 1 }, "\(there)")
        let again = try start(stage, arguments(round), input: answers[round])
        #expect(try again.wait() == 0, "\(again.error)")
      }
      // Each login works: its refresh token is the one that was handed in, and is presented once.
      for round in 0..<Self.kills {
        let refreshed = try stage.command(["refresh", "load-\(round)"])
        #expect(refreshed.exit == 0, "\(refreshed.error)")
      }
      stage.expectSinglePresentations()
      #expect(stage.sessionFiles()["new"] == nil && stage.sessionFiles()["result"] == nil)
    }

    @Test("session refresh: the token is never presented again, and the session works or says why not")
    func refresh() throws {
      let stage = try Stage(daemons: 0, lifetimeMilliseconds: 3_600_000, provider: "timeout = \"5s\"")
      stage.server.withBackend { $0.faults.refresh = .always(.delay(milliseconds: 40)) }
      try stage.signIn("load-0")
      let usual = try Self.seconds { _ = try stage.command(["refresh", "load-0"]) }
      var ended = 0
      try Self.each("session refresh", usual: usual) { _ in
        try start(stage, ["session", "refresh", "load-0"])
      } check: { _ in
        let next = try stage.command(["refresh", "load-0"])
        if next.exit != 0 {
          let listed = try #require(try stage.list().first)
          #expect(["fenced", "dead"].contains(listed.state) && listed.reason != nil, "\(next.error) \(listed)")
          ended += 1
          try stage.signIn("load-0")
        }
        stage.expectSinglePresentations()
      }
      print("chaos: session refresh: \(ended) sessions ended, each with its reason")
      #expect(try stage.command(["refresh", "load-0"]).exit == 0)
      stage.expectSinglePresentations()
    }

    @Test("store encrypt, rotate-key and decrypt: run again they finish, and no session is lost")
    func conversions() throws {
      let stage = try Stage(daemons: 0, lifetimeMilliseconds: 3_600_000)
      let names = (0..<24).map { "load-\($0)" }
      for name in names { try stage.signIn(name) }
      let keys = try ["one", "two"].map { name in
        let path = stage.scratch(name)
        let made = try Child.run(Binary.path, ["store", "generate-key", path], in: stage.scratch)
        #expect(made.exit == 0, "\(made.error)")
        return path
      }
      let plain = try Dictionary(uniqueKeysWithValues: names.map { ($0, try store(stage, nil).load($0)) })
      var chance = Chance(seed: KillTests.seed)
      for turn in 0..<max(2, Self.kills / 8) {
        for (command, key) in [
          (["encrypt", "--key-file", keys[0]], Optional(keys[0])),
          (["rotate-key", "--key-file", keys[0], "--new-key-file", keys[1]], keys[1]),
          (["decrypt", "--key-file", keys[1]], nil),
        ] {
          let arguments = ["store", command[0], "--state-dir", stage.stateDirectory] + command.dropFirst()
          let cut = try Child(Binary.path, arguments, in: stage.scratch)
          usleep(UInt32(chance.next() % 60_000))
          cut.kill9()
          let whole = try Child(Binary.path, arguments, in: stage.scratch)
          #expect(try whole.wait() == 0, "\(command[0]), turn \(turn): \(whole.error)")
          let store = try store(stage, key)
          for name in names { #expect(try store.load(name) == plain[name], "\(command[0]), turn \(turn)") }
        }
      }
      #expect(stage.sessionFiles()["new"] == nil)
    }

    private func store(_ stage: Stage, _ keyFile: String?) throws -> FileSessionStore {
      let key = try keyFile.map { try StoreKey(file: $0, isCredential: false, storeOwner: nil) }
      return try FileSessionStore(stateDirectory: stage.stateDirectory, key: key)
    }
  }
}
