import BearerPolicy
import Chronology
import Configuration
import HTTPSyntax
import ProxyCore
import Transport

/// Carries one exchange out: asks `Exchange` what to do and does it with real connections.
///
/// Loop-owned and used again for later requests; `serial` tells the uses apart, so that an answer that comes late
/// for an earlier one is recognised.
final class ExchangeRun {
  let worker: Worker
  /// The worker's, like those below: an object two steps away is retained for each call.
  let loop: EventLoop
  private let bearers: BearerCache
  private let server: ServerPlan
  private(set) var serial: UInt64 = 0
  private(set) var client: ClientConnection?
  private(set) var upstream: UpstreamConnection?
  var exchange: Exchange?
  let plan: RequestPlan
  /// As many reloads as the worker had seen when this run was made for it.
  let reloads: Int

  /// Read by the client's connection before the exchange begins.
  let requestHead: RequestHead
  // The request, in the present attempt.
  var copy: ReplayBuffer?
  var requestSplice: ContentSplice
  /// Bytes of the copy that the present attempt has sent.
  var copySent = 0
  /// Content bytes taken from the client: no longer to be had from there.
  var contentTaken: UInt64 = 0
  var isRequestReceived = false
  /// The head has yet to be written to the present upstream.
  var isRequestHeadDue = false
  /// The end of the body has been staged for the present upstream.
  var isRequestSent = false
  /// The upstream takes no more: it answered early, or a write failed.
  var isUploadStopped = false

  // The response.
  /// In use from the sending of a request until the response's end.
  let responseHead: ResponseHead
  /// How it is written for the client.
  private var forwarded: ForwardedResponse
  var responseSplice: ContentSplice
  var responsePhase = ResponsePhase.none
  var headDeadline = Instant.never
  /// Bytes of the upstream's input that are the response's head, while it waits there.
  var responseHeadBytes = 0
  /// The head at hand is not whole yet.
  var needsMoreHead = false
  var isTunnel = false
  var isHalfCloseDue = false
  // Deadlines that only progress moves on.
  var clientWrites = ProgressDeadline()
  var clientReads = ProgressDeadline()
  var upstreamWrites = ProgressDeadline()
  var upstreamReads = ProgressDeadline()
  /// Until when the body waits for the answer to our expectation; `never` where it does not.
  var probeDeadline = Instant.never
  var closesClient = false
  var clientFraming = MessageFraming.none

  private var generation: UInt64?
  /// Until when a connection of the pool is waited for; `never` where none is.
  private(set) var poolDeadline = Instant.never
  private var hasFailedOnPooled = false

  // For the log.
  private(set) var startedAt = Instant(nanoseconds: 0)
  private(set) var status = 0
  private(set) var note: String?
  private(set) var waitedForBearer = false
  /// The keeper owes an answer.
  private var bearerTicket: SessionKeeper.Ticket?

  enum ResponsePhase {
    /// No upstream, or nothing expected from it.
    case none
    case head
    /// A 401 waits in the input for the decision.
    case held
    /// The head waits in the input to be written to the client.
    case passing
    case body
  }

  init(worker: Worker) {
    self.worker = worker
    loop = worker.loop
    bearers = worker.bearers
    server = worker.plan
    reloads = worker.reloads
    plan = RequestPlan(via: worker.current.via)
    requestHead = RequestHead(limits: worker.current.headLimits)
    responseHead = ResponseHead(limits: worker.current.headLimits)
    forwarded = ForwardedResponse(via: worker.current.via)
    requestSplice = ContentSplice(loop.pipes)
    responseSplice = ContentSplice(loop.pipes)
  }

  /// From `begin` until the exchange has ended.
  var isUnderway: Bool { client != nil }

  var wantsUpstream: Bool { exchange != nil && upstream == nil }

  // MARK: beginning

  /// - Parameter client: has read the request's head.
  func begin(for client: ClientConnection) {
    serial += 1
    let head = requestHead
    self.client = client
    startedAt = loop.now
    worker.counters.requests += 1
    let basis = RequestPlan.Basis(textNumber: head.textNumber, isTCP: client.isTCP, isRemote: client.isRemote)
    if plan.basis == basis { return begin(client) }
    // Without a basis it was reset when its exchange ended.
    if plan.basis != nil { plan.reset() }
    let planned = RequestPlanner.plan(
      head, client.headMemory.bytes, by: server, worker: worker, client: client, into: plan)
    switch planned {
    case .refused(let problem):
      isRequestReceived = head.framing == .none
      answer(problem)
    case .final(let trace):
      isRequestReceived = head.framing == .none
      answerFinally(trace: trace)
    case .planned:
      if head.isKept, !plan.isMomentary { plan.basis = basis }
      begin(client)
    }
  }

