import BearerPolicy
import HTTPSyntax
import ProxyCore
import Testing

/// A route as one line: `0 /x forward`, `1 /x gateway`, `pass https host 443 /x`, `denied …`.
func routed(_ bytes: [UInt8], _ table: RouteTable, isTCP: Bool = true) -> String? {
  withRequest(bytes) { head, view in
    switch Router.route(head, view, table: table, isTCP: isTCP) {
    case .upstream(let index, let path, let isGateway):
      "\(index) \(path.string(in: view)) \(isGateway ? "gateway" : "forward")"
    case .passThrough(let scheme, let authority, let path):
      "pass \(scheme.name) \(authority.host.string(in: view)) \(authority.port.map { "\($0)" } ?? "-") \(path.string(in: view))"
    case .tunnel(let authority): "tunnel \(authority.host.string(in: view)) \(authority.port ?? 0)"
    case .denied(let denial): "denied \(denial)"
    }
  }
}

func upstream(
  _ scheme: Scheme, _ host: String, _ port: UInt16, hosts: [(String, UInt16?)] = [], prefix: String? = nil,
  strips: Bool = false, isDefault: Bool = false
) -> RouteTable.Upstream {
  RouteTable.Upstream(
    scheme: scheme, host: Array(host.utf8), port: port,
    hosts: hosts.map { RouteTable.HostName(host: Array($0.0.utf8), port: $0.1) },
    pathPrefix: prefix.map { Array($0.utf8) }, stripsPrefix: strips, isDefault: isDefault)
}

func table(
  _ upstreams: [RouteTable.Upstream], unmatched: RouteTable.Unmatched = .deny, allowedOrigins: [String] = [],
  hostNames: [String] = [], connect: RouteTable.Connect = .deny
) -> RouteTable {
  RouteTable(
    upstreams: upstreams, unmatched: unmatched, connect: connect,
    browserGuard: BrowserGuard(
      allowedOrigins: allowedOrigins.map { Array($0.utf8) }, hostNames: hostNames.map { Array($0.utf8) }),
    pseudonym: Array("here-1f".utf8))
}

@Suite("SPEC §1 forward mode: host and port select the upstream") struct ForwardRoutingTests {
  private static let routes = table([
    upstream(.https, "api.example.com", 443),
    upstream(.https, "api.example.com", 8443),
    upstream(.http, "plain.example.com", 80),
    upstream(.http, "plain.example.com", 8080),
    upstream(.https, "[2001:db8::1]", 443),
    upstream(.https, "odd.example.com", 80),
  ])

  @Test(
    "which upstream a target selects",
    arguments: [
      ("https://api.example.com/x?q=1", "0 /x?q=1 forward"),
      ("https://api.example.com:443/x", "0 /x forward"),
      ("https://API.Example.COM/x", "0 /x forward"),
      // Plain http to port 80 also means the upstream on the default https port.
      ("http://api.example.com/x", "0 /x forward"),
      ("http://api.example.com:80/x", "0 /x forward"),
      ("http://api.example.com:443/x", "0 /x forward"),
      ("http://api.example.com:8443/x", "1 /x forward"),
      ("https://api.example.com:8443/x", "1 /x forward"),
      ("http://api.example.com:8080/x", "denied noUpstream"),
      ("https://api.example.com:80/x", "denied noUpstream"),
      ("http://plain.example.com/x", "2 /x forward"),
      ("http://plain.example.com:8080/x", "3 /x forward"),
      // Never from https down to http.
      ("https://plain.example.com:80/x", "denied noUpstream"),
      ("https://plain.example.com/x", "denied noUpstream"),
      ("https://[2001:DB8::1]/x", "4 /x forward"),
      ("http://odd.example.com/x", "5 /x forward"),
      ("https://api.example.com", "0  forward"),
      ("https://api.example.com?q", "0 ?q forward"),
      ("https://api.example.com.evil.example/x", "denied noUpstream"),
      ("https://evil-api.example.com/x", "denied noUpstream"),
      ("https://api.example.com./x", "denied noUpstream"),
    ])
  func selects(_ target: String, _ expected: String) {
    #expect(routed(head("GET \(target) HTTP/1.1", "Host: api.example.com"), Self.routes) == expected)
  }

