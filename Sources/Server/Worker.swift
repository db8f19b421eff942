import BearerPolicy
public import Chronology
import Configuration
import HTTPSyntax
import ProxyCore
public import Transport

/// One finished request, for the access log. No secret: the path is without its query.
public struct AccessRecord: Sendable {
  public var id: UInt64
  public var loop: Int
  public var method: String
  public var upstream: String
  public var path: String
  public var session: String
  public var generation: UInt64
  public var status: Int
  public var isReplay: Bool
  public var waitedForBearer: Bool
  public var note: String?
  public var bytesReceived: UInt64
  public var duration: Interval
}

/// All that one loop owns to serve with: pools, tokens, tables to lend, counters. Touched on its loop's queue only,
/// which is what makes it safe to send.
public final class Worker: @unchecked Sendable {
  public let loop: EventLoop
  public let index: Int
  /// Plans adopted after the first.
  private(set) var reloads = 0
  let keeper: SessionKeeper
  private(set) var plan: ServerPlan { didSet { current = Current(plan) } }
  private(set) var current: Current
  /// By the order of the plan's upstreams.
  private(set) var sessionPools: SessionPools.Snapshot
  private var newestPools = SessionPools.Snapshot()
  private(set) var pools: [UpstreamPool] = []
  private let resolver: Resolver
  private let slotName: @Sendable (Int) -> String
  private let logAccess: (@Sendable (AccessRecord) -> Void)?

  /// The `Date` line of the present second.
  private var datedLine: (second: Int64, line: [UInt8]) = (-1, [])

  let bearers = BearerCache()
  private(set) var replayBudget: ReplayBudget
  var counters = Counters()
  private(set) var isDraining = false
  var nextPoolPick = 0
  /// Sessions that clients have named and the store has, by the bytes of their names.
  private var slots: [[UInt8]: Int] = [:]

  private var clients: [ObjectIdentifier: ClientConnection] = [:]
  private var spareRuns: [ExchangeRun] = []
  private var passPools: [Origin: UpstreamPool] = [:]
  /// For CONNECT: no connection of theirs is ever given back.
  private var tunnelPools: [Origin: UpstreamPool] = [:]
  private let trailerLines = TrailerLines(limits: HeadLimits())
  private let loopCount: Int
  private let passTLS: TLSClientContext?
  private var isDrained: (@Sendable () -> Void)?

  private let sparesMax: Int

  /// Buffers and runs that a loop keeps: with those of the other loops enough for 512 connections that are all
  /// busy, at which they came from malloc for each request, a 25th of the CPU (measured).
  public static func sparesMax(loops: Int) -> Int { max(128, 512 / loops) }

  /// Origins that no upstream claims and that have a pool at a time.
  private static let passPoolsMax = 128
  /// Connections beyond the limit that are told so, rather than closed without a word.
  private static let surplusMax = 256

  public init(
    loop: EventLoop, loopCount: Int, plan: ServerPlan, keeper: SessionKeeper, resolver: Resolver,
    passTLS: TLSClientContext?, slotName: @escaping @Sendable (Int) -> String,
    logAccess: (@Sendable (AccessRecord) -> Void)?
  ) {
    self.loop = loop
    index = loop.index
    self.loopCount = loopCount
    sparesMax = Self.sparesMax(loops: loopCount)
    self.plan = plan
    current = Current(plan)
    sessionPools = plan.pools
    self.keeper = keeper
    self.resolver = resolver
    self.passTLS = passTLS
    self.slotName = slotName
    self.logAccess = logAccess
    replayBudget = ReplayBudget(bytesMax: plan.configuration.replay.memoryBytes / loopCount)
    makePools()
  }

  /// What every request asks for, out of the plan: there each look would count references.
  struct Current {
    let authenticatesClients: Bool
    let via: ViaLine
    let timeouts: Configuration.Timeouts
    let headLimits: HeadLimits

    init(_ plan: ServerPlan) {
      authenticatesClients = !plan.clients.clients.isEmpty
      via = ViaLine(pseudonym: plan.routes.pseudonym)
      timeouts = plan.configuration.timeouts
      let limits = plan.configuration.limits
      headLimits = HeadLimits(
        requestLineBytes: limits.requestLineBytes, sectionBytes: limits.headerSectionBytes, fields: limits.headerFields)
    }
  }

  var settings: Configuration { plan.configuration }
  var timeouts: Configuration.Timeouts { current.timeouts }

  private func makePools() {
    pools = plan.upstreams.map { upstream in
      let (host, port) = upstream.dialTarget
      return makePool(
        DialTarget(
          host: host, port: port, tls: upstream.tls,
          serverName: upstream.settings.tls.serverName ?? upstream.settings.origin.host,
          connectTimeout: timeouts.connect, handshakeTimeout: timeouts.tlsHandshake),
        of: upstream)
    }
  }

