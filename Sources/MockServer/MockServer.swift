import CLinux
public import Chronology
import COpenSSL
import Glibc
public import MockBackend

/// `MockBackend` on real sockets: plain HTTP/1.1 and TLS side by side on 127.0.0.1.
///
/// A thread per connection with blocking reads and writes, sharing nothing with bearerd's event loop, so that it is a
/// real peer. All threads end in `stop`. The only process-wide effect is that SIGPIPE is ignored.
public final class MockServer: Sendable {
  private enum Phase {
    case ready
    case running([JoinableThread])
    case stopped
  }

  private let core: ServerCore
  private let plain: Listener
  private let secure: Listener
  private let phase = Guarded(Phase.ready)

  /// Makes the certificates and binds both ports; connections wait in the backlog until `start`.
  public init(settings: MockServerSettings = MockServerSettings()) throws(MockServerError) {
    bearerd_ignore_sigpipe()
    core = try ServerCore(settings)
    plain = try Listener()
    secure = try Listener()
  }

  deinit { stop() }

  /// Begins to accept. Does nothing when called again.
  public func start() throws(MockServerError) {
    try phase.withLock { (phase: inout Phase) throws(MockServerError) in
      guard case .ready = phase else { return }
      let (core, plain, secure) = (core, plain, secure)
      let first = try JoinableThread { plain.acceptEach { core.serve($0, isTLS: false) } }
      do throws(MockServerError) {
        phase = .running([first, try JoinableThread { secure.acceptEach { core.serve($0, isTLS: true) } }])
      } catch {
        plain.shut()
        first.join()
        phase = .stopped
        throw error
      }
    }
  }

  /// Closes the listeners, breaks the connections and waits for their threads. Final: it does not start again.
  public func stop() {
    let threads = phase.withLock { phase in
      defer { phase = .stopped }
      switch phase {
      case .ready, .stopped: return [JoinableThread]()
      case .running(let threads): return threads
      }
    }
    plain.shut()
    secure.shut()
    for thread in threads { thread.join() }
    core.registry.stop()
  }

  /// Breaks every live connection; new ones are accepted as before.
  public func dropConnections() { core.registry.dropConnections() }

  public var plainPort: UInt16 { plain.port }
  public var tlsPort: UInt16 { secure.port }

  /// Runs `body` while no request is being judged. It must not call back into this server.
  public func withBackend<Result: Sendable, Failure: Error>(
    _ body: (inout MockBackend) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try core.backend.withLock { (backend: inout MockBackend) throws(Failure) in try body(&backend) }
  }

  /// A session that begins now, by this server's clock.
  public func login(user: String) -> (accessToken: String, refreshToken: String) {
    let now = core.now
    return core.backend.withLock { $0.login(user: user, now: now) }
  }

  public var counters: BackendCounters { core.backend.withLock { $0.counters } }

  public var connectionCounters: ConnectionCounters { core.connectionCounters }

  /// The wall clock with `MockServerSettings.clockOffsetMilliseconds`.
  public var now: WallTime { core.now }

  /// What a client must trust to reach `tlsPort`.
  public var certificateAuthorityPEM: String { core.authority.certificatePEM }

  /// Replaces the file at `path`.
  public func writeCertificateAuthority(to path: String) throws(MockServerError) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw .systemCall(name: "open", errno: errno) }
    defer { close(descriptor) }
    var rest = Array(certificateAuthorityPEM.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { throw .systemCall(name: "write", errno: errno) }
      rest = rest.dropFirst(count)
    }
  }

  /// A certificate that satisfies `requiresClientCertificate`, and its key, both as PEM.
  public func issueClientCertificate(
    commonName: String = "client"
  ) throws(MockServerError) -> (certificatePEM: String, keyPEM: String) {
    let issued = try core.authority.issueClientCertificate(commonName: commonName)
    return (try issued.certificatePEM(), try issued.keyPEM())
  }
}

/// What the connections' threads share.
final class ServerCore: Sendable {
  let backend: Guarded<MockBackend>
  let registry = ConnectionRegistry()
  let authority: CertificateAuthority
  private let tls: TLSContext
  private let clockOffset: Interval
  private let counted = Guarded(ConnectionCounters())

  init(_ settings: MockServerSettings) throws(MockServerError) {
    backend = Guarded(MockBackend(settings: settings.backend, seed: settings.seed))
    authority = try CertificateAuthority()
    tls = try TLSContext(settings, authority: authority)
    clockOffset = .milliseconds(settings.clockOffsetMilliseconds)
  }

  var now: WallTime { WallTime(milliseconds: bearerd_walltime()) + clockOffset }

  var connectionCounters: ConnectionCounters {
    var counters = counted.withLock { $0 }
    counters.live = registry.liveCount
    return counters
  }

  func count(_ change: (inout ConnectionCounters) -> Void) { counted.withLock { change(&$0) } }

  func bodyArrived(bytes: Int, of head: BackendRequest) {
    backend.withLock { $0.bodyArrived(bytes: bytes, of: head) }
  }

  /// Takes over an accepted descriptor.
  func serve(_ descriptor: Int32, isTLS: Bool) {
    count { if isTLS { $0.tlsAccepted += 1 } else { $0.plainAccepted += 1 } }
    registry.run(descriptor) { [self] descriptor in
      guard isTLS else {
        ServedConnection(core: self, channel: Channel(descriptor: descriptor, ssl: nil), isTLS: false).run()
        return
      }
      guard let ssl = tls.accept(descriptor) else {
        count { $0.handshakesFailed += 1 }
        return
      }
      count {
        $0.handshakesCompleted += 1
        if SSL_session_reused(ssl) == 1 { $0.handshakesResumed += 1 }
      }
      ServedConnection(core: self, channel: Channel(descriptor: descriptor, ssl: ssl), isTLS: true).run()
    }
  }
}
