import BearerPolicy
import Chronology
import MockBackend
import ProxyCore

/// Carries one exchange out: does what `Exchange` says on a virtual connection to the API, in the order of the server.
final class ExchangeDriver {
  private enum Phase {
    /// No upstream, or nothing expected from it.
    case none
    case head
    /// A 401 is kept back.
    case held
    case body
  }

  let request: SimRequest
  private let process: SimProcess
  private let world: World
  private var exchange: Exchange
  private var phase = Phase.none
  /// Tells the attempts apart: what comes late for an earlier one is dropped.
  private var attempt = 0
  private var bearer: SimProcess.CachedBearer?
  private var isConnectionReused = false
  private var isPooledRetry = false
  /// Pieces of the body taken from the client, and sent in the present attempt.
  private var piecesTaken = 0
  private var piecesSent = 0
  private var isUploadStopped = false
  private var admission: Admission?
  private var breaksInBody = false
  private var isOver = false

  init(_ request: SimRequest, process: SimProcess) {
    self.request = request
    self.process = process
    world = process.world
    exchange = Exchange(request.facts)
  }

  func begin() {
    request.startedAt = world.now
    world.note(
      "\(request.label): \(request.method) \(request.path) by session \(request.session) at process \(process.index)"
    )
    if let goneAfter = request.goneAfter, world.scenario.rates.clientGone > 0 {
      world.after(goneAfter, process) { [self] in clientGone() }
    }
    handle(.began)
  }

  /// Its connection is cut with the process: the client can tell.
  func processDied() {
    guard !isOver else { return }
    isOver = true
    world.ended(request, "its process died")
  }

  private func clientGone() {
    guard !isOver else { return }
    if request.bodyFails, piecesTaken < request.pieceCount {
      handle(.clientBodyFailed(.requestTimeout))
    } else {
      handle(.clientAborted)
    }
  }

  private var isCopyWhole: Bool {
    request.pieceCount == 0 || (request.keepsCopy && piecesTaken <= Scenario.keptPiecesMax)
  }

  private var standing: Exchange.BodyStanding {
    Exchange.BodyStanding(
      isReplayable: isCopyWhole || world.planted == .forgetsDroppedCopy, hasLeft: piecesTaken > 0)
  }

  private func handle(_ input: Exchange.Input) {
    guard !isOver else { return }
    let wasJudging = exchange.isJudging
    let action = exchange.handle(input, body: standing)
    if wasJudging, case .bearer(let answer) = input { judgeGate(answer, action) }
    perform(action)
  }

  private func perform(_ action: Exchange.Action) {
    switch action {
    case .resolveBearer(let rejected): askForBearer(rejected: rejected)
    case .openUpstream(let fresh): openUpstream(fresh: fresh)
    case .sendRequest(let generation): sendRequest(generation)
    case .holdResponse(let rejected): hold(rejected)
    case .discardAndReopen: replay()
    case .resendUnprobed, .openTunnel: preconditionFailure("nothing here probes or asks for a tunnel")
    case .relayResponse: relay()
    case .answer(let refusal): end("answered: \(refusal.detail)")
    case .answerUpstreamFailure(let failure): end("answered: \(failure)")
    case .answerClientFault: end("answered: the body failed")
    case .abortClient: end("cut inside the response")
    case .abortUpstream: end("the client is gone")
    case .finish: end("\(request.lastStatus ?? 0)")
    case .nothing: break
    }
  }

  private func end(_ how: String) {
    isOver = true
    process.finished(self)
    world.ended(request, how)
  }

  // MARK: the token

  private func askForBearer(rejected: UInt64?) {
    if rejected == nil, let fresh = process.fresh(request.session) {
      process.refreshAheadIfDue(request.session)
      bearer = fresh
      return handle(.bearer(.ready(generation: fresh.generation)))
    }
    process.ask(request.session, rejected: rejected, route: request.route) { [self] _, answer in
      guard !isOver else { return }
      switch answer {
      case .ready(let generation):
        if let cached = process.cached(request.session), cached.generation >= generation {
          bearer = cached
          return handle(.bearer(.ready(generation: cached.generation)))
        }
        let none = BearerRefusal(code: .sessionMissing, detail: "no token")
        handle(.bearer(exchange.isJudging ? answer : .unavailable(none)))
      case .unavailable: handle(.bearer(answer))
      }
    }
  }

