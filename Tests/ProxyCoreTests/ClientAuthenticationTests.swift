import BearerPolicy
import HTTPSyntax
import ProxyCore
import Testing

private let clients = ClientTable([
  ClientTable.Client(name: Array("ci".utf8), secret: Secret("0123456789abcdef")),
  ClientTable.Client(name: Array("héllo".utf8), secret: Secret("a:colon:in:the:secret")),
])

private func verdict(_ fields: [String], isForward: Bool) -> ClientTable.Verdict? {
  let target = isForward ? "http://api.example.com/" : "/"
  let bytes = Array((["GET \(target) HTTP/1.1", "Host: x"] + fields).map { $0 + "\r\n" }.joined().utf8) + [13, 10]
  return withRequest(bytes) { clients.judge($0, $1, isForward: isForward) }
}

@Suite("SPEC §1 client authentication") struct ClientAuthenticationTests {
  @Test(
    "RFC 7617 §2: user name and password, in forward mode",
    arguments: [
      // ci:0123456789abcdef
      (["Proxy-Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZg=="], ClientTable.Verdict.client(0)),
      (["proxy-authorization: bASIC   Y2k6MDEyMzQ1Njc4OWFiY2RlZg=="], .client(0)),
      // héllo:a:colon:in:the:secret, in UTF-8
      (["Proxy-Authorization: Basic aMOpbGxvOmE6Y29sb246aW46dGhlOnNlY3JldA=="], .client(1)),
      // ci:a:colon:in:the:secret: another client's secret
      (["Proxy-Authorization: Basic Y2k6YTpjb2xvbjppbjp0aGU6c2VjcmV0"], .wrong),
      // ci:0123456789abcde, ci:0123456789abcdef0, ci:
      (["Proxy-Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2Rl"], .wrong),
      (["Proxy-Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZjA="], .wrong),
      (["Proxy-Authorization: Basic Y2k6"], .wrong),
      // No colon; no base64; another scheme; twice.
      (["Proxy-Authorization: Basic Y2k="], .missing),
      (["Proxy-Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZg=!"], .missing),
      (["Proxy-Authorization: Bearer Y2k6MDEyMzQ1Njc4OWFiY2RlZg=="], .missing),
      (["Proxy-Authorization: Basic"], .missing),
      (
        [
          "Proxy-Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZg==",
          "Proxy-Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZg==",
        ], .missing
      ),
      // The origin's credentials and the gateway's field say nothing to a proxy.
      (["Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZg=="], .missing),
      (["Bearerd-Client-Secret: 0123456789abcdef"], .missing),
      ([], .missing),
    ])
  func basic(_ fields: [String], _ expected: ClientTable.Verdict) {
    #expect(verdict(fields, isForward: true) == expected)
  }

  @Test(
    "the secret's own field, in gateway mode",
    arguments: [
      (["Bearerd-Client-Secret: 0123456789abcdef"], ClientTable.Verdict.client(0)),
      (["bearerd-client-secret:a:colon:in:the:secret"], .client(1)),
      (["Bearerd-Client-Secret: 0123456789abcdeF"], .wrong),
      (["Bearerd-Client-Secret: 0123456789abcdef0123456789abcdef"], .wrong),
      (["Bearerd-Client-Secret:"], .wrong),
      (["Bearerd-Client-Secret: 0123456789abcdef", "Bearerd-Client-Secret: 0123456789abcdef"], .missing),
      (["Proxy-Authorization: Basic Y2k6MDEyMzQ1Njc4OWFiY2RlZg=="], .missing),
      ([], .missing),
    ])
  func secretField(_ fields: [String], _ expected: ClientTable.Verdict) {
    #expect(verdict(fields, isForward: false) == expected)
  }

  @Test("without clients nobody is one")
  func noClients() {
    let bytes = head("GET / HTTP/1.1", "Host: x", "Bearerd-Client-Secret: 0123456789abcdef")
    #expect(withRequest(bytes) { ClientTable().judge($0, $1, isForward: false) } == .wrong)
  }

