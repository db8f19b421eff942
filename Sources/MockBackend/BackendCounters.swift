/// What the backend saw, for tests that judge a client by its effects.
public struct BackendCounters: Equatable, Sendable {
  /// The fate of one refresh token, counted in requests that carried it.
  public struct Presentations: Equatable, Sendable {
    public var presented = 0
    /// After a presentation that rotated it: must be 0 with a correct client.
    public var afterCommit = 0
    /// After a presentation that got no complete answer, rotated or not.
    public var afterUnanswered = 0
    public init() {}
  }

  /// By refresh token, unknown ones included.
  public internal(set) var refreshTokens: [String: Presentations] = [:]
  /// Sums over `refreshTokens`. Reuse inside a declared grace counts here too: the caller knows whether it was
  /// allowed.
  public internal(set) var presentedAfterCommit = 0
  public internal(set) var presentedAfterUnanswered = 0

  public internal(set) var logins = 0
  public internal(set) var refreshesCommitted = 0
  /// Refused by the identity provider's own rules; injected faults are not counted.
  public internal(set) var refreshesRefused = 0
  public internal(set) var familiesRevoked = 0
  /// Requests to a token endpoint that carried `Authorization: Bearer` (SPEC I6: must be 0).
  public internal(set) var bearersAtTokenEndpoints = 0

  /// Requests executed, by `METHOD /path`.
  public internal(set) var executed: [String: Int] = [:]
  /// Executions by the value of `X-Request-Id`.
  public internal(set) var executedByRequestID: [String: Int] = [:]
  /// Executions of an `X-Request-Id` that had been executed before.
  public internal(set) var duplicatesExecuted = 0
  /// Requests answered from the `Idempotency-Key` store instead of being executed.
  public internal(set) var idempotentRepeats = 0

  /// 401 answers of the API, early ones and injected ones included.
  public internal(set) var unauthorized = 0
  /// 403 answers of the API.
  public internal(set) var forbidden = 0

  /// Bytes of request bodies that arrived, decoded, whatever became of the request.
  public internal(set) var bodyBytes = 0
  /// The same by the value of `X-Request-Id`: more than the body's length means that bytes were sent twice.
  public internal(set) var bodyBytesByRequestID: [String: Int] = [:]

  public internal(set) var exchangesInFlight = 0
  public internal(set) var exchangesInFlightMax = 0
  public internal(set) var exchanges = 0

  public init() {}

  public var executedTotal: Int { executed.values.reduce(0, +) }

  mutating func began() {
    exchanges += 1
    exchangesInFlight += 1
    exchangesInFlightMax = max(exchangesInFlightMax, exchangesInFlight)
  }

  mutating func ended() { exchangesInFlight -= 1 }

  mutating func executed(_ request: BackendRequest) {
    executed["\(request.method) \(request.path)", default: 0] += 1
    guard let id = request.header("x-request-id") else { return }
    executedByRequestID[id, default: 0] += 1
    if executedByRequestID[id, default: 0] > 1 { duplicatesExecuted += 1 }
  }

  mutating func bodyArrived(bytes: Int, of request: BackendRequest) {
    bodyBytes += bytes
    guard let id = request.header("x-request-id") else { return }
    bodyBytesByRequestID[id, default: 0] += bytes
  }

  mutating func answered(_ status: Int) {
    if status == 401 { unauthorized += 1 }
    if status == 403 { forbidden += 1 }
  }
}
