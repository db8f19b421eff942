import CLinux
import Chronology
import Dispatch
import Glibc
import Testing

@testable import Transport

/// Dials and hears the outcome, and how often. The connection of a success is let go at once.
private func dial(
  _ running: RunningLoop, _ target: DialTarget, _ resolver: Resolver = Resolver()
) throws -> Result<UInt16?, ConnectFault> {
  let outcomes = Inbox<Result<UInt16?, ConnectFault>>()
  try running.run { loop in
    _ = Connector.start(target, resolver: resolver, on: loop) { result in
      dispatchPrecondition(condition: .onQueue(loop.queue))
      outcomes.put(
        result.map { channel, token in
          loop.dismiss(token)
          return peerPort(channel.descriptor)
        })
    }
  }
  let outcome = try outcomes.next()
  try running.settle()
  #expect(outcomes.all.count == 1)
  #expect(try running.run { $0.memberCount } == 0)
  return outcome
}

private func peerPort(_ descriptor: Int32) -> UInt16? {
  var storage = sockaddr_storage()
  var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
  return withUnsafeMutablePointer(to: &storage) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      getpeername(descriptor, $0, &length) == 0 ? SocketAddress($0, length: length)?.port : nil
    }
  }
}

/// A listener whose queue is full: further connections hang, as with a host that drops packets.
private final class SilentHost {
  let port: UInt16
  private var descriptors: [Int32]

  init() throws {
    let (listener, port) = try listeningSocket(backlog: 0)
    self.port = port
    descriptors = [listener]
    for _ in 0..<3 {
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC | O_NONBLOCK, 0)
      _ = connectToLoopback(descriptor, port: port)
      descriptors.append(descriptor)
    }
  }

  deinit { for descriptor in descriptors { close(descriptor) } }
}

private func address(_ literal: String, _ port: UInt16) throws -> SocketAddress {
  try #require(SocketAddress(literal: literal, port: port))
}

@Suite("Connecting") struct ConnectorTests {
  private let running: RunningLoop

  init() throws { running = try RunningLoop() }

  @Test("a literal, and the name localhost, reach the server", arguments: ["127.0.0.1", "localhost"])
  func reaches(host: String) throws {
    let server = try TCPServer { _ in }
    #expect(try dial(running, DialTarget(host: host, port: server.port)) == .success(server.port))
  }

  @Test("a connection that was made writes and reads")
  func usable() throws {
    let server = try TCPServer { descriptor in
      var bytes = [UInt8](repeating: 0, count: 16)
      let count = recv(descriptor, &bytes, 16, 0)
      writeAll(descriptor, Array(bytes.prefix(max(0, count)).reversed()))
    }
    let end = try running.exchange(DialTarget(host: "127.0.0.1", port: server.port), sending: [1, 2, 3]).get()
    #expect(end == Drain.End(bytes: [3, 2, 1], how: .endOfStream))
  }

  @Test("a port where nobody listens is refused")
  func refused() throws {
    let (descriptor, port) = try silentPort()
    defer { close(descriptor) }
    let outcome = try dial(running, DialTarget(host: "127.0.0.1", port: port))
    guard case .failure(.refused(let fault)) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(fault.code == ECONNREFUSED)
  }

  @Test("a host that does not answer ends at the connect time-out")
  func connectTimeout() throws {
    let silent = try SilentHost()
    let target = DialTarget(host: "127.0.0.1", port: silent.port, connectTimeout: .milliseconds(50))
    #expect(try dial(running, target) == .failure(.connectTimedOut))
  }

  @Test("a server that does not speak ends at the handshake time-out, and its connection is closed")
  func handshakeTimeout() throws {
    let closed = Inbox<Bool>()
    let server = try TCPServer { descriptor in
      var scratch = [UInt8](repeating: 0, count: 4096)
      while recv(descriptor, &scratch, scratch.count, 0) > 0 {}
      closed.put(true)
    }
    let target = DialTarget(
      host: "127.0.0.1", port: server.port, tls: try TLSClientContext(TLSClientSettings()),
      handshakeTimeout: .milliseconds(50))
    #expect(try dial(running, target) == .failure(.handshakeTimedOut))
    #expect(try closed.next())
  }

  @Test("cancelled while it waits, it says so once and closes what it had")
  func cancel() throws {
    let accepted = Inbox<Bool>()
    let closed = Inbox<Bool>()
    let server = try TCPServer { descriptor in
      var scratch = [UInt8](repeating: 0, count: 4096)
      if recv(descriptor, &scratch, scratch.count, 0) > 0 { accepted.put(true) }
      while recv(descriptor, &scratch, scratch.count, 0) > 0 {}
      closed.put(true)
    }
    let outcomes = Inbox<ConnectFault?>()
    let target = DialTarget(
      host: "127.0.0.1", port: server.port, tls: try TLSClientContext(TLSClientSettings()))
    let connector = try running.run { loop in
      let connector = Connector.start(target, resolver: Resolver(), on: loop) { result in
        if case .failure(let fault) = result { outcomes.put(fault) } else { outcomes.put(nil) }
      }
      return LoopBound(connector, on: loop)
    }
    _ = try accepted.next()
    try running.run { _ in
      connector.onLoop.cancel()
      connector.onLoop.cancel()
    }
    #expect(try outcomes.next() == .cancelled)
    #expect(try closed.next())
    try running.settle()
    #expect(outcomes.all.count == 1)
    #expect(try running.run { $0.memberCount } == 0)
  }
}

