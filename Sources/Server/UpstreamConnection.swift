import BearerPolicy
import Chronology
import HTTPSyntax
import ProxyCore
import Transport

/// One HTTP/1.1 connection to an origin: serving one exchange, or idle in its pool.
///
/// Loop-owned. The descriptor closes with it.
final class UpstreamConnection: LoopMember {
  let wire: HTTP1Wire
  /// The wire's: an object two steps away is retained for each call.
  private let channel: Channel
  let loop: EventLoop
  let token: MemberToken
  let pool: UpstreamPool
  /// `Host: api.example.com\r\n`; empty for a tunnel.
  let hostLine: [UInt8]
  /// The exchange that has it; nil while idle.
  ///
  /// Not weak, here and below: one weak reference makes every later retain and release of its object several times
  /// as expensive, and runs are used again and again. `becameIdle` and `close` end the cycle with the run.
  var run: ExchangeRun?
  /// At least one exchange was completed on it.
  private(set) var isReused = false
  /// When it last proved alive: opened, or a response was received.
  private(set) var seenAlive: Instant

  init(_ channel: Channel, token: MemberToken, loop: EventLoop, pool: UpstreamPool) {
    wire = HTTP1Wire(channel, buffers: loop.buffers)
    self.channel = channel
    self.loop = loop
    self.token = token
    self.pool = pool
    hostLine = pool.hostLine
    seenAlive = loop.now
    loop.transfer(token, to: self)
  }

  func ready(_ readiness: Readiness) {
    channel.note(readiness)
    if let run { return run.upstreamReady() }
    // Idle: nothing may come but TLS tickets (which reading takes in) and the end.
    if channel.mayRead, wire.fill() != .blocked { pool.dropIdle(self) }
  }

  /// The request that `ExchangeRun` has put off.
  func sendNow() {
    guard wire.isFlushDue else { return }
    switch wire.flush() {
    case .done: break
    case .blocked: run?.sendingStopped(on: self, hasFailed: false)
    case .failed: run?.sendingStopped(on: self, hasFailed: true)
    }
  }

  func deadlinePassed() {
    if let run { run.upstreamDeadlinePassed() } else { pool.dropIdle(self) }
  }

  /// Of what has come in this turn, and `ready` has yet to tell.
  func takeNote() { channel.note(loop.announced(to: token)) }

  /// The peer's end, or bytes nobody asked for, came together with the response: their edge has been delivered and
  /// does not come again.
  var isSpent: Bool {
    takeNote()
    return channel.sawPeerShutdown || channel.sawError || channel.mayHaveMore && wire.fill() != .blocked
  }

  /// Bytes behind a response are no answer to anybody's next request (RFC 9112 §6.3). They, or the end, may have come
  /// since the last event: that is asked where the connection goes straight from one exchange to another.
  var isFit: Bool { !isSpent && (seenAlive < loop.now || channel.isQuiet) }

  /// Nothing is left of an exchange that has ended: not of what came, and not of the request. (What is answered before it
  /// has left is not answered.)
  var isAtRest: Bool { !wire.hasPendingOutput && wire.input.isEmpty }

  func becameIdle() {
    run = nil
    isReused = true
    seenAlive = loop.now
    wire.releaseEmptyInput()
  }

  func close() {
    run = nil
    loop.dismiss(token)
    wire.release()
  }
}

/// The connections of one loop to one origin: idle ones, those in use, and exchanges that wait for one.
///
/// Loop-owned. The origin is fixed: a connection, and with it a token, can reach no other (I6).
final class UpstreamPool {
  private let loop: EventLoop
  private let resolver: Resolver
  private let target: DialTarget
  private let limits: Limits
  /// nil: a tunnel's, or one to a host that no upstream claims.
  let upstream: ServerPlan.UpstreamPlan?
  fileprivate let hostLine: [UInt8]
  private var idle: [UpstreamConnection] = []
  private var openCount = 0
  private var connectors: [Int: (connector: Connector, run: ExchangeRun, serial: UInt64)] = [:]
  private var nextConnector = 0
  private var waiting: [Waiter] = []
  private var isRetired = false
  private var expectationsIgnoredUntil = Instant(nanoseconds: 0)

  struct Limits {
    var connectionsMax: Int
    /// An idle connection is closed after this.
    var idleTime: Interval
    /// How long an exchange waits for a connection when all are busy.
    var waitTime: Interval
  }

  private struct Waiter {
    let run: ExchangeRun
    let serial: UInt64
  }

  /// A connection that answered this recently is taken to be alive for a request that may not be sent twice.
  private static let trustedIdle = Interval.seconds(2)
  private static let waitingMax = 4096
  /// SPEC §4: an origin that has ignored an expectation is not asked again before.
  private static let ignoredTime = Interval.seconds(600)

  init(
    loop: EventLoop, resolver: Resolver, target: DialTarget, upstream: ServerPlan.UpstreamPlan?, hostLine: [UInt8],
    limits: Limits
  ) {
    self.loop = loop
    self.resolver = resolver
    self.target = target
    self.upstream = upstream
    self.hostLine = hostLine
    self.limits = limits
  }

