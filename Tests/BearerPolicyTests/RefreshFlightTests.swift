import BearerPolicy
import Chronology
import Testing

private let trouble = StoreTrouble(kind: .full, detail: "no room")

private func flight(
  _ used: Provider = provider(), trigger: RefreshTrigger = .preflight, seen: UInt64 = 7
) -> RefreshFlight {
  RefreshFlight(
    provider: used, trigger: trigger, seenGeneration: seen, seenObtainedAt: session().obtainedAt, settings: "s1")
}

/// A flight that was given these inputs at noon, and its last action.
private func flown(
  _ inputs: [RefreshFlight.Input], _ used: Provider = provider(), trigger: RefreshTrigger = .preflight,
  seen: UInt64 = 7
) -> (flight: RefreshFlight, last: RefreshFlight.Action) {
  var flight = flight(used, trigger: trigger, seen: seen)
  var last = flight.start()
  for input in inputs { last = flight.handle(input, now: noon, jitter: 0) }
  return (flight, last)
}

private let intended = session {
  $0.intent = SessionRecord.Intent(fingerprint: fingerprintA, startedAt: noon, trigger: .preflight)
}
private let toLoaded: [RefreshFlight.Input] = [.lockAcquired, .loaded(session(), fingerprintA)]
private let toSent = toLoaded + [.intentDurable]
private let goodReply = RefreshFlight.Input.replied(answer(200, goodBody), at: noon)
private let refreshed = session().applying(
  .success(newTokens), provider: provider(), fingerprint: fingerprintA, now: noon, jitter: 0, settings: "s1")

