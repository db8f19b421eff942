import Foundation
import Testing

/// Content of a known length beyond 256 KiB goes from socket to socket through a pipe: nothing of it may be lost,
/// doubled or taken from what follows.
@Suite("SPEC §7, I9: large content that passes inside the kernel") struct LargeContentTests {
  /// No byte equals the one 256 KiB, 64 KiB or 4 KiB before it for long: what is shifted or doubled shows.
  private static let content: [UInt8] = {
    var state: UInt64 = 0x9e37_79b9_7f4a_7c15
    return (0..<6_000_000).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 56)
    }
  }()

  /// Sends a head (its `Content-Length` is added) and content beside the test, which waits for the end.
  private func sending(
    _ head: String, _ content: [UInt8] = Self.content, times: Int = 1, missing: Int = 0, by peer: RawClient,
    then: @escaping @Sendable () -> Void = {}
  ) -> DispatchGroup {
    let group = DispatchGroup()
    let work = DispatchWorkItem {
      peer.send("\(head)\r\nContent-Length: \(content.count * times + missing)\r\n\r\n")
      for _ in 0..<times { peer.send(content) }
      then()
    }
    DispatchQueue.global().async(group: group, execute: work)
    return group
  }

  /// A client whose request for `path` has come to the origin.
  private func begun(_ scene: RawScene, _ path: String = "/") throws -> (client: RawClient, origin: RawClient) {
    let client = try scene.client()
    client.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
    let origin = try scene.origin.accept()
    #expect(head(origin).hasPrefix("GET \(path) "))
    return (client, origin)
  }

  /// In pieces, with pauses in which buffers and the pipe fill up.
  private func receiveSlowly(_ peer: RawClient, _ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    for pause in [200_000, 50_000, 0, 100_000] where bytes.count < count {
      usleep(useconds_t(pause))
      bytes += peer.receive(count: min(count - bytes.count, 1_500_000 + pause))
    }
    return bytes + peer.receive(count: count - bytes.count)
  }

  private func head(_ peer: RawClient) -> String {
    var bytes: [UInt8] = []
    while !bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
      let next = peer.receive(count: 1)
      if next.isEmpty { break }
      bytes += next
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  @Test("9112 §6.3 a response arrives whole, and the next one on the same connection too")
  func response() throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send("GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    let origin = try scene.origin.accept()
    #expect(head(origin).hasPrefix("GET /1 "))
    let sending = self.sending("HTTP/1.1 200 OK", by: origin)
    #expect(head(client).contains("Content-Length: \(Self.content.count)"))
    #expect(receiveSlowly(client, Self.content.count).elementsEqual(Self.content))
    sending.wait()
    #expect(head(origin).hasPrefix("GET /2 "))
    origin.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")
    #expect(head(client).hasPrefix("HTTP/1.1 200 "))
    #expect(client.receive(count: 3) == Array("two".utf8))
    client.leave()
    try scene.daemon.finish()
  }

  @Test("9112 §9.6 a client that reads late has all of its last response, though it sent an empty line behind its request")
  func lateReader() throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send("POST /last HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
    let origin = try scene.origin.accept()
    #expect(head(origin).hasPrefix("POST /last "))
    // More than the client's kernel takes, and little enough for the daemon's to take the rest.
    let content = Array(Self.content.prefix(700_000))
    let sending = self.sending("HTTP/1.1 200 OK", content, by: origin)
    try scene.daemon.waitForLog("path=/last")
    sending.wait()
    // RFC 9112 §2.2: some old clients do.
    client.send("\r\n")
    usleep(100_000)
    #expect(head(client).contains("Connection: close"))
    let received = client.receive(count: content.count)
    // Not the arrays themselves: what differs in so many bytes would be searched for longer than anybody waits.
    #expect(received.count == content.count && received.elementsEqual(content))
    #expect(client.receive().ending == .closed)
    try scene.daemon.finish()
  }

  @Test("9112 §6.3 a request arrives whole, and what is pipelined behind it is the next request")
  func request() throws {
    let scene = try RawScene()
    let client = try scene.client()
    let sending = self.sending("POST /1 HTTP/1.1\r\nHost: localhost", by: client) {
      client.send("GET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }
    let origin = try scene.origin.accept()
    #expect(head(origin).hasPrefix("POST /1 "))
    #expect(receiveSlowly(origin, Self.content.count).elementsEqual(Self.content))
    #expect(origin.isSilent(for: 0.2))
    origin.send("HTTP/1.1 204 No Content\r\n\r\n")
    sending.wait()
    #expect(head(client).hasPrefix("HTTP/1.1 204 "))
    #expect(head(origin).hasPrefix("GET /2 "))
    origin.send("HTTP/1.1 204 No Content\r\n\r\n")
    #expect(head(client).hasPrefix("HTTP/1.1 204 "))
    client.leave()
    try scene.daemon.finish()
  }

  @Test("9112 §8 a response that is cut is seen to be cut (I9)", arguments: [true, false])
  func truncated(byReset: Bool) throws {
    let scene = try RawScene()
    let (client, origin) = try begun(scene)
    let sending = self.sending("HTTP/1.1 200 OK", missing: 1, by: origin)
    #expect(head(client).hasPrefix("HTTP/1.1 200 "))
    var received = receiveSlowly(client, 4_000_000)
    sending.wait()
    if byReset { origin.reset() } else { origin.leave() }
    received += client.receive(count: Self.content.count + 1 - received.count)
    #expect(received == Array(Self.content.prefix(received.count)))
    #expect(received.count <= Self.content.count)
    #expect(client.receive().ending != .silent)
    // Nothing of it reaches anybody else.
    let other = try scene.client()
    other.send("GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    let fresh = try scene.origin.accept()
    _ = head(fresh)
    fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    #expect(other.receive().text.hasSuffix("\r\n\r\nok"))
    client.leave()
    try scene.daemon.finish()
  }

  @Test("a client that leaves a response takes nothing of it along to the next")
  func clientLeaves() throws {
    let scene = try RawScene()
    let (client, origin) = try begun(scene)
    // More than the buffers of all sockets on the way can hold, so that it cannot be over when the client leaves.
    let sending = self.sending("HTTP/1.1 200 OK", times: 8, by: origin)
    _ = client.receive(count: 1_000_000)
    client.reset()
    sending.wait()
    #expect(origin.receive().ending != .silent)
    let (other, fresh) = try begun(scene, "/other")
    let again = self.sending("HTTP/1.1 200 OK", Self.content.reversed(), by: fresh)
    _ = head(other)
    #expect(receiveSlowly(other, Self.content.count).elementsEqual(Self.content.reversed()))
    again.wait()
    other.leave()
    try scene.daemon.finish()
  }

  @Test("a client that leaves its own request ends it for the upstream")
  func uploadAborted() throws {
    let scene = try RawScene()
    let client = try scene.client()
    let sending = self.sending("POST / HTTP/1.1\r\nHost: localhost", missing: 1, by: client) { client.leave() }
    let origin = try scene.origin.accept()
    _ = head(origin)
    let received = receiveSlowly(origin, Self.content.count + 1)
    sending.wait()
    #expect(received == Array(Self.content.prefix(received.count)))
    #expect(received.count <= Self.content.count)
    #expect(origin.receive().ending != .silent)
    client.leave()
    try scene.daemon.finish()
  }

  @Test("9112 §9.5 an early answer reaches a client that still uploads")
  func earlyAnswer() throws {
    let scene = try RawScene()
    let client = try scene.client()
    let sending = self.sending("POST / HTTP/1.1\r\nHost: localhost", by: client)
    let origin = try scene.origin.accept()
    _ = head(origin)
    _ = origin.receive(count: 1_000_000)
    origin.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
    #expect(head(client).hasPrefix("HTTP/1.1 413 "))
    sending.wait()
    client.leave()
    try scene.daemon.finish()
  }
}