  /// SPEC §4's table, once more.
  private func judgeGate(_ answer: BearerAnswer, _ action: Exchange.Action) {
    let facts = ReplayFacts(
      alreadyReplayed: false, clientRetry: request.facts.clientRetry, pathRetry: request.facts.pathRetry,
      isBodyReplayable: standing.isReplayable, hasBodyLeft: standing.hasLeft, method: request.facts.method,
      hasIdempotencyKey: request.facts.hasIdempotencyKey, writes: request.facts.writes)
    let line = GateLine(facts)
    world.coverage.note(.gate(line))
    let isReplay = action == .discardAndReopen
    if isReplay, !line.replays { world.fail("I2", "\(request.label) is replayed against “\(line.rawValue)”") }
    if case .ready(let generation) = answer, let last = request.sends.last?.generation, generation > last,
      line.replays, !isReplay
    {
      world.fail("I2", "\(request.label) is not replayed in spite of “\(line.rawValue)”")
    }
  }

  // MARK: the upstream

  private func openUpstream(fresh: Bool) {
    attempt += 1
    let mine = attempt
    world.after(world.chance.milliseconds(0...40), process) { [self] in
      guard !isOver, mine == attempt else { return }
      if world.chance.happens(world.scenario.rates.apiUnreachable) {
        return handle(
          .upstreamFailed(
            world.chance.pick([.unreachable("refused"), .tls("handshake"), .connectTimedOut, .poolExhausted]))
        )
      }
      isConnectionReused = !fresh && world.chance.happens(0.6)
      handle(.upstreamOpened)
    }
  }

  private func sendRequest(_ generation: UInt64?) {
    noteSend(generation)
    piecesSent = 0
    isUploadStopped = false
    admission = nil
    phase = .head
    let mine = attempt
    world.after(.seconds(60), process) { [self] in
      if mine == attempt, phase == .head { upstreamFailed(.responseTimedOut) }
    }
    let token = generation == nil ? nil : bearer?.accessToken
    if isConnectionReused, world.chance.happens(world.scenario.rates.apiStale) {
      // The connection had died; the server may have seen the request all the same.
      if world.chance.happens(0.3) {
        world.after(.milliseconds(5)) { [self] in arrive(mine, token, isAnswered: false) }
      }
      return world.after(.milliseconds(10), process) { [self] in
        if mine == attempt, phase == .head { upstreamFailed(.closedBeforeResponse(reused: true)) }
      }
    }
    if world.chance.happens(world.scenario.rates.apiLost) {
      if world.chance.happens(0.5) { return }
      return world.after(world.chance.milliseconds(1...3000), process) { [self] in
        if mine == attempt, phase == .head { upstreamFailed(.closedBeforeResponse(reused: false)) }
      }
    }
    world.after(world.chance.milliseconds(1...300)) { [self] in arrive(mine, token, isAnswered: true) }
    if request.pieceCount > 0 { world.after(request.bodyDelay, process) { [self] in upload(mine) } }
  }

  private func noteSend(_ generation: UInt64?) {
    request.sends.append(SimRequest.Send(generation: generation, isPooledRetry: isPooledRetry))
    isPooledRetry = false
    let token = generation == nil ? nil : bearer?.accessToken
    world.note("\(request.label) is sent with \(generation.map { "generation \($0)" } ?? "no token")")
    world.judge(.sends(request, token.map { process.attached($0, request.session) }))
  }

  private func upstreamFailed(_ failure: UpstreamFailure) {
    phase = .none
    if case .closedBeforeResponse(reused: true) = failure {
      isPooledRetry = true
      world.coverage.note(.pooledRetry)
    }
    handle(.upstreamFailed(failure))
  }

  /// A piece of the body from the copy, else from the client; after an early answer only into the copy.
  private func upload(_ mine: Int) {
    guard !isOver, mine == attempt else { return }
    if isUploadStopped {
      guard exchange.isJudging, isCopyWhole, piecesTaken < request.pieceCount else { return }
      piecesTaken += 1
    } else {
      piecesSent += 1
      piecesTaken = max(piecesTaken, piecesSent)
      world.lastUploader = request
      world.backend.bodyArrived(bytes: Scenario.bodyPieceBytes, of: head(nil))
      if piecesSent == request.pieceCount {
        return world.after(world.chance.milliseconds(1...50)) { [self] in bodyArrived(mine) }
      }
    }
    world.after(world.chance.milliseconds(1...700), process) { [self] in upload(mine) }
  }

