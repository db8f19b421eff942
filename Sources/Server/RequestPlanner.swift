import BearerPolicy
import Chronology
import Configuration
import HTTPSyntax
import ProxyCore
import Transport

/// What was decided about a request from its head: where it goes, as whom, and in which form.
///
/// Belongs to its run and is used again with it: for the same request as it is, for another after `reset()`.
final class RequestPlan {
  /// All that a plan depends on, under one configuration.
  struct Basis: Equatable {
    /// Of the run's `requestHead`.
    var textNumber: UInt64
    var isTCP: Bool
    var isRemote: Bool
  }

  /// What it was made from, where that would make the same plan again; nil where there is no such plan.
  var basis: Basis?
  /// Something that is another for the next request went into it.
  var isMomentary = false
  var upstreamIndex = -1
  var method = HTTPSyntax.Method.get
  /// The client's version is 1.0: it knows neither chunks nor interim responses.
  var isHTTP10 = false
  /// The client goes on after this request.
  var isPersistent = false
  /// The client waits for a 100 before it sends its content.
  var expectsContinue = false
  var pool: UpstreamPool?
  /// How its head is written for the upstream. A 101 to one that asks for an upgrade opens a tunnel.
  var forwarded: ForwardedRequest
  var isGateway = false
  var session: SessionReference?
  var facts = RequestPlan.noFacts
  /// False for a body that must not be kept (`Bearerd-Replayable: false`, or no token that could be refused).
  var keepsCopy = false
  /// How long the body waits for the answer to our expectation; nil where bearerd has none.
  var probeWait: Interval?

  init(via: ViaLine) { forwarded = ForwardedRequest(via: via) }

  private static let noFacts = ExchangeFacts(
    auth: .none, method: .other, hasIdempotencyKey: false, clientRetry: nil, pathRetry: .default,
    writes: .idempotencyKey, hasBody: false, isSafe: false)

  /// The exchange has ended.
  func end() {
    // A token stays nowhere for longer than its exchange, but in the cache.
    if basis == nil { reset() } else { forwarded.authorizationLine = [] }
  }

  func reset() {
    basis = nil
    isMomentary = false
    upstreamIndex = -1
    method = .get
    isHTTP10 = false
    isPersistent = false
    expectsContinue = false
    pool = nil
    forwarded.reset()
    isGateway = false
    session = nil
    facts = Self.noFacts
    keepsCopy = false
    probeWait = nil
  }

  /// nil: a tunnel, or a host that no upstream claims.
  var upstream: ServerPlan.UpstreamPlan? { pool?.upstream }

  var hasBody: Bool { forwarded.framing != .none && forwarded.framing != .contentLength(0) }

  var contentLength: UInt64? {
    if case .contentLength(let length) = forwarded.framing { return length }
    return nil
  }

  /// How content of an upstream's framing goes to the client.
  func clientFraming(of framing: MessageFraming) -> MessageFraming {
    switch framing {
    case .none, .contentLength: framing
    case .chunked, .untilClose: isHTTP10 ? .untilClose : .chunked
    }
  }

  /// How the client must see the origin; nil where the response names no location.
  func rewrite(
    for head: ResponseHead, to request: RequestHead, _ requestMemory: UnsafeRawBufferPointer
  ) -> LocationRewrite? {
    guard isGateway, head.firstIndex(of: .location) != nil || head.firstIndex(of: .contentLocation) != nil,
      let upstream
    else { return nil }
    guard let index = request.firstIndex(of: .host) else { return nil }
    let host = requestMemory[request.lines[index].value.offsets]
    return LocationRewrite(
      from: upstream.originText, to: Array("http://".utf8) + host + upstream.strippedPrefix,
      strippedPrefix: upstream.strippedPrefix)
  }
}

enum PlannedRequest {
  /// The plan says how.
  case planned
  case refused(Problem)
  /// `Max-Forwards` is used up: a 200 of our own, to TRACE with the request as its content.
  case final(trace: [UInt8]?)
}

