public import Admin
import CLinux
import Chronology
public import Configuration
import Dispatch
import HTTPSyntax
public import Logging
import ProxyCore
public import Server
import SessionStore
import Synchronization
import Transport

/// Why the proxy could not start, in one line that says what to do.
public struct StartFault: Error, Sendable, CustomStringConvertible {
  public let description: String
  init(_ description: String) { self.description = description }
}

/// Everything that serves, put together: loops, listeners, the session keeper, the admin listener.
public final class ProxyServer: @unchecked Sendable {
  private let logger: Logger
  private let store: FileSessionStore
  private let keeper: SessionKeeper
  private let loops: [EventLoop]
  private let resolver = Resolver()
  private let presenter: TokenPresenter
  private let pseudonym: String
  private var workers: [Worker] = []
  private var acceptors: [Acceptor] = []
  private var listeners: [ListeningSocket] = []
  private var watcher: StoreWatcher?
  private var admin: AdminServer?

  /// A bound listener, by what it is for.
  public struct Bound: Sendable {
    public var purpose: String
    public var address: String
    public var port: UInt16?
  }

  public private(set) var bound: [Bound] = []

  public var loopCount: Int { loops.count }

  static func makeStore(_ configuration: Configuration) throws(StartFault) -> FileSessionStore {
    do throws(StoreFault) {
      return try FileSessionStore(stateDirectory: configuration.stateDirectory, key: storeKey(configuration))
    } catch {
      throw StartFault("session store: \(error.detail)")
    }
  }

  private static func storeKey(_ configuration: Configuration) throws(StoreFault) -> StoreKey? {
    guard let path = configuration.store.keyFile else { return nil }
    return try StoreKey(
      file: path, isCredential: configuration.store.isKeyCredential,
      storeOwner: FileSessionStore.owner(of: configuration.stateDirectory))
  }

  /// Binds and prepares; nothing is accepted before `start`.
  ///
  /// - Parameters:
  ///   - inherited: sockets from the service manager, by name.
  ///   - accessLog: called on the loops for each finished request.
  public init(
    _ configuration: Configuration, inherited: [InheritedSocket], logger: Logger,
    accessLog: (@Sendable (AccessRecord) -> Void)?
  ) throws(StartFault) {
    self.logger = logger
    store = try Self.makeStore(configuration)
    loops = try Self.makeLoops(configuration)
    pseudonym = configuration.pseudonym == "bearerd" ? "bearerd-\(Self.randomSuffix())" : configuration.pseudonym
    presenter = try TokenPresenter(configuration, resolver: resolver, loop: loops[0])
    keeper = SessionKeeper(
      store: store, providers: configuration.providers,
      settings: .init(configuration), logger: logger, present: presenter.present)
    let plan = try makePlan(configuration)
    try makeWorkers(plan, accessLog)
    let raised = bearerd_raise_descriptor_limit(UInt64(configuration.limits.clientConnections * 2 + 1024))
    if raised < UInt64(configuration.limits.clientConnections) {
      logger.warning(
        "the limit of open files is below limits.client_connections; raise LimitNOFILE",
        metadata: ["limit": "\(raised)"])
    }
    try bind(configuration, inherited)
  }

  /// SPEC §1: the process may have fewer CPUs than the machine.
  private static func makeLoops(_ configuration: Configuration) throws(StartFault) -> [EventLoop] {
    let count = configuration.loops > 0 ? configuration.loops : CPUs.available
    var loops: [EventLoop] = []
    do throws(SocketFault) {
      for index in 0..<count {
        let buffers = BufferPool(ordinaryKeptMax: Worker.sparesMax(loops: count))
        loops.append(try EventLoop(index: index, buffers: buffers))
      }
    } catch {
      throw StartFault("event loop: \(error)")
    }
    return loops
  }

  /// Different for each process: two sidecars in a row are no loop.
  private static func randomSuffix() -> String { String(UInt32.random(in: 0x1000_0000 ... .max), radix: 16) }

  private func makePlan(_ configuration: Configuration) throws(StartFault) -> ServerPlan {
    let patterns = configuration.upstreams.map(\.pool)
    let names = patterns.allSatisfy { $0 == nil } ? [] : (try? store.names(limit: .max)) ?? []
    let pools = keeper.replacePools(patterns, names: names)
    do throws(TLSContextFault) {
      return try ServerPlan(configuration, pseudonym: pseudonym, slot: keeper.slot, pools: pools)
    } catch {
      throw StartFault("tls: \(error.description)")
    }
  }

