import Chronology
import MockBackend
import Testing

@Suite("The API: what is executed, how often, and what it answers") struct APITests {
  @Test("Every route answers with its status and framing")
  func routes() {
    struct Row { var path: String, query = "", status = 200, framing = ReplyFraming.length, bytes: Int? = nil }
    let rows = [
      Row(path: "/me"), Row(path: "/notes"), Row(path: "/echo"), Row(path: "/upload"),
      Row(path: "/status/418", status: 418), Row(path: "/status/599", status: 599),
      Row(path: "/status/204", status: 204, framing: .bodiless), Row(path: "/status/100", status: 404),
      Row(path: "/status/600", status: 404), Row(path: "/status/x", status: 404), Row(path: "/nowhere", status: 404),
      Row(path: "/forbidden", status: 403), Row(path: "/always-401", status: 401),
      Row(path: "/download", query: "bytes=70000", bytes: 70_000), Row(path: "/download", query: "bytes=0", bytes: 0),
      Row(path: "/download", query: "bytes=-1", bytes: 1024),
      Row(path: "/chunked", query: "bytes=5", framing: .chunked, bytes: 5),
      Row(path: "/close", query: "bytes=5", framing: .close, bytes: 5),
      Row(path: "/trailers", query: "bytes=30", framing: .chunked, bytes: 30),
      Row(path: "/204", status: 204, framing: .bodiless, bytes: 0),
      Row(path: "/304", status: 304, framing: .bodiless, bytes: 0), Row(path: "/slow", query: "ms=20"),
      Row(path: "/sse", query: "events=3&interval=5", framing: .chunked), Row(path: "/early-hints"),
      Row(path: "/upgrade", status: 426),
    ]
    for row in rows {
      var session = SignedIn()
      let decision = session.call("GET", row.path, query: row.query)
      #expect(decision.reply.status == row.status, "\(row)")
      #expect(decision.reply.framing == row.framing, "\(row)")
      #expect(decision.transport == .none, "\(row)")
      #expect(decision.reply.body.byteCount == decision.reply.body.rendered.count, "\(row)")
      if let bytes = row.bytes { #expect(decision.reply.body.byteCount == bytes, "\(row)") }
      let isExecuted = ![401, 403, 404].contains(row.status)
      #expect(session.backend.counters.executed["GET \(row.path)", default: 0] == (isExecuted ? 1 : 0), "\(row)")
    }
  }

  @Test("The special answers carry what makes them special")
  func specialAnswers() {
    var session = SignedIn()
    #expect(session.call("GET", "/slow", query: "ms=20").reply.delayMilliseconds == 20)
    #expect(session.call("GET", "/early-hints").reply.interim.map(\.status) == [103])
    let trailers = session.call("GET", "/trailers", query: "bytes=30").reply
    #expect(trailers.trailers.map(\.0) == ["x-checksum"])
    #expect(trailers.trailers.first?.1 == ReceivedBody.digest(of: trailers.body.rendered))
    #expect(
      session.call("GET", "/sse", query: "events=2").reply.text == "id: 1\ndata: event 1\n\nid: 2\ndata: event 2\n\n")
    let upgrade = session.call("GET", "/upgrade", headers: [("upgrade", "websocket")]).reply
    #expect(upgrade.status == 101 && upgrade.framing == .echoTunnel && upgrade.header("upgrade") == "websocket")
    for (query, framing) in [("", ReplyFraming.length), ("framing=chunked", .chunked), ("framing=close", .close)] {
      let truncated = session.call("GET", "/truncated", query: query)
      #expect(truncated.transport == .truncateBody && truncated.reply.framing == framing)
    }
    #expect(session.call("GET", "/download", query: "bytes=28").reply.text == "abcdefghijklmnopqrstuvwxyzab")
  }

