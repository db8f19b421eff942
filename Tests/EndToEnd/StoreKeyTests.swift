import Foundation
import MockBackend
import MockServer
import Testing

@Suite("SPEC §5: encryption at rest, beside a daemon that serves") struct StoreKeyTests {
  private func store(_ scene: Scene, _ arguments: [String]) throws -> (exit: Int32, output: String, error: String) {
    try Program.run(
      Binaries.bearerd, ["store", arguments[0], "--config", scene.scratch("bearerd.toml")] + arguments.dropFirst(),
      in: scene.scratch)
  }

  private func sessionFile(_ scene: Scene) throws -> Data {
    let directory = scene.scratch("state/sessions")
    let files = FileManager.default.enumerator(atPath: directory)?.compactMap { $0 as? String } ?? []
    let file = try #require(files.first { $0.hasSuffix("ada.json") })
    return try Data(contentsOf: URL(fileURLWithPath: directory + "/" + file))
  }

  /// Refreshes, so that the session's file is read, written and read again.
  private func expectServing(_ scene: Scene, _ daemon: Bearerd, _ generation: Int) throws {
    scene.rejectAccessTokens()
    let answer = try daemon.gateway("/me")
    #expect(answer.status == 200, "\(answer.heads)\(answer.body)\n\(daemon.log.suffix(1500))")
    let shown = try scene.session(["show", "ada", "--json"])
    #expect(shown.output.contains("\"generation\" : \(generation)"), "\(shown.output)\(shown.error)")
  }

  @Test("A store is encrypted, its key rotated and it is decrypted again; a reload takes each up, nothing is lost")
  func conversions() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    let daemon = try scene.startSignedIn()
    try expectServing(scene, daemon, 2)
    var reloads = 0
    func reload() throws {
      reloads += 1
      try scene.writeConfiguration()
      daemon.reload()
      let expected = reloads
      _ = try awaited("reload \(expected)") {
        daemon.log.components(separatedBy: "configuration reloaded").count > expected ? true : nil
      }
    }
    let keys = [scene.scratch("key-1"), scene.scratch("key-2")]
    for key in keys {
      let made = try Program.run(Binaries.bearerd, ["store", "generate-key", key], in: scene.scratch)
      #expect(made.exit == 0, "\(made.error)")
    }
    scene.settings.tables = "[store]\nkey_file = \"\(keys[0])\""
    try scene.writeConfiguration()
    let encrypted = try store(scene, ["encrypt"])
    #expect(encrypted.exit == 0, "\(encrypted.error)")
    #expect(!String(decoding: try sessionFile(scene), as: UTF8.self).contains("access_token"))
    try reload()
    try expectServing(scene, daemon, 3)

    let rotated = try store(scene, ["rotate-key", "--new-key-file", keys[1]])
    #expect(rotated.exit == 0, "\(rotated.error)")
    scene.settings.tables = "[store]\nkey_file = \"\(keys[1])\""
    try reload()
    try expectServing(scene, daemon, 4)

    let decrypted = try store(scene, ["decrypt"])
    #expect(decrypted.exit == 0, "\(decrypted.error)")
    scene.settings.tables = ""
    try reload()
    try expectServing(scene, daemon, 5)
    #expect(scene.server.counters.presentedAfterCommit == 0 && scene.server.counters.refreshesCommitted == 4)
    try daemon.finish()
  }

  @Test("The wrong key: the daemon serves nothing of it, says which key is wanted, and the file stays as it is")
  func wrongKey() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    try scene.signIn()
    let keys = [scene.scratch("key-1"), scene.scratch("key-2")]
    for key in keys { _ = try Program.run(Binaries.bearerd, ["store", "generate-key", key], in: scene.scratch) }
    scene.settings.tables = "[store]\nkey_file = \"\(keys[0])\""
    try scene.writeConfiguration()
    #expect(try store(scene, ["encrypt"]).exit == 0)
    let before = try sessionFile(scene)
    scene.settings.tables = "[store]\nkey_file = \"\(keys[1])\""
    let daemon = try scene.start()
    let refused = try daemon.gateway("/me")
    #expect(refused.status == 503 && refused.code == "REFRESH_UNAVAILABLE", "\(refused.heads)\(refused.body)")
    let detail = refused.member("detail") as? String ?? ""
    #expect(detail.contains("is encrypted with key") && detail.contains("store.key_file"), "\(detail)")
    #expect(try sessionFile(scene) == before)
    // A reload with the right one mends it.
    scene.settings.tables = "[store]\nkey_file = \"\(keys[0])\""
    try scene.writeConfiguration()
    daemon.reload()
    #expect(try eventually { try daemon.gateway("/me").status == 200 })
    try daemon.finish()
  }
}
