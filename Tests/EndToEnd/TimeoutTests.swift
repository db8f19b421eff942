import Foundation
import MockServer
import Testing

@Suite("SPEC §9: each limit in time has its answer") struct TimeoutTests {
  private static func timeouts(_ lines: String) -> String { "[timeouts]\n\(lines)" }

  @Test("client_idle closes a connection without a request, and one between two requests")
  func clientIdle() throws {
    let scene = try RawScene(Self.timeouts("client_idle = \"300ms\""))
    let idle = try scene.client()
    #expect(idle.receive() == ("", .closed))
    let client = try scene.client()
    client.send(Wire.request())
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send(Wire.noContent)
    #expect(client.receive() == (Wire.noContentAnswered, .closed))
    try scene.daemon.finish()
  }

  @Test("header: 408, however steadily the head drips")
  func header() throws {
    let scene = try RawScene(Self.timeouts("header = \"700ms\""))
    let client = try scene.client()
    client.send("GET / HTTP/1.1\r\n")
    for _ in 0..<40 where client.isSilent(for: 0.05) { client.send("X: y\r\n") }
    let (text, ending) = client.receive()
    #expect(text.hasPrefix("HTTP/1.1 408 ") && text.contains("REQUEST_TIMEOUT") && ending != .silent, "\(text)")
    try scene.daemon.finish()
  }

  @Test("request_body_idle: 408, and the upstream sees an abort, not an end", arguments: ["Content-Length: 9", "Transfer-Encoding: chunked"])
  func requestBodyIdle(_ framing: String) throws {
    let scene = try RawScene(Self.timeouts("request_body_idle = \"400ms\""))
    let client = try scene.client()
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\n\(framing)\r\n\r\n3\r\nabc\r\n")
    let (text, ending) = client.receive()
    #expect(text.hasPrefix("HTTP/1.1 408 ") && text.contains("REQUEST_TIMEOUT") && ending == .closed, "\(text)")
    if scene.origin.isWaiting(within: 1) {
      let seen = try scene.origin.accept().receive()
      #expect(!seen.text.contains("0\r\n\r\n") && seen.ending != .silent)
    }
    try scene.daemon.finish()
  }

  @Test("request_body_idle does not run while the upstream is what is slow")
  func slowUpstream() throws {
    let scene = try RawScene(Self.timeouts("request_body_idle = \"400ms\""))
    let client = try scene.client()
    let size = 12 << 20
    client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(size)\r\n\r\n")
    let peer = try scene.origin.accept()
    let all = [UInt8](repeating: 0x61, count: size)
    var sent = 0
    var received = 0
    let head = peer.receive(until: "\r\n\r\n").text
    received += head.utf8.count - (head.firstRange(of: "\r\n\r\n").map { head[..<$0.upperBound].utf8.count } ?? 0)
    // Slower than the client by far, for several times the time-out; then all of it.
    for _ in 0..<30 {
      sent += client.offer(all[sent...])
      received += peer.receive(count: 1000).count
      usleep(50_000)
    }
    while received < size {
      sent += client.offer(all[sent...])
      let count = peer.receive(count: min(65_536, max(1, min(sent, size) - received))).count
      if count == 0 { break }
      received += count
    }
    #expect(received == size)
    peer.send(Wire.noContent)
    #expect(client.receive(until: "\r\n\r\n").text == Wire.noContentAnswered)
    client.leave()
    try scene.daemon.finish()
  }

  @Test("response_header: 504; interim responses do not prolong it")
  func responseHeader() throws {
    let scene = try RawScene(Self.timeouts("response_header = \"500ms\""))
    for sendsInterim in [false, true] {
      let client = try scene.client()
      client.send(Wire.request())
      let peer = try scene.origin.accept()
      _ = peer.receive(until: "\r\n\r\n")
      for _ in 0..<100 where sendsInterim {
        peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        usleep(20_000)
      }
      let text = client.receive(until: "\n}\n").text
      #expect(text.contains("HTTP/1.1 504 ") && text.contains("UPSTREAM_TIMEOUT"), "\(text)")
      #expect(text.contains("103 Early Hints") == sendsInterim)
      client.leave()
    }
    try scene.daemon.finish()
  }

