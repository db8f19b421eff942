import CLinux
import Dispatch
import Glibc
import Testing
import Transport

@Suite("Accepting") struct AcceptorTests {
  private func listening() throws -> (ListeningSocket, UInt16) {
    let address = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
    let socket = try ListeningSocket.tcp(address)
    return (socket, try #require(socket.address.port))
  }

  @Test("connections go to the loops in turn, and are delivered on their own loop's queue")
  func roundRobin() throws {
    let first = try RunningLoop(index: 0)
    let second = try RunningLoop(index: 1)
    let (socket, port) = try listening()
    let served = Inbox<Int>()
    try first.run { loop in
      let acceptor = Acceptor(socket, on: loop, handingTo: [loop, second.loop]) { descriptor, loop in
        dispatchPrecondition(condition: .onQueue(loop.queue))
        served.put(loop.index)
        _ = consume descriptor
      }
      try acceptor.start()
    }
    var clients: [Int32] = []
    defer { for client in clients { close(client) } }
    var order: [Int] = []
    for _ in 0..<6 {
      clients.append(try connectedSocket(port: port))
      order.append(try served.next())
    }
    #expect(order == [0, 1, 0, 1, 0, 1])
  }

  @Test("connections that come at once are all accepted, more than one turn takes too")
  func flood() throws {
    let running = try RunningLoop()
    let (socket, port) = try listening()
    let served = Inbox<Bool>()
    var clients: [Int32] = []
    defer { for client in clients { close(client) } }
    for _ in 0..<150 { clients.append(try connectedSocket(port: port)) }
    try running.run { loop in
      let acceptor = Acceptor(socket, on: loop, handingTo: [loop]) { descriptor, _ in
        _ = consume descriptor
        served.put(true)
      }
      try acceptor.start()
    }
    #expect(try served.next(150).count == 150)
  }

  @Test("where turns are long, all that wait are accepted in a few of them")
  func longTurns() throws {
    let running = try RunningLoop()
    let (socket, port) = try listening()
    let served = Inbox<Int>()
    let worker = Worker()
    var clients: [Int32] = []
    defer { for client in clients { close(client) } }
    for _ in 0..<40 { clients.append(try connectedSocket(port: port)) }
    try running.run { loop in
      let acceptor = Acceptor(socket, on: loop, handingTo: [loop]) { [worker] descriptor, _ in
        _ = consume descriptor
        served.put(worker.turns)
      }
      worker.begin(on: loop)
      try acceptor.start()
    }
    #expect(try served.next(40).max() ?? .max <= 3)
    try running.run { _ in worker.end() }
  }

  /// Keeps each turn of its loop busy for 10 ms at the least.
  private final class Worker: LoopMember, @unchecked Sendable {
    private(set) var turns = 0
    private var token = MemberToken.unassigned
    private var loop: EventLoop?

    func begin(on loop: EventLoop) {
      self.loop = loop
      token = loop.enroll(self)
      loop.again(token)
    }

    func end() { loop?.dismiss(token) }

    func ready(_ readiness: Readiness) {
      turns += 1
      usleep(10_000)
      loop?.again(token)
    }

    func deadlinePassed() {}
  }

  @Test("after stop none is accepted, and the loop keeps nothing")
  func stop() throws {
    let running = try RunningLoop()
    let (socket, port) = try listening()
    let descriptor = socket.descriptor
    let served = Inbox<Bool>()
    let acceptor = try running.run { loop in
      let acceptor = Acceptor(socket, on: loop, handingTo: [loop]) { descriptor, _ in
        _ = consume descriptor
        served.put(true)
      }
      try acceptor.start()
      return LoopBound(acceptor, on: loop)
    }
    let before = try connectedSocket(port: port)
    _ = try served.next()
    let set = try #require(EpollSet(watching: descriptor))
    try running.run { _ in acceptor.onLoop.stop() }
    let after = try connectedSocket(port: port)
    try running.settle()
    #expect(served.all.count == 1)
    #expect(try running.run { $0.memberCount } == 0)
    // Or what waits would wake the loop without end.
    #expect(!set.watches(descriptor))
    close(before)
    close(after)
  }

  /// Goal: a process that has no descriptor left accepts again once it has, and does not turn for nothing until then
  /// with a connection that waits. Method: in a process of its own the limit is lowered under what is open, a connection
  /// comes, a second event shows that the listener's turn is over, the listener is found unwatched, the limit goes up again.
  @Test("running out of descriptors is survived")
  func exhaustion() async {
    await #expect(processExitsWith: .success) {
      let running = try RunningLoop()
      let address = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
      let listening = try ListeningSocket.tcp(address)
      let served = Inbox<Bool>()
      let turned = Inbox<Bool>()
      let (near, far) = try socketPair()
      let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
      try running.run { loop in
        let acceptor = Acceptor(listening, on: loop, handingTo: [loop]) { descriptor, _ in
          _ = consume descriptor
          served.put(true)
        }
        try acceptor.start()
        let witness = Witness { turned.put(true) }
        try loop.watch(near, for: loop.enroll(witness))
      }
      let set = try #require(EpollSet(watching: listening.descriptor))
      var limit = rlimit()
      getrlimit(numericCast(RLIMIT_NOFILE.rawValue), &limit)
      var low = limit
      low.rlim_cur = 3
      setrlimit(numericCast(RLIMIT_NOFILE.rawValue), &low)
      #expect(dup(client) == -1 && errno == EMFILE)
      let port = try #require(listening.address.port)
      #expect(connectToLoopback(client, port: port) == 0)
      writeAll(far, [1])
      _ = try turned.next()
      try running.settle()
      #expect(served.all.isEmpty)
      // Between the tries; who only turned for nothing would watch all the time.
      #expect((0..<3000).contains { _ in usleep(10_000) == 0 && !set.watches(listening.descriptor) })
      setrlimit(numericCast(RLIMIT_NOFILE.rawValue), &limit)
      _ = try served.next()
    }
  }

  private final class Witness: LoopMember {
    private let told: @Sendable () -> Void
    init(_ told: @escaping @Sendable () -> Void) { self.told = told }
    func ready(_ readiness: Readiness) { if readiness.contains(.readable) { told() } }
    func deadlinePassed() {}
  }
}

/// The epoll set of this process that watches a descriptor, as /proc tells (proc_pid_fdinfo(5)); to ask again takes no
/// further descriptor.
private final class EpollSet {
  private let file: Int32

  init?(watching descriptor: Int32) {
    for number in 0..<Int32(1024) {
      let file = open("/proc/self/fdinfo/\(number)", O_RDONLY | O_CLOEXEC)
      if Self.lists(descriptor, file) {
        self.file = file
        return
      }
      if file >= 0 { close(file) }
    }
    return nil
  }

  deinit { close(file) }

  func watches(_ descriptor: Int32) -> Bool { Self.lists(descriptor, file) }

  private static func lists(_ descriptor: Int32, _ file: Int32) -> Bool {
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = pread(file, &bytes, bytes.count, 0)
    let lines = String(decoding: bytes[..<max(count, 0)], as: UTF8.self).split(separator: "\n")
    return lines.contains { $0.hasPrefix("tfd:") && $0.split(separator: " ").dropFirst().first == "\(descriptor)" }
  }
}
