import Foundation
import Testing

/// What a daemon's own memory did over one case; printed, because the figures are part of what is promised.
private struct MemoryWatch {
  let name: String
  let daemon: Bearerd
  let before: Int
  private(set) var highest: Int

  init(_ name: String, _ daemon: Bearerd) {
    self.name = name
    self.daemon = daemon
    before = daemon.program.ownKiB() ?? 0
    highest = before
  }

  mutating func look() { highest = max(highest, daemon.program.ownKiB() ?? 0) }

  /// - Parameter allowedKiB: growth that the case may cost at its peak.
  func end(held: String, allowedKiB: Int) {
    let after = daemon.program.ownKiB() ?? 0
    print("abuse: \(name): \(held); \(before) KiB of its own before, \(highest) KiB at the peak, \(after) KiB after")
    #expect(highest - before <= allowedKiB, "\(name): grew by \(highest - before) KiB")
    #expect(after - before <= allowedKiB, "\(name): kept \(after - before) KiB")
  }
}

/// The process may need more descriptors than it began with.
private func allowDescriptors(_ count: rlim_t) {
  var limit = rlimit()
  getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  if limit.rlim_cur < count {
    limit.rlim_cur = min(count, limit.rlim_max)
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}

@Suite("SPEC §9, §10, I12: abuse costs its own connection, not the others, and bounded memory", .serialized)
struct AbuseTests {
  /// A request of somebody else is served while the abuse goes on.
  private func isServed(_ scene: RawScene) throws -> Bool {
    let client = try scene.client()
    client.send(Wire.request("GET /other HTTP/1.1", "Connection: close"))
    let peer = try scene.origin.accept()
    guard peer.receive(until: "\r\n\r\n").text.hasPrefix("GET /other ") else { return false }
    peer.send("HTTP/1.1 204 No\r\nConnection: close\r\n\r\n")
    return client.receive().text.hasPrefix("HTTP/1.1 204 ")
  }

  @Test("10 000 idle connections")
  func idle() throws {
    allowDescriptors(12_000)
    let scene = try RawScene()
    #expect(try isServed(scene))
    var watch = MemoryWatch("idle connections", scene.daemon)
    var clients: [RawClient] = []
    for _ in 0..<10_000 { clients.append(try scene.client()) }
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 10_000 })
    watch.look()
    let perConnection = Double(watch.highest - watch.before) * 1024 / 10_000
    #expect(perConnection <= 1024, "\(perConnection) bytes per idle connection")
    #expect(try isServed(scene))
    clients = []
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 0 })
    watch.end(held: "10000 connections, \(Int(perConnection)) bytes each", allowedKiB: 10_240)
    try scene.daemon.finish()
  }

  @Test("Slowloris: 1 000 heads that never end are each answered 408, and others are served meanwhile")
  func slowHeads() throws {
    allowDescriptors(4000)
    let scene = try RawScene("[timeouts]\nheader = \"2s\"")
    #expect(try isServed(scene))
    var watch = MemoryWatch("slow heads", scene.daemon)
    let clients = try (0..<1000).map { _ in try scene.client() }
    for client in clients { client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: ") }
    for client in clients { client.send("y") }
    watch.look()
    #expect(try isServed(scene))
    var answered = 0
    for client in clients where client.receive(until: "\r\n").text.hasPrefix("HTTP/1.1 408 ") { answered += 1 }
    #expect(answered == 1000)
    watch.look()
    for client in clients { client.leave() }
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 0 })
    watch.end(held: "1000 heads, \(answered) answered 408", allowedKiB: 1000 * 20)
    try scene.daemon.finish()
  }

  @Test("Header floods: 200 heads of 39 KiB that do not end, and as many that are too long")
  func longHeads() throws {
    allowDescriptors(4000)
    let scene = try RawScene("[timeouts]\nheader = \"60s\"")
    #expect(try isServed(scene))
    var watch = MemoryWatch("long heads", scene.daemon)
    let clients = try (0..<200).map { _ in try scene.client() }
    let flood = Array("GET / HTTP/1.1\r\nHost: localhost\r\nX: \(String(repeating: "y", count: 32_000))".utf8)
    for client in clients { client.send(flood) }
    #expect(try isServed(scene))
    watch.look()
    for client in clients { client.send(Array(repeating: 0x79, count: 2000)) }
    var refused = 0
    for client in clients where client.receive(until: "\r\n").text.hasPrefix("HTTP/1.1 431 ") { refused += 1 }
    #expect(refused == 200)
    watch.look()
    for client in clients { client.leave() }
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 0 })
    // A head that does not fit an ordinary buffer takes a large one, of 64 KiB.
    watch.end(held: "200 heads of 32 KiB, \(refused) answered 431", allowedKiB: 200 * 84)
    try scene.daemon.finish()
  }

  @Test("Slow bodies: 500 uploads that stall are each answered 408")
  func slowBodies() throws {
    allowDescriptors(4000)
    let scene = try RawScene("[timeouts]\nrequest_body_idle = \"2s\"\n[limits]\nupstream_connections = 1000")
    #expect(try isServed(scene))
    var watch = MemoryWatch("slow bodies", scene.daemon)
    let clients = try (0..<500).map { _ in try scene.client() }
    for client in clients { client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx") }
    let peers = try (0..<500).map { _ in try scene.origin.accept() }
    watch.look()
    #expect(try isServed(scene))
    var answered = 0
    for client in clients where client.receive(until: "\r\n").text.hasPrefix("HTTP/1.1 408 ") { answered += 1 }
    #expect(answered == 500)
    for peer in peers { #expect(!peer.receive().text.contains(" 200 ")) }
    for client in clients { client.leave() }
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 0 })
    watch.end(held: "500 uploads, \(answered) answered 408", allowedKiB: 500 * 40)
    try scene.daemon.finish()
  }

  @Test("Slow readers: 100 downloads that nobody reads hold what the sockets hold, and are cut")
  func slowReaders() throws {
    allowDescriptors(4000)
    let scene = try RawScene("[timeouts]\nwrite_stalled = \"2s\"")
    #expect(try isServed(scene))
    var watch = MemoryWatch("clients that never read", scene.daemon)
    let clients = try (0..<100).map { _ in try scene.client() }
    for client in clients { client.send(Wire.request()) }
    let piece = [UInt8](repeating: 0x61, count: 1 << 20)
    let peers = try (0..<100).map { _ in try scene.origin.accept() }
    for peer in peers { peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n") }
    for _ in 0..<8 { for peer in peers { _ = peer.offer(piece[...]) } }
    #expect(try isServed(scene))
    watch.look()
    #expect(try eventually(within: 30) { try scene.daemon.metric("bearerd_client_connections") == 0 })
    watch.look()
    #expect(clients.allSatisfy { $0.receive().ending != .silent })
    watch.end(held: "100 downloads, all cut", allowedKiB: 100 * 160)
    try scene.daemon.finish()
  }

  @Test("Overload: beyond limits.client_connections the answer is 503 at once, and it passes with the crowd")
  func overload() throws {
    let scene = try RawScene("[limits]\nclient_connections = 50")
    #expect(try isServed(scene))
    var watch = MemoryWatch("connections beyond the limit", scene.daemon)
    let crowd = try (0..<50).map { _ in try scene.client() }
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 50 })
    var told = 0
    for _ in 0..<20 {
      let client = try scene.client()
      client.send(Wire.request("POST / HTTP/1.1", "Content-Length: 3", content: "abc"))
      let (text, ending) = client.receive()
      if text.hasPrefix("HTTP/1.1 503 "), text.contains("OVERLOADED"), text.contains("Retry-After: "), ending == .closed { told += 1 }
    }
    #expect(told == 20)
    // One that says nothing is not kept.
    #expect(try scene.client().receive() == ("", .closed))
    watch.look()
    #expect(!scene.origin.isDialled(within: 0.01))
    for client in crowd { client.leave() }
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 0 })
    #expect(try isServed(scene))
    watch.end(held: "50 connections, 20 more answered 503", allowedKiB: 50 * 20)
    try scene.daemon.finish()
  }

  @Test("Descriptor exhaustion: it accepts again when there are descriptors again, without a busy loop")
  func descriptors() throws {
    let scene = try RawScene(launcher: ["prlimit", "--nofile=96:96", "--"])
    #expect(try isServed(scene))
    var watch = MemoryWatch("no free descriptor", scene.daemon)
    var crowd = try (0..<140).map { _ in try scene.client() }
    #expect(eventually { scene.daemon.program.openDescriptorCount ?? 0 >= 95 })
    // Somebody who is in gets a word, though no connection to the upstream can be had.
    crowd[0].send(Wire.request())
    let text = crowd[0].receive(until: "\n}\n").text
    #expect(text.hasPrefix("HTTP/1.1 503 ") && text.contains("OVERLOADED"), "\(text)")
    let busy = try scene.daemon.program.processorSeconds()
    usleep(1_000_000)
    let spent = try scene.daemon.program.processorSeconds() - busy
    #expect(spent < 0.5, "\(spent) s of processor time in a second of waiting")
    watch.look()
    crowd = []
    #expect(try eventually { try isServed(scene) })
    watch.end(held: "140 connections at 96 descriptors", allowedKiB: 140 * 20)
    try scene.daemon.finish()
  }

  @Test("Connections that come and go: 3 000, some in the middle of a request, leave nothing behind")
  func churn() throws {
    let scene = try RawScene()
    #expect(try isServed(scene))
    var watch = MemoryWatch("connections that come and go", scene.daemon)
    let descriptors = scene.daemon.program.openDescriptorCount ?? 0
    for index in 0..<3000 {
      let client = try scene.client()
      switch index % 4 {
      case 0: client.reset()
      case 1: client.send("GET / HTTP/1.1\r\nHos")
      case 2: client.send("\r\n\r\n\r\n")
      case _: client.send("nonsense\r\n\r\n")
      }
      client.leave()
    }
    #expect(try eventually { try scene.daemon.metric("bearerd_client_connections") == 0 })
    watch.look()
    #expect(eventually { scene.daemon.program.openDescriptorCount ?? 0 <= descriptors + 1 })
    #expect(try isServed(scene))
    watch.end(held: "3000 connections", allowedKiB: 4096)
    try scene.daemon.finish()
  }
}
