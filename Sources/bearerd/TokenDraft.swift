import BearerPolicy
import Chronology
import SessionStore

/// What `session add` was given so far, and everything that is wrong with it.
struct TokenDraft {
  let provider: Provider
  private(set) var accessToken: Secret?
  private(set) var refreshToken: Secret?
  private(set) var problems: [String] = []
  private var lifetime = Expiry.Members()
  private var sources: [ExpirySource]
  private var isAnswer = false
  /// Named, perhaps unreadable: then that is the problem, not that it is missing.
  private var isAccessTokenNamed = false
  private var isRefreshTokenNamed = false
  private var isLifetimeNamed = false

  init(provider: Provider) {
    self.provider = provider
    sources = provider.expirySources
  }

  mutating func note(_ problem: String) { problems.append(problem) }

  mutating func takeAnswer(_ path: String) {
    isAnswer = true
    switch SecretInput.read(path) {
    case .failure(let problem): note("\(Self.shown(path)): \(problem.reason)")
    case .success(let bytes):
      switch TokenAnswer.read(bytes, provider: provider) {
      case .failure(let found): problems += found.texts.map { "\(Self.shown(path)): \($0)" }
      case .success(let answer):
        accessToken = answer.accessToken
        refreshToken = answer.refreshToken
        lifetime = answer.lifetime
        sources = answer.sources
      }
    }
  }

  mutating func takeAccessToken(_ path: String) {
    isAccessTokenNamed = true
    accessToken = take(path, TokenText.accessToken)
  }

  mutating func takeRefreshToken(_ path: String) {
    isRefreshTokenNamed = true
    refreshToken = take(path, TokenText.refreshToken)
  }

  private mutating func take(_ path: String, _ judge: (Secret) -> Result<Secret, InputProblem>) -> Secret? {
    switch SecretInput.read(path).flatMap(judge) {
    case .success(let token): return token
    case .failure(let problem):
      note("\(Self.shown(path)): \(problem.reason)")
      return nil
    }
  }

  /// Asks for both, and for the lifetime where the provider needs it; Enter alone leaves one out.
  mutating func ask() throws(CommandFailure) {
    accessToken = ask(
      try SecretInput.prompt("Access token (not shown; Enter for none): "), TokenText.accessToken)
    refreshToken = ask(
      try SecretInput.prompt("Refresh token (not shown; Enter for none): "), TokenText.refreshToken)
    guard accessToken != nil, lacksLifetime else { return }
    Output.ask("Seconds until the access token ends: ")
    takeLifetime(expiresIn: readLine() ?? "", expiresAt: nil)
  }

  private mutating func ask(_ given: Secret?, _ judge: (Secret) -> Result<Secret, InputProblem>) -> Secret? {
    switch given.map(judge) {
    case nil: return nil
    case .success(let token): return token
    case .failure(let problem):
      note("what was typed \(problem.reason)")
      return nil
    }
  }

  /// A person's word counts even where the provider's answers have no such member.
  mutating func takeLifetime(expiresIn: String?, expiresAt: String?) {
    guard expiresIn != nil || expiresAt != nil else { return }
    isLifetimeNamed = true
    lifetime = Expiry.Members()
    if let expiresIn {
      lifetime.expiresIn = LifetimeText.interval(expiresIn)
      sources.append(.expiresIn)
      if lifetime.expiresIn == nil { note("`--expires-in` takes whole seconds above 0, such as 3600") }
    }
    if let expiresAt {
      lifetime.expiresAt = LifetimeText.time(expiresAt)
      sources.append(.expiresAt)
      if lifetime.expiresAt == nil {
        note("`--expires-at` takes a time such as 2030-01-31T12:00:00Z, or seconds since the epoch")
      }
    }
  }

  /// A provider whose only sources are the answer's members always tells the lifetime.
  private var lacksLifetime: Bool {
    !isLifetimeNamed && !provider.expirySources.contains(.jwt) && lifetime == Expiry.Members()
  }

  /// Notes what the provider needs and nobody gave, each thing on its own. Call once, after everything was taken.
  mutating func checkComplete() {
    if isAnswer {
      checkAnswer()
    } else {
      checkTokens()
    }
  }

  private mutating func checkAnswer() {
    // In an answer that is wrong already everything is missing.
    guard problems.isEmpty else { return }
    let paths = provider.response
    if accessToken == nil {
      note(
        "`\(paths.bearer)` is missing in the answer: it holds the access token of provider “\(provider.name)”")
    }
    if refreshToken == nil, provider.rotation == .always {
      note(
        "`\(paths.refresh ?? "refresh_token")` is missing in the answer: provider “\(provider.name)” gives a refresh "
          + "token each time")
    }
    if lacksLifetime {
      note(
        "`\(paths.expiresIn ?? "expires_in")` is missing in the answer: give the lifetime with `--expires-in`")
    }
  }

  private mutating func checkTokens() {
    let hasAccessToken = isAccessTokenNamed || accessToken != nil
    let hasRefreshToken = isRefreshTokenNamed || refreshToken != nil
    if !hasRefreshToken, provider.rotation == .always {
      note(
        "a refresh token is missing: provider “\(provider.name)” needs one; give it with `--refresh-token-file`"
      )
    } else if !hasAccessToken, !hasRefreshToken {
      note(
        "no token is given: name its file with `--refresh-token-file` or `--access-token-file` (`-` is standard "
          + "input), or hand in the provider's answer with `--from-json`")
    }
    if hasAccessToken, lacksLifetime {
      note(
        "the access token's lifetime is missing: provider “\(provider.name)” needs it; give it with `--expires-in`"
      )
    }
    if !hasAccessToken, isLifetimeNamed {
      note("`--expires-in` and `--expires-at` say when the access token ends, but none is given")
    }
  }

  private func expiry(now: WallTime) -> (expiresAt: WallTime, source: ExpirySource) {
    // Without an access token there is nothing that could serve until a later moment.
    guard let accessToken else { return (now, .fallback) }
    var judged = provider
    judged.expirySources = sources
    return Expiry.decide(
      answer: lifetime, bearer: accessToken, provider: judged, receivedAt: now, serverDate: nil,
      issuedNow: false)
  }

  func record(name: String, now: WallTime) -> SessionRecord {
    let expiry = expiry(now: now)
    return SessionRecord(
      name: name, provider: provider.name, accessToken: accessToken, refreshToken: refreshToken,
      obtainedAt: now,
      expiresAt: expiry.expiresAt, expirySource: expiry.source, isImported: true)
  }

  private static func shown(_ path: String) -> String { path == "-" ? "standard input" : path }
}
