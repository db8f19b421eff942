import COpenSSL
import Chronology
import FoundationEssentials
import Glibc
import Testing
@testable import Transport

/// An authority whose certificate lies in a file, and what clients need to trust it.
private final class Trust: @unchecked Sendable {
  let authority: TestAuthority
  let directory: ScratchDirectory
  let caFile: String

  init() throws {
    authority = try TestAuthority()
    directory = try ScratchDirectory()
    caFile = try directory.file("ca.pem", authority.pem())
  }

  func client(protocols: [String] = ["http/1.1"]) throws -> TLSClientContext {
    try TLSClientContext(TLSClientSettings(caFile: caFile, protocols: protocols))
  }
}

private func target(
  _ server: TCPServer, _ tls: TLSClientContext, name: String = "origin.example", resumes: Bool = true
) -> DialTarget {
  DialTarget(
    host: "127.0.0.1", port: server.port, tls: tls, serverName: name, handshakeTimeout: .seconds(20),
    resumesTLS: resumes)
}

private func failure<Success>(_ result: Result<Success, ConnectFault>) -> ConnectFault? {
  if case .failure(let fault) = result { return fault }
  return nil
}

@Suite("I9: the end of a TLS stream") struct TLSStreamTests {
  private let trust: Trust
  private let running: RunningLoop

  init() throws {
    trust = try Trust()
    running = try RunningLoop()
  }

  private func server(_ serve: @escaping @Sendable (TLSPeer) -> Void) throws -> TCPServer {
    try tlsServer(TestServerContext(trust.authority.server("DNS:origin.example")), serve: serve)
  }

  @Test("close_notify is an orderly end, after everything that was sent")
  func orderly() throws {
    let server = try server { peer in
      peer.write(peer.read())
      peer.write([33])
      peer.closeNotify()
    }
    let end = try running.exchange(target(server, trust.client()), sending: Array("hello".utf8)).get()
    #expect(end == Drain.End(bytes: Array("hello!".utf8), how: .endOfStream, negotiated: "http/1.1"))
  }

  @Test("a FIN without close_notify is a truncation, not an end")
  func truncated() throws {
    let server = try server { peer in
      peer.write(Array("part".utf8))
      shutdown(peer.descriptor, Int32(SHUT_WR))
      _ = peer.read()
    }
    let end = try running.exchange(target(server, trust.client())).get()
    #expect(end.bytes == Array("part".utf8))
    #expect(end.how == .failed(.truncated))
  }

  @Test("a reset is a socket error")
  func reset() throws {
    let server = try server { peer in
      // The client's byte stays unread and the close is a reset in any case.
      SocketOptions.resetOnClose(peer.descriptor)
    }
    let end = try running.exchange(target(server, trust.client())).get()
    #expect(end.how == .failed(.socket(ECONNRESET)))
  }

  @Test("bytes that are no TLS record end it as a TLS failure")
  func garbage() throws {
    let server = try server { peer in
      writeAll(peer.descriptor, Array("HTTP/1.1 200 OK\r\n\r\n".utf8))
      _ = peer.read()
    }
    let end = try running.exchange(target(server, trust.client())).get()
    #expect(end.bytes.isEmpty)
    #expect(end.how == .failed(.tls))
  }

