import BearerPolicy
import HTTPSyntax
import ProxyCore

/// One request carried out as the server does it, with what left for the upstream counted byte by byte.
struct FuzzedRequest {
  let id: UInt64
  private var exchange: Exchange
  private let facts: ExchangeFacts
  private let copy: ReplayBuffer?
  private let content: [UInt8]
  /// Of `content`, how many bytes the client has sent and bearerd has taken.
  private var taken = 0
  /// Of the present attempt, how many have been given to the upstream.
  private var sent = 0
  /// How often each byte of `content` has left.
  private var departures: [Int]
  private var last = Exchange.Action.nothing
  private var isWaiting = false
  private var isOpen = false
  private var sends: [UInt64?] = []
  private var statuses: [Int] = []
  private var replays = 0
  private var resends = 0
  private var finalAnswers = 0
  private var hasSeen403 = false

  init(id: UInt64, _ source: inout ByteSource, _ budget: ReplayBudget) {
    self.id = id
    let bits = source.next()
    let length = source.next(below: 80)
    content = bits & 1 == 0 ? [] : (0..<length).map { UInt8($0) }
    facts = ExchangeFacts(
      auth: source.pick([.required, .optional, .none]), method: bits & 2 == 0 ? .getHeadOptions : .other,
      hasIdempotencyKey: bits & 4 != 0, clientRetry: source.pick([nil, .allow, .deny]),
      pathRetry: source.pick([.default, .always, .never]), writes: bits & 8 == 0 ? .idempotencyKey : .always,
      hasBody: bits & 1 == 1, isSafe: bits & 2 == 0, probes: bits & 65 == 65)
    copy =
      bits & 1 == 0
      ? nil
      : ReplayBuffer(
        expected: bits & 16 == 0 ? nil : UInt64(content.count), keepsCopy: bits & 32 == 0, bytesMax: 64, budget: budget)
    exchange = Exchange(facts)
    departures = Array(repeating: 0, count: content.count)
  }

  private var standing: Exchange.BodyStanding {
    Exchange.BodyStanding(isReplayable: copy?.isComplete ?? true, hasLeft: taken > 0)
  }

  mutating func begin(_ session: inout SharedSession) throws { try handle(.began, &session) }

  mutating func woken(_ answer: BearerAnswer, _ session: inout SharedSession) throws {
    isWaiting = false
    try handle(.bearer(answer), &session)
  }

  /// The client goes: whatever stood open ends (I11).
  mutating func leave(_ session: inout SharedSession) throws {
    if !exchange.hasEnded { try handle(.clientAborted, &session) }
    try require(exchange.hasEnded, "I11: the client's end ends the exchange")
    try require(finalAnswers <= 1, "I11: one final response")
  }

  /// The next thing that can happen to this request where it stands.
  mutating func step(_ source: inout ByteSource, _ session: inout SharedSession) throws {
    if exchange.hasEnded {
      // What comes late changes nothing.
      try requireEqual(exchange.handle(.responseEnded, body: standing), .nothing, "an end is an end")
      return
    }
    switch source.next(below: 8) {
    case 0: return try handle(.clientAborted, &session)
    case 1: return try handle(.clientBodyFailed(.requestTimeout), &session)
    case 2, 3: return try moveBody(source.next(below: 40))
    default: break
    }
    switch last {
    case .openUpstream, .discardAndReopen, .resendUnprobed:
      let failure: Exchange.Input = .upstreamFailed(.unreachable("refused"))
      try handle(source.next(below: 6) == 0 ? failure : .upstreamOpened, &session)
    case .sendRequest:
      switch source.next(below: 6) {
      case 0: try handle(.upstreamFailed(.closedBeforeResponse(reused: source.flag())), &session)
      case 1: try handle(.upstreamFailed(.responseTimedOut), &session)
      default: try handle(.responseHead(status: source.pick([401, 200, 403, 401, 417, 401])), &session)
      }
    case .holdResponse: try handle(source.flag() ? .responseEnded : .responseBroke, &session)
    case .relayResponse: try handle(source.next(below: 4) == 0 ? .responseBroke : .responseEnded, &session)
    case .resolveBearer, .answer, .answerUpstreamFailure, .answerClientFault, .abortClient, .abortUpstream, .finish,
      .openTunnel, .nothing:
      break
    }
  }

