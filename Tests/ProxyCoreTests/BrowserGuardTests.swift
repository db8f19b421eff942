import BearerPolicy
import HTTPSyntax
import ProxyCore
import Testing

@Suite("SPEC §1 browser guard") struct BrowserGuardTests {
  private static let routes = table(
    [upstream(.https, "api.example.com", 443, hosts: [("api.dev", nil)], isDefault: true)],
    allowedOrigins: ["https://app.example.com", "http://tools.example.com:8080"], hostNames: ["proxy.lan"])

  @Test(
    "a Host that is neither configured nor loopback is refused: a rebound name",
    arguments: [
      ("localhost", true), ("localhost:8180", true), ("LOCALHOST", true), ("app.localhost", true),
      ("a.b.localhost:1", true),
      ("127.0.0.1", true), ("127.0.0.1:8180", true), ("127.255.255.254", true), ("[::1]", true),
      ("[::1]:8180", true),
      ("proxy.lan", true), ("Proxy.LAN:8180", true), ("api.dev", true), ("api.example.com", true),
      ("evil.example", false), ("evil.example:8180", false), ("127.evil.example", false),
      ("127.0.0.1.evil.example", false),
      ("localhost.evil.example", false), ("notlocalhost", false), (".localhost", false), ("127.0.0", false),
      ("127.1", false),
      ("127.0.0.1.1", false), ("127..0.1", false), ("127.0.0.", false), ("1270.0.0.1", false),
      ("128.0.0.1", false), ("10.0.0.1", false),
      ("[::2]", false), ("[::ffff:127.0.0.1]", false), ("0.0.0.0", false), ("[::]", false),
      ("localhost.", false),
      ("proxy.lan.evil.example", false), ("evil-proxy.lan", false), ("api.dev.evil.example", false),
    ])
  func host(_ host: String, _ isAllowed: Bool) {
    let request = head("GET /x HTTP/1.1", "Host: \(host)")
    #expect(routed(request, Self.routes) == (isAllowed ? "0 /x gateway" : "denied foreignHost"))
    // No browser speaks over a Unix socket.
    #expect(routed(request, Self.routes, isTCP: false) == "0 /x gateway")
  }

  @Test(
    "a foreign Origin is refused, loopback and listed ones are allowed",
    arguments: [
      ("http://localhost:3000", true), ("https://localhost", true), ("HTTP://LOCALHOST:3000", true),
      ("http://127.0.0.1:5173", true),
      ("http://[::1]:3000", true), ("http://[::1]", true), ("http://app.localhost:3000", true),
      ("http://proxy.lan", true),
      ("https://app.example.com", true), ("http://tools.example.com:8080", true),
      ("null", false), ("", false), ("https://evil.example", false), ("http://localhost.evil.example", false),
      ("http://127.evil.example", false), ("http://127.0.0.1.evil.example:80", false),
      ("http://evil.example:localhost", false),
      ("file://localhost", false), ("chrome-extension://localhost", false), ("localhost:3000", false),
      ("localhost", false),
      ("http://", false), ("http://:3000", false), ("http://[::1", false),
      ("https://app.example.com:8443", false), ("http://app.example.com", false),
      ("https://app.example.com.evil.example", false), ("http://tools.example.com", false),
      ("https://api.example.com", false),
      ("http://localhost:3000, https://evil.example", false), ("http://localhost@evil.example", false),
      ("http://evil.example/http://localhost", false), ("http://localhost/", false),
    ])
  func origin(_ origin: String, _ isAllowed: Bool) {
    let request = head("GET /x HTTP/1.1", "Host: localhost:8180", "Origin: \(origin)")
    #expect(routed(request, Self.routes) == (isAllowed ? "0 /x gateway" : "denied foreignOrigin"))
    #expect(routed(request, Self.routes, isTCP: false) == "0 /x gateway")
  }

  @Test(
    "of two Origin lines neither can hide the other",
    arguments: [
      ["https://evil.example", "http://localhost:3000"], ["http://localhost:3000", "https://evil.example"],
    ])
  func twoOrigins(_ origins: [String]) {
    let request = head(
      "GET /x HTTP/1.1", "Host: localhost", "Origin: \(origins[0])", "Origin: \(origins[1])")
    #expect(routed(request, Self.routes) == "denied foreignOrigin")
  }

