import Foundation
import MockBackend
import MockServer
import Testing

/// What clients and upstreams do that others have to be protected from.
@Suite("SPEC §0: peers that do not read, wait or end as they should") struct PressureTests {
  @Test("A session that a pool has picked for a connection does not follow it to another upstream's index (I6)")
  func pickedSessionAfterReload() throws {
    let scene = try Scene()
    scene.settings.session = "pool = \"ada\""
    scene.settings.upstream = "default = true"
    try scene.signIn("bob")
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    client.send("GET /me HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(client.receive(until: "ada").ending == .stopped)
    // First in the file and by name: it takes the index of "api".
    scene.settings.upstream = ""
    scene.settings.listeners = """
      [upstream.aaa]
      origin = "http://second.test"
      address = "127.0.0.1:\(scene.server.plainPort)"
      allow_plaintext = true
      pool = "bob"
      default = true

      \(scene.settings.listeners)
      """
    try scene.writeConfiguration()
    daemon.reload()
    try daemon.waitForLog("configuration reloaded")
    client.send("GET /me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    let answer = client.receive().text
    #expect(answer.contains("bob") && !answer.contains("ada"), "\(answer)")
    client.leave()
    try daemon.finish()
  }

  @Test("Who waits for a connection is answered in time, whatever else it sends meanwhile (I11)")
  func waitingForThePool() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.tables = """
      [limits]
      upstream_connections = 1
      [timeouts]
      connect = "1s"
      """
    let daemon = try scene.startSignedIn()
    let holder = try RawClient(port: daemon.port)
    holder.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na")
    #expect(try eventually { try daemon.metric("bearerd_upstream_connections") ?? 0 >= 1 })
    let client = try RawClient(port: daemon.port)
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
    usleep(300_000)
    client.send("12345")
    let answer = client.receive(until: "\r\n\r\n")
    #expect(answer.text.hasPrefix("HTTP/1.1 503 "), "\(answer)")
    client.leave()
    holder.leave()
    try daemon.finish()
  }

  @Test("A connection that the upstream ended with its response is not taken for the next request")
  func endedWithTheResponse() throws {
    let scene = try Scene()
    let upstream = try FixedUpstream("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", in: scene.scratch)
    scene.settings.tables = upstream.table("default = true")
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    for _ in 0..<20 {
      client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
      let answer = client.receive(until: "\r\n\r\n").text
      #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
    }
    client.leave()
    try daemon.finish()
  }

  @Test("A client that pipelines and does not read is read no further (I12)")
  func pipelinesWithoutReading() throws {
    let scene = try Scene()
    let daemon = try scene.startSignedIn()
    let client = try RawClient(port: daemon.port)
    let count = 60_000
    let request = "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"
    let all = Array(String(repeating: request, count: count).utf8)
    var sent = 0
    var stalls = 0
    while sent < all.count, stalls < 100 {
      let taken = client.offer(all[sent..<min(all.count, sent + 65_536)])
      sent += taken
      stalls = taken > 0 ? 0 : stalls + 1
      if taken == 0 { usleep(10_000) }
    }
    // More than the sockets hold would be answered into memory.
    var answered = 0.0
    var last = -1.0
    while answered != last {
      last = answered
      usleep(700_000)
      answered = try daemon.metric("bearerd_own_answers_total") ?? 0
    }
    #expect(answered > 0 && answered < Double(count) / 2, "\(answered)")
    client.leave()
    try daemon.finish()
  }

  @Test("Who waits for a refresh and leaves makes room for the next; the refresh goes on and serves it")
  func leavesTheRefresh() throws {
    let scene = try Scene()
    scene.settings.upstream = "default = true"
    scene.settings.tables = "[limits]\nwaiters_per_session = 1"
    try scene.signIn()
    let daemon = try scene.start()
    scene.rejectAccessTokens()
    scene.setFaults { $0.refresh = .always(.delay(milliseconds: 3000)) }
    let leaver = try RawClient(port: daemon.port)
    leaver.send("GET /me HTTP/1.1\r\nHost: 127.0.0.1:\(daemon.port)\r\n\r\n")
    #expect(try eventually { try scene.session(["show", "ada"]).output.contains("refreshing") })
    // The limit holds while it is there.
    #expect(try daemon.gateway("/me").code == "OVERLOADED")
    leaver.reset()
    // Its line is written once its place is free.
    try daemon.waitForLog("client gone")
    #expect(try daemon.gateway("/me").status == 200)
    #expect(scene.server.counters.refreshesCommitted == 1)
    try daemon.finish()
  }
}