  @Test("Echo reports the request line, every field line in order, and the body")
  func echo() {
    var session = SignedIn()
    let text = session.call(
      "PUT", "/echo", query: "q=1", headers: [("x-a", "1"), ("x-a", "a\"\\\u{1}")], body: "payload"
    ).reply.text
    #expect(
      text.hasPrefix("{\"method\":\"PUT\",\"path\":\"/echo\",\"query\":\"q=1\",\"headers\":[[\"authorization\","))
    #expect(text.holds("[\"x-a\",\"1\"],[\"x-a\",\"a\\\"\\\\\\u0001\"]]"))
    #expect(text.holds("\"bodyBytes\":7,\"bodyDigest\":\"\(ReceivedBody.digest(of: Array("payload".utf8)))\""))
  }

  @Test("The digest is FNV-1a of 64 bits")
  func digest() {
    #expect(ReceivedBody.digest(of: []) == "cbf29ce484222325")
    #expect(ReceivedBody.digest(of: Array("a".utf8)) == "af63dc4c8601ec8c")
    #expect(ReceivedBody.digest(of: Array("foobar".utf8)) == "85944171f73967e8")
  }

  @Test("Notes belong to their user")
  func notes() {
    var session = SignedIn()
    let bob = session.backend.login(user: "bob", now: SignedIn.start)
    let created = session.call("POST", "/notes", body: "first").reply
    #expect(created.status == 201 && created.header("location") == "/notes/1")
    #expect(created.text == "{\"id\":1,\"text\":\"first\"}")
    #expect(session.call("GET", "/notes").reply.text == "{\"notes\":[{\"id\":1,\"text\":\"first\"}]}")
    #expect(session.call("GET", "/notes", token: bob.accessToken).reply.text == "{\"notes\":[]}")
    let refused = session.call("DELETE", "/notes").reply
    #expect(refused.status == 405 && refused.header("allow") == "GET, HEAD, POST")
    #expect(session.call("POST", "/notes", body: String(repeating: "x", count: 65_537)).reply.status == 413)
    #expect(session.call("POST", "/notes", body: String(repeating: "x", count: 65_536)).reply.status == 201)
    #expect(session.backend.counters.executed["POST /notes"] == 2)
  }

  @Test("An Idempotency-Key is executed once per user and path; safe methods ignore it")
  func idempotency() {
    var session = SignedIn()
    let bob = session.backend.login(user: "bob", now: SignedIn.start)
    let key = [("idempotency-key", "k1")]
    let first = session.call("POST", "/notes", headers: key, body: "a").reply
    let again = session.call("POST", "/notes", headers: key, body: "a").reply
    #expect(first.status == 201 && again.status == 201 && first.text == again.text)
    #expect(session.backend.counters.executed["POST /notes"] == 1)
    #expect(session.backend.counters.idempotentRepeats == 1)
    let others: [(method: String, path: String, token: String, key: String)] = [
      ("POST", "/notes", session.accessToken, "k2"), ("POST", "/notes", bob.accessToken, "k1"),
      ("POST", "/echo", session.accessToken, "k1"), ("GET", "/notes", session.accessToken, "k1"),
      ("GET", "/notes", session.accessToken, "k1"),
    ]
    for other in others {
      let headers = [("idempotency-key", other.key)]
      #expect(session.call(other.method, other.path, token: other.token, headers: headers).reply.status / 100 == 2)
    }
    #expect(session.backend.counters.executedTotal == 6)
    #expect(session.backend.counters.idempotentRepeats == 1)
  }

  @Test("A rejected request with an Idempotency-Key leaves no answer behind")
  func idempotencyAfterRejection() {
    var session = SignedIn()
    let key = [("idempotency-key", "k")]
    #expect(session.call("POST", "/notes", token: "wrong", headers: key, body: "a").reply.status == 401)
    session.backend.faults.api = [.hangAfterCommit]
    #expect(session.call("POST", "/notes", headers: key, body: "a").transport == .hangAfterCommit)
    #expect(session.call("POST", "/notes", headers: key, body: "a").reply.status == 201)
    #expect(session.backend.counters.executed["POST /notes"] == 1)
  }

  @Test("A request id that is executed twice is a duplicate; a rejected one was not executed")
  func duplicates() {
    var session = SignedIn()
    let id = [("x-request-id", "r1")]
    _ = session.call("POST", "/notes", token: "wrong", headers: id, body: "abc")
    _ = session.call("POST", "/notes", headers: id, body: "abc")
    #expect(session.backend.counters.duplicatesExecuted == 0)
    _ = session.call("POST", "/notes", headers: id, body: "abc")
    #expect(session.backend.counters.duplicatesExecuted == 1)
    #expect(session.backend.counters.executedByRequestID == ["r1": 2])
    #expect(session.backend.counters.bodyBytesByRequestID == ["r1": 9])
    #expect(session.backend.counters.bodyBytes == 9)
  }

  @Test("The head alone decides when the body is not wanted")
  func earlyRejection() {
    struct Row {
      var token: String? = nil, expect = false, setting = false, fault = Fault.pass, isEarly: Bool
    }
    let rows = [
      Row(token: nil, isEarly: false), Row(token: "wrong", isEarly: false),
      Row(token: "wrong", expect: true, isEarly: true),
      Row(token: "wrong", setting: true, isEarly: true), Row(token: nil, expect: true, setting: true, isEarly: false),
      Row(token: nil, fault: .earlyUnauthorized, isEarly: true),
      Row(token: nil, expect: true, fault: .unauthorized, isEarly: true),
      Row(token: nil, fault: .unauthorized, isEarly: false),
    ]
    for row in rows {
      var session = SignedIn { $0.rejectsBeforeBody = row.setting }
      session.backend.faults.api = [row.fault]
      let head = BackendRequest(
        method: "PUT", path: "/upload",
        headers: [("authorization", "Bearer \(row.token ?? session.accessToken)")]
          + (row.expect ? [("expect", "100-continue")] : []))
      switch session.backend.handleHead(head, now: SignedIn.start) {
      case .reply(let decision):
        #expect(row.isEarly && decision.reply.status == 401, "\(row)")
      case .readBody(let admission):
        #expect(!row.isEarly && admission.bodyUse == .count, "\(row)")
      }
    }
  }

  @Test("Expect is honoured, ignored or refused with 417", arguments: BackendSettings.ExpectationPolicy.allCases)
  func expectation(_ policy: BackendSettings.ExpectationPolicy) {
    for isTokenGood in [true, false] {
      var session = SignedIn { $0.expectation = policy }
      let head = BackendRequest(
        method: "PUT", path: "/upload",
        headers: [
          ("authorization", isTokenGood ? "Bearer \(session.accessToken)" : "Bearer no"), ("expect", "100-Continue"),
        ])
      switch session.backend.handleHead(head, now: SignedIn.start) {
      case .reply(let decision):
        #expect(decision.reply.status == (policy == .refused ? 417 : 401))
        #expect(policy == .refused || (policy == .honoured && !isTokenGood))
      case .readBody(let admission):
        #expect(admission.mayContinue == (policy == .honoured))
        #expect(policy == .ignored || (policy == .honoured && isTokenGood))
      }
    }
  }

  @Test("A token that expires during the upload still serves it")
  func judgedAtTheHead() {
    var session = SignedIn()
    let head = BackendRequest(
      method: "PUT", path: "/upload", headers: [("authorization", "Bearer \(session.accessToken)")])
    guard case .readBody(let admission) = session.backend.handleHead(head, now: SignedIn.at(milliseconds: 2999))
    else {
      Issue.record("a valid token was rejected")
      return
    }
    var body = ReceivedBody(admission.bodyUse)
    for _ in 0..<3 { body.append([1, 2, 3]) }
    let decision = session.backend.handleBody(
      head, admission: admission, body: body, now: SignedIn.at(milliseconds: 9000))
    #expect(decision.reply.text == "{\"bytes\":9}")
    #expect(body.bytes.isEmpty)
  }

  @Test("/open/ is the same API without a token")
  func openPaths() {
    var session = SignedIn()
    let reply = session.backend.handle(BackendRequest(method: "GET", path: "/open/echo"), now: SignedIn.start).reply
    #expect(reply.status == 200)
    #expect(
      session.backend.handle(BackendRequest(method: "GET", path: "/open"), now: SignedIn.start).reply.status == 401)
  }

  @Test("Exchanges in flight have a peak; the token endpoint reports bearers that strayed there")
  func gauges() {
    var session = SignedIn()
    for _ in 0..<3 { session.backend.exchangeBegan() }
    session.backend.exchangeEnded()
    _ = session.call("GET", "/me")
    #expect(session.backend.counters.exchangesInFlight == 2)
    #expect(session.backend.counters.exchangesInFlightMax == 3)
    session.refresh(headers: [("authorization", "Bearer \(session.accessToken)")])
    #expect(session.backend.counters.bearersAtTokenEndpoints == 1)
    session.backend.resetCounters()
    #expect(session.backend.counters.exchanges == 0)
    #expect(session.backend.counters.exchangesInFlight == 2)
  }
}
