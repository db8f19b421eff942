public import Chronology

/// A strict identity provider and the API it guards, as one state machine over values: no sockets, no clock, no
/// randomness but the seed's. The simulator drives it directly, `MockServer` puts it on sockets.
///
/// A carrier that has the whole request calls `handle`. One that streams calls `handleHead`, and `handleBody` once
/// the body has been read.
public struct MockBackend: Sendable {
  public var settings: BackendSettings
  public var faults = BackendFaults()
  public internal(set) var counters = BackendCounters()
  var authority: TokenAuthority
  var notes = NoteStore()
  /// Refresh tokens whose last presentation got no complete answer.
  var unanswered: Set<String> = []

  /// The same seed and the same calls give the same tokens.
  public init(settings: BackendSettings = BackendSettings(), seed: UInt64 = 1) {
    self.settings = settings
    authority = TokenAuthority(seed: seed)
  }

  /// Starts a family of tokens. Several logins of one user are independent sessions.
  public mutating func login(user: String, now: WallTime) -> (accessToken: String, refreshToken: String) {
    counters.logins += 1
    let issued = authority.login(user: user, settings: settings, now: now)
    return (issued.accessToken, issued.refreshToken)
  }

  /// Answers a request whose body is complete.
  public mutating func handle(_ request: BackendRequest, now: WallTime) -> BackendDecision {
    exchangeBegan()
    defer { exchangeEnded() }
    switch handleHead(request, now: now) {
    case .reply(let decision): return decision
    case .readBody(let admission):
      var body = ReceivedBody(admission.bodyUse)
      body.append(request.body)
      bodyArrived(bytes: request.body.count, of: request)
      return handleBody(request, admission: admission, body: body, now: now)
    }
  }

  /// What to do once the head is complete. `head.body` is not looked at.
  ///
  /// The token is judged here, so that one which expires during a long upload still serves it.
  public mutating func handleHead(_ head: BackendRequest, now: WallTime) -> HeadDecision {
    if let endpoint = TokenEndpoint(rawValue: head.path) {
      if head.bearer != nil { counters.bearersAtTokenEndpoints += 1 }
      return .readBody(
        Admission(bodyUse: .keep(bytesMax: Self.keptBytesMax), mayContinue: true, verdict: .tokenEndpoint(endpoint)))
    }
    let (path, isOpen) = Self.openPath(head.path)
    let fault = faults.next(path: head.path)
    let expects = head.header("expect")?.lowercased() == "100-continue"
    if expects, settings.expectation == .refused {
      return .reply(BackendDecision(reply: APIRoute.json(417, .object([("error", .string("no_expectations"))]))))
    }
    let isExpecting = expects && settings.expectation == .honoured
    if fault == .earlyUnauthorized { return .reply(rejection()) }
    let user = head.bearer.flatMap { authority.user(ofAccessToken: $0, now: now) }
    guard fault != .unauthorized, isOpen || user != nil else {
      if settings.rejectsBeforeBody || isExpecting { return .reply(rejection()) }
      return .readBody(Admission(bodyUse: .count, mayContinue: false, verdict: .unauthorized))
    }
    let route = APIRoute(path: path)
    return .readBody(
      Admission(
        bodyUse: route.bodyUse(method: head.method), mayContinue: isExpecting,
        verdict: .api(route, user: user ?? "", fault)))
  }

  /// Answers a request whose head was admitted, now that its body was read to the end.
  public mutating func handleBody(
    _ head: BackendRequest, admission: Admission, body: ReceivedBody, now: WallTime
  ) -> BackendDecision {
    switch admission.verdict {
    case .unauthorized: return rejection()
    case .tokenEndpoint(let endpoint): return refresh(at: endpoint, head, body: body, now: now)
    case .api(let route, let user, let fault):
      let decision = answer(route, user: user, fault: fault, head, body: body)
      counters.answered(decision.reply.status)
      return decision
    }
  }

  /// Brackets an exchange for `BackendCounters.exchangesInFlightMax`; `handle` calls both itself.
  public mutating func exchangeBegan() { counters.began() }
  public mutating func exchangeEnded() { counters.ended() }

  /// Counts bytes of a body as they arrive; `handle` calls it itself.
  public mutating func bodyArrived(bytes: Int, of head: BackendRequest) {
    counters.bodyArrived(bytes: bytes, of: head)
  }

  /// Makes every access token issued so far invalid and leaves the refresh tokens as they are. nil: of every user.
  public mutating func revokeAccessTokens(of user: String? = nil) { authority.revokeAccessTokens(of: user) }

  /// Ends every session of that user, as an administrator or a sign-out elsewhere does.
  public mutating func revokeFamilies(of user: String) {
    counters.familiesRevoked += authority.revokeFamilies(of: user)
  }

  /// The one refresh token of the user's latest session that is still good.
  public func activeRefreshToken(of user: String) -> String? { authority.activeRefreshToken(of: user) }

  public func isValid(accessToken: String, now: WallTime) -> Bool {
    authority.user(ofAccessToken: accessToken, now: now) != nil
  }

  public func isSpent(refreshToken: String) -> Bool { authority.isSpent(refreshToken) }

  /// Sessions, notes and exchanges in flight stay.
  public mutating func resetCounters() {
    let inFlight = counters.exchangesInFlight
    counters = BackendCounters()
    counters.exchangesInFlight = inFlight
    counters.exchangesInFlightMax = inFlight
  }

  /// Bodies that are looked into are kept up to here; a longer one is answered 413.
  static let keptBytesMax = 65_536

  /// `/open/…` is the same API without a token.
  private static func openPath(_ path: String) -> (String, isOpen: Bool) {
    path.hasPrefix("/open/") ? (String(path.dropFirst(5)), true) : (path, false)
  }

  private mutating func rejection() -> BackendDecision {
    counters.answered(401)
    return BackendDecision(reply: Self.unauthorizedReply)
  }
}

/// What the backend wants once it has seen a head.
public enum HeadDecision: Sendable {
  /// Answer now; the body stays unread, so the connection cannot be used again unless it is discarded.
  case reply(BackendDecision)
  /// Read the body (after a 100 where one is expected and `mayContinue`), then call `handleBody`.
  case readBody(Admission)
}

/// What was decided at a request's head, to be handed back with its body.
public struct Admission: Sendable {
  enum Verdict: Sendable {
    case unauthorized
    case tokenEndpoint(TokenEndpoint)
    case api(APIRoute, user: String, Fault)
  }
  /// What the backend needs of the body.
  public let bodyUse: ReceivedBody.Use
  /// Whether a client that sent `Expect: 100-continue` is to be told to go on.
  public let mayContinue: Bool
  let verdict: Verdict
}