  @Test("the credentials go no further")
  func notForwarded() throws {
    let bytes = head(
      "GET / HTTP/1.1", "Host: x", "Bearerd-Client-Secret: 0123456789abcdef", "Proxy-Authorization: Basic Y2k6", "A: b")
    let text = try #require(
      withRequest(bytes) { parsed, view in
        let plan = ForwardedRequest(
          path: parsed.target, authorizationLine: [], keepsClientAuthorization: true,
          via: ViaLine(pseudonym: Array("here".utf8)), framing: .none, sendsExpect: false)
        var out = ByteBuffer(capacity: 4096)
        plan.write(parsed, view, hostLine: Array("Host: y\r\n".utf8), into: &out)
        return out.contentText
      })
    #expect(text == "GET / HTTP/1.1\r\nHost: y\r\nA: b\r\nVia: 1.1 here\r\n\r\n")
  }
}

@Suite("RFC 9110 §7.6.2 Max-Forwards") struct MaxForwardsTests {
  @Test(
    "OPTIONS and TRACE count it down, other methods ignore it",
    arguments: [
      ("OPTIONS", ["Max-Forwards: 5"], MaxForwards.forward(4)), ("TRACE", ["Max-Forwards: 1"], .forward(0)),
      ("OPTIONS", ["Max-Forwards: 0"], .ended), ("TRACE", ["Max-Forwards: 000"], .ended),
      ("GET", ["Max-Forwards: 0"], .unlimited), ("OPTIONS", [], .unlimited),
      ("OPTIONS", ["Max-Forwards: 99999999999999999999999"], .forward(999_999)),
      ("OPTIONS", ["Max-Forwards: -1"], .malformed), ("OPTIONS", ["Max-Forwards:"], .malformed),
      ("TRACE", ["Max-Forwards: 1x"], .malformed), ("TRACE", ["Max-Forwards: 1", "Max-Forwards: 1"], .malformed),
    ])
  func read(_ method: String, _ fields: [String], _ expected: MaxForwards) {
    let text = (["\(method) / HTTP/1.1", "Host: x"] + fields).map { $0 + "\r\n" }.joined() + "\r\n"
    #expect(withRequest(Array(text.utf8)) { MaxForwards.read($0, $1) } == expected)
  }

  @Test("RFC 9110 §9.3.8: the answer to TRACE is the request without its credentials")
  func trace() {
    let bytes = head(
      "TRACE /a?b HTTP/1.1", "Host: x", "Cookie: c", "Authorization: a", "Proxy-Authorization: p",
      "Bearerd-Client-Secret: s", "X:  y ")
    let content = withRequest(bytes) { TraceContent.make($0, $1) }.map { String(decoding: $0, as: UTF8.self) }
    #expect(content == "TRACE /a?b HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\n")
  }
}

@Suite("SPEC §1 CONNECT") struct ConnectRoutingTests {
  private static func hosts(_ names: (String, UInt16?)...) -> RouteTable.Connect {
    .tunnel(names.map { RouteTable.HostName(host: Array($0.0.utf8), port: $0.1) })
  }

  @Test(
    "only to a listed host and port",
    arguments: [
      ("api.example.com:443", "tunnel api.example.com 443"), ("API.example.com:443", "tunnel API.example.com 443"),
      ("api.example.com:8443", "denied connectHost"), ("odd.example.com:22", "tunnel odd.example.com 22"),
      ("odd.example.com:443", "denied connectHost"), ("evil.example.com:443", "denied connectHost"),
      ("api.example.com.evil.test:443", "denied connectHost"), ("[::1]:443", "tunnel [::1] 443"),
      ("127.0.0.1:443", "denied connectHost"),
    ])
  func listed(_ target: String, _ expected: String) {
    let routes = table(
      [], connect: Self.hosts(("api.example.com", nil), ("odd.example.com", 22), ("[::1]", 443)))
    #expect(routed(head("CONNECT \(target) HTTP/1.1", "Host: \(target)"), routes) == expected)
  }

