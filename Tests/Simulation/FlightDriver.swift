import BearerPolicy
import Chronology
import MockBackend

/// Carries one refresh flight out on the virtual disk and network, in the order of the server's flight runner.
final class FlightDriver {
  private let session: Int
  private var flight: RefreshFlight
  /// The generation whose 401 the flight is for.
  private let cause: UInt64?
  private let process: SimProcess
  private let world: World
  private var holder: LockHolder?
  private var isReserved = false
  private var loaded: (record: SessionRecord, at: WallTime)?
  private var presentation: Presentation?
  private var row: Row?

  private static let lockPatience = Interval.seconds(20)
  private static let connectionsFailing: [TokenEndpointReply.NotSent] = [
    .nameResolution, .connect, .outboundProxy, .tls("handshake failure"), .h2Refused, .h2GoneAway,
  ]

  init(session: Int, flight: RefreshFlight, cause: UInt64?, process: SimProcess) {
    self.session = session
    self.flight = flight
    self.cause = cause
    self.process = process
    world = process.world
  }

  func start() { perform(flight.start()) }

  private func input(_ input: RefreshFlight.Input) {
    perform(flight.handle(input, now: world.wallNow, jitter: world.chance.fraction()))
  }

  private func perform(_ action: RefreshFlight.Action) {
    switch action {
    case .acquireLock: acquireLock()
    case .load: load()
    case .writeIntent(let record): writeIntent(record)
    case .send(let request): send(request)
    case .writeResult(let record): writeResult(record)
    case .releaseLock: releaseLock()
    case .finish(let result):
      process.landed(session, result)
      process.flightEnded(session)
    case .finishAndRelease(let result):
      process.landed(session, result)
      releaseLock()
    case .finishKeepingLock(let result, let record, let after):
      process.landed(session, result)
      retry(record, after)
    case .retryWriteResult(let record, let after): retry(record, after)
    case .end:
      process.becameDurable(session)
      process.flightEnded(session)
    case .ignore: break
    }
  }

  private func acquireLock() {
    process.acquireLock(session, until: world.now + Self.lockPatience) { [self] holder, trouble in
      if let holder {
        self.holder = holder
        input(.lockAcquired)
      } else if let trouble {
        input(.lockUnavailable(trouble))
      }
    }
  }

  private func load() {
    process.load(session, isNews: flight.isNews) { [self] result in
      switch result {
      case .success(var record):
        if world.planted == .forgetsIntent { record.intent = nil }
        loaded = (record, world.wallNow)
        input(.loaded(record, record.refreshToken.map(Self.fingerprint)))
      case .failure(let trouble): input(.loadFailed(trouble))
      }
    }
  }

  /// One fingerprint for each token; no hash is needed for that.
  static func fingerprint(of token: Secret) -> Fingerprint { Fingerprint(hexadecimal: token.reveal()) }

  private func writeIntent(_ record: SessionRecord) {
    process.writeIntent(record, session) { [self] fault in
      isReserved = fault == nil
      if let fault {
        var isLeft = world.directories[session].record.map { $0.intent == record.intent } ?? true
        if isLeft, let intent = record.intent {
          world.coverage.note(.intentLeftUnsent)
          world.unsentIntents[intent.fingerprint] = process
        }
        if world.planted == .leavesUnsentIntent { isLeft = false }
        input(.intentFailed(fault.trouble, isLeft: isLeft))
      } else {
        presentation = Presentation(
          refreshToken: record.refreshToken?.reveal() ?? "",
          at: record.intent?.startedAt ?? world.wallNow)
        input(.intentDurable)
      }
    }
  }

  private func writeResult(_ record: SessionRecord) {
    if let loaded {
      if row == nil, loaded.record.intent != nil {
        world.coverage.note(.abandonedIntent)
        if let intent = loaded.record.intent, world.unsentIntents[intent.fingerprint]?.isUp == true {
          world.fail("I8", "an intent that its living holder had not sent is taken for an unknown outcome")
        }
        world.coverage.note(.unknownUnder(world.scenario.declaration))
      }
      world.judge(
        .rewrites(old: loaded.record, new: record, row: row, isRejection: false, now: world.wallNow))
    }
    let then: SimProcess.Outcome = { [self] fault in
      if let fault, world.planted != .dropsUnsavedTokens {
        input(.resultFailed(fault.trouble))
      } else {
        // What is settled is what the flight goes on from.
        if row == nil { loaded = (record, world.wallNow) }
        if let token = record.refreshToken { world.unsentIntents[Self.fingerprint(of: token)] = nil }
        input(.resultDurable)
      }
    }
    if isReserved {
      isReserved = false
      process.writeResult(record, session, then: then)
    } else {
      process.put(record, session, then: then)
    }
  }

