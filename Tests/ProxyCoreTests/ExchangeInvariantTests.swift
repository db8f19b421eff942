import BearerPolicy
import ProxyCore
import Testing

private typealias Action = Exchange.Action
private typealias Input = Exchange.Input

private func facts(_ change: (inout ExchangeFacts) -> Void = { _ in }) -> ExchangeFacts {
  var facts = plainGET
  change(&facts)
  return facts
}

private let post = facts {
  $0.method = .other
  $0.hasBody = true
  $0.isSafe = false
}

/// Up to the response's head, with the token of generation 5.
private func sent(_ facts: ExchangeFacts, body: Exchange.BodyStanding = noBody) -> Exchange {
  var exchange = Exchange(facts)
  drive(&exchange, [.began, .bearer(.ready(generation: 5)), .upstreamOpened], body: body)
  return exchange
}

@Suite("I2: replayed at most once, only after a 401, only with a newer generation")
struct ReplayInvariantTests {
  @Test("a 401 is followed by one replay with the newer token, and the second 401 passes as it came")
  func second401Passes() {
    var exchange = sent(plainGET)
    #expect(
      drive(
        &exchange,
        [
          .responseHead(status: 401), .bearer(.ready(generation: 6)), .upstreamOpened,
          .responseHead(status: 401),
          .responseEnded,
        ])
        == [
          .holdResponse(rejected: 5), .discardAndReopen, .sendRequest(generation: 6),
          .relayResponse(note: nil),
          .finish,
        ])
    #expect(exchange.isReplay)
  }

  @Test(
    "only a newer generation replays; the same one is a cool-down and passes the 401",
    arguments: [
      (UInt64(4), false), (5, false), (6, true), (.max, true),
    ])
  func onlyNewer(_ generation: UInt64, _ replays: Bool) {
    var exchange = sent(plainGET)
    drive(&exchange, [.responseHead(status: 401)])
    #expect(
      drive(&exchange, [.bearer(.ready(generation: generation))])
        == [replays ? .discardAndReopen : .relayResponse(note: nil)])
    #expect(exchange.isReplay == replays)
  }

  @Test("no status but 401 asks for a newer token", arguments: Array(200...599))
  func statuses(_ status: Int) {
    var exchange = sent(plainGET)
    let action = drive(&exchange, [.responseHead(status: status)])
    #expect(action == [status == 401 ? .holdResponse(rejected: 5) : .relayResponse(note: nil)])
  }

  @Test("a request that carried no token of ours is not replayed", arguments: [AuthMode.none, .optional])
  func withoutToken(_ auth: AuthMode) {
    var exchange = Exchange(facts { $0.auth = auth })
    drive(&exchange, auth == .none ? [.began] : [.began, .bearer(.unavailable(Event.refusal))])
    #expect(
      drive(&exchange, [.upstreamOpened, .responseHead(status: 401)])
        == [.sendRequest(generation: nil), .relayResponse(note: nil)])
  }

  @Test(
    "failures never replay",
    arguments: [
      UpstreamFailure.responseTimedOut, .malformedResponse("x"), .closedBeforeResponse(reused: false),
      .tls("x"),
      .connectTimedOut, .poolExhausted, .addressNotAllowed, .unreachable("x"),
    ])
  func failures(_ failure: UpstreamFailure) {
    var exchange = sent(plainGET)
    #expect(drive(&exchange, [.upstreamFailed(failure)]) == [.answerUpstreamFailure(failure)])
    #expect(exchange.hasEnded && !exchange.isReplay)
  }

  /// Method: random walks over every input that is possible where the exchange stands, all facts drawn by lot.
  @Test("in random walks: at most two sends with a token, the second newer, and one end")
  func randomWalks() {
    var random = Sequence64(state: 7)
    for _ in 0..<5_000 {
      let facts = ExchangeFacts(
        auth: random.pick([.required, .optional, .none]), method: random.pick([.getHeadOptions, .other]),
        hasIdempotencyKey: random.pick([true, false]), clientRetry: random.pick([nil, .allow, .deny]),
        pathRetry: random.pick([.default, .never, .always]), writes: random.pick([.always, .idempotencyKey]),
        hasBody: random.pick([true, false]), isSafe: random.pick([true, false]), probes: random.pick([true, false]))
      walk(facts, &random)
    }
  }

  private func walk(_ facts: ExchangeFacts, _ random: inout Sequence64) {
    var exchange = Exchange(facts)
    var replays = 0
    var retries = 0
    var resends = 0
    var held: UInt64?
    var next = exchange.handle(.began, body: noBody)
    for _ in 0..<60 where !exchange.hasEnded {
      let input: Exchange.Input
      switch next {
      case .resolveBearer, .holdResponse:
        input = random.pick([
          .bearer(.ready(generation: 5)), .bearer(.ready(generation: 6)),
          .bearer(.unavailable(Event.refusal)),
        ])
      case .openUpstream, .discardAndReopen, .resendUnprobed:
        input = random.pick([.upstreamOpened, .upstreamOpened, Event.unreachable.input])
      case .sendRequest:
        input = random.pick([
          .responseHead(status: 401), .responseHead(status: 403), .responseHead(status: 417),
          .upstreamFailed(.closedBeforeResponse(reused: true)),
          .upstreamFailed(.closedBeforeResponse(reused: true)),
        ])
      case .relayResponse: input = random.pick([.responseEnded, .responseBroke, .clientAborted])
      case .answer, .answerUpstreamFailure, .answerClientFault, .abortClient, .abortUpstream, .finish, .openTunnel,
        .nothing:
        Issue.record("\(next) must end the exchange")
        return
      }
      let body = Exchange.BodyStanding(
        isReplayable: random.pick([true, false]), hasLeft: random.pick([true, false]))
      let wasSent = if case .sendRequest = next { true } else { false }
      next = exchange.handle(input, body: body)
      if case .holdResponse(let rejected) = next { held = rejected }
      if case .discardAndReopen = next { replays += 1 }
      if wasSent, case .openUpstream = next { retries += 1 }
      if case .resendUnprobed = next {
        resends += 1
        #expect(input == .responseHead(status: 417) && !body.hasLeft && !exchange.probes)
      }
      if replays > 0, case .sendRequest(let generation) = next, let generation, let held {
        #expect(generation > held)
      }
    }
    #expect(exchange.hasEnded)
    #expect(replays <= 1)
    #expect(resends <= (facts.probes ? 1 : 0))
    #expect(retries <= (facts.isSafe && !facts.hasBody ? 1 : 0))
  }
}

