import BearerPolicy
import Chronology
import Foundation
import SessionStore
import Testing

/// The program's commands on a store of the test's own.
final class CommandLineScene {
  let scratch: Scratch
  /// Every token that was handed in: none may be seen in what a command says.
  private(set) var tokens: [String] = []

  init() throws { scratch = try Scratch() }

  var stateDirectory: String { scratch("state") }

  struct Said {
    var exit: Int32
    var output: String
    var error: String
    var json: [String: Any] {
      (try? JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any]) ?? [:]
    }
  }

  /// Runs a command; checks that it shows no token (I10).
  func run(
    _ arguments: String..., input: String? = nil, environment: [String: String] = [:],
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> Said {
    let (exit, output, error) = try Program.run(
      Binaries.bearerd, arguments, in: scratch, environment: environment, input: input)
    for token in tokens {
      #expect(
        !output.contains(token) && !error.contains(token), "no token in \(output)\(error)",
        sourceLocation: sourceLocation)
    }
    return Said(exit: exit, output: output, error: error)
  }

  /// `session COMMAND NAME … --state-dir …`
  func session(
    _ arguments: String..., input: String? = nil, sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> Said {
    let (exit, output, error) = try Program.run(
      Binaries.bearerd, ["session"] + arguments + ["--state-dir", stateDirectory], in: scratch, input: input)
    for token in tokens {
      #expect(
        !output.contains(token) && !error.contains(token), "no token in \(output)\(error)",
        sourceLocation: sourceLocation)
    }
    return Said(exit: exit, output: output, error: error)
  }

  /// A text that no command may show.
  func secret(_ text: String) -> String {
    tokens.append(text)
    return text
  }

  func tokenFile(_ token: String, _ name: String = "token-file") throws -> String {
    try scratch.write(secret(token), to: name)
  }

  func store() throws -> FileSessionStore { try FileSessionStore(stateDirectory: stateDirectory) }

  func stored(_ name: String) throws -> SessionRecord { try store().load(name) }

  /// Puts a session as a refresh may have left it.
  func put(_ name: String, provider: String = "oauth2", _ change: (inout SessionRecord) -> Void) throws {
    let store = try store()
    let now = WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    var record = SessionRecord(
      name: name, provider: provider, generation: 3, accessToken: Secret(secret("access-of-\(name)")),
      refreshToken: Secret(secret("refresh-of-\(name)")), obtainedAt: now, expiresAt: now + .seconds(3600),
      expirySource: .expiresIn, isImported: false)
    change(&record)
    let lock = try store.lock(name, until: Instant(nanoseconds: .max))
    defer { lock.release() }
    try store.create(record, lock: lock)
  }
}

/// A JWS whose payload has that `exp`; nobody verifies it.
func jwt(expiring: Date) -> String {
  func part(_ text: String) -> String {
    Data(text.utf8).base64EncodedString().replacingOccurrences(of: "=", with: "")
      .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
  }
  return part(#"{"alg":"none"}"#) + "." + part(#"{"exp":\#(Int(expiring.timeIntervalSince1970))}"#)
    + ".signature"
}