/// From a head to a plan; allocates nothing for a request that carries no control fields.
enum RequestPlanner {
  /// - Parameter plan: has been reset.
  static func plan(
    _ head: RequestHead, _ bytes: RawSpan, by server: ServerPlan, worker: Worker, client: ClientConnection,
    into plan: RequestPlan
  ) -> PlannedRequest {
    plan.method = head.method
    plan.isHTTP10 = head.minorVersion == 0
    plan.isPersistent = head.isPersistent
    plan.expectsContinue = head.expectsContinue
    let caller: Caller
    switch identify(head, bytes, worker, client) {
    case .failure(let problem): return .refused(problem)
    case .success(let identified): caller = identified
    }
    if head.hasUnknownExpectation { return .refused(ProblemTexts.unknownExpectation) }
    let route = Router.route(head, bytes, table: server.routes, isTCP: client.isTCP)
    if case .denied(let denial) = route { return .refused(ProblemTexts.denied(denial)) }
    if head.method == .trace, head.framing != .none { return .refused(ProblemTexts.traceWithContent) }
    switch MaxForwards.read(head, bytes) {
    case .unlimited: break
    case .forward(let number): plan.forwarded.maxForwards = number
    case .ended: return .final(trace: head.method == .trace ? TraceContent.make(head, bytes) : nil)
    case .malformed: return .refused(ProblemTexts.malformedMaxForwards)
    }
    switch route {
    case .denied(let denial): return .refused(ProblemTexts.denied(denial))
    case .tunnel(let authority): return tunnel(authority, head, bytes, worker, into: plan)
    case .passThrough(let scheme, let authority, let path):
      return passThrough(scheme, authority, path, head, bytes, worker, into: plan)
    case .upstream(let index, let path, let isGateway):
      return toUpstream(
        server.upstreams[index], index, path, isGateway, head, bytes, worker, client, caller, into: plan)
    }
  }

  // MARK: the client

  /// Who asks: nobody known, the user name of `Proxy-Authorization`, or one of the configuration's clients.
  private struct Caller {
    var userName: String?
    /// Patterns of the sessions that it may use; nil: any that the upstream accepts.
    var sessions: [String]?

    func mayUse(_ name: String) -> Bool { sessions?.contains { SessionPattern.matches($0, name) } ?? true }
  }

  /// In forward mode a client that authenticates, or a user name that chooses a session (SPEC §2); before anything is
  /// told of routes.
  private static func identify(
    _ head: RequestHead, _ bytes: RawSpan, _ worker: Worker, _ client: ClientConnection
  ) -> Result<Caller, Problem> {
    let first = head.target.isEmpty ? 0 : bytes.byte(at: head.target.start)
    let isForward = head.method == .connect || first != UInt8(ascii: "/") && first != UInt8(ascii: "*")
    guard client.isRemote || worker.current.authenticatesClients else {
      guard isForward, head.firstIndex(of: .proxyAuthorization) != nil else { return .success(Caller()) }
      let user = BasicCredentials.read(head, bytes)?.userName ?? []
      return .success(Caller(userName: user.isEmpty ? nil : String(decoding: user, as: UTF8.self)))
    }
    switch worker.plan.clients.judge(head, bytes, isForward: isForward) {
    case .missing: return .failure(ProblemTexts.unauthenticated(true, isForward: isForward))
    case .wrong: return .failure(ProblemTexts.unauthenticated(false, isForward: isForward))
    case .client(let index): return .success(Caller(sessions: worker.settings.clients[index].sessions))
    }
  }

  // MARK: an upstream

  private static func toUpstream(
    _ upstream: ServerPlan.UpstreamPlan, _ index: Int, _ path: ByteRange, _ isGateway: Bool, _ head: RequestHead,
    _ bytes: RawSpan, _ worker: Worker, _ client: ClientConnection, _ caller: Caller, into plan: RequestPlan
  ) -> PlannedRequest {
    plan.pool = worker.pools[index]
    plan.upstreamIndex = index
    let route = upstream.route
    let rule = route.rule(for: bytes.extracting(path.offsets))
    plan.forwarded.path = path
    plan.isGateway = isGateway
    plan.forwarded.framing = head.framing
    plan.forwarded.asksForUpgrade = asksForUpgrade(head, bytes)
    let controls: ControlFields
    switch ControlFields.read(head, bytes) {
    case .failure(let problem): return .refused(problem)
    case .success(let read): controls = read
    }
    var auth = rule.isTokenless ? .none : controls.auth ?? rule.auth
    // An upstream sends a TRACE request back as it came: the token would be shown to the client (RFC 9110 §9.3.8).
    if isPreflight(head) || head.method == .trace { auth = .none }
    if auth != .none, upstream.settings.authorization == .keep, head.firstIndex(of: .authorization) != nil {
      auth = .none
    }
    plan.forwarded.keepsClientAuthorization = auth == .none
    if auth != .none {
      switch session(controls, caller, rule.ruleIndex, upstream, client, index, worker, plan) {
      case .failure(let problem): return .refused(problem)
      case .success(let session): plan.session = session
      }
      if caller.sessions != nil, let session = plan.session {
        let name = worker.name(of: session)
        if !caller.mayUse(name) { return .refused(ProblemTexts.sessionNotForClient(name)) }
      }
    }
    plan.keepsCopy = auth != .none && controls.isReplayable != false && controls.retry != .deny
      && rule.retry != .never
    plan.facts = facts(head, auth, controls, rule, route.writes, hasBody: plan.hasBody)
    if upstream.settings.idempotencyInject, !head.method.isSafe, !plan.facts.hasIdempotencyKey {
      plan.isMomentary = true
      plan.forwarded.idempotencyLine = Array("Idempotency-Key: \(UUIDText.random())\r\n".utf8)
      plan.facts.hasIdempotencyKey = true
    }
    if probes(plan, head, controls, rule, worker) {
      plan.facts.probes = true
      plan.probeWait = worker.settings.uploads.probeWait
    }
    return .planned
  }

