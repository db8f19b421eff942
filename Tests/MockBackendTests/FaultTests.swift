import Chronology
import MockBackend
import Testing

@Suite("Injected faults: what was committed and what the client can know") struct FaultTests {
  struct Row {
    var fault: Fault
    var status: Int?
    var transport: TransportFault = .none
    var isCommitted: Bool
  }

  static let rows = [
    Row(fault: .pass, status: 200, isCommitted: true),
    Row(fault: .delay(milliseconds: 5), status: 200, isCommitted: true),
    Row(fault: .hangBeforeCommit, transport: .hangBeforeCommit, isCommitted: false),
    Row(fault: .resetBeforeCommit, transport: .resetBeforeCommit, isCommitted: false),
    Row(fault: .hangAfterCommit, transport: .hangAfterCommit, isCommitted: true),
    Row(fault: .resetAfterCommit, transport: .resetAfterCommit, isCommitted: true),
    Row(fault: .truncateBody, transport: .truncateBody, isCommitted: true),
    Row(fault: .junk, transport: .junk, isCommitted: true),
    Row(fault: .tooManyRequests(retryAfterSeconds: 7), status: 429, isCommitted: false),
    Row(fault: .status(500), status: 500, isCommitted: false),
    Row(fault: .statusAfterCommit(502), status: 502, isCommitted: true),
    Row(fault: .code("slow_down", status: 400), status: 400, isCommitted: false),
    Row(fault: .unparsableBody, status: 200, isCommitted: true),
    Row(fault: .missingField("access_token"), status: 200, isCommitted: true),
    Row(fault: .unauthorized, status: 401, isCommitted: false),
    Row(fault: .earlyUnauthorized, status: 401, isCommitted: false),
    Row(fault: .forbidden, status: 403, isCommitted: false),
  ]

  @Test("Refresh: each fault commits or does not, as its name says", arguments: rows.indices)
  func refresh(_ index: Int) {
    let row = Self.rows[index]
    var session = SignedIn()
    session.backend.faults.refresh = [row.fault]
    let decision = session.refresh()
    if let status = row.status { #expect(decision.reply.status == status) }
    #expect(decision.transport == row.transport)
    #expect(session.backend.isSpent(refreshToken: session.refreshToken) == row.isCommitted)
    #expect(session.backend.counters.refreshesCommitted == (row.isCommitted ? 1 : 0))
    #expect(session.backend.faults.refresh.applied == (row.fault == .pass ? 0 : 1))
    session.refresh()
    #expect(session.backend.counters.presentedAfterCommit == (row.isCommitted ? 1 : 0))
    #expect(session.backend.counters.presentedAfterUnanswered == (row.transport == .none ? 0 : 1))
    #expect(session.backend.counters.familiesRevoked == (row.isCommitted ? 1 : 0))
  }

  @Test("API: each fault executes or does not, as its name says", arguments: rows.indices)
  func api(_ index: Int) {
    let row = Self.rows[index]
    var session = SignedIn()
    session.backend.faults.api = [row.fault]
    let decision = session.call("POST", "/notes", body: "hello")
    if let status = row.status {
      #expect(decision.reply.status == (status == 200 && row.fault != .unparsableBody ? 201 : status))
    }
    #expect(decision.transport == row.transport)
    #expect(session.backend.counters.executed["POST /notes", default: 0] == (row.isCommitted ? 1 : 0))
    #expect(session.call("GET", "/notes").reply.text.holds("hello") == row.isCommitted)
  }

  @Test("Retry-After goes out with 429 and 503")
  func retryAfter() {
    var session = SignedIn()
    session.backend.faults.refresh = [
      .tooManyRequests(retryAfterSeconds: 7), .status(503, retryAfterSeconds: 1), .status(503),
    ]
    #expect(session.refresh().reply.header("retry-after") == "7")
    #expect(session.refresh().reply.header("retry-after") == "1")
    #expect(session.refresh().reply.header("retry-after") == nil)
    session.backend.faults.api = [.tooManyRequests(retryAfterSeconds: 2)]
    #expect(session.call("GET", "/me").reply.header("retry-after") == "2")
  }

  @Test("A missing member is missing at any depth")
  func missingField() {
    for (endpoint, name) in [
      (TokenEndpoint.oauth, "refresh_token"), (.enveloped, "accessToken"), (.authenticate, "token"),
    ] {
      var session = SignedIn()
      session.backend.faults.refresh = [.missingField(name)]
      let text = session.refresh(at: endpoint).reply.text
      #expect(text.member(name) == nil && text.holds("oken"))
    }
  }

  @Test("A list is used up in order, then `always` goes on; paths have their own")
  func schedules() {
    var session = SignedIn()
    session.backend.faults.api = FaultSchedule([.status(500), .pass, .forbidden], always: .status(503))
    session.backend.faults.paths["/echo"] = .times(2, .status(418))
    let statuses = (0..<5).map { _ in session.call("GET", "/me").reply.status }
    #expect(statuses == [500, 200, 403, 503, 503])
    #expect((0..<3).map { _ in session.call("GET", "/echo").reply.status } == [418, 418, 200])
    #expect(session.backend.faults.api.applied == 4)
    session.backend.faults.refresh = .always(.status(500))
    #expect((0..<3).map { _ in session.refresh().reply.status } == [500, 500, 500])
    #expect(session.backend.counters.presentedAfterUnanswered == 0)
  }

  @Test("401 for ever: every token is rejected while the identity provider goes on")
  func unauthorizedForEver() {
    var session = SignedIn()
    session.backend.faults.api = .always(.unauthorized)
    for _ in 0..<3 {
      #expect(session.call("GET", "/me").reply.status == 401)
      session.refreshAndAdopt()
    }
    #expect(session.backend.counters.unauthorized == 3)
    #expect(session.backend.counters.refreshesCommitted == 3)
  }
}
