import BearerPolicy
import Chronology
import Configuration
import Daemon
import Glibc
import Logging
import MockServer
import SessionStore

/// The demo's parts: identity provider and API over TLS, a state directory, the proxy before them.
final class DemoStage {
  let backend: MockServer
  let server: ProxyServer
  let store: FileSessionStore
  let port: UInt16
  private let directory: String

  static let session = "demo"

  init() throws(CommandFailure) {
    directory = try Self.makeDirectory()
    do {
      backend = try MockServer()
      try backend.start()
      let authority = "\(directory)/ca.pem"
      try backend.writeCertificateAuthority(to: authority)
      let configuration = try Self.configuration(directory, authority, backend.tlsPort)
      store = try FileSessionStore(stateDirectory: configuration.stateDirectory)
      server = try ProxyServer(
        configuration, inherited: [], logger: Logger(label: "demo") { _ in SwiftLogNoOpLogHandler() }, accessLog: nil)
      try server.start()
    } catch let failure as CommandFailure {
      throw failure
    } catch {
      throw CommandFailure(Sysexit.inputOutput, "the demo cannot start: \(error)")
    }
    port = server.bound.first { $0.purpose == "proxy" }?.port ?? 0
  }

  /// Stores a fresh login, as `bearerd session add` does.
  func signIn() throws(CommandFailure) {
    let tokens = backend.login(user: "ada")
    let now = WallTime.now
    let refreshToken = Secret(tokens.refreshToken)
    let record = SessionRecord(
      name: Self.session, provider: "demo", accessToken: Secret(tokens.accessToken), refreshToken: refreshToken,
      obtainedAt: now, expiresAt: now + .seconds(3), expirySource: .expiresIn, isImported: false)
    do throws(AddFailure) {
      _ = try store.add(record, refreshTokenFingerprint: FileSessionStore.fingerprint(of: refreshToken), force: true)
    } catch {
      throw CommandFailure(error)
    }
  }

  func keepRunning() throws(CommandFailure) {
    try signIn()
    try Output.write(
      """

      Still running; in another shell:
        curl -i -x http://127.0.0.1:\(port) http://api.test/notes
        curl -i -x http://127.0.0.1:\(port) http://api.test/echo -d hello -H 'Idempotency-Key: 1'
        curl -s -x http://127.0.0.1:\(port) http://api.test/sse
      The tokens live 3 s; the API is https://127.0.0.1:\(backend.tlsPort). End with Ctrl-C.

      """)
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGINT)
    sigaddset(&signals, SIGTERM)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    var received: Int32 = 0
    sigwait(&signals, &received)
  }

  /// Stops the parts and removes the directory.
  func end() {
    backend.stop()
    Self.removeTree(directory)
  }

  private static func makeDirectory() throws(CommandFailure) -> String {
    let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    var template = Array("\(base)/bearerd-demo.XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else {
      throw CommandFailure(Sysexit.inputOutput, "cannot make a directory under \(base): set TMPDIR to one that exists")
    }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func configuration(_ directory: String, _ authority: String, _ port: UInt16)
    throws(CommandFailure) -> Configuration
  {
    let text = """
      state_directory = "\(directory)/state"

      [[listener]]
      tcp = "127.0.0.1:0"

      [admin]
      address = "off"

      [provider.demo]
      preset = "oauth2"
      endpoint = "https://localhost:\(port)/oauth/token"
      rotation = "always"
      refresh_ahead = "off"
      tls.ca_file = "\(authority)"

      [upstream.api]
      origin = "https://api.test"
      address = "127.0.0.1:\(port)"
      session = "\(session)"
      default = true
      tls.ca_file = "\(authority)"
      """
    switch ConfigurationLoader.parse(text, environment: [:]) {
    case .success(let configuration): return configuration
    case .failure(let errors): throw CommandFailure(errors.errors, path: "the demo's configuration")
    }
  }

  /// Only what the demo itself has made: plain files and directories below `path`.
  private static func removeTree(_ path: String) {
    if let directory = opendir(path) {
      while let entry = readdir(directory) {
        let name = withUnsafePointer(to: entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name == "." || name == ".." { continue }
        if entry.pointee.d_type == UInt8(DT_DIR) { removeTree("\(path)/\(name)") } else { unlink("\(path)/\(name)") }
      }
      closedir(directory)
    }
    rmdir(path)
  }
}
