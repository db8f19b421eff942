import Foundation
import MockServer
import Testing

/// A real browser, without a window, with a page that tries to reach bearerd (SPEC §1, §10).
@Suite("SPEC §10: what a web page can and cannot do with the proxy", .serialized) struct BrowserTests {
  private struct Parts {
    let scene: Scene
    let pages: Program
    let port: UInt16
    let daemon: Bearerd
    let accessToken: String
  }

  private func parts() throws -> Parts {
    let scene = try Scene()
    let pages = try Program("python3", [Binaries.peer("pages.py")], in: scene.scratch)
    let port = try awaited("the page's server") { UInt16(pages.output.prefix { $0.isNumber }) }
    scene.settings.origin = "http://127.0.0.1:\(port)"
    scene.settings.address = "127.0.0.1:\(port)"
    scene.settings.upstream = "default = true"
    let token = try scene.signIn().accessToken
    return Parts(scene: scene, pages: pages, port: port, daemon: try scene.start(), accessToken: token)
  }

  /// Foreign names lead to loopback, as an attacker's own name server would have it (DNS rebinding).
  private func browser(_ url: String, _ parts: Parts, _ options: [String] = []) throws -> Program {
    try Program(
      "chromium",
      [
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
        "--disable-background-networking", "--user-data-dir=\(parts.scene.scratch("profile-\(UUID().uuidString.prefix(4))"))",
        "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP rebound.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
      ] + options + [url], in: parts.scene.scratch)
  }

  /// What the page, loaded from `host`, reports of its attempts.
  private func visit(_ host: String, _ parts: Parts) throws -> [String: String] {
    let gateway = "http://localhost:\(parts.daemon.port)"
    let url =
      "http://\(host):\(parts.port)/page?gateway=\(gateway)&admin=http://localhost:\(parts.daemon.adminPort)"
    let browser = try browser(url, parts)
    let line = try awaited("the page's report", within: 60) { () -> String? in
      guard browser.isRunning else { throw TimedOut(description: "the browser ended: \(browser.error.suffix(2000))") }
      return parts.pages.output.split(separator: "\n").first { $0.contains("\"page\":\"\(host):\(parts.port)\"") }.map(String.init)
    }
    browser.signal(SIGTERM)
    let report = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    return try #require(report["results"] as? [String: String])
  }

  private struct SeenRequest: Decodable {
    var method: String
    var path: String
    var origin: String?
    var authorization: String?
  }

  private func seen(_ parts: Parts) throws -> [SeenRequest] {
    let answer = try Transfer(["http://127.0.0.1:\(parts.port)/seen"], in: parts.scene.scratch).finish()
    return try JSONDecoder().decode([SeenRequest].self, from: Data(answer.body.utf8))
  }

  @Test("A page of another site reaches nothing: not by fetch, image, script, form, WebSocket, nor the metrics")
  func foreignPage() throws {
    let parts = try parts()
    let results = try visit("evil.test", parts)
    #expect(results["read"] == "blocked" && results["written"] == "blocked" && results["metrics"] == "blocked")
    #expect(results["image"] == "blocked" && results["script"] == "blocked" && results["socket"] == "blocked")
    // What cannot be read by the page must not have been done either.
    let done = try seen(parts)
    #expect(done.isEmpty, "\(done)")
    #expect(try (parts.daemon.metric("bearerd_own_answers_total") ?? 0) >= 7)
    try parts.daemon.finish()
  }

  @Test("A page on http://localhost works through the gateway, CORS preflight included, and the preflight has no token")
  func localPage() throws {
    let parts = try parts()
    let results = try visit("localhost", parts)
    let bearer = "Bearer \(parts.accessToken)"
    for name in ["read", "written"] {
      let got = try #require(results[name])
      let request = try JSONDecoder().decode(SeenRequest.self, from: Data(got.utf8))
      #expect(request.authorization == bearer, "\(name): \(got)")
    }
    #expect(results["metrics"] != nil)
    let requests = try seen(parts)
    let preflights = requests.filter { $0.method == "OPTIONS" }
    #expect(!preflights.isEmpty && preflights.allSatisfy { $0.authorization == nil })
    #expect(requests.filter { $0.method != "OPTIONS" }.allSatisfy { $0.authorization == bearer })
    try parts.daemon.finish()
  }

  @Test("A name that an attacker has led to loopback (DNS rebinding) is refused, although the page is its own origin")
  func rebound() throws {
    let parts = try parts()
    for port in [parts.daemon.port, parts.daemon.adminPort] {
      let browser = try browser("http://rebound.test:\(port)/api/read", parts, ["--dump-dom"])
      _ = try browser.end(within: 60)
      #expect(browser.output.contains("MISDIRECTED") || browser.output.contains("not a name of this listener"), "\(browser.output)")
      #expect(!browser.output.contains(parts.accessToken))
    }
    #expect(try seen(parts).isEmpty)
    try parts.daemon.finish()
  }
}
