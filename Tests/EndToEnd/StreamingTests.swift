import Foundation
import MockBackend
import MockServer
import Testing

@Suite("SPEC §7, I9, I12: bodies stream, and their ends are told truly") struct StreamingTests {
  private func started(_ configure: (Scene) -> Void = { _ in }) throws -> (Scene, Bearerd) {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    configure(scene)
    return (scene, try scene.startSignedIn())
  }

  @Test("A PUT of 100 MiB passes in constant memory and arrives whole")
  func largeUpload() throws {
    let (scene, daemon) = try started()
    let size = 100 << 20
    let path = try scene.scratch.writePattern(bytes: size, to: "large")
    let sent = try daemon.gateway("/echo", ["-T", path, "-H", "Expect:"])
    let echo = try Echo(sent)
    #expect(sent.status == 200 && echo.bodyBytes == size)
    var expected = ReceivedBody(.digest)
    for _ in 0..<size / (26 * 4096) { expected.append(Self.piece) }
    expected.append(Array(Self.piece.prefix(size % (26 * 4096))))
    #expect(echo.bodyDigest == Self.hexadecimal(expected.digest))
    let peak = try #require(daemon.program.peakResidentKiB())
    print("peak resident memory after a 100 MiB upload: \(peak) KiB")
    #expect(peak < 64 << 10)
    try daemon.finish()
  }

  private static let piece = (0..<26 * 4096).map { UInt8(ascii: "a") + UInt8($0 % 26) }