@Suite("SPEC §3 single flight: the fixed order") struct RefreshFlightTests {
  @Test("lock, re-read, intent, send, result, finish, release")
  func goodFlight() throws {
    var flight = flight()
    #expect(flight.start() == .acquireLock)
    #expect(flight.handle(.lockAcquired, now: noon, jitter: 0) == .load)
    #expect(flight.handle(.loaded(session(), fingerprintA), now: noon, jitter: 0) == .writeIntent(intended))
    let request = try TokenRequest.make(provider: provider(), refreshToken: Secret("refresh-7")).get()
    #expect(flight.handle(.intentDurable, now: noon, jitter: 0) == .send(request))
    #expect(flight.handle(goodReply, now: noon, jitter: 0) == .writeResult(refreshed))
    #expect(
      flight.handle(.resultDurable, now: noon, jitter: 0) == .finishAndRelease(.refreshed(refreshed, isDurable: true)))
    #expect(!flight.isOver)
    #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .end)
    #expect(flight.isOver)
    #expect(refreshed.intent == nil && refreshed.generation == 8)
  }

  @Test("a newer generation with a serving token is used, and nothing is presented (I5)")
  func newerGeneration() {
    let seenOlder = flown(toLoaded, seen: 6)
    #expect(seenOlder.last == .releaseLock)
    #expect(seenOlder.flight.isNews(session()) && !flown(toLoaded).flight.isNews(session()))
    #expect(flown(toLoaded).flight.isNews(session { $0.obtainedAt = after(1) }), "signed in anew")
    var flight = seenOlder.flight
    #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .finish(.alreadyNewer(session())))
    // A login made anew starts to count again: it is another one too.
    #expect(flown(toLoaded, seen: 9).last == .releaseLock)
    // Newer, and expired again: this flight refreshes it.
    let expired = session { $0.expiresAt = noon }
    #expect(flown([.lockAcquired, .loaded(expired, fingerprintA)], seen: 6).flight.phase == .reserving)
    let tokenless = session { $0.accessToken = nil }
    #expect(flown([.lockAcquired, .loaded(tokenless, fingerprintA)], seen: 6).flight.phase == .reserving)
  }

  @Test("a newer generation is used even beside an intent or a back-off")
  func newerGenerationFirst() {
    let record = session {
      $0.intent = intended.intent
      $0.backoff = SessionRecord.Backoff(failures: 1, since: noon, until: after(9), reason: "x")
    }
    var flight = flown([.lockAcquired, .loaded(record, fingerprintA)], seen: 6).flight
    #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .finish(.alreadyNewer(record)))
  }

  @Test("what forbids the refresh ends the flight before anything is written")
  func forbidden() {
    let fault = SessionRecord.ConfigurationFault(code: "invalid_client", since: noon, settings: "s1")
    let rows: [(SessionRecord, FlightFailure)] = [
      (session { $0.standing = .dead(reason: "gone", since: noon) }, .dead(reason: "gone")),
      (
        session {
          $0.standing = .fenced(reason: "timed_out", since: noon)
          $0.refreshToken = nil
        }, .fenced(reason: "timed_out")
      ),
      (
        session { $0.backoff = SessionRecord.Backoff(failures: 1, since: noon, until: after(9), reason: "connect") },
        .backingOff(until: after(9), reason: "connect")
      ),
      (session { $0.configurationFault = fault }, .misconfigured(code: "invalid_client")),
      (session { $0.refreshToken = nil }, .noRefreshToken),
    ]
    for (record, failure) in rows {
      var (flight, last) = flown([.lockAcquired, .loaded(record, fingerprintA)])
      #expect(last == .releaseLock)
      #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .finish(.failed(record, failure)))
    }
    let mended = session { $0.configurationFault = fault }
    #expect(flown([.lockAcquired, .loaded(mended, fingerprintA)], trigger: .command).flight.phase == .reserving)
    var withoutFingerprint = flown([.lockAcquired, .loaded(session(), nil)]).flight
    #expect(
      withoutFingerprint.handle(.lockReleased, now: noon, jitter: 0) == .finish(.failed(session(), .noRefreshToken))
    )
  }

  @Test("settings that make no request end the flight before the intent")
  func noEndpoint() {
    var (flight, last) = flown(toLoaded, provider { $0.endpoint = nil })
    #expect(last == .releaseLock)
    #expect(
      flight.handle(.lockReleased, now: noon, jitter: 0)
        == .finish(.failed(session(), .noEndpoint(missing: "endpoint"))))
  }

  @Test("an abandoned intent is classified and written before the flight goes on by what it came to")
  func abandonedIntent() {
    let found = session {
      $0.intent = SessionRecord.Intent(fingerprint: fingerprintA, startedAt: after(-20), trigger: .ahead)
    }
    func settled(_ used: Provider) -> SessionRecord {
      found.classifyingAbandonedIntent(provider: used, now: noon, jitter: 0, settings: "s1")
    }
    // Quarantine: nothing is presented.
    var (flight, last) = flown([.lockAcquired, .loaded(found, fingerprintA)])
    #expect(last == .writeResult(settled(provider())))
    #expect(flight.handle(.resultDurable, now: noon, jitter: 0) == .releaseLock)
    #expect(
      flight.handle(.lockReleased, now: noon, jitter: 0)
        == .finish(.failed(settled(provider()), .fenced(reason: "holder_died"))))
    // Inside a grace: presented once more, in the same flight.
    let okta = provider {
      $0.onUnknown = .replayInGrace
      $0.grace = .seconds(30)
    }
    var again = flown([.lockAcquired, .loaded(found, fingerprintA)], okta).flight
    guard case .writeIntent(let record) = again.handle(.resultDurable, now: noon, jitter: 0) else {
      Issue.record("no second presentation")
      return
    }
    #expect(record.graceUntil == after(9) && record.intent?.startedAt == noon)
    // A provider that never rotates: after its back-off.
    var later = flown([.lockAcquired, .loaded(found, fingerprintA)], provider { $0.rotation = .never }).flight
    #expect(later.handle(.resultDurable, now: noon, jitter: 0) == .releaseLock)
    guard case .finish(.failed(_, .backingOff)) = later.handle(.lockReleased, now: noon, jitter: 0) else {
      Issue.record("no back-off")
      return
    }
  }

  @Test("an intent that cannot be classified durably stays in the file and nothing is presented")
  func abandonedIntentUnwritable() {
    let found = session { $0.intent = intended.intent }
    var flight = flown([.lockAcquired, .loaded(found, fingerprintA), .resultFailed(trouble)]).flight
    guard
      case .finish(.failed(let record, .storeUnwritable("no room"))) = flight.handle(
        .lockReleased, now: noon, jitter: 0)
    else {
      Issue.record("not refused")
      return
    }
    #expect(record?.refreshToken == nil)
  }

  @Test("a fenced session found past its expiry is buried")
  func burial() {
    let fenced = session {
      $0.standing = .fenced(reason: "timed_out", since: after(-9))
      $0.refreshToken = nil
      $0.expiresAt = after(-1)
    }
    let last = flown([.lockAcquired, .loaded(fenced, nil)]).last
    #expect(last == .writeResult(fenced.settled(at: noon)))
  }

  @Test("a grace that ends while the intent is being written keeps the token here")
  func graceEndsMeanwhile() {
    let waiting = session { $0.graceUntil = after(5) }
    var flight = flown([.lockAcquired, .loaded(waiting, fingerprintA)]).flight
    let over = waiting.settled(at: after(5))
    #expect(flight.handle(.intentDurable, now: after(5), jitter: 0) == .writeResult(over))
    #expect(flight.handle(.resultDurable, now: after(5), jitter: 0) == .releaseLock)
    #expect(
      flight.handle(.lockReleased, now: after(5), jitter: 0)
        == .finish(.failed(over, .fenced(reason: "grace_over"))))
  }

  @Test("what is presented inside a grace says until when it may leave")
  func graceBoundsSending() {
    let waiting = session { $0.graceUntil = after(5) }
    var flight = flown([.lockAcquired, .loaded(waiting, fingerprintA)]).flight
    guard case .send(let request) = flight.handle(.intentDurable, now: after(4), jitter: 0) else {
      return #expect(Bool(false), "it is sent inside the grace")
    }
    #expect(request.sendBefore == after(5))
    // Too late to leave: nothing was presented, and the grace that is over fences the session.
    let late = flight.handle(.replied(.notSent(.tooLate), at: after(6)), now: after(6), jitter: 0)
    guard case .writeResult(let record) = late else { return #expect(Bool(false), "\(late)") }
    #expect(record.settled(at: after(6)).standing == .fenced(reason: "grace_over", since: after(6)))
  }

  @Test("each outcome is written first and told afterwards")
  func outcomes() {
    let rows: [(TokenEndpointReply, RefreshOutcome, FlightFailure)] = [
      (answer(400, #"{"error":"invalid_grant"}"#), .dead(code: "invalid_grant"), .dead(reason: "invalid_grant")),
      (answer(404, ""), .configurationFault(code: "http_404"), .misconfigured(code: "http_404")),
      (.notSent(.connect), .notSent(reason: "connect"), .notSent(reason: "connect")),
      (
        answer(429, "", retryAfter: .seconds(3)),
        .knownNotSucceeded(reason: "http_429", retryAfter: .seconds(3)),
        .knownFailure(reason: "http_429", retryAfter: .seconds(3))
      ),
      (.noAnswer(.timedOut), .unknown(reason: "timed_out"), .outcomeUnknown(reason: "timed_out")),
    ]
    for (reply, outcome, failure) in rows {
      let expected = intended.applying(
        outcome, provider: provider(), fingerprint: fingerprintA, now: noon, jitter: 0, settings: "s1")
      var (flight, last) = flown(toSent + [.replied(reply, at: noon)])
      #expect(last == .writeResult(expected))
      #expect(expected.intent == nil)
      #expect(flight.handle(.resultDurable, now: noon, jitter: 0) == .releaseLock)
      #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .finish(.failed(expected, failure)))
    }
  }

  @Test("the fault remembers the settings that were refused")
  func faultSettings() {
    guard case .writeResult(let record) = flown(toSent + [.replied(answer(404, ""), at: noon)]).last else {
      Issue.record("no result")
      return
    }
    #expect(record.configurationFault?.settings == "s1")
  }

  @Test("the moment of the answer counts for the expiry, not that of its handling")
  func receivedAt() {
    guard case .writeResult(let record) = flown(toSent + [.replied(answer(200, goodBody), at: after(-5))]).last
    else {
      Issue.record("no result")
      return
    }
    #expect(record.expiresAt == after(3595))
  }

  @Test("I7: a result that is not durable is told at once as degraded, the lock stays, and writing goes on")
  func degraded() {
    var (flight, last) = flown(toSent + [goodReply, .resultFailed(trouble)])
    let told = FlightResult.refreshed(refreshed, isDurable: false)
    #expect(last == .finishKeepingLock(told, retry: refreshed, after: .seconds(1)))
    for seconds: Int64 in [2, 4, 8, 16, 32, 32, 32] {
      let action = flight.handle(.resultFailed(trouble), now: noon, jitter: 0)
      #expect(action == .retryWriteResult(refreshed, after: .seconds(seconds)))
      #expect(!flight.isOver)
    }
    #expect(flight.handle(.resultDurable, now: noon, jitter: 0) == .releaseLock)
    #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .end)
    #expect(flight.isOver)
  }

  @Test("a failure that is not durable is told as the failure it is")
  func degradedFailure() {
    let last = flown(toSent + [.replied(.noAnswer(.timedOut), at: noon), .resultFailed(trouble)]).last
    guard case .finishKeepingLock(.failed(let told, .outcomeUnknown("timed_out")), let retry, _) = last else {
      Issue.record("\(last)")
      return
    }
    #expect(told == retry && retry.refreshToken == nil)
  }

  @Test("an intent that is not durable: nothing is sent")
  func intentFailed() {
    var (flight, last) = flown(toLoaded + [.intentFailed(trouble, isLeft: false)])
    #expect(last == .releaseLock)
    #expect(
      flight.handle(.lockReleased, now: noon, jitter: 0)
        == .finish(.failed(session(), .storeUnwritable(detail: "no room"))))
  }

  @Test("I8: an intent that was not sent and stays in the file is taken out before the lock is given back")
  func intentLeft() {
    var (flight, last) = flown(toLoaded + [.intentFailed(trouble, isLeft: true)])
    let told = FlightResult.failed(session(), .storeUnwritable(detail: "no room"))
    #expect(last == .finishKeepingLock(told, retry: session(), after: .seconds(1)))
    #expect(
      flight.handle(.resultFailed(trouble), now: noon, jitter: 0)
        == .retryWriteResult(session(), after: .seconds(2)))
    #expect(flight.handle(.resultDurable, now: noon, jitter: 0) == .releaseLock)
    #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .end)
  }

  @Test("each trouble of the store has its failure", arguments: StoreTrouble.Kind.allCases)
  func storeTroubles(_ kind: StoreTrouble.Kind) {
    let trouble = StoreTrouble(kind: kind, detail: "d")
    let expected: FlightFailure =
      switch kind {
      case .missing: .missing
      case .unreadable, .unparsable, .undecryptable, .insecure: .storeUnreadable(detail: "d")
      case .lockTimeout: .lockHeld
      case .unwritable, .full, .lockUnavailable, .alreadyExists: .storeUnwritable(detail: "d")
      }
    #expect(flown([.lockUnavailable(trouble)]).last == .finish(.failed(nil, expected)))
    var (flight, last) = flown([.lockAcquired, .loadFailed(trouble)])
    #expect(last == .releaseLock)
    #expect(flight.handle(.lockReleased, now: noon, jitter: 0) == .finish(.failed(nil, expected)))
  }
}