  private func retry(_ record: SessionRecord, _ after: Interval) {
    world.after(after, process) { [self] in writeResult(record) }
  }

  private func releaseLock() {
    guard let holder else { return }
    guard isReserved else {
      return process.releaseLock(session, holder) { [self] in input(.lockReleased) }
    }
    isReserved = false
    process.discardReserved(session) { [self] in releaseLock() }
  }

  // MARK: the token endpoint

  private func send(_ request: TokenRequest) {
    world.after(world.chance.milliseconds(0...2), process) { [self] in
      if world.crashes(process, at: .send, isBefore: true) { return }
      guard let presentation, let loaded else { return }
      world.presentations.append(presentation)
      world.note(
        "process \(process.index): session \(session) presents \(presentation.refreshToken.suffix(4))")
      world.judge(
        .presents(
          presentation, holdsLock: world.locks[session] === holder,
          inFile: world.directories[session].certainRecord,
          cause: cause, loaded: loaded.record, loadedAt: loaded.at, url: request.url,
          owner: world.owners[presentation.refreshToken]))
      travel(request)
      _ = world.crashes(process, at: .send, isBefore: false)
    }
  }

  /// Connecting takes a while; what may not leave any more by then stays here.
  private func travel(_ request: TokenRequest) {
    guard let sendBefore = request.sendBefore else { return leave(request) }
    world.after(world.chance.milliseconds(0...5000), process) { [self] in
      if world.planted != .presentsAfterGrace, world.wallNow >= sendBefore {
        world.coverage.note(.graceOverWhileConnecting)
        return deliver(.notSent(.tooLate), .notSent, after: .zero)
      }
      if let presentation { world.judge(.leaves(presentation, at: world.wallNow)) }
      leave(request)
    }
  }

  private func leave(_ request: TokenRequest) {
    let deadline = world.now + world.scenario.provider.timeout
    if world.chance.happens(world.scenario.rates.refreshNotSent) {
      let cause = world.chance.pick(Self.connectionsFailing)
      return deliver(.notSent(cause), .notSent, after: world.chance.milliseconds(1...5000))
    }
    let isLost = world.chance.happens(world.scenario.rates.refreshLost)
    let cut = world.chance.pick([
      TokenEndpointReply.NoAnswer.timedOut, .connectionReset, .truncated, .tooLarge,
    ])
    let way = world.chance.milliseconds(1...3000)
    if isLost, world.chance.happens(0.4) {
      let patience = cut == .timedOut ? deadline.since(world.now) : way
      return deliver(.noAnswer(cut == .timedOut ? .timedOut : .connectionReset), .unknown, after: patience)
    }
    // The server goes on whatever becomes of who asked.
    world.after(way) { [self] in
      let (reply, row, delay) = answer(request)
      let arrival = world.now + delay
      if isLost, cut != .timedOut {
        return deliver(.noAnswer(cut), .unknown, after: world.chance.milliseconds(1...200))
      }
      if isLost || arrival >= deadline || reply == .noAnswer(.timedOut) {
        return deliver(.noAnswer(.timedOut), .unknown, after: max(deadline.since(world.now), .zero))
      }
      deliver(reply, row, after: delay)
    }
  }

