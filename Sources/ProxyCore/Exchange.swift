public import BearerPolicy

/// What of a request decides about its token and its replay; read once from its head and its route.
public struct ExchangeFacts: Sendable {
  /// The route's rule after the client's `Bearerd-Auth` and a kept `Authorization` have been considered.
  public var auth: AuthMode
  public var method: ReplayFacts.MethodKind
  public var hasIdempotencyKey: Bool
  public var clientRetry: ReplayFacts.ClientRetry?
  public var pathRetry: ReplayFacts.PathRetry
  public var writes: ReplayFacts.Writes
  public var hasBody: Bool
  /// CONNECT: once the connection is there, bytes go both ways.
  public var isTunnel: Bool
  /// bearerd itself asks with `Expect: 100-continue` before the body leaves (SPEC §4).
  public var probes: Bool
  /// RFC 9110 §9.2.1; with no body, the one kind of request that may go again after a stale pooled connection.
  public var isSafe: Bool

  public init(
    auth: AuthMode, method: ReplayFacts.MethodKind, hasIdempotencyKey: Bool,
    clientRetry: ReplayFacts.ClientRetry?, pathRetry: ReplayFacts.PathRetry, writes: ReplayFacts.Writes,
    hasBody: Bool, isSafe: Bool, isTunnel: Bool = false, probes: Bool = false
  ) {
    self.auth = auth
    self.method = method
    self.hasIdempotencyKey = hasIdempotencyKey
    self.clientRetry = clientRetry
    self.pathRetry = pathRetry
    self.writes = writes
    self.hasBody = hasBody
    self.isSafe = isSafe
    self.isTunnel = isTunnel
    self.probes = probes
  }
}

/// Whether a request carries the session's token (SPEC §2).
public enum AuthMode: String, Sendable, CaseIterable {
  case required, optional, none
}

/// What the session could give.
public enum BearerAnswer: Equatable, Sendable {
  /// A token to attach; `generation` says which.
  case ready(generation: UInt64)
  /// No token, and why, in the words of SPEC §6.
  ///
  /// Indirect, here and below, are the rare cases that carry much: so the others travel in registers.
  indirect case unavailable(BearerRefusal)
}

/// Why a session gives no token, as the client will be told.
public struct BearerRefusal: Equatable, Sendable {
  public var code: ProblemCode
  /// What happened, one line; no secret.
  public var detail: String
  /// Seconds until another try can help; nil where time alone does not.
  public var retryAfterSeconds: Int64?

  public init(code: ProblemCode, detail: String, retryAfterSeconds: Int64? = nil) {
    self.code = code
    self.detail = detail
    self.retryAfterSeconds = retryAfterSeconds
  }
}

/// Why an attempt at the upstream failed.
public enum UpstreamFailure: Equatable, Sendable {
  /// Nothing of the request has left.
  case unreachable(String)
  case tls(String)
  case connectTimedOut
  /// No connection came free in time.
  case poolExhausted
  /// This process may open no further descriptor.
  case outOfDescriptors
  /// The address is this machine's, and the host was not configured (SPEC §1).
  case addressNotAllowed
  /// The connection ended before any byte of a response.
  case closedBeforeResponse(reused: Bool)
  /// It ended inside a response's head, or what came is not HTTP.
  case malformedResponse(String)
  /// The response's head did not come in time.
  case responseTimedOut
}

/// One client request and its attempts at the upstream: at most one replay after a 401 (I2), at most one retry on a
/// pooled connection that was already dead (RFC 9110 §9.2.2).
///
/// ```
///             resolveBearer            openUpstream           sendRequest
///   idle ──────────────────▶ bearer ───────────────▶ opening ─────────────▶ exchanging ──▶ relaying ──▶ ended
///                                                       ▲                       │ 401
///                                                       └────── replay ───── judging ──▶ relaying (passed through)
/// ```
/// Sans-IO: inputs are events, the result is what to do next. It knows neither HTTP/1 nor HTTP/2, no bytes and no clock.
public struct Exchange: Sendable {
  public enum Input: Equatable, Sendable {
    case began
    case bearer(BearerAnswer)
    case upstreamOpened
    indirect case upstreamFailed(UpstreamFailure)
    /// A final response's head.
    case responseHead(status: Int)
    case responseEnded
    /// The upstream broke, or fell silent, inside the response's body.
    case responseBroke
    case clientAborted
    /// The client's body did not come in time, or was malformed.
    case clientBodyFailed(ProblemCode)
  }