  @Test("an absolute-form target overrides Host (RFC 9112 §3.2.2), and Host is not guarded there")
  func overridesHost() {
    #expect(
      routed(head("GET http://plain.example.com/x HTTP/1.1", "Host: api.example.com"), Self.routes)
        == "2 /x forward")
    #expect(
      routed(head("GET https://elsewhere.example/x HTTP/1.1", "Host: api.example.com"), Self.routes)
        == "denied noUpstream")
    #expect(
      routed(head("GET https://api.example.com/x HTTP/1.1", "Host: evil.example"), Self.routes)
        == "0 /x forward")
  }

  @Test("an upstream's further host names belong to the gateway, not to absolute-form targets")
  func furtherNames() {
    let routes = table([upstream(.https, "api.example.com", 443, hosts: [("dev.example", nil)])])
    #expect(
      routed(head("GET http://dev.example/x HTTP/1.1", "Host: dev.example"), routes) == "denied noUpstream")
  }

  @Test("among an origin's upstreams the longest prefix decides, a stripped one only in the gateway")
  func prefixes() {
    let routes = table([
      upstream(.https, "api.example.com", 443, prefix: "/v1"),
      upstream(.https, "api.example.com", 443, prefix: "/v1/admin"),
      upstream(.https, "api.example.com", 443),
      upstream(.https, "other.example.com", 443, prefix: "/v1/admin/long", strips: true),
    ])
    for (path, expected) in [
      ("/v1/x", "0 /v1/x forward"), ("/v1/admin", "1 /v1/admin forward"),
      ("/v1/admin/long", "1 /v1/admin/long forward"),
      ("/v1/administration", "0 /v1/administration forward"), ("/v2", "2 /v2 forward"),
      ("/v10", "2 /v10 forward"),
    ] {
      #expect(routed(head("GET https://api.example.com\(path) HTTP/1.1", "Host: a"), routes) == expected)
    }
    #expect(
      routed(head("GET https://other.example.com/v1/admin/long/x HTTP/1.1", "Host: a"), routes)
        == "3 /v1/admin/long/x forward")
  }

  @Test(
    "a host that no upstream claims is denied, or passed on where that is configured",
    arguments: [
      ("http://elsewhere.example/x", "pass http elsewhere.example - /x"),
      ("https://elsewhere.example:8443/x", "pass https elsewhere.example 8443 /x"),
      ("http://[::1]:9/", "pass http [::1] 9 /"),
      ("https://api.example.com/x", "0 /x forward"),
      ("https://api.example.com:1/x", "pass https api.example.com 1 /x"),
    ])
  func unmatched(_ target: String, _ passed: String) {
    let upstreams = [upstream(.https, "api.example.com", 443)]
    let request = head("GET \(target) HTTP/1.1", "Host: x")
    #expect(routed(request, table(upstreams, unmatched: .pass)) == passed)
    let isClaimed = passed.hasPrefix("0")
    #expect(routed(request, table(upstreams)) == (isClaimed ? passed : "denied noUpstream"))
  }

  @Test("CONNECT is denied, a malformed target says what is wrong with it")
  func notForwarded() {
    #expect(
      routed(head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com:443"), Self.routes)
        == "denied connect")
    let routes = Self.routes
    let denial = withRequest(head("GET ftp://api.example.com/x HTTP/1.1", "Host: a")) { head, bytes in
      Router.route(head, bytes, table: routes, isTCP: true)
    }
    #expect(denial == .denied(.malformedTarget(.unsupportedScheme)))
  }
}