  /// - Parameter origin: where no upstream claims it; nil for a tunnel too.
  private func makePool(
    _ target: DialTarget, of upstream: ServerPlan.UpstreamPlan? = nil, origin: Origin? = nil
  ) -> UpstreamPool {
    UpstreamPool(
      loop: loop, resolver: resolver, target: target, upstream: upstream,
      hostLine: (upstream?.settings.origin ?? origin).map { Array("Host: \($0.hostFieldValue)\r\n".utf8) } ?? [],
      limits: UpstreamPool.Limits(
        connectionsMax: settings.limits.upstreamConnections, idleTime: timeouts.poolIdle,
        waitTime: timeouts.connect))
  }

  func passPool(for origin: Origin) -> Result<UpstreamPool, Problem> {
    if let pool = passPools[origin] { return .success(pool) }
    if let problem = makeRoom(in: &passPools) { return .failure(problem) }
    let listed = settings.forward.passAllow
    let isListed = listed.contains(origin.bracketedHost) || listed.contains("\(origin.bracketedHost):\(origin.port)")
    let pool = makePool(
      DialTarget(
        host: origin.host, port: origin.port, tls: origin.scheme == .https ? passTLS : nil,
        connectTimeout: timeouts.connect, handshakeTimeout: timeouts.tlsHandshake,
        refusesLocalAddresses: !isListed),
      origin: origin)
    passPools[origin] = pool
    return .success(pool)
  }

  func tunnelPool(to origin: Origin) -> Result<UpstreamPool, Problem> {
    if let pool = tunnelPools[origin] { return .success(pool) }
    if let problem = makeRoom(in: &tunnelPools) { return .failure(problem) }
    let pool = makePool(
      DialTarget(
        host: origin.host, port: origin.port, tls: nil, connectTimeout: timeouts.connect,
        handshakeTimeout: timeouts.tlsHandshake))
    tunnelPools[origin] = pool
    return .success(pool)
  }

  /// Room for one more pool; a problem where all are in use.
  private func makeRoom(in pools: inout [Origin: UpstreamPool]) -> Problem? {
    if pools.count < Self.passPoolsMax { return nil }
    for (origin, pool) in pools where pool.connectionCount == pool.idleCount {
      pool.retire()
      pools[origin] = nil
    }
    if pools.count < Self.passPoolsMax { return nil }
    return Problem(
      .overloaded, detail: "Too many different hosts are in use.", remedy: "Try again later.", retryAfterSeconds: 1)
  }

  // MARK: clients

  /// A connection handed over by the acceptor; call on the loop.
  ///
  /// - Parameter isRemote: each request must say which client it comes from, even where no client is configured.
  public func accept(_ descriptor: consuming Descriptor, isTCP: Bool, isRemote: Bool) {
    counters.clientsAccepted += 1
    let connectionsMax = max(1, settings.limits.clientConnections / loopCount)
    let isSurplus = clients.count >= connectionsMax
    if isSurplus { counters.clientsRefused += 1 }
    // Beyond what can be told so: closed at once.
    if isDraining || clients.count >= connectionsMax + Self.surplusMax { return }
    ClientConnection(
      Channel(descriptor), worker: self, isTCP: isTCP, isRemote: isRemote, isSurplus: isSurplus
    ).start()
  }

  func clientOpened(_ client: ClientConnection) {
    clients[ObjectIdentifier(client)] = client
    counters.clientsOpen += 1
  }

  func clientClosed(_ client: ClientConnection) {
    if clients.removeValue(forKey: ObjectIdentifier(client)) != nil { counters.clientsOpen -= 1 }
    if isDraining && clients.isEmpty { endDrain() }
  }

  /// Idle connections close now, the others after the response that is on its way; `done` is called when none is left.
  public func drain(_ done: @escaping @Sendable () -> Void) {
    isDraining = true
    isDrained = done
    for pool in pools { pool.retire() }
    for client in Array(clients.values) { client.drain() }
    if clients.isEmpty { endDrain() }
  }

  /// Connections that are still open end with the process: by a reset where nothing else would tell (I9).
  public func prepareForEnd() {
    for client in clients.values { client.prepareForEnd() }
  }

  private func endDrain() {
    isDrained?()
    isDrained = nil
  }

  // MARK: sessions

  /// From the keeper, on the loop.
  public func learn(_ slot: Int, _ update: BearerUpdate?) {
    if let update { bearers.update(slot, update, now: loop.now) } else { bearers.invalidate(slot) }
  }

  /// The pools as they are now, from the keeper; call on the loop. Those of a plan that is still to come wait for it.
  public func learn(_ pools: SessionPools.Snapshot) {
    newestPools = pools
    guard pools.epoch == plan.pools.epoch else { return }
    let isAnyGone = zip(pools.slots, sessionPools.slots).contains { $0.count <= $1.count }
    sessionPools = pools
    guard isAnyGone else { return }
    // Who stays with one session for a connection picks anew if that one has left.
    let members = pools.slots.map(Set.init)
    for client in clients.values {
      if let picked = client.pooledSlot, !members[picked.upstream].contains(Int32(picked.slot)) { client.pooledSlot = nil }
    }
  }

