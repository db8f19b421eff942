public import Chronology

/// What one presentation of a refresh token came to: the rows of SPEC §3's table. The reason is a stable word for
/// logs, metrics and the session's file; it never holds a peer's free text.
public enum RefreshOutcome: Equatable, Sendable {
  case success(NewTokens)
  /// The provider says that the session is over.
  case dead(code: String)
  /// The provider refused our client or our request, not the session.
  case configurationFault(code: String)
  /// Nothing reached the token endpoint.
  case notSent(reason: String)
  /// The endpoint answered, and its answer proves that the refresh token was not used up.
  case knownNotSucceeded(reason: String, retryAfter: Interval?)
  /// The refresh token may have been used up.
  case unknown(reason: String)
}

/// The tokens of a successful answer.
public struct NewTokens: Equatable, Sendable {
  public var accessToken: Secret
  /// nil: the one presented stays in force (RFC 6749 §6).
  public var refreshToken: Secret?
  public var obtainedAt: WallTime
  public var expiresAt: WallTime
  public var expirySource: ExpirySource
  public init(
    accessToken: Secret, refreshToken: Secret?, obtainedAt: WallTime, expiresAt: WallTime,
    expirySource: ExpirySource
  ) {
    self.accessToken = accessToken
    self.refreshToken = refreshToken
    self.obtainedAt = obtainedAt
    self.expiresAt = expiresAt
    self.expirySource = expirySource
  }
}

/// Why a 200 gives no usable tokens.
public enum UnusableReply: String, Sendable, CaseIterable {
  /// No JSON object at all, told apart from an object that lacks a member (seed 004).
  case undecodable = "reply_undecodable"
  case accessTokenMissing = "access_token_missing"
  /// Not 1 to 16 Ki bytes of visible ASCII.
  case accessTokenUnusable = "access_token_unusable"
  case tokenTypeNotBearer = "token_type_not_bearer"
  /// The provider says that it always rotates.
  case refreshTokenMissing = "refresh_token_missing"
  /// Not 1 to 16 Ki bytes without control characters.
  case refreshTokenUnusable = "refresh_token_unusable"
}

extension RefreshOutcome {
  /// Longer tokens are refused.
  public static let tokenBytesMax = 16 * 1024

  /// By the code in the body first, then by status, then by where it failed.
  public static func classify(
    _ reply: TokenEndpointReply, provider: Provider, receivedAt: WallTime
  ) -> RefreshOutcome {
    switch reply {
    case .notSent(let cause):
      return .notSent(reason: cause.reason)
    case .noAnswer(let cause):
      return .unknown(reason: cause.rawValue)
    case .answer(let status, let serverDate, let retryAfter, let body):
      let answer = JSONValue.parse(body)
      return byCode(answer, provider: provider, retryAfter: retryAfter)
        ?? byStatus(status, provider: provider, retryAfter: retryAfter) {
          switch newTokens(in: answer, provider: provider, receivedAt: receivedAt, serverDate: serverDate) {
          case .success(let tokens): .success(tokens)
          case .failure(let fault): .unknown(reason: fault.rawValue)
          }
        }
    }
  }

  private static func byCode(
    _ answer: JSONValue?, provider: Provider, retryAfter: Interval?
  ) -> RefreshOutcome? {
    guard let answer else { return nil }
    for path in provider.codePaths {
      for code in codes(at: path, in: answer) {
        if provider.deadCodes.contains(code) { return .dead(code: code) }
        if provider.configCodes.contains(code) { return .configurationFault(code: code) }
        if provider.knownCodes.contains(code) { return .knownNotSucceeded(reason: code, retryAfter: retryAfter) }
      }
    }
    return nil
  }

  private static func byStatus(
    _ status: Int, provider: Provider, retryAfter: Interval?, ifOK: () -> RefreshOutcome
  ) -> RefreshOutcome {
    let reason = "http_\(status)"
    if status == 200 { return ifOK() }
    if provider.deadStatuses.contains(status) { return .dead(code: reason) }
    if provider.knownStatuses.contains(status) || provider.everyOtherStatusIsKnown {
      return .knownNotSucceeded(reason: reason, retryAfter: retryAfter)
    }
    switch status {
    case 503 where retryAfter != nil: return .knownNotSucceeded(reason: reason, retryAfter: retryAfter)
    case 408, 429: return .unknown(reason: reason)
    case 300...499: return .configurationFault(code: reason)
    default: return .unknown(reason: reason)
    }
  }

  /// The code at one path, as it stands and without the decoration that some providers add: a name space before
  /// `#` (AWS), an explanation after ` : ` (Google).
  private static func codes(at path: String, in answer: JSONValue) -> [String] {
    var parts: [String] = []
    for part in path.split(separator: "+") {
      switch answer[String(part)] {
      case .string(let text): parts.append(text)
      case .integer(let number): parts.append("\(number)")
      case nil, .null, .bool, .number, .array, .object: return []
      }
    }
    let whole = parts.joined(separator: "+")
    var codes = [whole]
    if let mark = whole.lastIndex(of: "#") { codes.append(String(whole[whole.index(after: mark)...])) }
    if let mark = whole.firstRange(of: " : ") { codes.append(String(whole[..<mark.lowerBound])) }
    return codes
  }

  private static func newTokens(
    in answer: JSONValue?, provider: Provider, receivedAt: WallTime, serverDate: WallTime?
  ) -> Result<NewTokens, UnusableReply> {
    let paths = provider.response
    guard let answer, case .object = answer else { return .failure(.undecodable) }
    guard let bearer = answer[paths.bearer], !bearer.isNull else { return .failure(.accessTokenMissing) }
    guard let text = bearer.stringValue, isUsable(text, { $0 > 0x20 && $0 < 0x7F }) else {
      return .failure(.accessTokenUnusable)
    }
    if let type = paths.tokenType.flatMap({ answer[$0] }), !type.isNull,
      type.stringValue?.lowercased() != "bearer"
    {
      return .failure(.tokenTypeNotBearer)
    }
    var refreshToken: Secret?
    switch paths.refresh.flatMap({ answer[$0] }) {
    case nil, .null, .string(""):
      if provider.rotation == .always { return .failure(.refreshTokenMissing) }
    case .string(let given):
      guard isUsable(given, { $0 >= 0x20 && $0 != 0x7F }) else { return .failure(.refreshTokenUnusable) }
      refreshToken = Secret(given)
    case .bool, .integer, .number, .array, .object:
      return .failure(.refreshTokenUnusable)
    }
    let accessToken = Secret(text)
    let expiry = Expiry.decide(
      answer: Expiry.Members(of: answer, provider: provider), bearer: accessToken, provider: provider,
      receivedAt: receivedAt, serverDate: serverDate)
    return .success(
      NewTokens(
        accessToken: accessToken, refreshToken: refreshToken, obtainedAt: receivedAt,
        expiresAt: expiry.expiresAt, expirySource: expiry.source))
  }

  private static func isUsable(_ token: String, _ allowed: (UInt8) -> Bool) -> Bool {
    (1...tokenBytesMax).contains(token.utf8.count) && token.utf8.allSatisfy(allowed)
  }
}

extension UnusableReply: Error {}