@Suite("Names and addresses (RFC 8305)") struct NameTests {
  private let running: RunningLoop

  init() throws { running = try RunningLoop() }

  private func answering(_ addresses: [SocketAddress]) -> Resolver {
    Resolver { _, _ in .addresses(addresses) }
  }

  @Test("an address that refuses is followed by the next, of the other family or the same")
  func nextAddress() throws {
    let server = try TCPServer { _ in }
    let (descriptor, port) = try silentPort()
    defer { close(descriptor) }
    let good = try address("127.0.0.1", server.port)
    for addresses in [
      [try address("::1", port), good], [try address("127.0.0.1", port), good],
      [good, try address("127.0.0.1", port)],
      [try address("127.0.0.1", port), try address("::1", port), good],
    ] {
      let outcome = try dial(running, DialTarget(host: "name.example", port: 1), answering(addresses))
      #expect(outcome == .success(server.port))
    }
  }

  @Test("an address that hangs does not hold the next one up to the time-out")
  func hangingAddress() throws {
    let silent = try SilentHost()
    let server = try TCPServer { _ in }
    let addresses = [try address("127.0.0.1", silent.port), try address("127.0.0.1", server.port)]
    let target = DialTarget(host: "name.example", port: 1, connectTimeout: .seconds(1000))
    #expect(try dial(running, target, answering(addresses)) == .success(server.port))
  }

  @Test("when all refuse, the last one's reason is told")
  func allRefuse() throws {
    let (descriptor, port) = try silentPort()
    defer { close(descriptor) }
    let addresses = [try address("127.0.0.2", port), try address("127.0.0.1", port)]
    let outcome = try dial(running, DialTarget(host: "name.example", port: 1), answering(addresses))
    guard case .failure(.refused(let fault)) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(fault.code == ECONNREFUSED)
  }

  @Test("a name that has no address says so, one that is not answered ends at the time-out")
  func resolution() throws {
    let failing = Resolver { host, _ in .failed("\(host): no such name") }
    #expect(
      try dial(running, DialTarget(host: "name.example", port: 1), failing)
        == .failure(.nameResolution("name.example: no such name")))
    let answer = DispatchSemaphore(value: 0)
    let hanging = Resolver { _, _ in
      answer.wait()
      return .failed("late")
    }
    let target = DialTarget(host: "name.example", port: 1, connectTimeout: .milliseconds(30))
    #expect(
      try dial(running, target, hanging) == .failure(.nameResolution("name.example: no answer in time")))
    answer.signal()
  }

  @Test("the system's resolver knows localhost and refuses what cannot be a name")
  func system() throws {
    let answers = Inbox<Resolver.Answer>()
    let resolver = Resolver()
    try running.run { loop in
      for host in ["localhost", String(repeating: "x", count: 300)] {
        resolver.resolve(host, port: 80, on: loop) { answers.put($0) }
      }
    }
    var kinds: [String] = []
    for answer in try answers.next(2) {
      switch answer {
      case .addresses(let addresses):
        #expect(!addresses.isEmpty && addresses.allSatisfy { $0.isLoopback && $0.port == 80 })
        kinds.append("addresses")
      case .failed: kinds.append("failed")
      }
    }
    #expect(kinds.sorted() == ["addresses", "failed"])
  }

  @Test("look-ups beyond the threads wait their turn, and all are answered")
  func queued() throws {
    let answer = DispatchSemaphore(value: 0)
    let started = Inbox<String>()
    let answers = Inbox<Bool>()
    let resolver = Resolver { host, _ in
      started.put(host)
      answer.wait()
      return .failed(host)
    }
    try running.run { loop in
      for number in 0..<20 {
        resolver.resolve("h\(number)", port: 1, on: loop) { _ in
          dispatchPrecondition(condition: .onQueue(loop.queue))
          answers.put(true)
        }
      }
    }
    _ = try started.next(8)
    #expect(started.all.count == 8)
    for _ in 0..<20 { answer.signal() }
    _ = try answers.next(20)
    #expect(Set(started.all).count == 20)
  }

  @Test(
    "a target that may not lead here refuses addresses of this machine and its link",
    arguments: [
      "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "::ffff:127.0.0.1",
      "::ffff:169.254.1.1", "localhost",
    ])
  func localAddresses(host: String) throws {
    let server = try TCPServer { _ in }
    let target = DialTarget(host: host, port: server.port, refusesLocalAddresses: true)
    #expect(try dial(running, target) == .failure(.addressNotAllowed))
  }

  @Test("a name is judged by the addresses that it leads to")
  func rebound() throws {
    let server = try TCPServer { _ in }
    let addresses = [try address("127.0.0.1", server.port), try address("::1", server.port)]
    let target = DialTarget(host: "rebound.example", port: 1, refusesLocalAddresses: true)
    #expect(try dial(running, target, answering(addresses)) == .failure(.addressNotAllowed))
  }
}