  /// By the plan.
  private func begin(_ client: ClientConnection) {
    isRequestReceived = !plan.hasBody
    if plan.hasBody {
      copy = ReplayBuffer(
        expected: plan.contentLength, keepsCopy: plan.keepsCopy, bytesMax: worker.settings.replay.maxBodyBytes,
        budget: worker.replayBudget)
    }
    exchange = Exchange(plan.facts)
    handle(.began)
    advance(client)
  }

  var bodyStanding: Exchange.BodyStanding {
    Exchange.BodyStanding(isReplayable: copy?.isComplete ?? true, hasLeft: contentTaken > 0)
  }

  /// What happened outside of `advance`, which is then called.
  private func react(to input: Exchange.Input) {
    handle(input)
    advance()
  }

  /// Tells the exchange what happened, and does what it decides as far as that is known at once; nothing is sent or
  /// received: that is for `advance`.
  func handle(_ input: Exchange.Input) {
    if let action = exchange?.handle(input, body: bodyStanding), let known = perform(action) { handle(known) }
  }

  /// Returns what came of it, where that is known at once.
  private func perform(_ action: Exchange.Action) -> Exchange.Input? {
    switch action {
    case .resolveBearer(let rejected): return askForBearer(rejected: rejected)
    case .openUpstream(let fresh): return openUpstream(fresh: fresh)
    case .sendRequest(let generation): beginRequest(carriesBearer: generation != nil)
    case .holdResponse(let rejected): return hold(rejected: rejected)
    case .discardAndReopen: return replay()
    case .resendUnprobed: return resendUnprobed()
    case .openTunnel: answerConnect()
    case .relayResponse(let note): pass(note: note)
    case .answer(let refusal): answer(ProblemTexts.refusal(refusal, plan: plan))
    case .answerUpstreamFailure(let failure): answer(ProblemTexts.upstream(failure, plan: plan))
    case .answerClientFault(let code): answer(ProblemTexts.clientBody(code))
    case .abortClient: abortClient()
    case .abortUpstream: endAborted()
    case .finish: finish()
    case .nothing: break
    }
    return nil
  }

  // MARK: the token

  /// Returns the answer where there is no need to wait for it.
  private func askForBearer(rejected: UInt64?) -> Exchange.Input? {
    guard let session = plan.session else { return .bearer(.unavailable(ProblemTexts.noSession)) }
    if rejected == nil, case .slot(let slot) = session, let bearer = bearers.fresh(slot, now: loop.now) {
      worker.refreshAheadIfDue(slot)
      return attach(bearer.generation, of: slot)
    }
    waitedForBearer = true
    let serial = serial
    let bound = LoopBound(self, on: loop)
    bearerTicket = worker.keeper.ask(session, rejected: rejected, route: plan.upstreamIndex, on: loop) {
      [worker] slot, update, answer in
      if let slot, let update { worker.bearers.update(slot, update, now: worker.loop.now) }
      let run = bound.onLoop
      guard run.serial == serial, run.exchange != nil else { return }
      run.bearerTicket = nil
      run.chose(slot)
      run.react(to: run.bearer(answer, slot: slot))
    }
    return nil
  }

  private func chose(_ slot: Int?) {
    guard let slot else { return }
    if case .named(let name) = plan.session { worker.remember(name, slot: slot) }
    plan.session = .slot(slot)
  }

  private func bearer(_ answer: BearerAnswer, slot: Int?) -> Exchange.Input {
    switch answer {
    case .ready(let generation):
      if let slot, let bearer = bearers.awaited(slot, now: loop.now), bearer.generation >= generation {
        return attach(bearer.generation, of: slot)
      }
      // Nothing newer (a cool-down): the 401 that is held passes. Without one the token is gone again already.
      return .bearer(exchange?.isJudging == true ? answer : .unavailable(ProblemTexts.noSession))
    case .unavailable: return .bearer(answer)
    }
  }