  /// Up to `count` bytes stream: what is kept goes first, then what the client sends.
  private mutating func moveBody(_ count: Int) throws {
    guard isOpen else { return }
    let kept = min(count, taken - sent)
    if kept > 0 {
      guard let copy, copy.isComplete else {
        throw Broken(description: "I3: bytes that were not kept are wanted again")
      }
      let again = copy.withBytes(from: sent) { Array($0.prefix(kept)) }
      try requireEqual(again, Array(content[sent..<sent + kept]), "the copy is what the client sent")
      for offset in sent..<sent + kept { departures[offset] += 1 }
      sent += kept
      return
    }
    let fresh = content[taken..<min(content.count, taken + count)]
    fresh.withUnsafeBytes { copy?.tee($0) }
    for offset in fresh.indices { departures[offset] += 1 }
    taken += fresh.count
    sent += fresh.count
  }

  private mutating func handle(_ input: Exchange.Input, _ session: inout SharedSession) throws {
    let standingBefore = standing
    let action = exchange.handle(input, body: standingBefore)
    if action != .nothing { last = action }
    if case .responseHead(let status) = input {
      statuses.append(status)
      hasSeen403 = hasSeen403 || status == 403
      if let generation = sends.last ?? nil, status != 401 { session.accept(generation) }
    }
    switch action {
    case .resolveBearer(let rejected): try ask(rejected, &session)
    case .holdResponse(let rejected):
      try requireEqual(statuses.last, 401, "I2: only a 401 is held")
      try require(!hasSeen403, "I4: a 403 never refreshes")
      try requireEqual(rejected, sends.last ?? nil, "I5: the generation that was sent was rejected")
      try ask(rejected, &session)
    case .openUpstream: isOpen = false
    case .discardAndReopen:
      replays += 1
      try requireEqual(replays, 1, "I2: one replay")
      try requireEqual(statuses.last, 401, "I2: after a 401")
      try require(standingBefore.isReplayable || taken == 0, "I3: a body that left and was not kept is not replayed")
      isOpen = false
      sent = 0
    case .resendUnprobed:
      resends += 1
      try require(facts.probes, "a 417 to the client's own expectation is the client's")
      try requireEqual(resends, 1, "the expectation is given up once")
      try requireEqual(statuses.last, 417, "only a 417 is answered so")
      try requireEqual(taken, 0, "I3: the body has not left")
      isOpen = false
    case .openTunnel: throw Broken(description: "nobody asked for a tunnel")
    case .sendRequest(let generation): try send(generation)
    case .relayResponse:
      finalAnswers += 1
      if replays > 0, statuses.last == 401, let generation = sends.last ?? nil { session.rejectAfterReplay(generation) }
    case .answer, .answerUpstreamFailure, .answerClientFault:
      finalAnswers += 1
      try end(action)
    case .abortClient, .abortUpstream, .finish: try end(action)
    case .nothing: break
    }
  }

  private mutating func ask(_ rejected: UInt64?, _ session: inout SharedSession) throws {
    if let answer = try session.ask(id, rejected: rejected) {
      try handle(.bearer(answer), &session)
    } else {
      isWaiting = true
    }
  }

  private mutating func send(_ generation: UInt64?) throws {
    if replays > 0 {
      let before = sends.compactMap { $0 }.max() ?? 0
      let isRetry = sends.last == generation && (statuses.count == 1 && sends.count > 1 || statuses.last == 417)
      try require(isRetry || (generation ?? 0) > before, "I2: a replay carries a newer generation")
    }
    if facts.auth == .none { try require(generation == nil, "SPEC §2: auth = none sends no token") }
    if facts.auth == .required { try require(generation != nil, "SPEC §2: required never goes without") }
    sends.append(generation)
    try require(sends.count <= 3, "first, pooled retry, replay: not a fourth")
    isOpen = true
  }

  private func end(_ action: Exchange.Action) throws {
    try require(exchange.hasEnded, "I11: \(action) is an end")
    try require(finalAnswers <= 1, "I11: one final response")
    if finalAnswers == 0 {
      try require(action == .abortUpstream || action == .abortClient, "I11: without an answer there is an abort")
    }
    if copy?.isComplete == false {
      // The copy may have been dropped after the replay: bytes of the copy have left twice then.
      let limit = replays > 0 ? 2 : 1
      try require(departures.allSatisfy { $0 <= limit }, "I3: bytes left more often than they may")
    } else {
      try require(departures.allSatisfy { $0 <= 1 + replays }, "I3: bytes left more often than they may")
    }
  }
}