  @Test("large contents arrive whole both ways, read in pieces of any size", arguments: [1, 7, 4096, 65_536])
  func large(pieceBytes: Int) throws {
    let bytes = (0..<(pieceBytes == 1 ? 20_000 : 300_000)).map {
      UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8)
    }
    let server = try server { peer in
      var received: [UInt8] = []
      while received.count < bytes.count {
        let piece = peer.read()
        if piece.isEmpty { return }
        received += piece
      }
      peer.write(received)
      peer.closeNotify()
    }
    let end = try running.exchange(target(server, trust.client()), sending: bytes, pieceBytes: pieceBytes)
      .get()
    #expect(end.bytes == bytes)
    #expect(end.how == .endOfStream)
  }

  /// A channel without a loop, whose handshake has been made; its reads wait.
  private func channel(to server: TCPServer) throws -> Channel {
    let channel = Channel(Descriptor(try connectedSocket(port: server.port)))
    channel.startTLS(try trust.client().makeSession(host: "origin.example"))
    #expect(channel.continueHandshake() == .done)
    return channel
  }

  /// One byte, for which the server waits.
  private func ask(_ channel: Channel) -> IOResult { [UInt8(1)].withUnsafeBytes { channel.write($0) } }

  @Test("bytes behind what was read are not overlooked, whether OpenSSL has them or the kernel", arguments: 1...24)
  func bytesBehind(reads: Int) throws {
    let records = reads * Channel.recordsMax
    let server = try server { peer in
      peer.write(peer.read())
      _ = peer.read()
      peer.write([UInt8](repeating: 7, count: records * Channel.recordBytes))
      peer.write([8])
      _ = peer.read()
    }
    let channel = try channel(to: server)
    var bytes = [UInt8](repeating: 0, count: BufferPool.largeBytes)
    #expect(ask(channel) == .bytes(1))
    // Tickets come before it.
    #expect(bytes.withUnsafeMutableBytes { channel.read(into: $0) } == .bytes(1))
    // All of the rest has come before any of it is read, and its edge with it.
    channel.widenReceiveWindow()
    #expect(ask(channel) == .bytes(1))
    var waiting: Int32 = 0
    let deadline = Date().addingTimeInterval(20)
    while waiting < records * (Channel.recordBytes + 22) + 23, Date() < deadline {
      usleep(1000)
      _ = ioctl(channel.descriptor, UInt(FIONREAD), &waiting)
    }
    _ = fcntl(channel.descriptor, F_SETFL, O_NONBLOCK)
    for _ in 0..<reads {
      let result = bytes.withUnsafeMutableBytes { channel.read(into: $0) }
      #expect(result == .bytes(Channel.recordsMax * Channel.recordBytes))
    }
    #expect(channel.mayHaveMore)
    #expect(bytes.withUnsafeMutableBytes { channel.read(into: $0) } == .bytes(1) && bytes[0] == 8)
    #expect(bytes.withUnsafeMutableBytes { channel.read(into: $0) } == .wouldBlock && !channel.mayHaveMore)
  }

  @Test("what came alone is known to be all, without another look")
  func nothingBehind() throws {
    let server = try server { peer in
      _ = peer.read()
      peer.write([UInt8](repeating: 7, count: 100))
      _ = peer.read()
    }
    let channel = try channel(to: server)
    var bytes = [UInt8](repeating: 0, count: BufferPool.largeBytes)
    #expect(ask(channel) == .bytes(1))
    #expect(bytes.withUnsafeMutableBytes { channel.read(into: $0) } == .bytes(100))
    #expect(!channel.mayHaveMore)
  }

  @Test("the protocol is the server's choice of those offered")
  func alpn() throws {
    let server = try server { $0.closeNotify() }
    let client = try trust.client(protocols: ["h2", "http/1.1"])
    #expect(try running.exchange(target(server, client)).get().negotiated == "h2")
  }

  /// Goal: a ticket that arrives after the client's context has gone (a reload drops it while its connections
  /// live on) reaches no freed memory. Method: TLS 1.3 tickets are read with the first content; run under the
  /// address sanitizer to see more than the outcome.
  @Test("connections outlive their context")
  func contextGoesFirst() throws {
    let go = Inbox<Bool>()
    let server = try server { peer in
      _ = try? go.next()
      peer.write([7])
      peer.closeNotify()
    }
    let dialled = Inbox<Drain>()
    try dial(server, dialled)
    let drain = try dialled.next()
    go.put(true)
    #expect(try drain.ended.next() == Drain.End(bytes: [7], how: .endOfStream, negotiated: "http/1.1"))
  }

  /// The context's last reference is the target's, which goes with the connector.
  private func dial(_ server: TCPServer, _ dialled: Inbox<Drain>) throws {
    let target = try target(server, trust.client())
    try running.run { loop in
      _ = Connector.start(target, resolver: Resolver(), on: loop) { result in
        if case .success(let (channel, token)) = result { dialled.put(Drain(channel, token, on: loop)) }
      }
    }
  }
}

@Suite("SPEC §10: who is believed over TLS") struct TLSVerificationTests {
  private let trust: Trust
  private let running: RunningLoop

  init() throws {
    trust = try Trust()
    running = try RunningLoop()
  }