  // MARK: the API

  private func head(_ token: String?) -> BackendRequest {
    var headers = [("x-request-id", request.label)]
    if let token { headers.append(("authorization", "Bearer \(token)")) }
    if let key = request.idempotencyKey { headers.append(("idempotency-key", key)) }
    return BackendRequest(method: request.method, path: request.path, query: "ms=2000", headers: headers)
  }

  private func arrive(_ mine: Int, _ token: String?, isAnswered: Bool) {
    let faults: [Fault] = [
      .unauthorized, .unauthorized, .earlyUnauthorized, .forbidden, .status(503), .delay(milliseconds: 4000),
      .hangBeforeCommit, .hangAfterCommit, .resetBeforeCommit, .resetAfterCommit, .truncateBody, .junk,
    ]
    world.backend.faults.api.upcoming =
      world.chance.happens(world.scenario.rates.apiFault) ? [world.chance.pick(faults)] : []
    let head = head(token)
    switch world.backend.handleHead(head, now: world.serverNow) {
    case .reply(let decision): respond(mine, decision)
    case .readBody(let admission):
      if request.pieceCount == 0 {
        let decision = world.backend.handleBody(
          head, admission: admission, body: ReceivedBody(admission.bodyUse), now: world.serverNow)
        if isAnswered { respond(mine, decision) }
      } else if mine == attempt {
        self.admission = admission
        if piecesSent == request.pieceCount { bodyArrived(mine) }
      }
    }
  }

  private func bodyArrived(_ mine: Int) {
    guard mine == attempt, let admission else { return }
    self.admission = nil
    let decision = world.backend.handleBody(
      head(nil), admission: admission, body: ReceivedBody(admission.bodyUse), now: world.serverNow)
    respond(mine, decision)
  }

  private func respond(_ mine: Int, _ decision: BackendDecision) {
    let delay = world.chance.milliseconds(1...300) + .milliseconds(Int64(decision.reply.delayMilliseconds))
    let isCut = world.chance.happens(world.scenario.rates.apiTruncated)
    world.after(delay, process) { [self] in
      guard !isOver, mine == attempt, phase == .head else { return }
      switch decision.transport {
      case .none, .truncateBody:
        breaksInBody = isCut || decision.transport == .truncateBody
        received(decision.reply.status)
      case .junk: upstreamFailed(.malformedResponse("no HTTP"))
      case .resetBeforeCommit, .resetAfterCommit: upstreamFailed(.closedBeforeResponse(reused: false))
      case .hangBeforeCommit, .hangAfterCommit: break
      }
    }
  }

  private func received(_ status: Int) {
    request.lastStatus = status
    world.note("\(request.label) is answered \(status)")
    let isMistaken = status == 403 && world.planted == .refreshesAfterForbidden
    handle(.responseHead(status: isMistaken ? 401 : status))
  }

  private func hold(_ rejected: UInt64) {
    phase = .held
    world.judge(.holds(request, status: request.lastStatus ?? 0))
    if piecesSent < request.pieceCount { isUploadStopped = true }
    if breaksInBody { handle(.responseBroke) }
    askForBearer(rejected: rejected)
  }

  private func replay() {
    request.mayBodyLeaveTwice = isCopyWhole
    phase = .none
    openUpstream(fresh: request.facts.hasBody || !request.facts.isSafe)
  }

  private func relay() {
    phase = .body
    if request.lastStatus != 401, let generation = request.sends.last?.generation {
      process.accepted(request.session, generation: generation)
    }
    if request.lastStatus == 401, exchange.isReplay, let generation = request.sends.last?.generation {
      world.coverage.note(.gate(.alreadyReplayed))
      process.rejectedAfterReplay(request.session, generation: generation, route: request.route)
      if world.planted == .replaysTwice { noteSend(generation) }
    }
    if piecesSent < request.pieceCount, let status = request.lastStatus, status >= 300 {
      isUploadStopped = true
    }
    let mine = attempt
    world.after(world.chance.milliseconds(0...100), process) { [self] in
      guard mine == attempt, phase == .body else { return }
      phase = .none
      handle(breaksInBody ? .responseBroke : .responseEnded)
    }
  }
}