@Suite("I4: a 403 never refreshes and never replays") struct ForbiddenTests {
  @Test(
    "whatever the client and the path ask for", arguments: ReplayFacts.PathRetry.allCases, AuthMode.allCases)
  func passes(_ pathRetry: ReplayFacts.PathRetry, _ auth: AuthMode) {
    var exchange = Exchange(
      facts {
        $0.pathRetry = pathRetry
        $0.auth = auth
        $0.clientRetry = .allow
        $0.writes = .always
      })
    drive(&exchange, auth == .none ? [.began] : [.began, .bearer(.ready(generation: 5))])
    #expect(
      drive(&exchange, [.upstreamOpened, .responseHead(status: 403), .responseEnded]).suffix(2)
        == [.relayResponse(note: nil), .finish])
    #expect(!exchange.isReplay)
  }
}

@Suite("I5: the generation that was rejected decides") struct RejectedGenerationTests {
  @Test("the newer token is asked for by the generation that the request carried")
  func namesItsGeneration() {
    var exchange = Exchange(plainGET)
    drive(&exchange, [.began, .bearer(.ready(generation: 41)), .upstreamOpened])
    #expect(drive(&exchange, [.responseHead(status: 401)]) == [.holdResponse(rejected: 41)])
  }

  @Test("the replay carries what it was given, however many generations later")
  func carriesTheCurrent() {
    var exchange = sent(plainGET)
    #expect(
      drive(&exchange, [.responseHead(status: 401), .bearer(.ready(generation: 9)), .upstreamOpened]).last
        == .sendRequest(generation: 9))
  }

  @Test(
    "the end of the connection that the 401 came on changes nothing",
    arguments: [
      Event.responseEnded, .responseBroke, .unreachable, .pooledWasDead,
    ])
  func connectionGoes(_ event: Event) {
    var exchange = sent(plainGET)
    drive(&exchange, [.responseHead(status: 401)])
    #expect(
      drive(&exchange, [event.input, .bearer(.ready(generation: 6))]) == [.nothing, .discardAndReopen])
  }
}

@Suite("SPEC §4: what a held 401 becomes") struct JudgementTests {
  @Test(
    "a 401 that may not be replayed passes with the reason, and says where the session was refreshed",
    arguments: [
      (UInt64(6), "session refreshed; not replayed: no Idempotency-Key"),
      (5, "not replayed: no Idempotency-Key"),
    ])
  func note(_ generation: UInt64, _ note: String) {
    var exchange = sent(post)
    drive(&exchange, [.responseHead(status: 401)])
    #expect(drive(&exchange, [.bearer(.ready(generation: generation))]) == [.relayResponse(note: note)])
  }

  @Test("the body's standing is asked when the decision falls, not before")
  func bodyAtDecision() {
    let keyed = facts {
      $0.method = .other
      $0.hasBody = true
      $0.isSafe = false
      $0.hasIdempotencyKey = true
    }
    for (standing, action) in [
      (Exchange.BodyStanding(isReplayable: true, hasLeft: true), Action.discardAndReopen),
      (Exchange.BodyStanding(isReplayable: false, hasLeft: false), .discardAndReopen),
      (
        Exchange.BodyStanding(isReplayable: false, hasLeft: true),
        .relayResponse(note: "session refreshed; not replayed: body sent and not kept")
      ),
    ] {
      var exchange = sent(keyed, body: Exchange.BodyStanding(isReplayable: true, hasLeft: false))
      drive(&exchange, [.responseHead(status: 401)])
      #expect(exchange.handle(.bearer(.ready(generation: 6)), body: standing) == action)
    }
  }