  private func attach(_ generation: UInt64, of slot: Int) -> Exchange.Input {
    plan.forwarded.authorizationLine = bearers.line(slot)
    self.generation = generation
    return .bearer(.ready(generation: generation))
  }

  // MARK: the upstream

  private func openUpstream(fresh: Bool) -> Exchange.Input? {
    guard let pool = plan.pool else { return nil }
    switch pool.request(for: self, fresh: fresh, isRetry: hasFailedOnPooled) {
    case .connection(let connection):
      upstream = connection
      poolDeadline = .never
      return .upstreamOpened
    case .later: return nil
    case .exhausted: return .upstreamFailed(.poolExhausted)
    }
  }

  func waitForPool(until deadline: Instant) {
    poolDeadline = deadline
    if let client { loop.setDeadline(deadline, for: client.token) }
  }

  func upstreamOpened(_ connection: UpstreamConnection) {
    upstream = connection
    poolDeadline = .never
    react(to: .upstreamOpened)
  }

  func upstreamFailed(_ failure: UpstreamFailure) { react(to: failed(failure)) }

  /// Lets go of the upstream.
  func failed(_ failure: UpstreamFailure) -> Exchange.Input {
    if case .closedBeforeResponse(reused: true) = failure { hasFailedOnPooled = true }
    releaseUpstream(isReusable: false)
    return .upstreamFailed(failure)
  }

  private func beginRequest(carriesBearer: Bool) {
    copySent = 0
    isUploadStopped = false
    upstreamWrites = ProgressDeadline()
    upstreamReads = ProgressDeadline()
    let probes = exchange?.probes == true && !isRequestReceived && contentTaken == 0
    plan.forwarded.sendsExpect = !isRequestReceived && contentTaken == 0 && plan.expectsContinue || probes
    if !carriesBearer { plan.forwarded.authorizationLine = [] }
    probeDeadline = probes ? plan.probeWait.map { loop.now + $0 } ?? .never : .never
    isRequestHeadDue = true
    isRequestSent = !plan.hasBody
    responsePhase = .head
    needsMoreHead = false
    responseHead.reset()
    headDeadline = loop.now + worker.timeouts.responseHeader
    if carriesBearer { worker.counters.requestsWithBearer += 1 }
  }

  func writeRequestHead(_ client: ClientConnection, _ upstream: UpstreamConnection) {
    isRequestHeadDue = false
    let wire = upstream.wire
    wire.makeRoom(plan.forwarded.bytesMax(headBytes: client.headBytes, hostLine: upstream.hostLine))
    plan.forwarded.write(requestHead, client.headMemory.bytes, hostLine: upstream.hostLine, into: &wire.output)
    wire.beginSending(plan.forwarded.framing)
  }

  // MARK: a 401

  private func hold(rejected: UInt64) -> Exchange.Input? {
    responsePhase = .held
    // Whatever of the body is still to come may be wanted for a replay, but not by this upstream any more.
    if !isRequestSent { isUploadStopped = true }
    worker.counters.held401 += 1
    return askForBearer(rejected: rejected)
  }

  private func replay() -> Exchange.Input? {
    worker.counters.replays += 1
    releaseHeldUpstream()
    return openUpstream(fresh: plan.hasBody || !plan.facts.isSafe)
  }

  /// The upstream wants no expectation: it gets the request without one (SPEC §4). The body has not left.
  private func resendUnprobed() -> Exchange.Input? {
    probeDeadline = .never
    releaseUpstream(isReusable: false)
    return openUpstream(fresh: true)
  }

  /// The upstream has not answered our expectation: the body leaves, and this origin is not asked again for a while.
  func endProbe() {
    probeDeadline = .never
    plan.pool?.noteIgnoredExpectation()
    advance()
  }

  /// The connection of a 401 that is not passed on goes back to the pool if all of the 401 is here.
  private func releaseHeldUpstream() {
    guard let upstream else { return }
    upstream.wire.consume(responseHeadBytes)
    var isWhole = false
    drain: while true {
      switch upstream.wire.nextContent() {
      case .bytes(let content): upstream.wire.took(content.count)
      case .finished:
        isWhole = true
        break drain
      case .starved, .failed: break drain
      }
    }
    let isReusable = isWhole && responseHead.isPersistent && isRequestSent && upstream.isAtRest
    releaseUpstream(isReusable: isReusable)
  }

