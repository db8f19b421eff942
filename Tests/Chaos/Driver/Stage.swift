import Foundation
import MockBackend
import MockServer
import Testing

/// A strict identity provider with its API, a state directory, and daemons that share it.
final class Stage {
  let scratch: Scratch
  let server: MockServer
  let slots: [Slot]
  let configuration: String
  let stateDirectory: String
  /// Stays mounted as long as daemons of this stage run.
  private let disk: SmallDisk?

  /// - Parameters:
  ///   - lifetimeMilliseconds: of each access token.
  ///   - provider: further lines of `[provider.mock]`.
  ///   - disk: holds the state directory; nil: the scratch does.
  init(
    daemons: Int, lifetimeMilliseconds: Int64, provider: String = "", tables: String = "", on disk: SmallDisk? = nil
  ) throws {
    self.disk = disk
    let scratch = try Scratch()
    self.scratch = scratch
    var settings = MockServerSettings()
    settings.backend.accessTokenLifetimeMilliseconds = lifetimeMilliseconds
    server = try MockServer(settings: settings)
    try server.start()
    self.stateDirectory = (disk?.path ?? scratch.path) + "/state"
    let configuration = scratch("bearerd.toml")
    self.configuration = configuration
    let text = """
      loops = 2
      state_directory = "\(self.stateDirectory)"

      [[listener]]
      tcp = "127.0.0.1:0"

      [admin]
      address = "off"

      [log]
      access = false

      [upstream.api]
      origin = "http://127.0.0.1:\(server.plainPort)"
      default = true
      session = "load-0"
      sessions = ["load-*"]

      [provider.mock]
      preset = "oauth2"
      endpoint = "http://127.0.0.1:\(server.plainPort)/oauth/token"
      \(provider)

      \(tables)
      """
    try Data(text.utf8).write(to: URL(fileURLWithPath: configuration))
    slots = (0..<daemons).map { _ in Slot(configuration: configuration, in: scratch) }
  }

  /// A signed-in user, handed to `bearerd session add` as the provider's answer.
  @discardableResult
  func signIn(_ session: String, expiresIn: Double = 3600) throws -> (accessToken: String, refreshToken: String) {
    let tokens = server.login(user: session)
    let answer = """
      {"access_token":"\(tokens.accessToken)","refresh_token":"\(tokens.refreshToken)",\
      "token_type":"Bearer","expires_in":\(expiresIn)}
      """
    let added = try command(["add", session, "--provider", "mock", "--from-json", "-"], input: answer)
    guard added.exit == 0 else { throw Trouble("session add: \(added.exit) \(added.error)") }
    return tokens
  }

  /// `bearerd session …`
  func command(_ arguments: [String], input: String? = nil) throws -> (exit: Int32, output: String, error: String) {
    try Child.run(
      Binary.path, ["session", arguments[0], "--config", configuration] + arguments.dropFirst(), in: scratch,
      input: input)
  }

  /// One line of `session list --json`.
  struct Listed {
    var name: String
    var state: String
    var reason: String?
    var generation: Int
  }

  /// Every session as the command line sees it; each file must be whole.
  func list(sourceLocation: SourceLocation = #_sourceLocation) throws -> [Listed] {
    let listed = try command(["list", "--json"])
    #expect(listed.exit == 0, "\(listed.error)", sourceLocation: sourceLocation)
    let object = try JSONSerialization.jsonObject(with: Data(listed.output.utf8)) as? [String: Any]
    let sessions = try #require(object?["sessions"] as? [[String: Any]], sourceLocation: sourceLocation)
    return sessions.map { session in
      let one = Listed(
        name: session["name"] as? String ?? "", state: session["state"] as? String ?? "",
        reason: session["reason"] as? String, generation: session["generation"] as? Int ?? 0)
      #expect(one.state != "unreadable", "\(session)", sourceLocation: sourceLocation)
      return one
    }
  }

  /// Files below `sessions/` by what their names end in, without the leading dot.
  func sessionFiles() -> [String: [String]] {
    let files = FileManager.default.enumerator(atPath: stateDirectory + "/sessions")?.compactMap { $0 as? String } ?? []
    return Dictionary(grouping: files.filter { $0.contains("/") }) { URL(fileURLWithPath: $0).pathExtension }
  }

  /// I1 and I6 as the backend saw them: no refresh token came twice, and none was taken for a stolen one.
  func expectSinglePresentations(sourceLocation: SourceLocation = #_sourceLocation) {
    let counters = server.counters
    #expect(counters.presentedAfterCommit == 0, sourceLocation: sourceLocation)
    #expect(counters.presentedAfterUnanswered == 0, sourceLocation: sourceLocation)
    #expect(counters.familiesRevoked == 0 && counters.refreshesRefused == 0, sourceLocation: sourceLocation)
    #expect(counters.bearersAtTokenEndpoints == 0, sourceLocation: sourceLocation)
    let repeated = counters.refreshTokens.values.filter { $0.presented > 1 }.count
    #expect(repeated == 0, "refresh tokens presented more than once", sourceLocation: sourceLocation)
  }
}
