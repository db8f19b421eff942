import BearerPolicy
import Chronology
import Foundation
import SessionStore
import Testing

@Suite("SPEC §5 tokens typed at a prompt") struct CommandsPromptTests {
  /// Types each answer when its question is there, and prints what the terminal showed and whether it echoes at the
  /// end, as JSON.
  private static let terminal = """
    import json, os, pty, subprocess, sys, termios
    answers = json.loads(sys.argv[1])
    master, slave = pty.openpty()
    process = subprocess.Popen(sys.argv[2:], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    shown = b""
    for question, answer in answers:
        while question.encode() not in shown:
            shown += os.read(master, 4096)
        os.write(master, answer.encode())
    code = process.wait()
    echoes = bool(termios.tcgetattr(slave)[3] & termios.ECHO)
    os.close(slave)
    try:
        while piece := os.read(master, 4096):
            shown += piece
    except OSError:
        pass
    print(json.dumps({"exit": code, "shown": shown.decode(), "echoes": echoes}))
    """

  private struct Seen: Decodable {
    var exit: Int32
    var shown: String
    var echoes: Bool
  }

  private func type(_ answers: [[String]], _ arguments: [String], in scene: CommandLineScene) throws -> Seen {
    let list = String(decoding: try JSONEncoder().encode(answers), as: UTF8.self)
    let (exit, output, error) = try Program.run(
      "python3",
      ["-c", Self.terminal, list, Binaries.bearerd, "session"] + arguments + [
        "--state-dir", scene.stateDirectory,
      ],
      in: scene.scratch)
    try #require(exit == 0, "\(error)")
    return try JSONDecoder().decode(Seen.self, from: Data(output.utf8))
  }

  /// Above the 4095 bytes at which a terminal's own line editing cuts a line.
  private static let longToken = String(repeating: "access-token.", count: 400)

  @Test("asks for both, shows neither, keeps them whole, and lets the terminal echo again")
  func both() throws {
    let scene = try CommandLineScene()
    let seen = try type(
      [
        ["Access token", Self.longToken + "xx\u{7F}\u{7F}\n"], ["Refresh token", "wrong\u{15}typed-refresh\n"],
      ],
      ["add", "ci", "--provider", "oauth2"], in: scene)
    #expect(seen.exit == 0, "\(seen.shown)")
    #expect(!seen.shown.contains("access-token.access-token") && !seen.shown.contains("typed-refresh"))
    #expect(seen.echoes)
    let record = try scene.stored("ci")
    #expect(record.accessToken == Secret(Self.longToken))
    #expect(record.refreshToken == Secret("typed-refresh"))
  }

  @Test("asks for the lifetime where the provider needs it")
  func lifetime() throws {
    let scene = try CommandLineScene()
    let seen = try type(
      [["Access token", "typed-access\n"], ["Refresh token", "typed-refresh\n"], ["Seconds until", "90\n"]],
      ["add", "ci", "--provider", "mobile-core-kit"], in: scene)
    #expect(seen.exit == 0, "\(seen.shown)")
    let record = try scene.stored("ci")
    #expect(record.expiresAt.since(record.obtainedAt) == .seconds(90))
  }

  @Test("Ctrl-C stores nothing and leaves the terminal as it was")
  func brokenOff() throws {
    let scene = try CommandLineScene()
    let seen = try type(
      [["Access token", "typed-access\n"], ["Refresh token", "half\u{03}"]],
      ["add", "ci", "--provider", "oauth2"],
      in: scene)
    #expect(seen.exit == 130)
    #expect(seen.echoes)
    #expect(try scene.store().names(limit: 1).isEmpty)
  }

  @Test("remove does what the answer says", arguments: [("y\n", Int32(0)), ("n\n", 1), ("\n", 1)])
  func remove(_ answer: String, _ exit: Int32) throws {
    let scene = try CommandLineScene()
    try scene.put("ci") { _ in }
    let seen = try type([["[y/N]", answer]], ["remove", "ci"], in: scene)
    #expect(seen.exit == exit, "\(seen.shown)")
    #expect(try scene.store().names(limit: 1).isEmpty == (exit == 0))
  }
}
