import BearerPolicy
import Chronology
import Foundation
import SessionStore
import Testing

@Suite("SPEC §5 session list, show and remove") struct CommandsSessionStateTests {
  struct Case: CustomTestStringConvertible, Sendable {
    var name: String
    var change: @Sendable (inout SessionRecord) -> Void
    var state: String
    var reason: String?
    /// What `session show` says besides the state.
    var words: [String]
    var testDescription: String { name }
  }

  static let fingerprint = Fingerprint(hexadecimal: String(repeating: "0a", count: 32))

  static let cases: [Case] = [
    .init(name: "fresh", change: { _ in }, state: "active", words: ["its access token serves"]),
    .init(
      name: "stale", change: { $0.expiresAt = $0.obtainedAt + .seconds(-5) }, state: "active",
      words: ["the next request refreshes first"]),
    .init(
      name: "spent up", change: { $0.standing = .fenced(reason: "timed_out", since: $0.obtainedAt) },
      state: "fenced",
      reason: "timed_out", words: ["never sent again", "before it expires, sign in again"]),
    .init(
      name: "fenced too long",
      change: {
        $0.standing = .fenced(reason: "timed_out", since: $0.obtainedAt)
        $0.expiresAt = $0.obtainedAt + .seconds(-5)
      }, state: "dead", reason: "outcome_unknown",
      words: ["nobody knows", "bearerd session add 'fenced too long' --provider oauth2"]),
    .init(
      name: "over",
      change: {
        $0.standing = .dead(reason: "invalid_grant", since: $0.obtainedAt)
        $0.accessToken = nil
        $0.refreshToken = nil
      }, state: "dead", reason: "invalid_grant",
      words: ["the provider says that it is over", "sign in again: bearerd session add over --provider oauth2"]),
    .init(
      name: "waiting",
      change: {
        $0.backoff = .init(failures: 4, since: $0.obtainedAt, until: $0.obtainedAt + .seconds(600), reason: "http_429")
      }, state: "backoff", reason: "http_429", words: ["4 refreshes in a row", "may pass"]),
    .init(
      name: "refused",
      change: {
        $0.configurationFault = .init(code: "invalid_client", since: $0.obtainedAt, settings: "s")
      }, state: "misconfigured", reason: "invalid_client", words: ["mend `[provider.oauth2]`"]),
    .init(
      name: "no way on",
      change: {
        $0.refreshToken = nil
        $0.expiresAt = $0.obtainedAt + .seconds(-5)
      }, state: "expired", reason: "no_refresh_token", words: ["it has no refresh token", "sign in again"]),
    .init(
      name: "abandoned",
      change: {
        $0.intent = .init(fingerprint: fingerprint, startedAt: $0.obtainedAt, trigger: .preflight)
      }, state: "interrupted", reason: "holder_died",
      words: ["by a process that is gone", "outcome is unknown", "classified at the next use"]),
  ]

  @Test("each state has its word, its reason and what to do", arguments: cases)
  func states(_ state: Case) throws {
    let scene = try CommandLineScene()
    try scene.put(state.name, state.change)
    let shown = try scene.session("show", state.name)
    #expect(shown.exit == 0, "\(shown.error)")
    for part in [state.state, state.name] + state.words {
      #expect(shown.output.contains(part), "\(part) in \(shown.output)")
    }
    let json = try scene.session("show", state.name, "--json").json
    #expect(json["state"] as? String == state.state)
    #expect(json["reason"] as? String == state.reason)
    #expect(json["name"] as? String == state.name)
    let row = try scene.session("list").output.split(separator: "\n").dropFirst().first ?? ""
    #expect(row.hasPrefix(state.name))
    #expect(row.contains("  \(state.state)  "))
    #expect(row.hasSuffix(state.reason ?? "-"))
  }

  @Test("an intent whose lock is held is a refresh under way")
  func refreshing() throws {
    let scene = try CommandLineScene()
    try scene.put("busy") {
      $0.intent = .init(fingerprint: Self.fingerprint, startedAt: $0.obtainedAt, trigger: .ahead)
    }
    let lock = try scene.store().lock("busy", until: Instant(nanoseconds: .max))
    defer { lock.release() }
    let shown = try scene.session("show", "busy")
    #expect(shown.output.contains("refreshing\n"))
    #expect(shown.output.contains("has been under way since"))
    #expect(shown.output.contains("asked by the timer"))
  }