  @Test(
    "no token to be had: a replay that was allowed is answered by us, with optional authentication by the upstream",
    arguments: [
      (AuthMode.required, Action.answer(Event.refusal)), (.optional, .relayResponse(note: "over")),
    ])
  func unavailable(_ auth: AuthMode, _ action: Exchange.Action) {
    var exchange = sent(facts { $0.auth = auth })
    drive(&exchange, [.responseHead(status: 401)])
    #expect(drive(&exchange, [.bearer(.unavailable(Event.refusal))]) == [action])
    #expect(!exchange.isReplay)
  }

  @Test("no token to be had, and no replay allowed: the upstream's 401 passes with both reasons")
  func unavailableAndDenied() {
    var exchange = sent(post)
    drive(&exchange, [.responseHead(status: 401)])
    #expect(
      drive(&exchange, [.bearer(.unavailable(Event.refusal)), .responseEnded])
        == [.relayResponse(note: "over; not replayed: no Idempotency-Key"), .finish])
  }

  @Test("a client that goes while the 401 is judged ends everything")
  func clientGoes() {
    var exchange = sent(plainGET)
    drive(&exchange, [.responseHead(status: 401)])
    #expect(
      drive(&exchange, [.clientAborted, .bearer(.ready(generation: 6))]) == [.abortUpstream, .nothing])
  }
}

@Suite("SPEC §2: whether a token is asked for and waited for") struct AttachTests {
  @Test(
    "required without a token is refused, optional goes without, none never asks",
    arguments: [
      (AuthMode.required, [Action.resolveBearer(rejected: nil), .answer(Event.refusal)]),
      (.optional, [.resolveBearer(rejected: nil), .openUpstream(fresh: false)]),
      (.none, [.openUpstream(fresh: false)]),
    ])
  func unavailable(_ auth: AuthMode, _ actions: [Exchange.Action]) {
    var exchange = Exchange(facts { $0.auth = auth })
    let inputs: [Exchange.Input] = [.began, .bearer(.unavailable(Event.refusal))]
    #expect(drive(&exchange, Array(inputs.prefix(actions.count))) == actions)
  }

  @Test("optional with a token sends it, and its 401 is replayed like any other")
  func optionalWithToken() {
    var exchange = sent(facts { $0.auth = .optional })
    #expect(
      drive(&exchange, [.responseHead(status: 401), .bearer(.ready(generation: 6))])
        == [.holdResponse(rejected: 5), .discardAndReopen])
  }
}

@Suite("RFC 9110 §9.2.2: a pooled connection that was dead") struct PooledRetryTests {
  private let dead = Exchange.Input.upstreamFailed(.closedBeforeResponse(reused: true))
  private let deadAnswer = Exchange.Action.answerUpstreamFailure(.closedBeforeResponse(reused: true))

  @Test("a safe request without a body goes again once, on a fresh connection, with the same token")
  func once() {
    var exchange = sent(plainGET)
    #expect(
      drive(&exchange, [dead, .upstreamOpened, dead])
        == [.openUpstream(fresh: true), .sendRequest(generation: 5), deadAnswer])
    #expect(!exchange.isReplay)
  }

  @Test(
    "all others ask for a fresh connection at once and are not sent again",
    arguments: [
      (hasBody: true, isSafe: true), (hasBody: false, isSafe: false), (hasBody: true, isSafe: false),
    ])
  func others(_ row: (hasBody: Bool, isSafe: Bool)) {
    for auth in AuthMode.allCases {
      var exchange = Exchange(
        facts {
          $0.auth = auth
          $0.hasBody = row.hasBody
          $0.isSafe = row.isSafe
        })
      let opening = drive(&exchange, auth == .none ? [.began] : [.began, .bearer(.ready(generation: 5))])
      #expect(opening.last == .openUpstream(fresh: true))
      #expect(drive(&exchange, [.upstreamOpened, dead]).last == deadAnswer)
    }
  }

  @Test("in a replay too, and then not a second time")
  func inReplay() {
    var exchange = sent(plainGET)
    drive(&exchange, [.responseHead(status: 401), .bearer(.ready(generation: 6)), .upstreamOpened])
    #expect(
      drive(&exchange, [dead, .upstreamOpened, dead])
        == [.openUpstream(fresh: true), .sendRequest(generation: 6), deadAnswer])
  }

  @Test("one retry in all: after one before the replay there is none in it")
  func oneInAll() {
    var exchange = sent(plainGET)
    drive(
      &exchange,
      [dead, .upstreamOpened, .responseHead(status: 401), .bearer(.ready(generation: 6)), .upstreamOpened])
    #expect(drive(&exchange, [dead]) == [deadAnswer])
  }
}