@Suite("SPEC §1 gateway mode: Host, then prefix, then the default") struct GatewayRoutingTests {
  private static let routes = table([
    upstream(.https, "api.example.com", 443, hosts: [("api.dev", nil), ("ported.dev", 8180)]),
    upstream(.https, "b.example.com", 8443, prefix: "/b", strips: true),
    upstream(.https, "c.example.com", 443, prefix: "/b/c"),
    upstream(.https, "d.example.com", 443, prefix: "/d/", strips: true),
    upstream(.https, "e.example.com", 443, isDefault: true),
  ])

  @Test(
    "which upstream and path a request has",
    arguments: [
      ("api.dev", "/b/x", "0 /b/x gateway"),
      ("API.DEV:9999", "/x", "0 /x gateway"),
      ("api.example.com", "/x", "0 /x gateway"),
      ("api.example.com:443", "/x", "0 /x gateway"),
      ("ported.dev:8180", "/x", "0 /x gateway"),
      ("ported.dev:8181", "/x", "denied foreignHost"),
      ("ported.dev", "/x", "denied foreignHost"),
      ("api.example.com:80", "/x", "denied foreignHost"),
      ("127.0.0.1:8180", "/x", "4 /x gateway"),
      ("localhost", "/", "4 / gateway"),
      ("localhost", "/b", "1  gateway"),
      ("localhost", "/b?q", "1 ?q gateway"),
      ("localhost", "/b/", "1 / gateway"),
      ("localhost", "/b/x?q", "1 /x?q gateway"),
      ("localhost", "/bx", "4 /bx gateway"),
      ("localhost", "/B/x", "4 /B/x gateway"),
      ("localhost", "/b/c", "2 /b/c gateway"),
      ("localhost", "/b/c/x", "2 /b/c/x gateway"),
      ("localhost", "/b/cx", "1 /cx gateway"),
      ("localhost", "/d/x", "3 /x gateway"),
      ("localhost", "/d/", "3 / gateway"),
      ("localhost", "/d", "4 /d gateway"),
    ])
  func selects(_ host: String, _ target: String, _ expected: String) {
    #expect(routed(head("GET \(target) HTTP/1.1", "Host: \(host)"), Self.routes) == expected)
  }

  @Test("OPTIONS * goes to the host's upstream or the default one")
  func asterisk() {
    #expect(routed(head("OPTIONS * HTTP/1.1", "Host: api.dev"), Self.routes) == "0 * gateway")
    #expect(routed(head("OPTIONS * HTTP/1.1", "Host: localhost"), Self.routes) == "4 * gateway")
  }

  @Test("without a default upstream what nobody claims is denied")
  func noDefault() {
    let routes = table([upstream(.https, "b.example.com", 443, prefix: "/b")])
    #expect(routed(head("GET /x HTTP/1.1", "Host: localhost"), routes) == "denied noUpstream")
    #expect(routed(head("GET /b HTTP/1.1", "Host: localhost"), routes) == "0 /b gateway")
  }

  @Test("of several upstreams of one name the longest prefix decides")
  func prefixesOfOneHost() {
    let routes = table([
      upstream(.https, "api.example.com", 443, hosts: [("api.dev", nil)], prefix: "/v1"),
      upstream(.https, "new.example.com", 443, hosts: [("api.dev", nil)], prefix: "/v1/new"),
      upstream(.https, "rest.example.com", 443, hosts: [("api.dev", nil)]),
    ])
    for (path, expected) in [
      ("/v1", "0 /v1"), ("/v1/new/x", "1 /v1/new/x"), ("/v1/newer", "0 /v1/newer"), ("/", "2 /"),
    ] {
      #expect(routed(head("GET \(path) HTTP/1.1", "Host: api.dev"), routes) == "\(expected) gateway")
    }
  }

  @Test("a loopback upstream's own name does not catch every gateway request")
  func loopbackUpstream() {
    let routes = table([
      upstream(.http, "localhost", 8180), upstream(.https, "api.example.com", 443, isDefault: true),
    ])
    #expect(routed(head("GET /x HTTP/1.1", "Host: localhost:8180"), routes) == "1 /x gateway")
  }

