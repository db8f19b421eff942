import BearerPolicy
import Foundation
import MockBackend
import MockServer
import SessionStore
import Testing

@Suite("SPEC §11 session refresh and verify") struct CommandsSessionRefreshTests {
  @Test("refresh stores the new tokens; verify tells a token that is accepted from one that is not")
  func refreshAndVerify() throws {
    let scene = try Scene()
    scene.settings.provider = "validate_url = \"http://127.0.0.1:\(scene.server.plainPort)/me\""
    let tokens = try scene.signIn()
    let accepted = try scene.session(["verify", "ada"])
    #expect(accepted.exit == 0 && accepted.output.contains("HTTP 200"), "\(accepted)")
    scene.rejectAccessTokens()
    let rejected = try scene.session(["verify", "ada"])
    #expect(rejected.exit == 77 && rejected.error.contains("HTTP 401"), "\(rejected)")
    let refreshed = try scene.session(["refresh", "ada"])
    #expect(refreshed.exit == 0 && refreshed.output.contains("generation 2"), "\(refreshed)")
    #expect(try scene.session(["verify", "ada"]).exit == 0)
    #expect(scene.server.withBackend { $0.isSpent(refreshToken: tokens.refreshToken) })
    let record = try FileSessionStore(stateDirectory: scene.scratch("state")).load("ada")
    for said in [accepted, rejected, refreshed] {
      for token in [tokens.accessToken, tokens.refreshToken, record.accessToken?.reveal() ?? ""] {
        #expect(!said.output.contains(token) && !said.error.contains(token))
      }
    }
  }

  struct Case: CustomTestStringConvertible, Sendable {
    var name: String
    var fault: Fault
    var exit: Int32
    var said: String
    var state: String
    var testDescription: String { name }
  }

  static let cases: [Case] = [
    .init(
      name: "the session is over", fault: .code("invalid_grant", status: 400), exit: 77, said: "sign in again",
      state: "dead"),
    .init(
      name: "our settings are refused", fault: .code("invalid_client", status: 401), exit: 78,
      said: "[provider.mock]", state: "misconfigured"),
    .init(
      name: "a limit", fault: .tooManyRequests(retryAfterSeconds: 30), exit: 75, said: "try again in 30 s",
      state: "backoff"),
    .init(
      name: "an answer that was lost", fault: .resetAfterCommit, exit: 77, said: "outcome is unknown",
      state: "fenced"),
  ]

  @Test("each failure has its exit code, its words and the state it leaves", arguments: cases)
  func failures(_ failure: Case) throws {
    let scene = try Scene()
    try scene.signIn()
    let fault = failure.fault
    scene.setFaults { $0.refresh = [fault] }
    let said = try scene.session(["refresh", "ada"])
    #expect(said.exit == failure.exit, "\(said)")
    #expect(said.error.contains(failure.said), "\(said.error)")
    let shown = try scene.session(["show", "ada", "--json"]).output
    #expect(shown.contains("\"state\" : \"\(failure.state)\""), "\(shown)")
  }

  @Test("a token endpoint that is not there is a failure that may pass, and names what was not sent")
  func unreachable() throws {
    let scene = try Scene()
    try scene.signIn()
    scene.settings.endpoint = "http://127.0.0.1:1/token"
    try scene.writeConfiguration()
    let said = try scene.session(["refresh", "ada"])
    #expect(said.exit == 75 && said.error.contains("nothing was sent"), "\(said)")
  }

  @Test("without the settings that a refresh needs, the missing ones are named: EX_CONFIG")
  func incomplete() throws {
    let scene = try CommandLineScene()
    try scene.put("ci", provider: "okta") { _ in }
    let said = try scene.session("refresh", "ci")
    #expect(said.exit == 78)
    #expect(said.error.contains("domain") && said.error.contains("client_id"), "\(said.error)")
    let verified = try scene.session("verify", "ci")
    #expect(verified.exit == 78 && verified.error.contains("validate_url"), "\(verified.error)")
  }
}
