import BearerPolicy
import Foundation
import MockBackend
import MockServer
import SessionStore
import Testing

@Suite("SPEC §2, §5: many sessions") struct ManySessionsTests {
  private func users(_ daemon: Bearerd, _ count: Int) throws -> Set<String> {
    Set(try (0..<count).map { _ in try daemon.gateway("/me").member("user") as? String ?? "none" })
  }

  @Test("A session that is added or removed joins or leaves its pool without a restart", arguments: ["request", "connection"])
  func pool(_ pick: String) throws {
    let scene = try Scene()
    scene.settings.session = "pool = \"load-*\"\npool_pick = \"\(pick)\""
    scene.settings.upstream = "default = true"
    try scene.signIn("load-1")
    try scene.signIn("other")
    let daemon = try scene.start()
    #expect(try users(daemon, 4) == ["load-1"])
    for name in ["load-2", "load-3", "also-not"] { try scene.signIn(name) }
    #expect(try eventually { try users(daemon, 6) == ["load-1", "load-2", "load-3"] })
    #expect(try scene.session(["remove", "load-1", "--yes"]).exit == 0)
    #expect(try eventually { try users(daemon, 4) == ["load-2", "load-3"] })
    // What a reload reads afresh is the same.
    daemon.reload()
    try daemon.waitForLog("configuration reloaded")
    #expect(try users(daemon, 4) == ["load-2", "load-3"])
    try scene.signIn("load-1")
    #expect(try eventually { try users(daemon, 6) == ["load-1", "load-2", "load-3"] })
    try daemon.finish()
  }

  @Test("A pool that is empty at the start, and one that becomes empty, refuse and recover")
  func emptyPool() throws {
    let scene = try Scene()
    scene.settings.session = "pool = \"load-*\""
    scene.settings.upstream = "default = true"
    try scene.signIn("other")
    let daemon = try scene.start()
    #expect(try daemon.gateway("/me").code == "SESSION_MISSING")
    try scene.signIn("load-1")
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    #expect(try scene.session(["remove", "load-1", "--yes"]).exit == 0)
    #expect(try eventually { try daemon.gateway("/me").code == "SESSION_MISSING" })
    // A store that is away has not lost its sessions: the pool keeps them, and says that they cannot be read.
    try scene.signIn("load-2")
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    let (sessions, aside) = (scene.scratch("state/sessions"), scene.scratch("aside"))
    try FileManager.default.moveItem(atPath: sessions, toPath: aside)
    #expect(try eventually { try daemon.gateway("/me").status != 200 })
    #expect(try daemon.gateway("/me").code == "REFRESH_UNAVAILABLE")
    try FileManager.default.moveItem(atPath: aside, toPath: sessions)
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    try daemon.finish()
  }

  @Test("A store that is moved away, put back, or replaced by a copy is followed without a restart; a dead session revives")
  func replacedStore() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    let daemon = try scene.startSignedIn()
    #expect(try daemon.gateway("/me").status == 200)
    let files = FileManager.default
    let (sessions, aside) = (scene.scratch("state/sessions"), scene.scratch("aside"))

    try files.moveItem(atPath: sessions, toPath: aside)
    // Nothing is known of the session then: it is not missing, and nobody is told to sign in again.
    #expect(try eventually { try daemon.gateway("/me").code == "REFRESH_UNAVAILABLE" })
    try files.moveItem(atPath: aside, toPath: sessions)
    #expect(try eventually { try daemon.gateway("/me").status == 200 })

    // As a backup is restored: a copy takes its place.
    let copied = try Program.run("/bin/cp", ["-a", sessions, aside], in: scene.scratch)
    #expect(copied.exit == 0, "\(copied.error)")
    try files.moveItem(atPath: sessions, toPath: scene.scratch("old"))
    try files.moveItem(atPath: aside, toPath: sessions)
    #expect(try eventually { try daemon.gateway("/me").status == 200 })