  public enum Action: Equatable, Sendable {
    /// Ask for a token; answered by `bearer`. `rejected`: the generation that a 401 was for.
    case resolveBearer(rejected: UInt64?)
    /// Get a connection or stream. `fresh`: no pooled one, that may be dead.
    case openUpstream(fresh: Bool)
    /// Send the head with this generation's token, or none, then the body.
    case sendRequest(generation: UInt64?)
    /// Keep the 401 back, and ask for a newer token.
    case holdResponse(rejected: UInt64)
    /// Drop the 401 that is held back and go again.
    case discardAndReopen
    /// Drop the 417 to our own expectation and go again without it, the body not having left.
    case resendUnprobed
    /// Tell the client that its tunnel is open.
    case openTunnel
    /// Send the head on, then the body. `note`: to append as `Proxy-Status` details.
    case relayResponse(note: String?)
    /// Answer ourselves; no byte of a response has been sent.
    indirect case answer(BearerRefusal)
    indirect case answerUpstreamFailure(UpstreamFailure)
    case answerClientFault(ProblemCode)
    /// Cut the client's connection so that it can tell (I9).
    case abortClient
    /// Cut the upstream's: nobody wants the answer any more.
    case abortUpstream
    case finish
    case nothing
  }

  private enum State: Equatable, Sendable {
    case idle
    /// A token was asked for before the first attempt.
    case bearer
    /// A connection was asked for.
    case opening(generation: UInt64?)
    /// The request is on its way, no final response yet.
    case exchanging(generation: UInt64?)
    /// A 401 is held back while a newer token is asked for.
    case judging(rejected: UInt64)
    case relaying
    case ended
  }

  private var state = State.idle
  private let facts: ExchangeFacts
  public private(set) var isReplay = false
  private var hasRetriedPooled = false
  /// The next request goes without an expectation of ours.
  private var isUnprobed = false

  public init(_ facts: ExchangeFacts) { self.facts = facts }

  /// What the body's copy says now; asked at each decision, because it changes while the body streams.
  public struct BodyStanding: Equatable, Sendable {
    /// All of what has left, and all that may still come, can be sent again.
    public var isReplayable: Bool
    /// At least one byte has been given to an upstream connection.
    public var hasLeft: Bool
    public init(isReplayable: Bool, hasLeft: Bool) {
      self.isReplayable = isReplayable
      self.hasLeft = hasLeft
    }
  }

  public var hasEnded: Bool { state == .ended }
  public var isJudging: Bool {
    if case .judging = state { return true }
    return false
  }
  /// No byte of a final response has been sent to the client.
  public var mayStillAnswer: Bool {
    switch state {
    case .idle, .bearer, .opening, .exchanging, .judging: true
    case .relaying, .ended: false
    }
  }

  public mutating func handle(_ input: Input, body: BodyStanding) -> Action {
    switch (state, input) {
    case (.idle, .began):
      switch facts.auth {
      case .required, .optional: return go(.bearer, .resolveBearer(rejected: nil))
      case .none: return go(.opening(generation: nil), .openUpstream(fresh: needsFreshConnection))
      }
    case (.bearer, .bearer(let answer)): return attach(answer)
    case (.opening(let generation), .upstreamOpened):
      if facts.isTunnel { return go(.relaying, .openTunnel) }
      return go(.exchanging(generation: generation), .sendRequest(generation: generation))
    case (.opening, .upstreamFailed(let failure)): return go(.ended, .answerUpstreamFailure(failure))
    case (.exchanging(let generation), .upstreamFailed(let failure)):
      return afterFailure(failure, generation: generation)
    case (.exchanging(let generation), .responseHead(let status)):
      if status == 417, probes, !body.hasLeft {
        isUnprobed = true
        return go(.opening(generation: generation), .resendUnprobed)
      }
      return judge(status: status, generation: generation)
    case (.judging(let rejected), .bearer(let answer)):
      return decideReplay(answer, rejected: rejected, body: body)
    // The connection whose 401 is held back may go at any time: the 401's head is here, and a replay opens another.
    case (.judging, .responseEnded), (.judging, .responseBroke), (.judging, .upstreamFailed):
      return .nothing
    case (.relaying, .responseEnded): return go(.ended, .finish)
    case (.relaying, .responseBroke), (.relaying, .upstreamFailed): return go(.ended, .abortClient)
    case (.idle, .clientAborted), (.bearer, .clientAborted), (.opening, .clientAborted),
      (.exchanging, .clientAborted), (.judging, .clientAborted), (.relaying, .clientAborted):
      return go(.ended, .abortUpstream)
    case (.bearer, .clientBodyFailed(let code)), (.opening, .clientBodyFailed(let code)),
      (.exchanging, .clientBodyFailed(let code)), (.judging, .clientBodyFailed(let code)):
      return go(.ended, .answerClientFault(code))
    case (.relaying, .clientBodyFailed): return go(.ended, .abortClient)
    case (.ended, .began), (.ended, .bearer), (.ended, .upstreamOpened), (.ended, .upstreamFailed),
      (.ended, .responseHead), (.ended, .responseEnded), (.ended, .responseBroke), (.ended, .clientAborted),
      (.ended, .clientBodyFailed):
      return .nothing
    case (.idle, .bearer), (.idle, .upstreamOpened), (.idle, .upstreamFailed), (.idle, .responseHead),
      (.idle, .responseEnded), (.idle, .responseBroke), (.idle, .clientBodyFailed),
      (.bearer, .began), (.bearer, .upstreamOpened), (.bearer, .upstreamFailed), (.bearer, .responseHead),
      (.bearer, .responseEnded), (.bearer, .responseBroke),
      (.opening, .began), (.opening, .bearer), (.opening, .responseHead), (.opening, .responseEnded),
      (.opening, .responseBroke),
      (.exchanging, .began), (.exchanging, .bearer), (.exchanging, .upstreamOpened), (.exchanging, .responseEnded),
      (.exchanging, .responseBroke),
      (.judging, .began), (.judging, .upstreamOpened), (.judging, .responseHead),
      (.relaying, .began), (.relaying, .bearer), (.relaying, .upstreamOpened), (.relaying, .responseHead):
      preconditionFailure("an exchange was driven out of order")
    }
  }