  func poolOffset(of count: Int) -> Int { index * (count / loopCount) }

  /// When a request of this loop last took the slot's token, nil where none has; call on the loop.
  public func lastUse(_ slot: Int) -> Instant? { bearers.lastUse(slot) }

  func remember(_ name: String, slot: Int) {
    // Names come from clients; each exists in the store, so the store bounds them. This bounds a store of many.
    if slots.count < 100_000 { slots[Array(name.utf8)] = slot }
  }

  func slot(of name: String) -> Int? { slots[Array(name.utf8)] }

  func refreshAheadIfDue(_ slot: Int) {
    if bearers.takeAhead(slot, now: loop.now) { keeper.refreshAhead(slot) }
  }

  func bearerAccepted(_ slot: Int, _ generation: UInt64?) {
    guard let generation, bearers.markAccepted(slot, generation: generation) else { return }
    keeper.accepted(slot, generation: generation)
  }

  // MARK: reload

  /// Later requests go by `plan`; those under way end by the old one.
  public func adopt(_ plan: ServerPlan) {
    for pool in pools { pool.retire() }
    for pool in passPools.values { pool.retire() }
    passPools = [:]
    for pool in tunnelPools.values { pool.retire() }
    tunnelPools = [:]
    self.plan = plan
    sessionPools = newestPools.epoch == plan.pools.epoch ? newestPools : plan.pools
    // A picked session is remembered by its upstream's index, which may be another upstream's now (I6).
    for client in clients.values { client.pooledSlot = nil }
    replayBudget = ReplayBudget(bytesMax: plan.configuration.replay.memoryBytes / loopCount)
    reloads += 1
    spareRuns = []
    makePools()
  }

  // MARK: lending

  /// `Date: …\r\n` as it is now.
  var dateLine: [UInt8] {
    let now = WallClock.now
    let second = now.milliseconds / 1000
    if datedLine.second != second { datedLine = (second, Array("Date: \(HTTPDate.format(now))\r\n".utf8)) }
    return datedLine.line
  }

  func borrowRun() -> ExchangeRun { spareRuns.popLast() ?? ExchangeRun(worker: self) }

  /// - Parameter run: has ended, or not begun; one that is still under way is its upstream's, and nobody else's.
  func giveBack(_ run: consuming ExchangeRun) {
    if run.isUnderway { return }
    run.requestHead.reset()
    // One from before a reload has other limits and another name.
    if run.reloads == reloads, spareRuns.count < sparesMax { spareRuns.append(run) }
  }

  /// The trailer lines that may go on, each ended by CRLF; nothing where the section is not valid.
  func forwardable(_ section: [UInt8]) -> [UInt8] {
    if section.isEmpty { return [] }
    return section.withUnsafeBytes { raw in
      let bytes = raw.bytes
      guard trailerLines.parse(bytes) == nil else { return [] }
      var kept: [UInt8] = []
      for line in trailerLines.lines
      where !line.isConnectionOption && TrailerLines.isForwardable(line, in: bytes) {
        kept.append(contentsOf: raw[line.name.offsets])
        kept.append(contentsOf: ": ".utf8)
        kept.append(contentsOf: raw[line.value.offsets])
        kept.append(contentsOf: "\r\n".utf8)
      }
      return kept
    }
  }

  // MARK: what is told

  /// Counters with the gauges filled in.
  public func snapshot() -> Counters {
    var copy = counters
    copy.upstreamConnectionsOpen = pools.reduce(0) { $0 + $1.connectionCount }
    copy.upstreamConnectionsIdle = pools.reduce(0) { $0 + $1.idleCount }
    copy.bufferBytes = loop.buffers.lentBytes
    copy.replayBytes = replayBudget.bytesUsed
    return copy
  }

  func logAccess(of run: ExchangeRun) {
    guard let logAccess, let client = run.client else { return }
    let head = run.requestHead
    let memory = client.headMemory
    let bytes = memory.bytes
    let session = run.plan.session.map(name) ?? ""
    logAccess(
      AccessRecord(
        id: run.serial, loop: index, method: head.methodRange.string(in: bytes),
        upstream: run.plan.upstream?.settings.name ?? "",
        path: Self.pathText(run.plan, head, bytes), session: session, generation: run.attachedGeneration ?? 0,
        status: run.status, isReplay: run.exchange?.isReplay ?? false, waitedForBearer: run.waitedForBearer, note: run.note,
        bytesReceived: run.contentTaken, duration: loop.now.since(run.startedAt)))
  }

  func name(of session: SessionReference) -> String {
    switch session {
    case .slot(let slot): slotName(slot)
    case .named(let name): name
    }
  }

  private static func pathText(_ plan: RequestPlan, _ head: RequestHead, _ bytes: RawSpan) -> String {
    let range = plan.forwarded.path.isEmpty ? head.target : plan.forwarded.path
    return String(range.string(in: bytes).prefix { $0 != "?" })
  }
}