  /// Whether bearerd asks before a body leaves that could not be sent again after a 401 (SPEC §4).
  private static func probes(
    _ plan: RequestPlan, _ head: RequestHead, _ controls: ControlFields, _ rule: RouteTable.Upstream.Applied,
    _ worker: Worker
  ) -> Bool {
    guard worker.settings.uploads.probe == .expect, plan.hasBody, plan.facts.auth != .none, !head.expectsContinue,
      controls.retry != .deny, rule.retry != .never
    else { return false }
    let mayBeCopied = plan.keepsCopy && plan.contentLength.map { $0 <= worker.settings.replay.maxBodyBytes } ?? false
    if mayBeCopied { return false }
    plan.isMomentary = true
    return !(plan.pool?.ignoresExpectations ?? true)
  }

  /// Only HTTP/1.1 can switch (RFC 9110 §7.8), and a request with content would have to be sent first.
  private static func asksForUpgrade(_ head: RequestHead, _ bytes: RawSpan) -> Bool {
    head.connectionHasUpgrade && head.firstIndex(of: .upgrade) != nil && head.minorVersion == 1
      && head.framing == .none && UpgradeOffer.isUsable(head, bytes)
  }

  /// A CORS preflight carries no credentials, and must not fail for lack of a session (Fetch §3.2.2).
  private static func isPreflight(_ head: RequestHead) -> Bool {
    head.method == .options && head.firstIndex(of: .origin) != nil
      && head.firstIndex(of: .accessControlRequestMethod) != nil
  }

  private static func facts(
    _ head: RequestHead, _ auth: AuthMode, _ controls: ControlFields, _ rule: RouteTable.Upstream.Applied,
    _ writes: ReplayFacts.Writes, hasBody: Bool
  ) -> ExchangeFacts {
    let isRead = head.method == .get || head.method == .head || head.method == .options
    return ExchangeFacts(
      auth: auth, method: isRead ? .getHeadOptions : .other,
      hasIdempotencyKey: hasIdempotencyKey(head), clientRetry: controls.retry,
      pathRetry: rule.retry, writes: writes, hasBody: hasBody, isSafe: head.method.isSafe)
  }

  /// One that goes on to the upstream: `Connection` may have named it, or it may be empty.
  private static func hasIdempotencyKey(_ head: RequestHead) -> Bool {
    guard let index = head.firstIndex(of: .idempotencyKey) else { return false }
    return !head.lines[index].isConnectionOption && !head.lines[index].value.isEmpty
  }

  /// SPEC §2, first that applies: the client's field, its user name, the path rule, the upstream's own, a pool.
  private static func session(
    _ controls: ControlFields, _ caller: Caller, _ ruleIndex: Int?, _ upstream: ServerPlan.UpstreamPlan, _ client: ClientConnection,
    _ index: Int, _ worker: Worker, _ plan: RequestPlan
  ) -> Result<SessionReference?, Problem> {
    if let name = controls.session ?? caller.userName {
      guard upstream.settings.accepts(session: name) else {
        return .failure(ProblemTexts.sessionNotAccepted(name, upstream.settings.name))
      }
      return .success(worker.slot(of: name).map { .slot($0) } ?? .named(name))
    }
    if let ruleIndex, let slot = upstream.ruleSlots[ruleIndex] { return .success(.slot(slot)) }
    if let slot = upstream.sessionSlot { return .success(.slot(slot)) }
    plan.isMomentary = true
    let pool = worker.sessionPools.slots[index]
    guard !pool.isEmpty else { return .success(nil) }
    if upstream.settings.poolPick == .connection, let picked = client.pooledSlot, picked.upstream == index,
      caller.sessions == nil || caller.mayUse(worker.name(of: .slot(picked.slot))) {
      return .success(.slot(picked.slot))
    }
    // Each loop begins elsewhere, and comes round to all; a client that may not use all, to the next that it may.
    for _ in pool.indices {
      let slot = Int(pool[(worker.nextPoolPick &+ worker.poolOffset(of: pool.count)) % pool.count])
      worker.nextPoolPick &+= 1
      if caller.sessions != nil, !caller.mayUse(worker.name(of: .slot(slot))) { continue }
      client.pooledSlot = (index, slot)
      return .success(.slot(slot))
    }
    return .failure(ProblemTexts.sessionNotForClient(upstream.settings.pool ?? ""))
  }

