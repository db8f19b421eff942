import Foundation
import Testing

@Suite("With parts that others wrote: django-oauth-toolkit, nginx, curl, requests, Node.js, Java")
struct RealPartsTests {
  private static let seconds = 8
  private static let lifetime = 2

  private func configuration(_ parts: RealParts) -> String {
    """
    loops = 1
    state_directory = "\(parts.scratch("state"))"

    [[listener]]
    tcp = "127.0.0.1:0"

    [admin]
    address = "127.0.0.1:0"

    [upstream.api]
    origin = "https://api.test:\(parts.tlsPort)"
    address = "127.0.0.1:\(parts.tlsPort)"
    hosts = ["api.test"]
    session = "ada"
    default = true
    [upstream.api.tls]
    ca_file = "\(parts.scratch("ca.pem"))"

    [provider.site]
    preset = "oauth2"
    endpoint = "https://127.0.0.1:\(parts.tlsPort)/o/token/"
    client_auth = "basic"
    client_id = "bearerd"
    client_secret_file = "\(parts.scratch("client-secret"))"
    rotation = "always"
    refresh_ahead = "off"
    [provider.site.tls]
    ca_file = "\(parts.scratch("ca.pem"))"
    server_name = "idp.test"
    """
  }

  @Test("Four kinds of client see only 200 over several expiries, and the reuse protection never strikes")
  func clients() throws {
    let parts = try RealParts(tokenLifetime: Self.lifetime)
    try parts.scratch.write("not-so-secret", to: "client-secret")
    let file = try parts.scratch.write(configuration(parts), to: "bearerd.toml")
    let answer = String(decoding: try JSONSerialization.data(withJSONObject: parts.tokens), as: UTF8.self)
    let added = try Program.run(
      Binaries.bearerd, ["session", "add", "ada", "--config", file, "--provider", "site", "--from-json", "-"],
      in: parts.scratch, input: answer)
    #expect(added.exit == 0, "\(added.output)\(added.error)")
    let daemon = try Bearerd(configuration: file, in: parts.scratch)
    let began = Date()
    let target = "http://api.test:\(parts.tlsPort)/api/me"
    let arguments = [daemon.url, target, daemon.url + "/api/me", "\(Self.seconds)"]
    let programs = try [
      Program("node", [Binaries.peer("node_client.js")] + arguments, in: parts.scratch),
      Program(RealParts.python(), [Binaries.peer("requests_client.py")] + arguments, in: parts.scratch),
      Program("java", ["-Xmx128m", Binaries.peer("JavaClient.java")] + arguments, in: parts.scratch),
    ]
    var statuses: Set<Int> = []
    while Date().timeIntervalSince(began) < Double(Self.seconds) {
      statuses.insert(try daemon.forward(target).status)
      statuses.insert(try daemon.gateway("/api/me").status)
    }
    #expect(statuses == [200])
    for program in programs {
      let exit = try program.end(within: 90)
      #expect(exit == 0, "\(program.name): \(program.error)")
      let told = try JSONSerialization.jsonObject(with: Data(program.output.utf8)) as? [String: Int] ?? [:]
      #expect(Array(told.keys) == ["200"] && told["200"] ?? 0 > 10, "\(program.name): \(told)")
    }
    let elapsed = Date().timeIntervalSince(began)
    let stats = try parts.stats()
    #expect(stats["refused"] == 0 && stats["live_refresh_tokens"] == 1, "\(stats)")
    // A quarter of the lifetime is the most that is left at a refresh.
    let most = Int(elapsed / (Double(Self.lifetime) * 0.75)) + 2
    #expect((3...most).contains(stats["granted"] ?? 0), "\(stats) in \(elapsed) s")
    #expect(try daemon.metric("bearerd_session_usable") == 1)
    print("with real parts for \(Int(elapsed)) s: \(stats)")
    try daemon.finish()
  }
}