  @Test("denied without a list, and a loop is still a loop")
  func denied() {
    #expect(routed(head("CONNECT a.test:443 HTTP/1.1", "Host: a.test:443"), table([])) == "denied connect")
    let routes = table([], connect: Self.hosts(("a.test", nil)))
    #expect(routed(head("CONNECT a.test:443 HTTP/1.1", "Host: a.test", "Via: 1.1 here-1f"), routes) == "denied loop")
    #expect(
      routed(head("CONNECT a.test HTTP/1.1", "Host: a.test"), routes)?.hasPrefix("denied malformedTarget") == true)
  }

  @Test("a loop is recognised by a name in any case")
  func ownName() {
    let routes = RouteTable(
      upstreams: [], unmatched: .pass, browserGuard: BrowserGuard(allowedOrigins: [], hostNames: []),
      pseudonym: Array("EdgeA".utf8))
    for name in ["EdgeA", "edgea", "EDGEA (x)"] {
      #expect(routed(head("GET http://a.test/ HTTP/1.1", "Host: a", "Via: 1.1 \(name)"), routes) == "denied loop")
    }
    #expect(routed(head("GET http://a.test/ HTTP/1.1", "Host: a", "Via: 1.1 EdgeB"), routes)?.hasPrefix("pass") == true)
  }

  @Test("the tunnel opens when the connection is there, and carries no token")
  func opens() {
    var exchange = Exchange(
      ExchangeFacts(
        auth: .none, method: .other, hasIdempotencyKey: false, clientRetry: nil, pathRetry: .default,
        writes: .idempotencyKey, hasBody: false, isSafe: false, isTunnel: true))
    #expect(
      drive(&exchange, [.began, .upstreamOpened, .responseEnded]) == [.openUpstream(fresh: true), .openTunnel, .finish])
    var failing = Exchange(
      ExchangeFacts(
        auth: .none, method: .other, hasIdempotencyKey: false, clientRetry: nil, pathRetry: .default,
        writes: .idempotencyKey, hasBody: false, isSafe: false, isTunnel: true))
    #expect(
      drive(&failing, [.began, .upstreamFailed(.unreachable("refused"))]) == [
        .openUpstream(fresh: true), .answerUpstreamFailure(.unreachable("refused")),
      ])
  }
}

@Suite("SPEC §4 the probe: bearerd's own expectation") struct ProbeTests {
  private static var probing: ExchangeFacts {
    ExchangeFacts(
      auth: .required, method: .other, hasIdempotencyKey: true, clientRetry: nil, pathRetry: .default,
      writes: .idempotencyKey, hasBody: true, isSafe: false, probes: true)
  }
  private static let waiting = Exchange.BodyStanding(isReplayable: false, hasLeft: false)

  @Test("a 417 is answered once by the request without it, on a new connection, and is no replay")
  func rejected() {
    var exchange = Exchange(Self.probing)
    let actions = drive(
      &exchange,
      [
        .began, .bearer(.ready(generation: 1)), .upstreamOpened, .responseHead(status: 417), .upstreamOpened,
        .responseHead(status: 417), .responseEnded,
      ], body: Self.waiting)
    #expect(
      actions == [
        .resolveBearer(rejected: nil), .openUpstream(fresh: true), .sendRequest(generation: 1), .resendUnprobed,
        .sendRequest(generation: 1), .relayResponse(note: nil), .finish,
      ])
    #expect(!exchange.isReplay && !exchange.probes)
  }

  @Test("a 401 before the body has left is replayed although no copy is kept, and the body leaves once")
  func refreshed() {
    var exchange = Exchange(Self.probing)
    let actions = drive(
      &exchange,
      [
        .began, .bearer(.ready(generation: 1)), .upstreamOpened, .responseHead(status: 401),
        .bearer(.ready(generation: 2)), .upstreamOpened, .responseHead(status: 200),
      ], body: Self.waiting)
    #expect(actions.suffix(3) == [.discardAndReopen, .sendRequest(generation: 2), .relayResponse(note: nil)])
    #expect(exchange.isReplay)
  }

  @Test("a 417 after the body has begun to leave, or to the client's own expectation, is the client's")
  func passes() {
    let left = Exchange.BodyStanding(isReplayable: false, hasLeft: true)
    var late = Exchange(Self.probing)
    #expect(
      drive(
        &late, [.began, .bearer(.ready(generation: 1)), .upstreamOpened, .responseHead(status: 417)], body: left
      ).last == .relayResponse(note: nil))
    var facts = Self.probing
    facts.probes = false
    var own = Exchange(facts)
    #expect(
      drive(
        &own, [.began, .bearer(.ready(generation: 1)), .upstreamOpened, .responseHead(status: 417)], body: Self.waiting
      ).last == .relayResponse(note: nil))
  }
}
