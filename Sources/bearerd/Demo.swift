import BearerPolicy
import Dispatch
import Glibc
import MockBackend
import MockServer
import SessionStore
import Synchronization

/// The story `bearerd demo` tells: each act sends real requests and checks with the backend what came of them.
struct Demo {
  private let stage: DemoStage
  private let client: DemoClient
  private static let api = "http://api.test"

  init(_ stage: DemoStage) {
    self.stage = stage
    client = DemoClient(port: stage.port)
  }

  /// True where everything was as promised.
  func play() throws(CommandFailure) -> Bool {
    try say(
      """
      A strict identity provider and API run on https://127.0.0.1:\(stage.backend.tlsPort): access tokens live 3 s,
      refresh tokens rotate, and one that is presented twice ends the session.
      bearerd listens on http://127.0.0.1:\(stage.port). The program behind it speaks plain HTTP and knows no token.
      """)
    try stage.signIn()
    let acts = [plainRequest, expiry, revokedRead, writes, lostAnswer, newLogin]
    var isRight = true
    for act in acts { isRight = try act() && isRight }
    return try summary() && isRight
  }

  // MARK: acts

  private func plainRequest() throws(CommandFailure) -> Bool {
    try title("A request without a token")
    let answer = client.send("GET", "\(Self.api)/notes")
    return try report("GET \(Self.api)/notes", answer, expects: [200], "bearerd asked for https and added the token")
  }

  private func expiry() throws(CommandFailure) -> Bool {
    try title("The token expires, twenty requests come at once")
    usleep(3_200_000)
    let before = stage.backend.counters.refreshesCommitted
    let statuses = Mutex<[Int]>([])
    let client = client
    DispatchQueue.concurrentPerform(iterations: 20) { _ in
      let status = client.send("GET", "\(Self.api)/notes")?.status ?? 0
      statuses.withLock { $0.append(status) }
    }
    let good = statuses.withLock { $0.filter { $0 == 200 }.count }
    let refreshes = stage.backend.counters.refreshesCommitted - before
    try say("  20 × GET → \(good) × 200, \(refreshes) refresh")
    return try check(good == 20 && refreshes == 1, "one refresh served everybody")
  }

  private func revokedRead() throws(CommandFailure) -> Bool {
    try title("The API rejects a token that looks good")
    stage.backend.withBackend { $0.revokeAccessTokens() }
    let answer = client.send("GET", "\(Self.api)/notes")
    return try report("GET \(Self.api)/notes", answer, expects: [200], "401 → refreshed → replayed once, unseen")
  }

  private func writes() throws(CommandFailure) -> Bool {
    try title("Writes are replayed only where that is safe")
    stage.backend.withBackend { $0.revokeAccessTokens() }
    let plain = client.send("POST", "\(Self.api)/notes", body: "{\"text\":\"one\"}")
    var isRight = try report("POST without Idempotency-Key", plain, expects: [401], "passed through, not replayed")
    if let status = plain?.header("Proxy-Status") { try say("    Proxy-Status: \(status)") }
    let again = client.send("POST", "\(Self.api)/notes", body: "{\"text\":\"one\"}")
    isRight = try report("the same again", again, expects: [200, 201], "the next attempt succeeds") && isRight
    stage.backend.withBackend { $0.revokeAccessTokens() }
    let keyed = client.send(
      "POST", "\(Self.api)/notes", headers: ["Idempotency-Key: demo-1"], body: "{\"text\":\"two\"}")
    return try report("POST with Idempotency-Key", keyed, expects: [200, 201], "401 → refreshed → replayed once")
      && isRight
  }

  private func lostAnswer() throws(CommandFailure) -> Bool {
    try title("The identity provider rotates, and its answer is lost")
    stage.backend.withBackend { backend in
      backend.revokeAccessTokens()
      backend.faults.refresh = [.resetAfterCommit]
    }
    let answer = client.send("GET", "\(Self.api)/notes")
    let isRight = try report(
      "GET \(Self.api)/notes", answer, expects: [401],
      "nobody can know whether the refresh token was used, so it is never presented again")
    if let answer { try say(Self.indented(answer.body)) }
    let later = client.send("GET", "\(Self.api)/notes")
    return try report("the same again", later, expects: [401], "no second try: the family at the provider is unharmed")
      && isRight
  }

  private func newLogin() throws(CommandFailure) -> Bool {
    try title("Sign in again, without a restart")
    try stage.signIn()
    let answer = client.send("GET", "\(Self.api)/notes")
    return try report("GET \(Self.api)/notes", answer, expects: [200], "the running proxy has taken the new session up")
  }

  private func summary() throws(CommandFailure) -> Bool {
    let counters = stage.backend.counters
    try title("What the backend counted")
    try say("  requests executed                                  \(counters.executedTotal)")
    try say("  requests executed twice                            \(counters.duplicatesExecuted)")
    try say("  refreshes committed                                \(counters.refreshesCommitted)")
    try say("  refresh tokens presented again after their success \(counters.presentedAfterCommit)")
    try say("  sessions revoked for reuse                         \(counters.familiesRevoked)")
    return try check(
      counters.duplicatesExecuted == 0 && counters.presentedAfterCommit == 0 && counters.familiesRevoked == 0,
      "no request executed twice, no session burned")
  }

  // MARK: telling

  private func title(_ text: String) throws(CommandFailure) { try say("\n\(text)") }
  private func say(_ text: String) throws(CommandFailure) { try Output.write(text + "\n") }

  private func report(_ what: String, _ answer: DemoClient.Answer?, expects: Set<Int>, _ meaning: String)
    throws(CommandFailure) -> Bool
  {
    try say("  \(what) → \(answer.map { String($0.status) } ?? "no answer")")
    return try check(answer.map { expects.contains($0.status) } ?? false, meaning)
  }

  private func check(_ isRight: Bool, _ meaning: String) throws(CommandFailure) -> Bool {
    try say("    \(isRight ? "✓" : "✗ NOT AS PROMISED:") \(meaning)")
    return isRight
  }

  private static func indented(_ text: String) -> String {
    text.split(separator: "\n").map { "    \($0)" }.joined(separator: "\n")
  }
}
