import Foundation
import MockBackend
import MockServer
import Testing

@Suite("TLS of the mock server: names, client certificates, tickets") struct TLSTests {
  @Test("The certificate is good for the configured names only, and only with the authority trusted")
  func names() throws {
    let session = try ServedSession { $0.certificateNames = ["api.test", "127.0.0.1"] }
    let port = session.server.tlsPort
    let rows: [(name: String, isTrusted: Bool, exit: Int32)] = [
      ("api.test", true, 0), ("127.0.0.1", true, 0), ("other.test", true, 60), ("localhost", true, 60),
      ("api.test", false, 60),
    ]
    for row in rows {
      let trust = row.isTrusted ? ["--cacert", session.authorityPath] : []
      let result = try CurlResult.run(
        trust + [
          "--resolve", "\(row.name):\(port):127.0.0.1", "-o", "/dev/null",
          "https://\(row.name):\(port)/open/me",
        ])
      #expect(result.exit == row.exit, "\(row)")
    }
    #expect(session.server.certificateAuthorityPEM.hasPrefix("-----BEGIN CERTIFICATE-----\n"))
  }

  @Test("TLS 1.2 and 1.3 are spoken, HTTP/1.1 is chosen where HTTP/2 is offered too")
  func versions() throws {
    let session = try ServedSession()
    for option in [["--tls-max", "1.2"], ["--tlsv1.3"]] {
      let result = try session.curl(
        .tls, "/me", options: option + ["--http2", "-o", "/dev/null", "-w", "%{http_version}"])
      #expect(result.exit == 0 && result.output == "1.1")
    }
  }

  @Test("Where a client certificate is required, only one of its own authority is let in")
  func clientCertificate() throws {
    let session = try ServedSession { $0.requiresClientCertificate = true }
    let stranger = try MockServer()
    func options(_ pair: (certificatePEM: String, keyPEM: String), _ name: String) throws -> [String] {
      [
        "--cert", try session.write(pair.certificatePEM, to: name + ".pem"),
        "--key", try session.write(pair.keyPEM, to: name + ".key"),
      ]
    }
    #expect(try session.curl(.tls, "/me").exit != 0)
    #expect(try session.curl(.tls, "/me", options: options(stranger.issueClientCertificate(), "other")).exit != 0)
    let own = try options(session.server.issueClientCertificate(commonName: "ada"), "own")
    #expect(try session.curl(.tls, "/me", options: own).output == "{\"user\":\"ada\"}")
    #expect(session.server.connectionCounters.handshakesCompleted == 1)
    #expect(session.server.connectionCounters.handshakesFailed == 2)
    #expect(session.server.counters.exchanges == 1)
  }

  @Test("Sessions are resumed by ticket, unless tickets are off", arguments: [true, false], ["1.2", "1.3"])
  func tickets(_ isOn: Bool, _ version: String) throws {
    let session = try ServedSession { $0.issuesSessionTickets = isOn }
    let result = try session.curl(
      .tls, "/me", "/me", "/me", options: ["-H", "Connection: close", "--tls-max", version])
    #expect(result.exit == 0)
    let counters = session.server.connectionCounters
    #expect(counters.handshakesCompleted == 3)
    #expect(counters.handshakesResumed == (isOn ? 2 : 0))
  }
}

@Suite("Transport faults of the mock server, as a client sees them") struct TransportFaultTests {
  /// curl's exit codes: 0 fine, 18 partial file, 28 time-out, 52 empty reply, 56 receive failure.
  struct Row {
    var path: String, fault = Fault.pass, plain: Set<Int32>, tls: Set<Int32>, options: [String] = []
  }

  static let rows = [
    Row(path: "/close?bytes=1000", plain: [0], tls: [0]),
    Row(path: "/truncated?bytes=1000", plain: [18], tls: [18, 56]),
    Row(path: "/truncated?bytes=200000", plain: [18], tls: [18, 56]),
    Row(path: "/truncated?bytes=1000&framing=chunked", plain: [18], tls: [18, 56]),
    // This curl takes FIN without close_notify for the end; the next test looks closer.
    Row(path: "/truncated?bytes=1000&framing=close", plain: [56], tls: [0, 56]),
    Row(path: "/me", fault: .truncateBody, plain: [18], tls: [18, 56]),
    Row(path: "/me", fault: .junk, plain: [1], tls: [1]),
    Row(path: "/me", fault: .resetBeforeCommit, plain: [52, 56], tls: [35, 52, 56]),
    Row(path: "/me", fault: .resetAfterCommit, plain: [52, 56], tls: [35, 52, 56]),
    Row(path: "/me", fault: .hangBeforeCommit, plain: [28], tls: [28], options: ["--max-time", "0.5"]),
    Row(path: "/me", fault: .hangAfterCommit, plain: [28], tls: [28], options: ["--max-time", "0.5"]),
  ]

