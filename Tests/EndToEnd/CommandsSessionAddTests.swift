import BearerPolicy
import Chronology
import Foundation
import SessionStore
import Testing

@Suite("SPEC §5 session add") struct CommandsSessionAddTests {
  @Test("stores both tokens from files, without their line ends, and says what was stored")
  func files() throws {
    let scene = try CommandLineScene()
    let access = try scene.tokenFile("access-1")
    let refresh = try scene.scratch.write("refresh-1\r\n", to: "refresh")
    let said = try scene.session(
      "add", "ci", "--provider", "oauth2", "--access-token-file", access, "--refresh-token-file", refresh,
      "--expires-in", "3600")
    #expect(said.exit == 0, "\(said.error)")
    for part in ["“ci”", "oauth2", "generation    1", "by expires_in"] {
      #expect(said.output.contains(part), "\(part) in \(said.output)")
    }
    // What the preset leaves open keeps it from refreshing: said at once, by key.
    #expect(said.error.contains("`endpoint`"))
    let record = try scene.stored("ci")
    #expect(record.accessToken == Secret("access-1"))
    #expect(record.refreshToken == Secret("refresh-1"))
    #expect(record.isImported)
    #expect(record.expirySource == .expiresIn)
    #expect(record.expiresAt.since(record.obtainedAt) == .seconds(3600))
  }

  @Test("reads one token from standard input, and a refresh token alone is enough")
  func standardInput() throws {
    let scene = try CommandLineScene()
    let said = try scene.session(
      "add", "ci", "--provider", "veloready", "--refresh-token-file", "-",
      input: scene.secret("refresh-2") + "\n")
    #expect(said.exit == 0, "\(said.error)")
    let record = try scene.stored("ci")
    #expect(record.refreshToken == Secret("refresh-2"))
    #expect(record.accessToken == nil)
    #expect(record.expiresAt == record.obtainedAt)
    #expect(said.error.isEmpty, "a complete provider needs no warning")
  }

  struct Answer: CustomTestStringConvertible, Sendable {
    var provider: String
    var json: String
    var source: ExpirySource
    var lifetime: Int64?
    var testDescription: String { "\(provider): \(json)" }
  }

  static let answers: [Answer] = [
    .init(
      provider: "oauth2",
      json: #"{"access_token":"a-1","refresh_token":"r-1","expires_in":60,"token_type":"Bearer"}"#,
      source: .expiresIn, lifetime: 60),
    .init(
      provider: "remote-auth-service", json: #"{"data":{"accessToken":"a-1","refreshToken":"r-1"}}"#,
      source: .fallback, lifetime: 900),
    .init(
      provider: "mobile-core-kit", json: #"{"accessToken":"a-1","refreshToken":"r-1","expiresIn":120}"#,
      source: .expiresIn, lifetime: 120),
    .init(
      provider: "network-service", json: #"{"token":"a-1","refreshToken":"r-1"}"#, source: .fallback,
      lifetime: 900),
    // A number as a string; the identity token is the bearer, not the access token beside it.
    .init(
      provider: "firebase",
      json: #"{"access_token":"other","id_token":"a-1","refresh_token":"r-1","expires_in":"3600"}"#,
      source: .expiresIn, lifetime: 3600),
    .init(
      provider: "cognito",
      json: #"{"AuthenticationResult":{"AccessToken":"a-1","RefreshToken":"r-1","ExpiresIn":300}}"#,
      source: .expiresIn, lifetime: 300),
    // A sign-in answers in other words than a refresh: the usual names hold too.
    .init(
      provider: "remote-auth-service", json: #"{"access_token":"a-1","refresh_token":"r-1","expires_in":30}"#,
      source: .expiresIn, lifetime: 30),
    .init(
      provider: "oauth2", json: #"{"accessToken":"a-1","refreshToken":"r-1","expiresAt":4102444800}"#,
      source: .expiresAt, lifetime: nil),
  ]