  private func makeWorkers(_ plan: ServerPlan, _ accessLog: (@Sendable (AccessRecord) -> Void)?) throws(StartFault) {
    let passTLS: TLSClientContext?
    do throws(TLSContextFault) {
      passTLS = plan.configuration.forward.unmatched == .pass ? try TLSClientContext(TLSClientSettings()) : nil
    } catch {
      throw StartFault("tls: \(error.description)")
    }
    let names = SlotNames(keeper)
    workers = loops.map { loop in
      Worker(
        loop: loop, loopCount: loops.count, plan: plan, keeper: keeper, resolver: resolver, passTLS: passTLS,
        slotName: names.name, logAccess: accessLog)
    }
    let workers = workers
    var served = SessionKeeper.Loops()
    served.publish = { slot, update in
      for worker in workers { worker.loop.post { worker.learn(slot, update) } }
    }
    served.lastUses = { slots, answer in Self.lastUses(slots, workers, answer) }
    served.publishPools = { pools in
      for worker in workers { worker.loop.post { worker.learn(pools) } }
    }
    keeper.setLoops(served)
  }

  /// The latest use of each slot by any loop.
  private static func lastUses(
    _ slots: [Int], _ workers: [Worker], _ answer: @escaping @Sendable ([Instant?]) -> Void
  ) {
    let group = DispatchGroup()
    let latest = LatestUses(slots.count)
    for worker in workers {
      group.enter()
      worker.loop.post {
        latest.note(slots.map(worker.lastUse))
        group.leave()
      }
    }
    group.notify(queue: .global()) { answer(latest.instants) }
  }

  // MARK: listeners

  private func bind(_ configuration: Configuration, _ inherited: [InheritedSocket]) throws(StartFault) {
    var taken: Set<Int32> = []
    for listener in configuration.listeners {
      switch listener {
      case .tcp(let address, let allowsRemote):
        add(try Self.tcp(address), allowed: nil, isRemote: allowsRemote)
      case .unix(let path, let mode, let allowed):
        do throws(SocketFault) {
          add(
            try ListeningSocket.unix(path: path, mode: UInt32(mode)), allowed: allowed, isRemote: false)
        } catch {
          throw StartFault("listen \(path): \(error)")
        }
      case .systemd(let name, let allowsRemote):
        let sockets = inherited.filter { (name == nil || $0.name == name) && !taken.contains($0.descriptor) }
        if sockets.isEmpty {
          throw StartFault(
            "no socket named \(name ?? "*") was passed in: start bearerd by its .socket unit, or listen on an address")
        }
        for socket in sockets {
          taken.insert(socket.descriptor)
          try addInherited(socket, allowsRemote: allowsRemote)
        }
      }
    }
    if let admin = configuration.admin { try bindAdmin(admin, configuration) }
  }

  private static func tcp(_ address: Configuration.HostPort) throws(StartFault) -> ListeningSocket {
    let host = address.host == "localhost" ? "127.0.0.1" : address.host
    guard let socketAddress = SocketAddress(literal: host, port: address.port) else {
      throw StartFault("listen \(address): not an IP address")
    }
    do throws(SocketFault) {
      return try ListeningSocket.tcp(socketAddress)
    } catch {
      throw StartFault("listen on \(host):\(address.port): \(error); is another program using that port?")
    }
  }

  private func addInherited(_ socket: InheritedSocket, allowsRemote: Bool) throws(StartFault) {
    let listening: ListeningSocket
    do throws(SocketFault) {
      listening = try ListeningSocket.inherited(socket.descriptor)
    } catch {
      throw StartFault("inherited socket: \(error)")
    }
    guard listening.address.isLoopback || allowsRemote else {
      throw StartFault(
        "the inherited socket \(listening.address) is not a loopback address: set `allow_remote` for it and configure "
          + "the clients that may use it")
    }
    add(listening, allowed: nil, isRemote: allowsRemote)
  }

  private func add(_ socket: ListeningSocket, allowed: [UInt32]?, isRemote: Bool) {
    let isTCP = socket.address.family != .unix
    let workers = workers
    listen(socket, "proxy") { descriptor, loop in
      if let allowed, !allowed.contains(UInt32(truncatingIfNeeded: bearerd_peer_uid(descriptor.raw))) { return }
      workers[loop.index].accept(descriptor, isTCP: isTCP, isRemote: isRemote)
    }
  }

  private func bindAdmin(_ address: Configuration.HostPort, _ configuration: Configuration) throws(StartFault) {
    let admin = AdminServer(on: loops[0], hostNames: configuration.browserGuard.hostNames) { [unowned self] in
      snapshot()
    }
    self.admin = admin
    listen(try Self.tcp(address), "admin", targets: [loops[0]]) { descriptor, _ in admin.accept(descriptor) }
  }