    // The login ends, and a new one is handed in: both are in the new directory.
    scene.server.withBackend { $0.revokeFamilies(of: "ada") }
    scene.rejectAccessTokens()
    #expect(try daemon.gateway("/me").code == "SESSION_EXPIRED")
    #expect(try scene.session(["show", "ada"]).output.contains("dead"))
    try scene.signIn()
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    #expect(scene.server.counters.presentedAfterCommit == 0)
    try daemon.finish()
  }

  /// Sessions are written as files, for a thousand sign-ins would take longer than what they are for.
  private static func fill(_ scene: Scene, _ count: Int) throws -> [String] {
    let pattern = try scene.session(["show", "--json", "pattern"]).output
    #expect(pattern.contains("pattern"))
    let store = try scene.store()
    let template = try store.load("pattern")
    let text = try String(contentsOfFile: scene.scratch("state/sessions/\(shard(of: "pattern"))/pattern.json"), encoding: .utf8)
    let accessToken = try #require(template.accessToken).reveal()
    let refreshToken = try #require(template.refreshToken).reveal()
    var names: [String] = []
    for index in 0..<count {
      let name = "load-\(index)"
      let tokens = scene.server.login(user: name)
      let content = text.replacing("\"pattern\"", with: "\"\(name)\"")
        .replacing(accessToken, with: tokens.accessToken).replacing(refreshToken, with: tokens.refreshToken)
      let directory = scene.scratch("state/sessions/\(shard(of: name))")
      try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      let created = FileManager.default.createFile(
        atPath: "\(directory)/\(name).json", contents: Data(content.utf8), attributes: [.posixPermissions: 0o600])
      #expect(created)
      names.append(name)
    }
    return names
  }

  /// The first byte of the name's SHA-256, as the store has it.
  private static func shard(of name: String) -> String {
    String(FileSessionStore.fingerprint(of: Secret(name)).hexadecimal.prefix(2))
  }

  @Test("Thousands of sessions: all of a pool are served, each costs less than 1 KiB once it is idle, and lists are whole")
  func thousands() throws {
    let count = 5000
    let scene = try Scene()
    scene.settings.session = "pool = \"load-*\"\npool_pick = \"request\""
    scene.settings.upstream = "default = true"
    scene.settings.tables = "[timeouts]\nsession_idle = \"1s\"\n[log]\naccess = false"
    try scene.signIn("pattern")
    let names = try Self.fill(scene, count)
    let daemon = try scene.start()
    #expect(try daemon.metric("bearerd_sessions_known") == Double(count))
    #expect(try daemon.metric("bearerd_sessions_in_memory") ?? .infinity <= 200)
    // One more, so that what every first request costs is not counted.
    #expect(try daemon.gateway("/me").status == 200)
    let before = try #require(daemon.program.ownKiB())
    let client = try RawClient(port: daemon.port)
    var served: Set<Substring> = []
    for _ in 0..<count {
      client.send("GET /me HTTP/1.1\r\nHost: 127.0.0.1:\(daemon.port)\r\n\r\n")
      let text = client.receive(until: "}").text
      served.insert(try #require(text.firstMatch(of: /"user":"([^"]+)"/), "\(text)").1)
    }
    client.leave()
    #expect(served.count == count)
    #expect(try eventually { try daemon.metric("bearerd_sessions_in_memory") ?? .infinity <= 200 })
    let after = try #require(daemon.program.ownKiB())
    #expect(after - before < count, "\(before) KiB before, \(after) KiB after \(count) sessions were used and let go")
    // They come back from their files, and no login was refreshed for it.
    #expect(try daemon.gateway("/me").status == 200)
    #expect(scene.server.counters.refreshesCommitted == 0)

    var listed: [String] = []
    while true {
      let after = listed.last.map { ["--after", $0] } ?? []
      let page = try scene.session(["list", "--limit", "1000", "--json"] + after)
      let tree = try #require(try JSONSerialization.jsonObject(with: Data(page.output.utf8)) as? [String: Any])
      let sessions = try #require(tree["sessions"] as? [[String: Any]])
      if sessions.isEmpty { break }
      listed += sessions.compactMap { $0["name"] as? String }
    }
    #expect(listed == (names + ["pattern"]).sorted { Array($0.utf8).lexicographicallyPrecedes(Array($1.utf8)) })
    try daemon.finish()
  }
}