  @Test("takes a provider's whole answer as it is", arguments: answers)
  func answer(_ answer: Answer) throws {
    let scene = try CommandLineScene()
    let said = try scene.session(
      "add", "ci", "--provider", answer.provider, "--from-json", "-", input: answer.json)
    #expect(said.exit == 0, "\(said.error)")
    let record = try scene.stored("ci")
    #expect(record.accessToken == Secret("a-1"))
    #expect(record.refreshToken == Secret("r-1"))
    #expect(record.expirySource == answer.source)
    if let lifetime = answer.lifetime {
      #expect(record.expiresAt.since(record.obtainedAt) == .seconds(lifetime))
    }
  }

  @Test("reads the end of a JWT, and a person's word only makes it earlier")
  func jsonWebToken() throws {
    let scene = try CommandLineScene()
    let end = Date().addingTimeInterval(7200)
    let token = try scene.tokenFile(jwt(expiring: end))
    let exact = WallTime(seconds: Int64(end.timeIntervalSince1970))
    #expect(
      try scene.session("add", "one", "--provider", "oauth2", "--access-token-file", token).exit == 0)
    let one = try scene.stored("one")
    #expect(one.expirySource == .jwt)
    // The local clock stands for the server's, to the moment of the command.
    #expect(one.expiresAt.since(exact).milliseconds.magnitude <= 1000)
    #expect(
      try scene.session(
        "add", "two", "--provider", "oauth2", "--access-token-file", token, "--expires-at",
        "2027-01-01T00:00:00Z"
      ).exit == 0)
    #expect(try scene.stored("two").expiresAt <= exact + .seconds(1))
  }

  struct Refused: CustomTestStringConvertible, Sendable {
    var arguments: [String]
    var input: String?
    /// One for each thing that is wrong; all must be said.
    var said: [String]
    var exit: Int32 = 64
    var testDescription: String { arguments.joined(separator: " ") }
  }

  static let refused: [Refused] = [
    .init(
      arguments: ["--provider", "nobody"], said: ["no provider is named “nobody”", "oauth2", "[provider.NAME]"]),
    .init(
      arguments: ["--provider", "oauth2"], said: ["no token is given", "--refresh-token-file", "--from-json"]),
    .init(
      arguments: ["--provider", "veloready", "--access-token-file", "GOOD"],
      said: ["a refresh token is missing", "lifetime is missing", "--expires-in"]),
    .init(
      arguments: [
        "--provider", "oauth2", "--access-token-file", "/nonexistent", "--refresh-token-file", "EMPTY",
        "--expires-in", "soon", "--expires-at", "tomorrow", "--verify",
      ],
      said: [
        "/nonexistent: No such file", "is empty", "`--expires-in` takes", "`--expires-at` takes",
        "`validate_url`",
      ]),
    .init(
      arguments: [
        "--provider", "oauth2", "--access-token-file", "TWO-LINES", "--refresh-token-file", "CONTROL",
      ],
      said: ["TWO-LINES: is not one token", "CONTROL: is not one token"]),
    .init(arguments: ["--provider", "oauth2", "--access-token-file", "LONG"], said: ["at most 16 KiB"]),
    .init(
      arguments: ["--provider", "oauth2", "--access-token-file", "-", "--refresh-token-file", "-"],
      said: ["standard input can hold one token"]),
    .init(
      arguments: ["--provider", "oauth2", "--from-json", "-", "--access-token-file", "GOOD"], input: "{}",
      said: ["leave out `--access-token-file`"]),
    .init(
      arguments: ["--provider", "oauth2", "--refresh-token-file", "GOOD", "--expires-in", "60"],
      said: ["none is given"]),
    .init(
      arguments: ["--provider", "network-service", "--from-json", "-"], input: #"{"other":"x"}"#,
      said: ["`token` is missing", "`refreshToken` is missing"]),
    .init(
      arguments: ["--provider", "mobile-core-kit", "--from-json", "-"],
      input: #"{"accessToken":"a","refreshToken":"r"}"#, said: ["`expiresIn` is missing"]),
    .init(
      arguments: ["--provider", "oauth2", "--from-json", "-"],
      input: #"{"access_token":7,"refresh_token":"a\nb","token_type":"mac"}"#,
      said: ["`access_token` in the answer is no string", "`refresh_token` in the answer is not one", "bearer"]),
    .init(
      arguments: ["--provider", "oauth2", "--from-json", "-"], input: "[1]", said: ["is not one JSON object"]),
  ]

  @Test("says everything that is missing or wrong at once, and stores nothing", arguments: refused)
  func refuses(_ refused: Refused) throws {
    let scene = try CommandLineScene()
    var names = ["GOOD": "good-token", "EMPTY": "\n", "TWO-LINES": "one\ntwo", "CONTROL": "a\tb"]
    names["LONG"] = String(repeating: "x", count: 16 * 1024 + 1)
    for (name, text) in names { try scene.scratch.write(text, to: name) }
    let (exit, output, error) = try Program.run(
      Binaries.bearerd, ["session", "add", "ci"] + refused.arguments + ["--state-dir", scene.stateDirectory],
      in: scene.scratch, input: refused.input)
    #expect(exit == refused.exit, "\(output)\(error)")
    for part in refused.said { #expect(error.contains(part), "\(part) in \(error)") }
    for line in error.split(separator: "\n") { #expect(line.hasPrefix("bearerd: ")) }
    #expect(!FileManager.default.fileExists(atPath: scene.stateDirectory))
  }

  @Test("a token is never an argument: there is no option that takes one")
  func noArgument() throws {
    let scene = try CommandLineScene()
    for option in ["--access-token", "--refresh-token", "--token"] {
      let said = try scene.session("add", "ci", "--provider", "oauth2", option, scene.secret("leaked-token"))
      #expect(said.exit == 64)
    }
  }

  @Test("refuses a refresh token that another session holds; --force adds it")
  func held() throws {
    let scene = try CommandLineScene()
    let refresh = try scene.tokenFile("refresh-3")
    #expect(try scene.session("add", "one", "--provider", "oauth2", "--refresh-token-file", refresh).exit == 0)
    let refused = try scene.session("add", "two", "--provider", "oauth2", "--refresh-token-file", refresh)
    #expect(refused.exit == 65)
    #expect(refused.error.contains("“one”") && refused.error.contains("--force"))
    let forced = try scene.session(
      "add", "two", "--provider", "oauth2", "--refresh-token-file", refresh, "--force")
    #expect(forced.exit == 0, "\(forced.error)")
  }

  @Test("--if-absent keeps a session that can go on; without it the generation counts on")
  func ifAbsent() throws {
    let scene = try CommandLineScene()
    let first = try scene.tokenFile("refresh-4")
    let other = try scene.tokenFile("refresh-5", "other")
    #expect(try scene.session("add", "ci", "--provider", "oauth2", "--refresh-token-file", first).exit == 0)
    let kept = try scene.session(
      "add", "ci", "--provider", "oauth2", "--refresh-token-file", other, "--if-absent")
    #expect(kept.exit == 0)
    #expect(kept.output.contains("is kept"))
    #expect(try scene.stored("ci").refreshToken == Secret("refresh-4"))
    #expect(try scene.session("add", "ci", "--provider", "oauth2", "--refresh-token-file", other).exit == 0)
    #expect(try scene.stored("ci").generation == 2)
    #expect(try scene.stored("ci").refreshToken == Secret("refresh-5"))
  }

  @Test("a name that cannot be a session's is a usage error")
  func badName() throws {
    let scene = try CommandLineScene()
    let refresh = try scene.tokenFile("refresh-6")
    let name = String(repeating: "n", count: 201)
    let said = try scene.session("add", name, "--provider", "oauth2", "--refresh-token-file", refresh)
    #expect(said.exit == 64)
    #expect(said.error.contains("at most 200"))
  }
}
