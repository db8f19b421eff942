import BearerPolicy
import Chronology

/// Reads what a provider answered to a sign-in (`--from-json`): by the provider's response paths first, then by the
/// usual names, because a sign-in may answer in other words than a refresh.
struct TokenAnswer {
  var accessToken: Secret?
  var refreshToken: Secret?
  var lifetime = Expiry.Members()
  /// The provider's sources, and those of usual names that were found.
  var sources: [ExpirySource]

  /// - Returns: the members that are there, or everything that is wrong with them.
  static func read(_ input: Secret, provider: Provider) -> Result<TokenAnswer, InputProblems> {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(input.count)
    input.append(to: &bytes)
    defer { for index in bytes.indices { bytes[index] = 0 } }
    guard let answer = JSONValue.parse(bytes), case .object = answer else {
      return .failure(InputProblems(["the answer is not one JSON object in UTF-8"]))
    }
    var read = TokenAnswer(sources: provider.expirySources)
    var problems = InputProblems([])
    let paths = provider.response
    read.accessToken = problems.token(
      in: answer, at: [paths.bearer] + usualNames(ofBearer: paths.bearer), TokenText.accessToken)
    read.refreshToken = problems.token(
      in: answer, at: [paths.refresh].compactMap(\.self) + ["refresh_token", "refreshToken"],
      TokenText.refreshToken)
    problems.check(type: paths.tokenType.flatMap { answer[$0] } ?? answer["token_type"])
    read.readLifetime(of: answer, provider)
    return problems.texts.isEmpty ? .success(read) : .failure(problems)
  }

  /// An identity token is the bearer for some providers: the access token beside it must not pass for it.
  private static func usualNames(ofBearer path: String) -> [String] {
    let leaf = path.split(separator: ".").last.map { $0.lowercased().replacing("_", with: "") }
    return leaf == "idtoken" ? ["id_token", "idToken"] : ["access_token", "accessToken", "token"]
  }

  private mutating func readLifetime(of answer: JSONValue, _ provider: Provider) {
    lifetime = Expiry.Members(of: answer, provider: provider)
    for (inName, atName) in [("expires_in", "expires_at"), ("expiresIn", "expiresAt")] {
      var usual = Provider(name: "")
      usual.response.expiresIn = inName
      usual.response.expiresAt = atName
      let found = Expiry.Members(of: answer, provider: usual)
      if lifetime.expiresIn == nil, let interval = found.expiresIn {
        lifetime.expiresIn = interval
        sources.append(.expiresIn)
      }
      if lifetime.expiresAt == nil, let time = found.expiresAt {
        lifetime.expiresAt = time
        sources.append(.expiresAt)
      }
    }
  }
}

/// What is wrong with an input; names members, never their values.
struct InputProblems: Error, Equatable {
  var texts: [String]
  init(_ texts: [String]) { self.texts = texts }

  /// The first of the paths that is there; nil where none is, or after a problem was noted.
  fileprivate mutating func token(
    in answer: JSONValue, at paths: [String], _ judge: (Secret) -> Result<Secret, InputProblem>
  ) -> Secret? {
    for path in paths {
      guard let value = answer[path], !value.isNull, value != .string("") else { continue }
      guard let text = value.stringValue else {
        texts.append("`\(path)` in the answer is no string but: \(value.description)")
        return nil
      }
      switch judge(Secret(text)) {
      case .success(let token): return token
      case .failure(let problem):
        texts.append("`\(path)` in the answer \(problem.reason)")
        return nil
      }
    }
    return nil
  }

  fileprivate mutating func check(type: JSONValue?) {
    guard let type, !type.isNull, type.stringValue?.lowercased() != "bearer" else { return }
    texts.append("the answer's token type is not \"bearer\": bearerd carries bearer tokens only (RFC 6750)")
  }
}

/// `--expires-in` and `--expires-at`.
enum LifetimeText {
  /// Whole seconds.
  static func interval(_ text: String) -> Interval? {
    guard let seconds = Int64(text), seconds > 0 else { return nil }
    return min(.seconds(seconds), Expiry.lifetimeMax)
  }

  /// RFC 3339, or seconds or milliseconds since the epoch.
  static func time(_ text: String) -> WallTime? {
    if let time = WallTime(rfc3339: text) { return time }
    guard let number = Int64(text), number > 0 else { return nil }
    // As in an answer: seconds pass 10^11 in the year 5138.
    return number >= 100_000_000_000 ? WallTime(milliseconds: number) : WallTime(seconds: number)
  }
}