  // MARK: the response

  private func pass(note: String?) {
    self.note = note
    status = responseHead.status
    responsePhase = .passing
    if generation != nil, status != 401, case .slot(let slot) = plan.session { worker.bearerAccepted(slot, generation) }
    noteRejection()
    // RFC 9110 §7.5 lets an early answer end the upload; a success may still read on (an echo), so only it goes on.
    if !isRequestSent && status >= 300 { isUploadStopped = true }
    worker.counters.count(status: status)
  }

  func writeResponseHead(_ upstream: UpstreamConnection, _ client: ClientConnection) {
    let source = upstream.wire
    let sink = client.wire
    let head = responseHead
    clientFraming = plan.clientFraming(of: head.framing)
    closesClient = closesClient || clientFraming == .untilClose || mustClose
    forwarded.framing = clientFraming
    forwarded.closes = closesClient
    forwarded.keepsHTTP10Alive = plan.isHTTP10 && !closesClient
    forwarded.note = note
    forwarded.dateLine = head.firstIndex(of: .date) == nil ? worker.dateLine : []
    forwarded.rewrite = plan.rewrite(for: head, to: requestHead, client.headMemory)
    sink.makeRoom(forwarded.bytesMax(headBytes: responseHeadBytes))
    source.input.withReadable {
      forwarded.write(head, $0.extracting(first: responseHeadBytes), into: &sink.output)
    }
    source.consume(responseHeadBytes)
    responseHeadBytes = 0
    sink.beginSending(clientFraming)
    responsePhase = .body
    if status == 101 { openTunnel(sink, source) }
  }

  /// RFC 9110 §9.3.6: no content of ours, no framing; what follows is the tunnel's.
  private func answerConnect() {
    guard let client = client?.wire, let upstream = upstream?.wire else { return }
    status = 200
    client.makeRoom(64)
    client.output.append("HTTP/1.1 200 Connection established\r\n\r\n")
    responsePhase = .body
    openTunnel(client, upstream)
    worker.counters.count(status: status)
  }

  /// From a 101 on both sides carry bytes of another protocol (RFC 9110 §7.8): no framing, no more requests.
  private func openTunnel(_ client: HTTP1Wire, _ upstream: HTTP1Wire) {
    isTunnel = true
    closesClient = true
    clientFraming = .untilClose
    copy = nil
    copySent = 0
    contentTaken = 0
    isRequestReceived = false
    isRequestSent = false
    isUploadStopped = false
    client.beginReceiving(.untilClose)
    client.beginSending(.untilClose)
    upstream.beginReceiving(.untilClose)
    upstream.beginSending(.untilClose)
  }

  /// The replay was refused too, with a token nobody has accepted yet: no refresh will help soon (SPEC §3, cool-down).
  private func noteRejection() {
    guard status == 401, exchange?.isReplay == true, let generation, case .slot(let slot) = plan.session else { return }
    worker.keeper.rejectedAfterReplay(slot, generation: generation, route: plan.upstreamIndex)
  }

  // MARK: ending

  private func answer(_ problem: Problem) {
    guard let client else { return }
    status = problem.status
    note = problem.code.rawValue
    worker.counters.problems += 1
    worker.counters.count(status: status)
    releaseUpstream(isReusable: false)
    let closes = closesAfterOwnAnswer
    ProblemWriter.write(
      problem, to: client.wire, isHead: plan.method == .head, closes: closes,
      keepsHTTP10Alive: plan.isHTTP10 && !closes, now: WallClock.now)
    closesClient = closes
    end()
  }

  private func answerFinally(trace: [UInt8]?) {
    guard let client else { return }
    status = 200
    worker.counters.count(status: status)
    let closes = closesAfterOwnAnswer
    ProblemWriter.writeFinal(
      trace: trace, to: client.wire, closes: closes,
      keepsHTTP10Alive: plan.isHTTP10 && !closes, now: WallClock.now)
    closesClient = closes
    end()
  }

  private var closesAfterOwnAnswer: Bool {
    // What is refused as no HTTP ends the connection: its sender may mean something else by what follows. So may who
    // was refused a tunnel, and has sent ahead.
    status == 400 || plan.method == .connect || mustClose
  }