  @Test("response_body_idle: the connection is cut", arguments: ["1.1", "1.0"])
  func responseBodyIdle(_ version: String) throws {
    let scene = try RawScene(Self.timeouts("response_body_idle = \"400ms\""))
    let client = try scene.client()
    client.send("GET / HTTP/\(version)\r\nHost: localhost\r\n\r\n")
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    let (text, ending) = client.receive()
    #expect(!text.contains("0\r\n\r\n") && ending == (version == "1.0" ? .reset : .closed), "\(text)")
    #expect(peer.receive().ending != .silent, "nobody wants the rest")
    try scene.daemon.finish()
  }

  @Test("write_stalled: a client that reads nothing is cut, an upstream that reads nothing is 504")
  func writeStalled() throws {
    let scene = try RawScene(Self.timeouts("write_stalled = \"500ms\""))
    let client = try scene.client()
    client.send(Wire.request())
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    let piece = [UInt8](repeating: 0x61, count: 1 << 20)
    let isCut = eventually(within: 10) { peer.offer(piece[...]) == 0 && !peer.isSilent(for: 0.3) }
    #expect(isCut, "the upstream's connection is closed")
    client.leave()

    let uploader = try scene.client()
    uploader.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n")
    let deaf = try scene.origin.accept()
    let isAnswered = eventually(within: 10) {
      _ = uploader.offer(piece[...])
      return !uploader.isSilent(for: 0.01)
    }
    #expect(isAnswered)
    #expect(uploader.receive(until: "\r\n\r\n").text.hasPrefix("HTTP/1.1 504 "))
    uploader.leave()
    deaf.leave()
    try scene.daemon.finish()
  }

  @Test("drain: what is cut at its end does not look whole to HTTP/1.0, nor does a tunnel")
  func drain() throws {
    let scene = try RawScene(Self.timeouts("drain = \"400ms\""))
    let client = try scene.client()
    client.send("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send("HTTP/1.1 200 OK\r\n\r\nhalf")
    #expect(client.receive(until: "half").ending == .stopped)
    scene.daemon.program.signal(SIGTERM)
    #expect(client.receive() == ("", .reset))
    #expect(try scene.daemon.program.end(within: 20) == 0)
  }

  @Test("pool_idle: an idle upstream connection is closed")
  func poolIdle() throws {
    let scene = try RawScene(Self.timeouts("pool_idle = \"300ms\""))
    let client = try scene.client()
    client.send(Wire.request())
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send(Wire.noContent)
    #expect(client.receive(until: "\r\n\r\n").text == Wire.noContentAnswered)
    #expect(peer.receive() == ("", .closed))
    client.leave()
    try scene.daemon.finish()
  }

  @Test("tls_handshake and connect: 504")
  func connecting() throws {
    let mute = try RawOrigin()
    // Its queue is full: the kernel drops what comes.
    let full = try FullBacklog()
    let scene = try RawScene(
      """
      [upstream.mute]
      origin = "https://127.0.0.1:\(mute.port)"
      auth = "none"
      hosts = ["mute.localhost"]
      [upstream.full]
      origin = "http://127.0.0.1:\(full.port)"
      auth = "none"
      hosts = ["full.localhost"]
      [timeouts]
      tls_handshake = "400ms"
      connect = "400ms"
      """)
    for host in ["mute", "full"] {
      let client = try scene.client()
      client.send("GET / HTTP/1.1\r\nHost: \(host).localhost\r\n\r\n")
      let text = client.receive(until: "\n}\n").text
      #expect(text.hasPrefix("HTTP/1.1 504 ") && text.contains("UPSTREAM_TIMEOUT"), "\(host): \(text)")
      #expect(text.contains("error=connection_timeout"), "\(text)")
    }
    try scene.daemon.finish()
  }
}

/// A listener whose queue is full, so that further connections neither succeed nor fail.
final class FullBacklog {
  private let descriptor: Int32
  private var waiting: [Int32] = []
  let port: UInt16

  init() throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let listening = descriptor
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listening, $0, length) == 0 && listen(listening, 0) == 0 ? getsockname(listening, $0, &length) : -1
      }
    }
    if code != 0 { throw RawClient.Refused(code: errno) }
    port = UInt16(bigEndian: address.sin_port)
    for _ in 0..<4 {
      let client = socket(
        AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
      withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = connect(client, $0, length) }
      }
      waiting.append(client)
    }
    usleep(50_000)
  }

  deinit {
    for client in waiting { close(client) }
    close(descriptor)
  }
}