  @Test("lists in the order of names, a page at a time, for people and for scripts")
  func pages() throws {
    let scene = try CommandLineScene()
    for name in ["c", "a", "b", "d e"] { try scene.put(name) { _ in } }
    let first = try scene.session("list", "--limit", "2")
    #expect(first.output.split(separator: "\n").map { $0.prefix(1) } == ["N", "a", "b"])
    #expect(first.error.contains("--after b"))
    let rest = try scene.session("list", "--after", "b", "--json").json
    let sessions = rest["sessions"] as? [[String: Any]] ?? []
    #expect(sessions.compactMap { $0["name"] as? String } == ["c", "d e"])
    #expect(rest["next_after"] is NSNull)
    #expect(sessions.first?["has_refresh_token"] as? Bool == true)
    #expect(try scene.session("list", "--limit", "0").exit == 64)
    let none = try scene.session("list", "--after", "z")
    #expect(none.exit == 0 && none.error.isEmpty)
  }

  @Test("a file that cannot be read is a row of its own, and `show` says what is wrong with it")
  func unreadable() throws {
    let scene = try CommandLineScene()
    try scene.put("good") { _ in }
    try scene.put("torn") { _ in }
    let files = try #require(
      FileManager.default.enumerator(atPath: scene.stateDirectory)?.allObjects as? [String])
    let torn = try #require(files.first { $0.hasSuffix("torn.json") })
    let path = scene.stateDirectory + "/" + torn
    let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    try handle.truncate(atOffset: 20)
    try handle.close()
    let listed = try scene.session("list")
    #expect(listed.exit == 0)
    #expect(listed.output.contains("good") && listed.output.contains("unreadable"))
    let shown = try scene.session("show", "torn")
    #expect(shown.exit == 74)
    #expect(shown.error.contains("torn.json"))
    // What cannot be read can still be removed.
    #expect(try scene.session("remove", "torn", "--yes").exit == 0)
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test("a control character out of a session's file never reaches the terminal")
  func controlCharacters() throws {
    let scene = try CommandLineScene()
    try scene.put("odd") { $0.standing = .dead(reason: "bad\u{1B}[2Jcode\n", since: $0.obtainedAt) }
    for command in ["list", "show"] {
      let said = try scene.session(command, arguments(of: command))
      #expect(said.exit == 0)
      #expect(!said.output.contains("\u{1B}"))
      #expect(said.output.contains("bad"))
    }
  }

  private func arguments(of command: String) -> String { command == "list" ? "--limit=9" : "odd" }

  @Test("remove asks, or wants --yes where nobody can answer; a missing session is EX_NOINPUT")
  func remove() throws {
    let scene = try CommandLineScene()
    try scene.put("ci") { _ in }
    let asked = try scene.session("remove", "ci")
    #expect(asked.exit == 64)
    #expect(asked.error.contains("--yes"))
    #expect(try scene.stored("ci").name == "ci")
    #expect(try scene.session("remove", "ci", "--yes").exit == 0)
    for command in ["show", "remove", "verify", "refresh"] {
      let said = try scene.session(command, "ci")
      #expect(said.exit == 66, "\(command): \(said.error)")
      #expect(said.error.hasPrefix("bearerd: no session named “ci”"))
    }
  }

  @Test("others must not be able to read the store: EX_NOPERM, and how to mend it")
  func openToOthers() throws {
    let scene = try CommandLineScene()
    try scene.put("ci") { _ in }
    try FileManager.default.setAttributes(
      [.posixPermissions: 0o755], ofItemAtPath: scene.stateDirectory + "/sessions")
    let said = try scene.session("list")
    #expect(said.exit == 77)
    #expect(said.error.contains("chmod 700"))
  }

  @Test(
    "root acts as the store's owner, so that no file in it comes to belong to root",
    .enabled(if: geteuid() == 0, "only root can become somebody else"))
  func actsAsOwner() throws {
    let scene = try CommandLineScene()
    let refresh = try scene.tokenFile("refresh-7")
    // Others may pass, as below /var/lib; the token's file stays root's own.
    chmod(scene.scratch.path, 0o711)
    #expect(chmod(refresh, 0o600) == 0)
    try FileManager.default.createDirectory(
      atPath: scene.stateDirectory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    #expect(chown(scene.stateDirectory, 12_345, 23_456) == 0)
    let said = try scene.session("add", "ci", "--provider", "veloready", "--refresh-token-file", refresh)
    #expect(said.exit == 0, "\(said.error)")
    #expect(said.error.contains("acting as uid 12345"))
    let files = FileManager.default.enumerator(atPath: scene.stateDirectory)?.allObjects as? [String] ?? []
    #expect(files.contains { $0.hasSuffix("ci.json") })
    for file in files {
      var status = stat()
      #expect(lstat(scene.stateDirectory + "/" + file, &status) == 0)
      #expect(status.st_uid == 12_345 && status.st_gid == 23_456, "\(file)")
    }
  }
}
