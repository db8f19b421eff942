public import Chronology
import CLinux
import Glibc

/// Where and how to connect.
public struct DialTarget: Sendable {
  /// A name or a literal without brackets; connected to.
  public var host: String
  public var port: UInt16
  /// nil: plaintext.
  public var tls: TLSClientContext?
  /// The name the certificate must carry.
  public var serverName: String
  public var connectTimeout: Interval
  public var handshakeTimeout: Interval
  public var resumesTLS: Bool
  /// Refused with `ConnectFault.addressNotAllowed` when one is answered for the name: an unmatched host may
  /// not lead to this machine (SPEC §1).
  public var refusesLocalAddresses: Bool

  public init(
    host: String, port: UInt16, tls: TLSClientContext? = nil, serverName: String? = nil,
    connectTimeout: Interval = .seconds(5), handshakeTimeout: Interval = .seconds(5), resumesTLS: Bool = true,
    refusesLocalAddresses: Bool = false
  ) {
    self.host = host
    self.port = port
    self.tls = tls
    self.serverName = serverName ?? host
    self.connectTimeout = connectTimeout
    self.handshakeTimeout = handshakeTimeout
    self.resumesTLS = resumesTLS
    self.refusesLocalAddresses = refusesLocalAddresses
  }
}

/// Why there is no connection. In all of these provably nothing of a request was sent.
public enum ConnectFault: Error, Equatable, Sendable {
  case nameResolution(String)
  case addressNotAllowed
  case refused(SocketFault)
  case connectTimedOut
  case tls(String)
  case handshakeTimedOut
  case cancelled
}

/// Makes one connection: name look-up, Happy Eyeballs (RFC 8305 §5), TLS handshake; each with its time-out.
///
/// Loop-owned. The completion is called once, on the loop, not inside `start`'s caller unless the address is a literal
/// that fails at once.
public final class Connector: LoopMember {
  public typealias Completion = (Result<(Channel, MemberToken), ConnectFault>) -> Void

  private let loop: EventLoop
  private let target: DialTarget
  private var completion: Completion?
  private var token: MemberToken
  private var candidates: [SocketAddress] = []
  private var attempts: [Attempt] = []
  private var lastFault = ConnectFault.connectTimedOut
  private var state = State.resolving

  private enum State {
    /// Entered at start; ended by the resolver's answer or the connect deadline.
    case resolving
    /// Attempts are under way; ended by the first that connects, or by the last that fails.
    case connecting(until: Instant)
    case handshaking(Channel)
    case ended
  }

  /// RFC 8305 §5: the recommended connection attempt delay.
  private static let attemptDelay = Interval.milliseconds(250)

  private init(loop: EventLoop, target: DialTarget, completion: @escaping Completion) {
    self.loop = loop
    self.target = target
    self.completion = completion
    token = .unassigned
  }

  @discardableResult
  public static func start(
    _ target: DialTarget, resolver: Resolver, on loop: EventLoop, completion: @escaping Completion
  ) -> Connector {
    let connector = Connector(loop: loop, target: target, completion: completion)
    connector.token = loop.enroll(connector)
    let deadline = loop.now + target.connectTimeout
    loop.setDeadline(deadline, for: connector.token)
    let bound = LoopBound(connector, on: loop)
    resolver.resolve(target.host, port: target.port, on: loop) { answer in
      bound.onLoop.resolved(answer, deadline: deadline)
    }
    return connector
  }

  /// Ends it without a connection; the completion hears `.cancelled`.
  public func cancel() { end(.failure(.cancelled)) }

  private func resolved(_ answer: Resolver.Answer, deadline: Instant) {
    guard case .resolving = state else { return }
    switch answer {
    case .failed(let reason): end(.failure(.nameResolution(reason)))
    case .addresses(let addresses):
      let allowed =
        target.refusesLocalAddresses
        ? addresses.filter { !$0.isLoopback && !$0.isLinkLocalOrUnspecified } : addresses
      if allowed.isEmpty { return end(.failure(.addressNotAllowed)) }
      candidates = Self.interleave(allowed)
      state = .connecting(until: deadline)
      startNextAttempt()
    }
  }

  /// Alternates families, starting with the resolver's first choice (RFC 8305 §4); reversed, to pop from the end.
  private static func interleave(_ addresses: [SocketAddress]) -> [SocketAddress] {
    guard let first = addresses.first else { return [] }
    let preferred = addresses.filter { $0.family == first.family }
    let others = addresses.filter { $0.family != first.family }
    var order: [SocketAddress] = []
    for index in 0..<max(preferred.count, others.count) {
      if index < preferred.count { order.append(preferred[index]) }
      if index < others.count { order.append(others[index]) }
    }
    return order.reversed()
  }

