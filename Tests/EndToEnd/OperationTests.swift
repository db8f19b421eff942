import Foundation
import MockBackend
import MockServer
import Testing

@Suite("SPEC §12: the service under its manager") struct OperationTests {
  private func scene() throws -> Scene {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    return scene
  }

  @Test("/healthz and /metrics answer on the admin listener, and only there")
  func admin() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    let health = try daemon.admin("/healthz")
    #expect(health.status == 200)
    #expect(try daemon.gateway("/me").status == 200)
    let metrics = try daemon.admin("/metrics")
    #expect(metrics.status == 200 && metrics.field("content-type")?.hasPrefix("text/plain") == true)
    for line in metrics.body.split(separator: "\n") where !line.hasPrefix("#") {
      let parts = line.split(separator: " ")
      #expect(line.hasPrefix("bearerd_") && parts.count >= 2 && Double(parts[parts.count - 1]) != nil, "\(line)")
    }
    #expect(try daemon.metric("bearerd_requests_total") == 1)
    #expect(try daemon.admin("/nothing").status == 404)
    #expect(try daemon.gateway("/healthz").body.contains("not_found"), "the upstream's own path")
    let foreign = try Transfer(
      ["-H", "Host: evil.test", "http://127.0.0.1:\(daemon.adminPort)/metrics"], in: scene.scratch
    ).finish()
    #expect(!foreign.body.contains("bearerd_"))
    #expect(foreign.status == 421)
    try daemon.finish()
  }

  @Test("Connections that are only held open, more than are admitted, keep no supervisor from its answer")
  func adminHeld() throws {
    let daemon = try scene().start()
    var held: [RawClient] = []
    for _ in 0..<100 {
      let client = try RawClient(port: daemon.adminPort)
      client.send("GET /healthz HTTP/1.1\r\n")
      held.append(client)
    }
    #expect(try daemon.admin("/healthz").status == 200)
    #expect(held[0].receive().text.isEmpty, "the one that waited longest has gone")
    // The youngest can still ask.
    held[99].send("Host: localhost\r\n\r\n")
    #expect(held[99].receive().text.hasPrefix("HTTP/1.1 200 "))
    try daemon.finish()
  }

  @Test("Who asks and does not wait for the answer holds no descriptor until it is made (I12)")
  func adminAbandoned() throws {
    let daemon = try scene().start()
    let before = try #require(daemon.program.openDescriptorCount)
    var peak = 0
    for number in 0..<1500 {
      let client = try RawClient(port: daemon.adminPort)
      client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
      if number % 100 == 99 { peak = max(peak, try #require(daemon.program.openDescriptorCount)) }
      withExtendedLifetime(client) {}
    }
    #expect(peak <= before + 80, "\(before) descriptors before, \(peak) at the peak")
    #expect(try daemon.admin("/healthz").status == 200)
    try daemon.finish()
  }

  @Test("As many loops as the process may keep CPUs busy, where the configuration does not say")
  func loops() throws {
    let scratch = try Scratch()
    let file = try scratch.write(
      """
      state_directory = "\(scratch("state"))"
      [[listener]]
      tcp = "127.0.0.1:0"
      [admin]
      address = "127.0.0.1:0"
      """, to: "bearerd.toml")
    // The first CPU that this process may use.
    let first = try #require(
      try String(contentsOfFile: "/proc/self/status", encoding: .utf8).split(separator: "\n")
        .first { $0.hasPrefix("Cpus_allowed_list:") }?
        .split(separator: ":").last?.drop { !$0.isNumber }.prefix { $0.isNumber })
    let daemon = try Bearerd(configuration: file, in: scratch, launcher: ["/usr/bin/taskset", "-c", String(first)])
    #expect(daemon.log.contains("loops=1"), "\(daemon.log)")
    try daemon.finish()
  }

  @Test("SIGHUP brings a new upstream in; a broken file keeps the old ones and says so")
  func reload() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    #expect(try daemon.forward("http://second.test/open/me").code == "ROUTE_DENIED")
    scene.settings.tables = """
      [upstream.second]
      origin = "http://second.test"
      address = "127.0.0.1:\(scene.server.plainPort)"
      auth = "none"
      allow_plaintext = true
      """
    try scene.writeConfiguration()
    daemon.reload()
    #expect(try eventually { try daemon.forward("http://second.test/open/me").status == 200 })
    try scene.scratch.write("[upstream.api]\norigin = 7\nnonsense = true\n", to: "bearerd.toml")
    daemon.reload()
    try daemon.waitForLog("nonsense")
    #expect(try daemon.forward("http://second.test/open/me").status == 200)
    #expect(try daemon.gateway("/me").status == 200)
    try daemon.finish()
  }

  @Test("SIGTERM lets a request in flight end, and takes no new one")
  func drain() throws {
    let scene = try scene()
    let daemon = try scene.startSignedIn()
    let transfer = try Transfer([daemon.url + "/slow?ms=2000"], in: scene.scratch)
    #expect(eventually { scene.server.counters.exchangesInFlight == 1 })
    daemon.program.signal(SIGTERM)
    #expect(try eventually { try daemon.gateway("/me").status == 0 }, "the listener is closed")
    #expect(scene.server.counters.exchangesInFlight == 1, "while the request still runs")
    let slow = try transfer.finish()
    #expect(slow.exit == 0 && slow.status == 200 && slow.body == "{\"slow\":\"yes\"}")
    #expect(try daemon.program.end() == 0)
  }

  @Test("A Unix socket serves, with the mode that was set")
  func unixSocket() throws {
    let scene = try scene()
    let path = scene.scratch("bearerd.sock")
    scene.settings.listeners += "\n\n[[listener]]\nunix = \"\(path)\"\nmode = 0o600"
    let daemon = try scene.startSignedIn()
    let answer = try Transfer(["--unix-socket", path, "http://localhost/me"], in: scene.scratch).finish()
    #expect(answer.status == 200 && answer.body == "{\"user\":\"ada\"}")
    let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    #expect(mode == 0o600)
    try daemon.finish()
    #expect(!FileManager.default.fileExists(atPath: path), "removed at the end")
  }

  @Test("A uid that is not allowed is turned away from a Unix socket")
  func allowedUIDs() throws {
    let scene = try scene()
    let path = scene.scratch("bearerd.sock")
    scene.settings.listeners += "\n\n[[listener]]\nunix = \"\(path)\"\nallowed_uids = [\(getuid() + 1)]"
    let daemon = try scene.startSignedIn()
    let answer = try Transfer(["--unix-socket", path, "http://localhost/me"], in: scene.scratch).finish()
    #expect(answer.exit != 0 && answer.status == 0)
    try daemon.finish()
  }

  @Test("Sockets from systemd are served, READY and STOPPING are announced")
  func socketActivation() throws {
    let scene = try scene()
    scene.settings.listeners = "[[listener]]\nsystemd = true"
    try scene.signIn()
    try scene.writeConfiguration()
    let manager = try Program(
      "python3",
      [Binaries.peer("service_manager.py"), scene.scratch("notify.sock"), Binaries.bearerd, "run", "--config",
        scene.scratch("bearerd.toml"), "--log-format", "logfmt"], in: scene.scratch)
    let port = try awaited("the manager's port") {
      manager.output.split(separator: "\n").first { $0.hasPrefix("port ") }.flatMap { UInt16($0.dropFirst(5)) }
    }
    // The socket listens already, so a request may come before the service is ready.
    let early = try Transfer(["http://127.0.0.1:\(port)/me"], in: scene.scratch).finish()
    #expect(early.status == 200 && early.body == "{\"user\":\"ada\"}", "\(early.heads) \(manager.error)")
    #expect(eventually { manager.output.contains("READY=1") }, "\(manager.output)\(manager.error)")
    manager.signal(SIGHUP)
    #expect(eventually { manager.output.contains("RELOADING=1") && manager.output.contains("MONOTONIC_USEC=") })
    #expect(eventually { manager.output.components(separatedBy: "READY=1").count == 3 })
    manager.signal(SIGTERM)
    #expect(try manager.end(within: 20) == 0, "\(manager.error)")
    #expect(manager.output.contains("STOPPING=1"))
  }
}