  @Test("Each fault is a failure that the client can see", arguments: rows.indices, ServedSession.Side.allCases)
  func fault(_ index: Int, _ side: ServedSession.Side) throws {
    let row = Self.rows[index]
    let session = try ServedSession()
    session.server.withBackend { $0.faults.api = [row.fault] }
    let result = try session.curl(side, row.path, options: ["-o", "/dev/null"] + row.options)
    let expected = side == .plain ? row.plain : row.tls
    #expect(expected.contains(result.exit), "\(row.path) \(row.fault): curl ended with \(result.exit)")
    let isExecuted = ![.hangBeforeCommit, .resetBeforeCommit].contains(row.fault)
    #expect(session.server.counters.executedTotal == (isExecuted ? 1 : 0))
    #expect(eventually { session.server.connectionCounters.live == 0 }, "the connection's thread ends")
    #expect(session.server.counters.exchangesInFlight == 0)
    #expect(try session.curl(side, "/me").exit == 0, "the server goes on")
  }

  @Test("A body that ends with its TLS connection ends with close_notify exactly when it is whole (RFC 8446 §6.1)")
  func closeNotify() throws {
    for (path, isWhole) in [("/open/close?bytes=1000", true), ("/open/truncated?bytes=1000&framing=close", false)] {
      let session = try ServedSession()
      let client = try TLSClient(port: session.server.tlsPort)
      let received = client.exchange("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(received.text.hasPrefix("HTTP/1.1 200 OK\r\n"))
      let body = received.text.components(separatedBy: "\r\n\r\n").last ?? ""
      #expect(body.utf8.count == (isWhole ? 1000 : 500))
      #expect(received.isClosedInOrder == isWhole)
    }
  }

  @Test("A reply without body is cut inside its head")
  func headCut() throws {
    let session = try ServedSession()
    let client = try RawClient(port: session.server.plainPort)
    client.send("GET /open/truncated?bytes=0 HTTP/1.1\r\nHost: a\r\n\r\n")
    let text = client.receive()
    #expect(text.hasPrefix("HTTP/1.1 200") && !text.contains("\r\n\r\n"))
  }

  @Test("A request whose body ends early is not executed")
  func abortedUpload() throws {
    let session = try ServedSession()
    let client = try RawClient(port: session.server.plainPort)
    client.send("PUT /open/upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nX-Request-Id: a\r\n\r\n12345")
    client.finishSending()
    #expect(client.receive() == "")
    #expect(eventually { session.server.connectionCounters.live == 0 })
    #expect(session.server.counters.executedTotal == 0)
    #expect(session.server.counters.bodyBytesByRequestID == ["a": 5])
    #expect(session.server.counters.exchangesInFlight == 0)
  }
}

@Suite("The mock server's life") struct LifeTests {
  @Test("Stop breaks what is open, idle, hanging or inside a body, and joins every thread")
  func stop() throws {
    let session = try ServedSession()
    session.server.withBackend { $0.faults.paths["/open/me"] = .always(.hangBeforeCommit) }
    let texts = [
      "", "GET /open/me HTTP/1.1\r\nHost: a\r\n\r\n",
      "PUT /open/upload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
      "GET /open/slow?ms=500000 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /open/sse?events=9&interval=500000 HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    let clients = try (texts + texts).map { text in
      let client = try RawClient(port: session.server.plainPort)
      client.send(text)
      return client
    }
    let stalledHandshake = try RawClient(port: session.server.tlsPort)
    stalledHandshake.send("\u{16}")
    #expect(eventually { session.server.connectionCounters.live == 11 && session.server.counters.exchanges == 8 })
    session.server.stop()
    #expect(session.server.connectionCounters.live == 0)
    #expect(session.server.counters.exchangesInFlight == 0)
    for client in clients {
      let text = client.receive()
      #expect(text == "" || text.hasSuffix("event 1\n\n\r\n") || text.contains("\r\n\r\n"))
    }
    #expect(throws: RawClient.Refused.self) { try RawClient(port: session.server.plainPort) }
    session.server.stop()
  }

  @Test("A server that was never started stops, and gives its ports back")
  func neverStarted() throws {
    let server = try MockServer()
    #expect(server.plainPort != 0 && server.tlsPort != 0 && server.plainPort != server.tlsPort)
    server.stop()
    #expect(throws: RawClient.Refused.self) { try RawClient(port: server.plainPort) }
  }

  @Test("Dropped connections end; the next one is served")
  func dropConnections() throws {
    let session = try ServedSession()
    let client = try RawClient(port: session.server.plainPort)
    client.send("GET /open/status/200 HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(client.receive(until: "}").hasSuffix("{\"status\":200}"))
    session.server.dropConnections()
    #expect(client.receive() == "")
    #expect(try session.curl(.plain, "/me").exit == 0)
  }

  @Test("Connections are served side by side, and their peak is known")
  func concurrency() throws {
    let session = try ServedSession()
    session.server.withBackend { $0.faults.paths["/open/me"] = .always(.hangAfterCommit) }
    let clients = try (0..<40).map { _ in
      let client = try RawClient(port: session.server.plainPort)
      client.send("GET /open/me HTTP/1.1\r\nHost: a\r\n\r\n")
      return client
    }
    #expect(eventually { session.server.counters.exchangesInFlight == clients.count })
    #expect(session.server.counters.exchangesInFlightMax == 40)
    // An exchange is counted as one before the backend decides on it.
    #expect(eventually { session.server.counters.executed["GET /open/me"] == clients.count })
  }
}