  private func listen(
    _ socket: ListeningSocket, _ purpose: String, targets: [EventLoop]? = nil,
    accepted: @escaping @Sendable (consuming Descriptor, EventLoop) -> Void
  ) {
    listeners.append(socket)
    bound.append(Bound(purpose: purpose, address: "\(socket.address)", port: socket.address.port))
    acceptors.append(Acceptor(socket, on: loops[0], handingTo: targets ?? loops, accepted: accepted))
  }

  // MARK: life

  /// Accepts from now on.
  public func start() throws(StartFault) {
    let acceptors = LoopBound(acceptors, on: loops[0])
    let fault: SocketFault? = loops[0].perform {
      for acceptor in acceptors.onLoop {
        do throws(SocketFault) { try acceptor.start() } catch { return error }
      }
      return nil
    }
    if let fault { throw StartFault("listener: \(fault)") }
    watchStore()
    for listener in bound {
      logger.notice("listening", metadata: ["for": "\(listener.purpose)", "address": "\(listener.address)"])
    }
  }

  /// Without a watcher a change is seen when its session is next asked for: worse, but no reason not to serve.
  private func watchStore() {
    do throws(StoreFault) {
      watcher = try StoreWatcher(store: store, queue: DispatchQueue(label: "bearerd.watch")) { [keeper] change in
        keeper.noticed(change)
      }
    } catch {
      logger.warning("the session store cannot be watched", metadata: ["detail": "\(error.detail)"])
    }
  }

  /// Later requests go by `configuration`. Listeners and loops stay as they are; the store's key is read again.
  public func reload(_ configuration: Configuration) throws(StartFault) {
    let key: StoreKey?
    do throws(StoreFault) {
      key = try Self.storeKey(configuration)
    } catch {
      throw StartFault("session store: \(error.detail)")
    }
    let plan = try makePlan(configuration)
    try presenter.adopt(configuration)
    store.adopt(key: key)
    keeper.reconfigure(providers: configuration.providers, settings: .init(configuration))
    admin?.adopt(hostNames: configuration.browserGuard.hostNames)
    // Waited for: who has been told of the reload is not served by the old plan any more.
    for worker in workers { worker.loop.perform { worker.adopt(plan) } }
  }

  /// Stops accepting, lets requests and refreshes end, and calls `done`; the caller sets the limit in time.
  ///
  /// Our own listeners are closed, so that a new client is refused at once instead of waiting in a queue that nobody
  /// serves; what the service manager opened stays open there.
  public func drain(_ done: @escaping @Sendable () -> Void) {
    let group = DispatchGroup()
    let stopping = LoopBound(acceptors, on: loops[0])
    acceptors = []
    listeners = []
    group.enter()
    loops[0].post {
      for acceptor in stopping.onLoop { acceptor.stop() }
      group.leave()
    }
    for worker in workers {
      group.enter()
      worker.loop.post { worker.drain { group.leave() } }
    }
    let keeper = keeper
    group.notify(queue: .global()) { keeper.whenNoFlight(done) }
  }

  /// The process ends with connections open: what their clients have must not look whole (I9). Waits for the loops.
  public func prepareForEnd() {
    for worker in workers { worker.loop.perform { worker.prepareForEnd() } }
  }

  /// Waits for the loops and the keeper: not to be called from them.
  public func snapshot() -> AdminSnapshot {
    var counters = Counters()
    for worker in workers { counters = counters + worker.loop.perform { worker.snapshot() } }
    return AdminSnapshot(counters: counters, sessions: keeper.snapshot(), now: WallClock.now)
  }
}

private final class LatestUses: Sendable {
  private let latest: Mutex<[Instant?]>
  init(_ count: Int) { latest = Mutex(Array(repeating: nil, count: count)) }
  func note(_ uses: [Instant?]) {
    latest.withLock { latest in
      for (index, used) in uses.enumerated() {
        if let used { latest[index] = max(latest[index] ?? used, used) }
      }
    }
  }
  var instants: [Instant?] { latest.withLock { $0 } }
}

/// Names of slots for the log, remembered so that the keeper is asked once for each.
private final class SlotNames: Sendable {
  private let keeper: SessionKeeper
  private let known = Mutex<[Int: String]>([:])

  init(_ keeper: SessionKeeper) { self.keeper = keeper }

  @Sendable func name(_ slot: Int) -> String {
    if let name = known.withLock({ $0[slot] }) { return name }
    let name = keeper.name(of: slot)
    known.withLock { $0[slot] = name }
    return name
  }
}

extension SessionKeeper.SettingsOfRefresh {
  init(_ configuration: Configuration) {
    self.init(
      coolDown: configuration.refresh.coolDown, waitersMax: configuration.limits.waitersPerSession,
      aheadWindow: configuration.refresh.aheadWindow, idleTime: configuration.timeouts.sessionIdle)
  }
}