  // MARK: tunnels and unmatched hosts

  private static func tunnel(
    _ authority: Authority, _ head: RequestHead, _ bytes: RawSpan, _ worker: Worker, into plan: RequestPlan
  ) -> PlannedRequest {
    // RFC 9110 §9.3.6: content has no meaning here, so what followed could be read as the tunnel's first bytes.
    if head.framing != .none { return .refused(ProblemTexts.connectWithContent) }
    plan.isMomentary = true
    plan.forwarded.maxForwards = nil
    plan.facts.isTunnel = true
    let host = bytes.extracting(authority.host.offsets).string
    switch worker.tunnelPool(to: Origin(scheme: .http, host: host, port: authority.port ?? 443)) {
    case .failure(let problem): return .refused(problem)
    case .success(let pool): plan.pool = pool
    }
    return .planned
  }

  private static func passThrough(
    _ scheme: Scheme, _ authority: Authority, _ path: ByteRange, _ head: RequestHead, _ bytes: RawSpan,
    _ worker: Worker, into plan: RequestPlan
  ) -> PlannedRequest {
    plan.isMomentary = true
    let origin = Origin(
      scheme: scheme, host: bytes.extracting(authority.host.offsets).string,
      port: authority.port ?? scheme.defaultPort)
    switch worker.passPool(for: origin) {
    case .failure(let problem): return .refused(problem)
    case .success(let pool): plan.pool = pool
    }
    plan.forwarded.path = path
    plan.forwarded.framing = head.framing
    plan.forwarded.keepsClientAuthorization = true
    plan.forwarded.asksForUpgrade = asksForUpgrade(head, bytes)
    plan.facts.hasBody = plan.hasBody
    plan.facts.isSafe = head.method.isSafe
    return .planned
  }
}

/// The client's control fields (SPEC §2), which are never forwarded. Each may come once.
struct ControlFields {
  var session: String?
  var auth: AuthMode?
  var retry: ReplayFacts.ClientRetry?
  var isReplayable: Bool?

  static func read(_ head: RequestHead, _ bytes: RawSpan) -> Result<ControlFields, Problem> {
    var controls = ControlFields()
    for field in [KnownField.bearerdSession, .bearerdAuth, .bearerdRetry, .bearerdReplayable] {
      guard let index = head.firstIndex(of: field) else { continue }
      if head.count(of: field) > 1 { return .failure(ProblemTexts.controlField(field)) }
      let text = head.lines[index].value.string(in: bytes)
      if !controls.set(field, text) { return .failure(ProblemTexts.controlField(field)) }
    }
    return .success(controls)
  }

  private mutating func set(_ field: KnownField, _ text: String) -> Bool {
    if field == .bearerdSession {
      session = text
      return !text.isEmpty && text.utf8.count <= 200
    }
    let value = text.lowercased()
    if field == .bearerdAuth {
      auth = AuthMode(rawValue: value)
      return auth != nil
    }
    if field == .bearerdRetry {
      retry = ReplayFacts.ClientRetry(rawValue: value)
      return retry != nil
    }
    isReplayable = value == "true" ? true : value == "false" ? false : nil
    return isReplayable != nil
  }
}

extension Problem: Error {}

enum UUIDText {
  /// RFC 9562 version 4.
  static func random() -> String {
    var bytes = (0..<16).map { _ in UInt8.random(in: 0...255) }
    bytes[6] = bytes[6] & 0x0f | 0x40
    bytes[8] = bytes[8] & 0x3f | 0x80
    let digits = Array("0123456789abcdef")
    var text = ""
    for (index, byte) in bytes.enumerated() {
      if [4, 6, 8, 10].contains(index) { text += "-" }
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    return text
  }
}