  @Test(
    "the certificate must carry the name that was asked for (RFC 9110 §4.3.4)",
    arguments: [
      ("DNS:origin.example", "origin.example", true), ("DNS:origin.example", "ORIGIN.example", true),
      ("DNS:origin.example", "other.example", false), ("DNS:origin.example", "a.origin.example", false),
      ("DNS:*.example.com", "a.example.com", true), ("DNS:*.example.com", "a.b.example.com", false),
      ("DNS:*.example.com", "example.com", false), ("DNS:a*.example.com", "ab.example.com", false),
      ("DNS:other.example,DNS:origin.example", "origin.example", true),
      ("IP:127.0.0.1", "127.0.0.1", true), ("IP:127.0.0.1", "127.0.0.2", false),
      ("IP:0:0:0:0:0:0:0:1", "::1", true),
      ("DNS:127.0.0.1", "127.0.0.1", false), ("IP:127.0.0.1", "origin.example", false),
    ])
  func names(_ certificate: String, _ name: String, _ isAccepted: Bool) throws {
    let server = try tlsServer(TestServerContext(trust.authority.server(certificate))) { $0.closeNotify() }
    let result = try running.exchange(target(server, trust.client(), name: name))
    if isAccepted {
      #expect(try result.get().how == .endOfStream)
    } else {
      let literal = name.allSatisfy { $0.isNumber || $0 == "." }
      let reason = literal ? "IP address mismatch" : "hostname mismatch"
      #expect(failure(result) == .tls("certificate verification failed: \(reason)"))
    }
    #expect(try running.run { $0.memberCount } == 0)
  }

  @Test("an authority that is not trusted is refused")
  func unknownAuthority() throws {
    let pair = try TestAuthority().server("DNS:origin.example")
    let server = try tlsServer(TestServerContext(pair)) { $0.closeNotify() }
    for client in [try trust.client(), try TLSClientContext(TLSClientSettings())] {
      guard case .tls(let reason) = failure(try running.exchange(target(server, client))) else {
        Issue.record("an authority that nobody trusts was believed")
        return
      }
      // An authority of the same name is told apart by its signature, one of another name is not found.
      #expect(
        reason == "certificate verification failed: certificate signature failure"
          || reason == "certificate verification failed: unable to get local issuer certificate")
    }
  }

  @Test("an expired certificate is refused")
  func expired() throws {
    let pair = try trust.authority.server("DNS:origin.example", validDays: -1)
    let server = try tlsServer(TestServerContext(pair)) { $0.closeNotify() }
    let fault = try failure(running.exchange(target(server, trust.client())))
    #expect(fault == .tls("certificate verification failed: certificate has expired"))
  }

  @Test(
    "a server that knows nothing newer than TLS 1.1 is refused, one with TLS 1.2 is not",
    arguments: [
      (TLS1_VERSION...TLS1_1_VERSION, false), (TLS1_1_VERSION...TLS1_1_VERSION, false),
      (TLS1_2_VERSION...TLS1_2_VERSION, true), (TLS1_3_VERSION...TLS1_3_VERSION, true),
    ])
  func versions(_ versions: ClosedRange<Int32>, _ isAccepted: Bool) throws {
    let context = try TestServerContext(trust.authority.server("DNS:origin.example"), versions: versions)
    let server = try tlsServer(context) { $0.closeNotify() }
    let result = try running.exchange(target(server, trust.client()))
    #expect((failure(result) == nil) == isAccepted)
    if let fault = failure(result) {
      guard case .tls = fault else {
        Issue.record("refused for another reason: \(fault)")
        return
      }
    }
  }

  @Test("a client certificate is shown to a server that asks for it")
  func clientCertificate() throws {
    let context = try TestServerContext(
      trust.authority.server("DNS:origin.example"), versions: TLS1_2_VERSION...TLS1_2_VERSION,
      clients: trust.authority)
    let server = try tlsServer(context) { $0.closeNotify() }
    let pair = try trust.authority.client()
    var settings = TLSClientSettings(caFile: trust.caFile)
    settings.clientCertificateFile = try trust.directory.file("client.pem", pair.certificatePEM())
    settings.clientKeyFile = try trust.directory.file("client.key", pair.keyPEM())
    #expect(try running.exchange(target(server, TLSClientContext(settings))).get().how == .endOfStream)
    #expect(failure(try running.exchange(target(server, trust.client()))) != nil)
  }

  @Test("files that cannot be used are named in the error")
  func badFiles() throws {
    let empty = try trust.directory.file("empty.pem", "")
    let pair = try trust.authority.client()
    let certificate = try trust.directory.file("client.pem", pair.certificatePEM())
    let other = try trust.directory.file("other.key", trust.authority.client().keyPEM())
    for (settings, named) in [
      (TLSClientSettings(caFile: empty), empty),
      (TLSClientSettings(caFile: "/nonexistent/ca.pem"), "/nonexistent/ca.pem"),
      (TLSClientSettings(caFile: trust.caFile, clientCertificateFile: empty), empty),
      (
        TLSClientSettings(caFile: trust.caFile, clientCertificateFile: certificate, clientKeyFile: other),
        other
      ),
    ] {
      do {
        _ = try TLSClientContext(settings)
        Issue.record("\(settings) was accepted")
      } catch {
        #expect(error.description.contains(named))
      }
    }
  }

  @Test("a peer that does not speak TLS, or goes during the handshake, is a TLS failure")
  func notTLS() throws {
    let plain = try TCPServer { descriptor in
      writeAll(descriptor, Array("SSH-2.0-x\r\n".utf8))
      var scratch = [UInt8](repeating: 0, count: 4096)
      _ = recv(descriptor, &scratch, scratch.count, 0)
      shutdown(descriptor, Int32(SHUT_WR))
      while recv(descriptor, &scratch, scratch.count, 0) > 0 {}
    }
    let leaving = try TCPServer { descriptor in
      var scratch = [UInt8](repeating: 0, count: 4096)
      _ = recv(descriptor, &scratch, scratch.count, 0)
    }
    for server in [plain, leaving] {
      let fault = try failure(running.exchange(target(server, trust.client())))
      guard case .tls = fault else {
        Issue.record("\(String(describing: fault))")
        continue
      }
    }
    #expect(try running.run { $0.memberCount } == 0)
  }
}