  private static func hexadecimal(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  @Test("A download to a client that does not read waits for it instead of filling the memory")
  func slowReader() throws {
    let (_, daemon) = try started()
    let client = try RawClient(port: daemon.port)
    client.send("GET /download?bytes=200000000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    #expect(client.receive(until: "\r\n\r\n").text.hasPrefix("HTTP/1.1 200 "))
    // While it does not read, others are served.
    for _ in 0..<20 { #expect(try daemon.gateway("/me").status == 200) }
    #expect(try #require(daemon.program.peakResidentKiB()) < 64 << 10)
    #expect(client.receive().text.utf8.count > 190_000_000)
    try daemon.finish()
  }

  /// Bytes that wait in the kernel for the daemon, on each of its connections to `port`.
  private func waiting(from port: UInt16) throws -> [Int] {
    let remote = String(format: "0100007F:%04X", Int(port))
    // The kernel gives it in pieces: what reads once has the first.
    let table = try #require(try FileHandle(forReadingAtPath: "/proc/net/tcp")?.readToEnd())
    return String(decoding: table, as: UTF8.self).split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      return fields[2] == remote ? fields[4].split(separator: ":").last.flatMap { Int($0, radix: 16) } : nil
    }
  }

  @Test("An upstream that brings much over TLS may send ahead, nine in a row too, and what came ahead arrives")
  func wideWindow() throws {
    let (scene, daemon) = try started()
    let maximum = try #require(
      String(contentsOfFile: "/proc/sys/net/ipv4/tcp_rmem", encoding: .utf8).split(whereSeparator: \.isWhitespace).last)
    let wanted = min(4 << 20, try #require(Int(maximum)) / 2) / 4 * 3
    // Eight connections may at a time: what those that ended had is lent again.
    for number in 1...9 {
      let client = try RawClient(port: daemon.port)
      client.send("GET /download?bytes=60000000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      let first = client.receive(count: 12_000_000)
      #expect(first.starts(with: "HTTP/1.1 200 ".utf8))
      // It reads no more: what the kernels hold by and by fills up, the window at last.
      #expect(try eventually { try waiting(from: scene.server.tlsPort).contains { $0 > wanted } }, "\(number)")
      if number < 9 {
        client.reset()
        #expect(try eventually { try waiting(from: scene.server.tlsPort).allSatisfy { $0 < wanted } })
      } else {
        let head = try #require(first.firstRange(of: Array("\r\n\r\n".utf8)))
        #expect(first.count + client.receive().text.utf8.count == head.upperBound + 60_000_000)
      }
    }
    try daemon.finish()
  }

  @Test("Events arrive one by one, long before the stream ends")
  func events() throws {
    let (_, daemon) = try started()
    let transfer = try Transfer(
      [daemon.url + "/sse?events=3&interval=1500"], in: try Scratch())
    #expect(eventually { transfer.body == ReplyBody.event(1) })
    #expect(transfer.isRunning, "the stream goes on")
    #expect(eventually { transfer.body == ReplyBody.event(1) + ReplyBody.event(2) })
    #expect(transfer.isRunning, "the stream goes on")
    let whole = try transfer.finish()
    #expect(whole.exit == 0 && whole.body == (1...3).map { ReplyBody.event($0) }.joined())
    try daemon.finish()
  }

  @Test("HEAD, 204 and 304 have no body and leave the connection good (RFC 9112 §6.3)")
  func bodiless() throws {
    let (_, daemon) = try started()
    let client = try RawClient(port: daemon.port)
    client.send("HEAD /download?bytes=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    let head = client.receive(until: "\r\n\r\n").text
    #expect(head.hasPrefix("HTTP/1.1 200 ") && head.lowercased().contains("content-length: 1000"))
    for (path, status) in [("/204", "204"), ("/304", "304"), ("/me", "200")] {
      client.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(client.receive(until: "\r\n\r\n").text.hasPrefix("HTTP/1.1 \(status) "), "\(path)")
    }
    client.leave()
    try daemon.finish()
  }

  @Test("Pipelined requests are answered in their order")
  func pipelining() throws {
    let (_, daemon) = try started()
    let client = try RawClient(port: daemon.port)
    client.send(
      "GET /slow?ms=200 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /me HTTP/1.1\r\nHost: localhost\r\n\r\n"
        + "GET /status/202 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    let text = client.receive().text
    let statuses = text.components(separatedBy: "HTTP/1.1 ").dropFirst().map { $0.prefix(3) }
    #expect(statuses == ["200", "200", "202"])
    #expect(try #require(text.range(of: "slow")).lowerBound < #require(text.range(of: "ada")).lowerBound)
    try daemon.finish()
  }

  @Test("An HTTP/1.0 client is served, in gateway and in forward mode")
  func http10() throws {
    let (_, daemon) = try started()
    let chunked = try daemon.gateway("/chunked?bytes=100000", ["-0"])
    #expect(chunked.exit == 0 && Array(chunked.body.utf8) == ReplyBody.pattern(count: 100_000).rendered)
    #expect(chunked.field("transfer-encoding") == nil)
    let raw = try RawClient(port: daemon.port)
    raw.send("GET /me HTTP/1.0\r\n\r\n")
    #expect(raw.receive().text.hasSuffix("{\"user\":\"ada\"}"))
    let forward = try RawClient(port: daemon.port)
    forward.send("GET http://api.test/me HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    let (text, ending) = forward.receive()
    #expect(text.hasSuffix("{\"user\":\"ada\"}") && ending == .closed)
    try daemon.finish()
  }

  @Test("Chunked and close-delimited bodies arrive whole, both ways")
  func framings() throws {
    let (_, daemon) = try started()
    for path in ["/download", "/chunked", "/close", "/trailers"] {
      for count in [0, 1, 65_536, 1_000_000] {
        let got = try daemon.gateway("\(path)?bytes=\(count)")
        #expect(got.exit == 0, "\(path) \(count)")
        #expect(Array(got.body.utf8) == ReplyBody.pattern(count: count).rendered, "\(path) \(count)")
      }
    }
    let scratch = try Scratch()
    for count in [0, 1, 70_000, 3_000_000] {
      let path = try scratch.writePattern(bytes: count, to: "up")
      let echo = try Echo(
        daemon.gateway(
          "/echo",
          ["-X", "PUT", "-H", "Transfer-Encoding: chunked", "-H", "Expect:", "--data-binary", "@" + path]))
      #expect(echo.bodyBytes == count)
      #expect(echo.bodyDigest == ReceivedBody.digest(of: ReplyBody.pattern(count: count).rendered))
    }
    try daemon.finish()
  }

  @Test("A truncated upstream response never looks complete", arguments: ["length", "chunked", "close"])
  func truncated(_ framing: String) throws {
    let (_, daemon) = try started()
    let target = "/truncated?bytes=100000&framing=\(framing)"
    let cut = try daemon.gateway(target)
    #expect([18, 56].contains(cut.exit), "curl says so: \(cut.exit)")
    #expect(cut.body.utf8.count < 100_000)
    // Without framing, only a reset tells an HTTP/1.0 client.
    let old = try RawClient(port: daemon.port)
    old.send("GET \(target) HTTP/1.0\r\nHost: localhost\r\n\r\n")
    let (text, ending) = old.receive()
    #expect(framing == "length" || ending == .reset, "\(ending) after \(text.utf8.count) bytes")
    try daemon.finish()
  }

  @Test("A client that goes away cancels the upstream's work and leaves nothing behind")
  func clientAbort() throws {
    let (scene, daemon) = try started()
    let transfer = try Transfer([daemon.url + "/download?bytes=2000000000", "--limit-rate", "1M"], in: scene.scratch)
    _ = try awaited("a first piece") { transfer.body.isEmpty ? nil : true }
    transfer.kill()
    #expect(try eventually { try daemon.metric("bearerd_client_connections") == 0 })
    #expect(eventually { scene.server.counters.exchangesInFlight == 0 })
    #expect(try daemon.gateway("/me").status == 200)
    try daemon.finish()
  }

  @Test("Interim responses pass, and trailers to a client that says it takes them")
  func interimAndTrailers() throws {
    let (_, daemon) = try started()
    let hints = try daemon.gateway("/early-hints")
    #expect(hints.heads.hasPrefix("HTTP/1.1 103 ") && hints.status == 200)
    let trailers = try daemon.gateway("/trailers?bytes=10", ["-H", "TE: trailers", "-H", "Connection: TE"])
    let digest = ReceivedBody.digest(of: ReplyBody.pattern(count: 10).rendered)
    #expect(trailers.heads.lowercased().contains("x-checksum: \(digest)"), "\(trailers.heads)")
    try daemon.finish()
  }

  @Test("An upgrade becomes a tunnel, with the token on its handshake")
  func upgrade() throws {
    let (_, daemon) = try started()
    let client = try RawClient(port: daemon.port)
    client.send("GET /upgrade HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
    let head = client.receive(until: "\r\n\r\n").text
    try #require(head.hasPrefix("HTTP/1.1 101 "), "\(head)")
    client.send("hello, tunnel")
    #expect(client.receive(until: "tunnel").text == "hello, tunnel")
    client.finishSending()
    #expect(client.receive().ending == .closed)
    try daemon.finish()
  }
}