  private func startNextAttempt() {
    guard case .connecting(let deadline) = state else { return }
    while let address = candidates.popLast() {
      switch Attempt.begin(address, for: self, on: loop) {
      case .success(let attempt):
        attempts.append(attempt)
        let next = candidates.isEmpty ? deadline : min(deadline, loop.now + Self.attemptDelay)
        loop.setDeadline(next, for: token)
        return
      case .failure(let fault): lastFault = .refused(fault)
      }
    }
    if attempts.isEmpty { end(.failure(lastFault)) }
  }

  public func ready(_ readiness: Readiness) {
    guard case .handshaking(let channel) = state else { return }
    channel.note(readiness)
    continueHandshake(channel)
  }

  public func deadlinePassed() {
    switch state {
    case .resolving: end(.failure(.nameResolution("\(target.host): no answer in time")))
    case .connecting(let deadline):
      if loop.now >= deadline { return end(.failure(.connectTimedOut)) }
      loop.setDeadline(deadline, for: token)
      startNextAttempt()
    case .handshaking: end(.failure(.handshakeTimedOut))
    case .ended: break
    }
  }

  fileprivate func attemptFailed(_ attempt: Attempt, _ fault: SocketFault) {
    attempts.removeAll { $0 === attempt }
    lastFault = .refused(fault)
    startNextAttempt()
  }

  fileprivate func attemptConnected(_ attempt: Attempt, _ channel: Channel) {
    attempts.removeAll { $0 === attempt }
    attempts.forEach { $0.abandon() }
    attempts.removeAll()
    // The winner's place becomes ours: its descriptor stays registered.
    loop.dismiss(token)
    token = attempt.token
    loop.transfer(token, to: self)
    if target.tls == nil { return end(.success((channel, token))) }
    startHandshake(channel)
  }

  private func startHandshake(_ channel: Channel) {
    guard let tls = target.tls else { return }
    switch Result(catching: { () throws(TLSContextFault) in
      try tls.makeSession(host: target.serverName, resume: target.resumesTLS)
    }) {
    case .failure(let fault): end(.failure(.tls(fault.description)))
    case .success(let session):
      channel.startTLS(session)
      state = .handshaking(channel)
      loop.setDeadline(loop.now + target.handshakeTimeout, for: token)
      continueHandshake(channel)
    }
  }

  private func continueHandshake(_ channel: Channel) {
    switch channel.continueHandshake() {
    case .wouldBlock: break
    case .failed(let reason): end(.failure(.tls(reason)))
    case .done: end(.success((channel, token)))
    }
  }

  private func end(_ result: Result<(Channel, MemberToken), ConnectFault>) {
    if case .ended = state { return }
    state = .ended
    attempts.forEach { $0.abandon() }
    attempts.removeAll()
    loop.setDeadline(.never, for: token)
    if case .failure = result { loop.dismiss(token) }
    let completion = completion
    self.completion = nil
    completion?(result)
  }
}

/// One connect(2) under way.
private final class Attempt: LoopMember {
  unowned let connector: Connector
  let loop: EventLoop
  fileprivate private(set) var token: MemberToken
  private var channel: Channel?

  private init(_ connector: Connector, _ loop: EventLoop, _ channel: Channel) {
    self.connector = connector
    self.loop = loop
    self.channel = channel
    token = .unassigned
  }

  static func begin(_ address: SocketAddress, for connector: Connector, on loop: EventLoop) -> Result<
    Attempt, SocketFault
  > {
    do throws(SocketFault) {
      let family = address.family == .ipv6 ? AF_INET6 : address.family == .ipv4 ? AF_INET : AF_UNIX
      let descriptor = Descriptor(
        try checked(socket(family, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC | O_NONBLOCK, 0), "socket"))
      SocketOptions.setNoDelay(descriptor.raw)
      let result = address.withPointer { connect(descriptor.raw, $0, $1) }
      if result != 0 && errno != EINPROGRESS && errno != EINTR {
        throw SocketFault(call: "connect \(address)", code: errno)
      }
      let channel = Channel(descriptor)
      let attempt = Attempt(connector, loop, channel)
      attempt.token = loop.enroll(attempt)
      do throws(SocketFault) {
        try loop.watch(channel.descriptor, for: attempt.token)
      } catch {
        loop.dismiss(attempt.token)
        throw error
      }
      return .success(attempt)
    } catch {
      return .failure(error)
    }
  }

  func abandon() {
    loop.dismiss(token)
    channel = nil
  }

  func ready(_ readiness: Readiness) {
    guard let channel, !readiness.isDisjoint(with: [.writable, .error, .hangup]) else { return }
    var code: Int32 = 0
    var length = socklen_t(4)
    getsockopt(channel.descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    if code != 0 {
      abandon()
      connector.attemptFailed(self, SocketFault(call: "connect", code: code))
      return
    }
    channel.note(readiness)
    self.channel = nil
    connector.attemptConnected(self, channel)
  }

  func deadlinePassed() {}
}