@Suite("RefreshFlight answers every input in every phase") struct RefreshFlightTableTests {
  /// One of each kind; `kind(of:)` does not compile when a kind is added.
  private static let inputs: [RefreshFlight.Input] = [
    .lockAcquired, .lockUnavailable(trouble), .loaded(session(), fingerprintA), .loadFailed(trouble),
    .intentDurable,
    .intentFailed(trouble, isLeft: false), goodReply, .resultDurable, .resultFailed(trouble), .lockReleased,
  ]

  private static func kind(of input: RefreshFlight.Input) -> Int {
    switch input {
    case .lockAcquired: 0
    case .lockUnavailable: 1
    case .loaded: 2
    case .loadFailed: 3
    case .intentDurable: 4
    case .intentFailed: 5
    case .replied: 6
    case .resultDurable: 7
    case .resultFailed: 8
    case .lockReleased: 9
    }
  }

  private static func word(for action: RefreshFlight.Action) -> String {
    switch action {
    case .acquireLock: "acquire"
    case .load: "load"
    case .writeIntent: "intent"
    case .send: "send"
    case .writeResult: "write"
    case .releaseLock: "release"
    case .finish: "finish"
    case .finishAndRelease: "finish and release"
    case .finishKeepingLock: "tell"
    case .retryWriteResult: "retry"
    case .end: "end"
    case .ignore: "-"
    }
  }

