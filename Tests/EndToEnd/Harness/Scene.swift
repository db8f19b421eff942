import Foundation
import MockBackend
import MockServer
import SessionStore
import Testing

/// A mock backend, a store with sessions in it, and a daemon between a client and that backend.
final class Scene {
  let scratch: Scratch
  let server: MockServer
  var settings: SceneSettings

  /// The access tokens live an hour unless `configure` says otherwise, so that nothing refreshes by itself.
  init(_ configure: (inout MockServerSettings) -> Void = { _ in }) throws {
    scratch = try Scratch()
    var settings = MockServerSettings()
    settings.backend.accessTokenLifetimeMilliseconds = 3_600_000
    configure(&settings)
    server = try MockServer(settings: settings)
    try server.start()
    try server.writeCertificateAuthority(to: scratch("ca.pem"))
    self.settings = try SceneSettings(server: server, scratch: scratch)
  }

  deinit { server.stop() }

  /// Signs a user in at the backend and stores the session under the user's name, by the real command.
  ///
  /// - Parameter expiresIn: what the import says of the access token's lifetime, in seconds; less than a minute makes
  ///   the first request refresh.
  @discardableResult
  func signIn(_ user: String = "ada", expiresIn: Int = 3600) throws -> (accessToken: String, refreshToken: String) {
    let tokens = server.login(user: user)
    let answer = """
      {"access_token":"\(tokens.accessToken)","refresh_token":"\(tokens.refreshToken)",\
      "token_type":"Bearer","expires_in":\(expiresIn)}
      """
    try writeConfiguration()
    let added = try session(["add", user, "--provider", "mock", "--from-json", "-"], input: answer)
    #expect(added.exit == 0, "session add: \(added.output) \(added.error)")
    return tokens
  }

  /// A `bearerd session …` command against the scene's store.
  func session(_ arguments: [String], input: String? = nil) throws -> (exit: Int32, output: String, error: String) {
    let command = ["session", arguments[0], "--config", scratch("bearerd.toml")] + arguments.dropFirst()
    return try Program.run(Binaries.bearerd, command, in: scratch, input: input)
  }

  /// The scene's store, for taking locks as another process would.
  func store() throws -> FileSessionStore { try FileSessionStore(stateDirectory: scratch("state")) }

  func writeConfiguration() throws { try scratch.write(settings.text, to: "bearerd.toml") }

  /// Starts the daemon with what `settings` say now.
  @discardableResult
  func start(
    binary: String = Binaries.bearerd, environment: [String: String] = [:], launcher: [String] = []
  ) throws -> Bearerd {
    try writeConfiguration()
    return try Bearerd(
      configuration: scratch("bearerd.toml"), in: scratch, keeping: self, binary: binary, environment: environment,
      launcher: launcher)
  }

  /// A running daemon with the session `ada`.
  func startSignedIn(expiresIn: Int = 3600) throws -> Bearerd {
    try signIn(expiresIn: expiresIn)
    return try start()
  }

  /// Makes the access tokens invalid while the store believes in them.
  func rejectAccessTokens() { server.withBackend { $0.revokeAccessTokens() } }

  func setFaults(_ change: @Sendable (inout BackendFaults) -> Void) { server.withBackend { change(&$0.faults) } }

  func setBackend(_ change: @Sendable (inout BackendSettings) -> Void) {
    server.withBackend { change(&$0.settings) }
  }
}

/// The configuration file of a scene: one upstream on the mock backend's TLS port, one provider on its token endpoint.
struct SceneSettings {
  var loops = 1
  /// Further keys before the first table.
  var top = ""
  var listeners = "[[listener]]\ntcp = \"127.0.0.1:0\""
  var origin = "https://api.test"
  var address: String
  /// Which session `[upstream.api]` uses, as a whole line.
  var session = "session = \"ada\""
  /// Further keys of `[upstream.api]`.
  var upstream = ""
  var caFile: String
  var endpoint: String
  /// Further keys of `[provider.mock]`.
  var provider = ""
  /// Further tables.
  var tables = ""
  private let stateDirectory: String

  init(server: MockServer, scratch: Scratch) throws {
    address = "127.0.0.1:\(server.tlsPort)"
    caFile = scratch("ca.pem")
    endpoint = "http://127.0.0.1:\(server.plainPort)/oauth/token"
    stateDirectory = scratch("state")
  }

  var text: String {
    """
    loops = \(loops)
    state_directory = "\(stateDirectory)"
    \(top)

    \(listeners)

    [admin]
    address = "127.0.0.1:0"

    [upstream.api]
    origin = "\(origin)"
    address = "\(address)"
    \(session)
    \(upstream)
    \(origin.hasPrefix("https") ? "[upstream.api.tls]\nca_file = \"\(caFile)\"" : "")

    [provider.mock]
    preset = "oauth2"
    endpoint = "\(endpoint)"
    \(provider)

    \(tables)
    """
  }
}