  @Test(
    "Sec-Fetch-Site: cross-site is refused unless an allowed Origin vouches for it",
    arguments: [
      ("cross-site", nil, false), ("Cross-Site", nil, false), ("same-origin", nil, true),
      ("same-site", nil, true), ("none", nil, true),
      ("cross-site", "http://localhost:3000", true), ("cross-site", "https://app.example.com", true),
      ("same-origin", "https://evil.example", false), ("cross-site", "null", false),
    ] as [(String, String?, Bool)])
  func fetchSite(_ site: String, _ origin: String?, _ isAllowed: Bool) {
    var lines = "GET /x HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: \(site)\r\n"
    if let origin { lines += "Origin: \(origin)\r\n" }
    let request = Array((lines + "\r\n").utf8)
    #expect(routed(request, Self.routes) == (isAllowed ? "0 /x gateway" : "denied foreignOrigin"))
  }

  @Test("a configured name does not let a foreign Origin in")
  func configuredHostForeignOrigin() {
    let request = head("GET /x HTTP/1.1", "Host: api.dev", "Origin: https://evil.example")
    #expect(routed(request, Self.routes) == "denied foreignOrigin")
  }

  @Test("HTTP/1.0 without Host is allowed, its Origin is judged all the same")
  func noHost() {
    #expect(routed(head("GET /x HTTP/1.0"), Self.routes) == "0 /x gateway")
    #expect(
      routed(head("GET /x HTTP/1.0", "Origin: https://evil.example"), Self.routes) == "denied foreignOrigin")
  }
}

@Suite("SPEC §2: the rule that applies to a path") struct PathRuleTests {
  private static let ruled = RouteTable.Upstream(
    scheme: .https, host: Array("api.example.com".utf8), port: 443, auth: .optional,
    tokenlessPaths: ["/oauth/token", "/v1/public/login"].map { Array($0.utf8) },
    rules: [
      RouteTable.PathRule(prefix: Array("/v1/public".utf8), auth: ProxyCore.AuthMode.none, retry: .always),
      RouteTable.PathRule(prefix: Array("/v1/pay".utf8), auth: nil, retry: .never),
      RouteTable.PathRule(prefix: Array("/v1".utf8), auth: .required, retry: .default),
    ])

  @Test(
    "the first rule whose prefix the path has by whole segments; token endpoint and login never carry a token",
    arguments: [
      ("/", AuthMode.optional, "default", nil), ("/v1", .required, "default", 2),
      ("/v1/x", .required, "default", 2),
      ("/v1?x", .required, "default", 2), ("/v10", .optional, "default", nil),
      ("/v1/public", .none, "always", 0),
      ("/v1/public/x", .none, "always", 0), ("/v1/publicity", .required, "default", 2),
      ("/v1/pay", .optional, "never", 1),
      ("/v1/pay?x=/v1/public", .optional, "never", 1), ("/v1/payment", .required, "default", 2),
      ("/oauth/token", .none, "default", nil), ("/oauth/token?x", .none, "default", nil),
      ("/oauth/tokens", .optional, "default", nil), ("/v1/public/login", .none, "always", 0),
      ("", .optional, "default", nil),
      // Every spelling of a path is the same path.
      ("/oauth/%74oken", .none, "default", nil), ("/oauth%2Ftoken", .none, "default", nil),
      ("/%6f%61uth/%74OKEN", .optional, "default", nil), ("//oauth//token", .none, "default", nil),
      ("/oauth/./token", .none, "default", nil), ("/oauth/%2e/token?x", .none, "default", nil),
      ("/v1/../oauth/token", .none, "default", nil), ("/../oauth/token", .none, "default", nil),
      ("/oauth/token/..", .optional, "default", nil), ("/oauth/token%", .optional, "default", nil),
      ("/oauth/token%2", .optional, "default", nil), ("/oauth/token/%zz", .none, "default", nil),
      ("/v1/public/../x", .required, "default", 2), ("/v1/pay/.", .optional, "never", 1),
      ("/.well-known/x", .optional, "default", nil), ("/x?/../oauth/token", .optional, "default", nil),
      ("/x?%2e/../oauth/token", .optional, "default", nil), ("%", .optional, "default", nil),
      // An origin that counts empty segments, or takes %2F for a letter, steps back over another one.
      ("/oauth//../token", .none, "default", nil), ("/x%2Fy/../oauth/token", .none, "default", nil),
      ("/oauth;v=1/token", .none, "default", nil), ("/oauth%5Ctoken", .none, "default", nil),
      ("/v1//public", .none, "default", 2), ("/x%2Fy/../v1/pay", .optional, "never", 1),
      ("/oauth/token%3Fx", .optional, "default", nil), ("/v1/public%3Fx", .required, "default", 2),
    ] as [(String, AuthMode, String, Int?)])
  func applies(_ path: String, _ auth: AuthMode, _ retry: String, _ index: Int?) {
    let applied = Self.ruled.rule(for: Array(path.utf8).span.bytes)
    #expect(applied.auth == auth)
    #expect(applied.retry.rawValue == retry)
    #expect(applied.ruleIndex == index)
  }
}