  private mutating func go(_ next: State, _ action: Action) -> Action {
    state = next
    return action
  }

  /// The request at hand carries, or will carry, an expectation of ours.
  public var probes: Bool { facts.probes && !isUnprobed }

  private mutating func attach(_ answer: BearerAnswer) -> Action {
    switch answer {
    case .ready(let generation):
      return go(.opening(generation: generation), .openUpstream(fresh: needsFreshConnection))
    case .unavailable(let refusal):
      switch facts.auth {
      case .optional, .none: return go(.opening(generation: nil), .openUpstream(fresh: needsFreshConnection))
      case .required: return go(.ended, .answer(refusal))
      }
    }
  }

  /// A pooled connection may have died unseen. Only a safe request without a body may then be sent again (RFC 9110
  /// §9.2.2), so all others ask for one that was seen alive a moment ago, or a new one.
  private var needsFreshConnection: Bool { facts.hasBody || !facts.isSafe }

  private mutating func afterFailure(_ failure: UpstreamFailure, generation: UInt64?) -> Action {
    if case .closedBeforeResponse(reused: true) = failure, !needsFreshConnection, !hasRetriedPooled {
      hasRetriedPooled = true
      return go(.opening(generation: generation), .openUpstream(fresh: true))
    }
    return go(.ended, .answerUpstreamFailure(failure))
  }

  /// Only a 401 to a request that carried our token asks for a newer one: a 403 never does (I4), nor the answer to a replay (I2).
  private mutating func judge(status: Int, generation: UInt64?) -> Action {
    guard status == 401, let generation, !isReplay else { return go(.relaying, .relayResponse(note: nil)) }
    return go(.judging(rejected: generation), .holdResponse(rejected: generation))
  }

  private mutating func decideReplay(_ answer: BearerAnswer, rejected: UInt64, body: BodyStanding) -> Action {
    let verdict = ReplayGate.verdict(
      ReplayFacts(
        alreadyReplayed: isReplay, clientRetry: facts.clientRetry, pathRetry: facts.pathRetry,
        isBodyReplayable: body.isReplayable, hasBodyLeft: body.hasLeft, method: facts.method,
        hasIdempotencyKey: facts.hasIdempotencyKey, writes: facts.writes))
    switch (answer, verdict) {
    case (.ready(let generation), .replay) where generation > rejected:
      isReplay = true
      return go(.opening(generation: generation), .discardAndReopen)
    // A cool-down: the session has nothing newer, and asking again so soon would be a refresh storm.
    case (.ready, .replay): return go(.relaying, .relayResponse(note: nil))
    case (.ready(let generation), .pass(let reason)):
      let refreshed = generation > rejected ? "session refreshed; " : ""
      return go(.relaying, .relayResponse(note: "\(refreshed)\(reason.detail)"))
    case (.unavailable(let refusal), .replay):
      // With optional authentication the upstream's own 401 is the better answer.
      if facts.auth == .optional { return go(.relaying, .relayResponse(note: refusal.detail)) }
      return go(.ended, .answer(refusal))
    case (.unavailable(let refusal), .pass(let reason)):
      return go(.relaying, .relayResponse(note: "\(refusal.detail); \(reason.detail)"))
    }
  }
}