  private static func reach(_ phase: RefreshFlight.Phase) -> RefreshFlight {
    let abandoned = session { $0.intent = intended.intent }
    return switch phase {
    case .idle: flight()
    case .locking: flown([]).flight
    case .loading: flown([.lockAcquired]).flight
    case .settling: flown([.lockAcquired, .loaded(abandoned, fingerprintA)]).flight
    case .reserving: flown(toLoaded).flight
    case .sending: flown(toSent).flight
    case .recording: flown(toSent + [goodReply]).flight
    case .keeping: flown(toSent + [goodReply, .resultFailed(trouble)]).flight
    case .releasing: flown(toLoaded, seen: 6).flight
    case .releasingTold: flown(toSent + [goodReply, .resultDurable]).flight
    case .finished: flown([.lockUnavailable(trouble)]).flight
    }
  }

  /// Columns in the order of `inputs`: the action, and the phase that follows.
  private static let table: [(RefreshFlight.Phase, [(String, RefreshFlight.Phase)])] = [
    (.idle, row(.idle, [:])),
    (.locking, row(.locking, [0: ("load", .loading), 1: ("finish", .finished)])),
    (.loading, row(.loading, [2: ("intent", .reserving), 3: ("release", .releasing)])),
    (.settling, row(.settling, [7: ("release", .releasing), 8: ("release", .releasing)])),
    (.reserving, row(.reserving, [4: ("send", .sending), 5: ("release", .releasing)])),
    (.sending, row(.sending, [6: ("write", .recording)])),
    (.recording, row(.recording, [7: ("finish and release", .releasingTold), 8: ("tell", .keeping)])),
    (.keeping, row(.keeping, [7: ("release", .releasingTold), 8: ("retry", .keeping)])),
    (.releasing, row(.releasing, [9: ("finish", .finished)])),
    (.releasingTold, row(.releasingTold, [9: ("end", .finished)])),
    (.finished, row(.finished, [:])),
  ]