  /// Whatever the answer is.
  private var mustClose: Bool {
    !plan.isPersistent || !isRequestReceived || (plan.isHTTP10 && !plan.isGateway) || worker.isDraining
  }

  private func abortClient() {
    worker.counters.abortedResponses += 1
    note = "response cut"
    let byReset = clientFraming == .untilClose
    let client = client
    // What has come before the cut is the client's: it sees a response that ends too early.
    _ = client?.wire.flush()
    releaseUpstream(isReusable: false)
    finishRun()
    client?.abort(byReset: byReset)
  }

  private func endAborted() {
    worker.counters.abortedByClient += 1
    note = "client gone"
    // One that is only slow must not take what it has for the whole (I9).
    let byReset = clientFraming == .untilClose
    // In a tunnel an abort is an abort on the other side too.
    if isTunnel { upstream?.wire.channel.resetOnClose() }
    let client = client
    releaseUpstream(isReusable: false)
    finishRun()
    client?.abort(byReset: byReset)
  }

  private func finish() {
    let isReusable = !isTunnel && responseHead.isPersistent && isRequestSent && !isUploadStopped
      && upstream?.isAtRest ?? false
    if !isRequestReceived { closesClient = true }
    releaseUpstream(isReusable: isReusable)
    end()
  }

  private func end() {
    guard let client else { return }
    let closes = closesClient
    if !closes, client.wire.hasPendingOutput, loop.sendsLater(client.token) {
      client.wire.flushLater()
    } else if case .failed = client.wire.flush(isLast: closes) {
      finishRun()
      client.abort(byReset: false)
      return
    }
    let isWhole = isRequestReceived && !isTunnel
    finishRun()
    client.exchangeEnded(closes: closes, isWhole: isWhole)
  }

  /// The process ends: the kernel closes in order, which without framing looks like the end of the content.
  func prepareForEnd() {
    guard clientFraming == .untilClose else { return }
    client?.wire.channel.resetOnClose()
    if isTunnel { upstream?.wire.channel.resetOnClose() }
  }

  func releaseUpstream(isReusable: Bool) {
    isRequestHeadDue = false
    responseHeadBytes = 0
    responsePhase = .none
    guard let pool = plan.pool else { return }
    guard let upstream = upstream.take() else { return pool.cancel(self) }
    if isReusable && !worker.isDraining { pool.giveBack(upstream) } else { pool.discard(upstream) }
  }

  /// Writes the log's line and makes the run ready for another request; the client's connection gives it back.
  private func finishRun() {
    if let ticket = bearerTicket.take() { worker.keeper.withdraw(ticket) }
    worker.logAccess(of: self)
    requestSplice.end()
    responseSplice.end()
    exchange = nil
    client = nil
    plan.end()
    copy = nil
    copySent = 0
    contentTaken = 0
    isRequestReceived = false
    isRequestSent = false
    isUploadStopped = false
    needsMoreHead = false
    isTunnel = false
    isHalfCloseDue = false
    probeDeadline = .never
    clientWrites = ProgressDeadline()
    clientReads = ProgressDeadline()
    upstreamWrites = ProgressDeadline()
    upstreamReads = ProgressDeadline()
    closesClient = false
    clientFraming = .none
    headDeadline = .never
    poolDeadline = .never
    generation = nil
    hasFailedOnPooled = false
    status = 0
    note = nil
    waitedForBearer = false
    serial += 1
  }

  var attachedGeneration: UInt64? { generation }

  // MARK: events

  func clientReady(_ client: ClientConnection) { advance(client) }
  func upstreamReady() { advance() }
  func clientAborted() { react(to: .clientAborted) }

  func clientDeadlinePassed() {
    if loop.now >= poolDeadline {
      poolDeadline = .never
      plan.pool?.cancel(self)
      return react(to: .upstreamFailed(.poolExhausted))
    }
    react(to: client?.wire.isBlockedSending ?? false ? .clientAborted : .clientBodyFailed(.requestTimeout))
  }

  func upstreamDeadlinePassed() {
    if loop.now >= probeDeadline { return endProbe() }
    switch responsePhase {
    case .none: break
    case .head: upstreamFailed(.responseTimedOut)
    case .held, .passing, .body: react(to: .responseBroke)
    }
  }
}