@Suite("TLS session resumption (RFC 8446 §2.2)") struct TLSResumptionTests {
  private let trust: Trust
  private let running: RunningLoop

  init() throws {
    trust = try Trust()
    running = try RunningLoop()
  }

  private func server(_ versions: ClosedRange<Int32>) throws -> TCPServer {
    let pair = try trust.authority.server("DNS:origin.example,DNS:other.example,IP:127.0.0.1")
    // Content first, because TLS 1.3 tickets are read with it.
    return try tlsServer(TestServerContext(pair, versions: versions)) { peer in
      peer.write([1])
      peer.closeNotify()
    }
  }

  @Test("the second connection and those after it resume", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
  func resumes(_ version: Int32) throws {
    let server = try server(version...version)
    let client = try trust.client()
    let resumed = try (0..<4).map { _ in try running.exchange(target(server, client)).get().isResumed }
    #expect(resumed == [false, true, true, true])
  }

  @Test("not where the target does not want it, and not with another context")
  func notWanted() throws {
    let server = try server(TLS1_3_VERSION...TLS1_3_VERSION)
    let client = try trust.client()
    #expect(try !running.exchange(target(server, client)).get().isResumed)
    #expect(try !running.exchange(target(server, client, resumes: false)).get().isResumed)
    #expect(try !running.exchange(target(server, trust.client())).get().isResumed)
    #expect(try running.exchange(target(server, client)).get().isResumed)
  }

  /// A resumed handshake shows no certificate: offered to another host, one host's session would speak for it.
  @Test(
    "a session is offered to the host that it was made with only",
    arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
  func oneHost(_ version: Int32) throws {
    let server = try server(version...version)
    let client = try trust.client()
    for name in ["origin.example", "other.example", "127.0.0.1"] {
      #expect(try !running.exchange(target(server, client, name: name)).get().isResumed)
    }
    for name in ["other.example", "127.0.0.1", "origin.example"] {
      #expect(try running.exchange(target(server, client, name: name)).get().isResumed)
    }
    let stranger = try failure(running.exchange(target(server, client, name: "stranger.example")))
    #expect(stranger == .tls("certificate verification failed: hostname mismatch"))
  }
}