  private static func row(
    _ phase: RefreshFlight.Phase, _ answered: [Int: (String, RefreshFlight.Phase)]
  ) -> [(String, RefreshFlight.Phase)] {
    inputs.indices.map { answered[$0] ?? ("-", phase) }
  }

  @Test("the table holds every pair, and each pair does what it says")
  func everyPair() {
    #expect(Self.inputs.map(Self.kind) == Array(0..<10))
    #expect(Set(Self.table.map(\.0)) == Set(RefreshFlight.Phase.allCases))
    var pairs = 0
    for (phase, row) in Self.table {
      let reached = Self.reach(phase)
      #expect(reached.phase == phase)
      for (input, (word, next)) in zip(Self.inputs, row) {
        var flight = reached
        let action = flight.handle(input, now: noon, jitter: 0)
        #expect(Self.word(for: action) == word, "\(phase) on input \(Self.kind(of: input))")
        #expect(flight.phase == next, "\(phase) on input \(Self.kind(of: input))")
        pairs += 1
      }
    }
    #expect(pairs == 110)
  }

  @Test("start begins once", arguments: RefreshFlight.Phase.allCases)
  func startOnce(_ phase: RefreshFlight.Phase) {
    var flight = Self.reach(phase)
    #expect(flight.start() == (phase == .idle ? .acquireLock : .ignore))
    #expect(flight.phase == (phase == .idle ? .locking : phase))
  }

  /// Goal: I1 and the lock's span for any order of inputs. Method: 3 000 flights of 40 random inputs each.
  @Test("in no order is anything sent without a durable intent, sent twice, or the lock given back early")
  func anyOrder() {
    var scatter = Scatter(state: 99)
    var sentFlights = 0
    for _ in 0..<3000 {
      var flight = flight()
      _ = flight.start()
      var sends = 0
      var releases = 0
      var results = 0
      for _ in 0..<40 {
        guard let input = Self.inputs.randomElement(using: &scatter) else { continue }
        switch flight.handle(input, now: noon, jitter: 0) {
        case .send:
          sends += 1
          #expect(input == .intentDurable && releases == 0)
        case .releaseLock: releases += 1
        case .finishAndRelease(let result):
          results += 1
          releases += 1
          guard case .refreshed(_, isDurable: true) = result, sends == 1 else {
            Issue.record("\(result)")
            continue
          }
        case .finish, .finishKeepingLock: results += 1
        case .acquireLock, .load, .writeIntent, .writeResult, .retryWriteResult, .end, .ignore: break
        }
      }
      #expect(sends <= 1 && releases <= 1 && results <= 1)
      if sends == 1 { sentFlights += 1 }
    }
    #expect(sentFlights > 100)
  }
}