  var connectionCount: Int { openCount }
  var idleCount: Int { idle.count }

  /// The origin has been seen to ignore `Expect: 100-continue`.
  var ignoresExpectations: Bool { loop.now < expectationsIgnoredUntil }

  func noteIgnoredExpectation() { expectationsIgnoredUntil = loop.now + Self.ignoredTime }

  enum Offer {
    case connection(UpstreamConnection)
    /// The run will hear `upstreamOpened` or `upstreamFailed`.
    case later
    /// Too many wait already.
    case exhausted
  }

  /// - Parameter fresh: a pooled connection will do only if it was seen alive a moment ago.
  func request(for run: ExchangeRun, fresh: Bool, isRetry: Bool) -> Offer {
    while !isRetry, let connection = idle.popLast() {
      if fresh && loop.now.since(connection.seenAlive) > Self.trustedIdle {
        idle.append(connection)
        break
      }
      guard connection.isFit else {
        discard(connection)
        continue
      }
      connection.run = run
      return .connection(connection)
    }
    if openCount + connectors.count >= limits.connectionsMax {
      // An idle one that is too old for this request makes room.
      if let oldest = idle.first { dropIdle(oldest) }
    }
    if openCount + connectors.count < limits.connectionsMax {
      connect(for: run)
    } else if waiting.count < Self.waitingMax {
      waiting.append(Waiter(run: run, serial: run.serial))
      run.waitForPool(until: loop.now + limits.waitTime)
    } else {
      return .exhausted
    }
    return .later
  }

  private func connect(for run: ExchangeRun) {
    let serial = run.serial
    let key = nextConnector
    nextConnector += 1
    var ended = false
    let connector = Connector.start(target, resolver: resolver, on: loop) { [self] result in
      ended = true
      connectors[key] = nil
      connected(result, for: run, serial: serial)
    }
    if !ended { connectors[key] = (connector, run, serial) }
  }

  private func connected(
    _ result: Result<(Channel, MemberToken), ConnectFault>, for run: ExchangeRun, serial: UInt64
  ) {
    switch result {
    case .success(let (channel, token)):
      let connection = UpstreamConnection(channel, token: token, loop: loop, pool: self)
      openCount += 1
      if run.serial == serial, run.wantsUpstream {
        connection.run = run
        run.upstreamOpened(connection)
      } else {
        giveBack(connection)
      }
    case .failure(.cancelled): serveWaiting()
    case .failure(let fault):
      if run.serial == serial, run.wantsUpstream { run.upstreamFailed(UpstreamFailure(fault)) }
      serveWaiting()
    }
  }

  /// The run does not want its connection any more: an attempt at one ends.
  func cancel(_ run: ExchangeRun) {
    if !waiting.isEmpty { waiting.removeAll { $0.run === run } }
    if connectors.isEmpty { return }
    for (key, attempt) in connectors where attempt.run === run && attempt.serial == run.serial {
      connectors[key] = nil
      attempt.connector.cancel()
    }
  }

  /// A connection whose exchange is complete and that can take another.
  func giveBack(_ connection: consuming UpstreamConnection) {
    if isRetired || connection.isSpent { return discard(connection) }
    connection.becameIdle()
    if !waiting.isEmpty, !connection.isFit { return discard(connection) }
    while !waiting.isEmpty {
      let waiter = waiting.removeFirst()
      if waiter.run.serial == waiter.serial, waiter.run.wantsUpstream {
        connection.run = waiter.run
        waiter.run.upstreamOpened(connection)
        return
      }
    }
    loop.setDeadline(loop.now + limits.idleTime, for: connection.token)
    idle.append(connection)
  }

  /// A connection that cannot be used again.
  func discard(_ connection: UpstreamConnection) {
    connection.close()
    openCount -= 1
    serveWaiting()
  }

  func dropIdle(_ connection: UpstreamConnection) {
    guard let index = idle.lastIndex(where: { $0 === connection }) else { return }
    idle.remove(at: index)
    discard(connection)
  }

  /// Nothing is kept for later any more: the daemon drains, or the configuration has changed.
  func retire() {
    isRetired = true
    while let connection = idle.last { dropIdle(connection) }
  }

  private func serveWaiting() {
    while openCount + connectors.count < limits.connectionsMax, !waiting.isEmpty {
      let waiter = waiting.removeFirst()
      if waiter.run.serial == waiter.serial, waiter.run.wantsUpstream { connect(for: waiter.run) }
    }
  }
}

extension UpstreamFailure {
  init(_ fault: ConnectFault) {
    switch fault {
    case .nameResolution(let reason): self = .unreachable(reason)
    case .addressNotAllowed: self = .addressNotAllowed
    case .refused(let fault):
      self = fault.isDescriptorExhaustion ? .outOfDescriptors : .unreachable(fault.description)
    case .connectTimedOut, .handshakeTimedOut: self = .connectTimedOut
    case .tls(let reason): self = .tls(reason)
    case .cancelled: self = .unreachable("cancelled")
    }
  }
}