  private func answer(_ request: TokenRequest) -> (TokenEndpointReply, Row, Interval) {
    let fault = world.chance.happens(world.scenario.rates.refreshFault) ? drawFault() : .pass
    world.backend.faults.refresh.upcoming = [fault]
    var headers = request.headers.map { ($0.name.lowercased(), $0.value.reveal()) }
    if world.planted == .sendsBearerToTokenEndpoint, let token = loaded?.record.accessToken {
      headers.append(("authorization", "Bearer \(token.reveal())"))
    }
    var body: [UInt8] = []
    request.body.append(to: &body)
    let asked = BackendRequest(method: request.method, path: "/oauth/token", headers: headers, body: body)
    let decision = world.backend.handle(asked, now: world.serverNow)
    noteOwner(decision.reply)
    let delay = world.chance.milliseconds(1...500) + .milliseconds(Int64(decision.reply.delayMilliseconds))
    world.note("the server answers \(decision.reply.status), fault \(fault)")
    switch decision.transport {
    case .none: break
    case .hangBeforeCommit, .hangAfterCommit: return (.noAnswer(.timedOut), .unknown, delay)
    case .resetBeforeCommit, .resetAfterCommit: return (.noAnswer(.connectionReset), .unknown, delay)
    case .truncateBody: return (.noAnswer(.truncated), .unknown, delay)
    case .junk: return (.noAnswer(.malformed), .unknown, delay)
    }
    let reply = TokenEndpointReply.answer(
      status: decision.reply.status, serverDate: world.scenario.sendsDate ? world.serverNow : nil,
      retryAfter: decision.reply.header("retry-after").flatMap { Int64($0) }.map { .seconds($0) },
      body: decision.reply.body.rendered)
    return (reply, row(fault, decision.reply), delay)
  }

  /// New tokens are those of whoever the presented one belongs to.
  private func noteOwner(_ reply: BackendReply) {
    guard let presentation, let owner = world.owners[presentation.refreshToken],
      let answer = JSONValue.parse(reply.body.rendered)
    else { return }
    for member in ["access_token", "refresh_token"] {
      if let token = answer[member]?.stringValue { world.owners[token] = owner }
    }
  }

  private func drawFault() -> Fault {
    let provider = world.scenario.provider
    var faults: [Fault] = [
      .hangBeforeCommit, .hangAfterCommit, .resetBeforeCommit, .resetAfterCommit, .truncateBody, .junk,
      .status(503, retryAfterSeconds: 3), .tooManyRequests(retryAfterSeconds: 2),
      .tooManyRequests(retryAfterSeconds: nil),
      .code("invalid_client", status: 401), .code("odd_code", status: 418), .code("slow_down", status: 400),
      .unparsableBody, .missingField("access_token"), .delay(milliseconds: 9_500),
    ]
    if world.chance.happens(0.2) { faults.append(.code("invalid_grant", status: 400)) }
    if !provider.everyOtherStatusIsKnown {
      faults += [.statusAfterCommit(500), .code("odd_code", status: 408)]
    }
    if provider.rotation == .always { faults.append(.missingField("refresh_token")) }
    return world.chance.pick(faults)
  }

  /// The row by what was done, said a second time and not by asking the classification.
  private func row(_ fault: Fault, _ reply: BackendReply) -> Row {
    let isOtherKnown = world.scenario.provider.everyOtherStatusIsKnown
    switch fault {
    case .pass, .delay: return reply.status == 200 ? .success : .dead
    case .status: return .knownNotSucceeded
    case .code("invalid_grant", _): return .dead
    case .code("invalid_client", _): return .configurationFault
    case .code("slow_down", _): return .knownNotSucceeded
    case .code(_, let status):
      return isOtherKnown ? .knownNotSucceeded : status == 408 ? .unknown : .configurationFault
    case .unparsableBody, .missingField, .statusAfterCommit:
      // A commit that was refused first is answered by its refusal.
      return .unknown
    case .transport, .earlyUnauthorized, .unauthorized, .forbidden: return .unknown
    }
  }

  private func deliver(_ reply: TokenEndpointReply, _ row: Row, after delay: Interval) {
    world.after(delay, process) { [self] in
      if world.crashes(process, at: .receive, isBefore: true) { return }
      var row = row
      if case .answer(400, _, _, let body) = reply,
        String(decoding: body, as: UTF8.self).contains("invalid_grant")
      {
        row = .dead
      }
      self.row = row
      world.coverage.note(.row(row))
      switch row {
      case .notSent, .knownNotSucceeded, .configurationFault: presentation?.fate = .provenNot
      case .success: presentation?.fate = world.scenario.backend.rotates ? .perhaps : .keptInForce
      case .unknown: world.coverage.note(.unknownUnder(world.scenario.declaration))
      case .dead: break
      }
      world.note("process \(process.index): the refresh of session \(session) is \(row.rawValue)")
      var told = reply
      if world.planted == .endsSessionUnsent, row == .notSent { told = .noAnswer(.connectionReset) }
      let action = flight.handle(
        .replied(told, at: world.wallNow), now: world.wallNow, jitter: world.chance.fraction())
      if world.crashes(process, at: .receive, isBefore: false) { return }
      perform(action)
    }
  }
}