  @Test("HTTP/1.0 without Host is routed by its path")
  func noHost() {
    #expect(routed(head("GET /b/x HTTP/1.0"), Self.routes) == "1 /x gateway")
    #expect(routed(head("GET /x HTTP/1.0"), Self.routes) == "4 /x gateway")
  }
}

@Suite("SPEC §1: a request that already passed through here is refused") struct LoopTests {
  private static let routes = table([upstream(.https, "api.example.com", 443, isDefault: true)])

  @Test(
    "a Via member received by our pseudonym",
    arguments: [
      ("1.1 here-1f", true), ("1.1 HERE-1F", true), ("1.0 first, 1.1 here-1f", true),
      ("HTTP/1.1 here-1f (comment)", true),
      ("1.1\there-1f", true), ("1.1   here-1f  , 1.0 second", true),
      ("1.1 first (says, \"x\"), 1.1 here-1f", true),
      ("1.1 here-1f2", false), ("1.1 not-here-1f", false), ("here-1f", false), ("1.1 other (here-1f)", false),
      ("", false), ("1.1", false), (",,", false),
    ])
  func via(_ value: String, _ isLoop: Bool) {
    for request in [
      head("GET /x HTTP/1.1", "Host: localhost", "Via: \(value)"),
      head("GET https://api.example.com/x HTTP/1.1", "Host: a", "Via: \(value)"),
    ] {
      #expect((routed(request, Self.routes) == "denied loop") == isLoop)
    }
  }

  @Test("in any of several lines")
  func lines() {
    #expect(
      routed(
        head("GET /x HTTP/1.1", "Host: localhost", "Via: 1.1 a", "X: y", "Via: 1.1 here-1f"), Self.routes)
        == "denied loop")
  }
}

@Suite("SPEC §1 gateway mode: prefixes and the ways to read a path") struct AmbiguousPathTests {
  private static let routes = table([
    upstream(.https, "api.example.com", 443, prefix: "/api", strips: true),
    upstream(.https, "api.example.com", 443, prefix: "/a%20b"),
    upstream(.https, "api.example.com", 443, isDefault: true),
  ])

  @Test(
    "a path that may mean another upstream's reaches none",
    arguments: [
      ("/api/x", "0 /x gateway"), ("/api/J%C3%B6rg/a%2Fb;c//d", "0 /J%C3%B6rg/a%2Fb;c//d gateway"),
      ("/api/a/../b", "0 /a/../b gateway"), ("/x%2Fy", "2 /x%2Fy gateway"), ("/x//y", "2 /x//y gateway"),
      ("/a%20b/c", "1 /a%20b/c gateway"), ("/x?/../api", "2 /x?/../api gateway"),
      ("/%61pi/x", "denied ambiguousPath"), ("//api/x", "denied ambiguousPath"),
      ("/api/../x", "denied ambiguousPath"), ("/api%2Fx", "denied ambiguousPath"),
      ("/x/..%2Fapi/y", "denied ambiguousPath"), ("/api/..;/x", "denied ambiguousPath"),
    ])
  func paths(_ path: String, _ expected: String) {
    #expect(routed(head("GET \(path) HTTP/1.1", "Host: localhost"), Self.routes) == expected)
  }

  @Test("without prefixes the choice does not depend on the path")
  func noPrefixes() {
    let routes = table([upstream(.https, "api.example.com", 443, isDefault: true)])
    #expect(routed(head("GET //x/..%2Fy HTTP/1.1", "Host: localhost"), routes) == "0 //x/..%2Fy gateway")
  }

  @Test("in forward mode too, among an origin's upstreams")
  func forward() {
    let routes = table([
      upstream(.http, "api.example.com", 80, prefix: "/pay"), upstream(.http, "api.example.com", 80),
    ])
    #expect(routed(head("GET http://api.example.com/pay/x HTTP/1.1", "Host: x"), routes) == "0 /pay/x forward")
    #expect(
      routed(head("GET http://api.example.com/x/../pay HTTP/1.1", "Host: x"), routes) == "denied ambiguousPath")
  }
}
