import BearerPolicy
import Chronology
import Testing

private func apply(
  _ outcome: RefreshOutcome, to record: SessionRecord = session(), _ used: Provider = provider(),
  now: WallTime = noon, jitter: Double = 0
) -> SessionRecord {
  record.applying(
    outcome, provider: used, fingerprint: fingerprintA, now: now, jitter: jitter, settings: "settings-1")
}

private func intent(_ trigger: RefreshTrigger = .preflight, at time: WallTime = noon) -> SessionRecord.Intent {
  SessionRecord.Intent(fingerprint: fingerprintA, startedAt: time, trigger: trigger)
}

private let unknown = RefreshOutcome.unknown(reason: "timed_out")
private let deadUnknown = SessionRecord.Standing.dead(reason: "outcome_unknown", since: noon)

@Suite("SPEC §3 what happens: success") struct SuccessTransitionTests {
  @Test("new tokens, one generation more, and every trouble is over")
  func success() {
    let troubled = session {
      $0.isImported = true
      $0.intent = intent()
      $0.backoff = SessionRecord.Backoff(failures: 3, since: noon, until: noon, reason: "connect")
      $0.configurationFault = SessionRecord.ConfigurationFault(code: "invalid_client", since: noon, settings: "s")
      $0.graceUsed = true
      $0.graceUntil = after(30)
      $0.spent = [fingerprintB]
    }
    let expected = session {
      $0.generation = 8
      $0.accessToken = Secret("access-8")
      $0.refreshToken = Secret("refresh-8")
      $0.obtainedAt = noon
      $0.expiresAt = after(3600)
      $0.spent = [fingerprintB, fingerprintA]
    }
    #expect(apply(.success(newTokens), to: troubled) == expected)
  }

  @Test("without a new refresh token, or with the same one, the old stays in force and is not spent")
  func keeps() {
    for refreshToken in [nil, Secret("refresh-7")] {
      var tokens = newTokens
      tokens.refreshToken = refreshToken
      let next = apply(.success(tokens), to: session { $0.spent = [fingerprintB, fingerprintA] })
      #expect(next.refreshToken == Secret("refresh-7"))
      #expect(next.spent == [fingerprintB])
      #expect(next.generation == 8)
    }
  }

  @Test("the list of spent tokens is bounded, the oldest fall out, none is there twice")
  func spentBounded() {
    let many = (0..<SessionRecord.spentMax).map { Fingerprint(hexadecimal: "\($0)") }
    let full = apply(.success(newTokens), to: session { $0.spent = many })
    #expect(full.spent.count == SessionRecord.spentMax)
    #expect(full.spent.last == fingerprintA)
    #expect(full.spent.first == many[1])
    #expect(apply(.dead(code: "x"), to: session { $0.spent = [fingerprintA] }).spent == [fingerprintA])
  }

  @Test("a generation at the end of its range does not trap")
  func generationEnd() {
    #expect(apply(.success(newTokens), to: session { $0.generation = .max }).generation == .max)
  }
}

@Suite("SPEC §3 what happens: failures") struct FailureTransitionTests {
  @Test("dead: tombstone with the reason, tokens erased, fingerprint kept")
  func dead() {
    let next = apply(
      .dead(code: "invalid_grant"),
      to: session {
        $0.intent = intent()
        $0.backoff = SessionRecord.Backoff(failures: 1, since: noon, until: noon, reason: "connect")
      })
    let expected = session {
      $0.standing = .dead(reason: "invalid_grant", since: noon)
      $0.accessToken = nil
      $0.refreshToken = nil
      $0.spent = [fingerprintA]
    }
    #expect(next == expected)
  }

  @Test("configuration fault: session kept, remembered with the settings")
  func configurationFault() {
    let next = apply(.configurationFault(code: "invalid_client"), to: session { $0.intent = intent() })
    let expected = session {
      $0.configurationFault = SessionRecord.ConfigurationFault(
        code: "invalid_client", since: noon, settings: "settings-1")
    }
    #expect(next == expected)
  }

  @Test(
    "I8: not sent and known failures keep everything but the time",
    arguments: [
      RefreshOutcome.notSent(reason: "connect"), .knownNotSucceeded(reason: "connect", retryAfter: nil),
    ])
  func keepsSession(_ outcome: RefreshOutcome) {
    let expected = session {
      $0.backoff = SessionRecord.Backoff(failures: 1, since: noon, until: after(1), reason: "connect")
    }
    #expect(apply(outcome, to: session { $0.intent = intent() }) == expected)
  }

  @Test(
    "back-off is b + U(0, b), b = 1 s doubled by each failure, up to 5 min",
    arguments: [
      (0, 0.0, 1000), (0, 0.5, 1500), (1, 0.0, 2000), (2, 0.25, 5000), (3, 0.0, 8000), (8, 0.0, 256_000),
      (8, 0.5, 384_000), (9, 0.0, 300_000), (9, 0.5, 450_000), (4_000_000_000, 0.0, 300_000),
    ] as [(UInt32, Double, Int64)])
  func backoff(_ failures: UInt32, _ jitter: Double, _ milliseconds: Int64) {
    var record = session()
    if failures > 0 { record.backoff = SessionRecord.Backoff(failures: failures, since: noon, until: noon, reason: "x") }
    let next = apply(.notSent(reason: "connect"), to: record, jitter: jitter)
    #expect(next.backoff?.until == noon + .milliseconds(milliseconds))
    #expect(next.backoff?.failures == failures + 1)
  }

  @Test("never before Retry-After, and a short one does not shorten it")
  func retryAfter() {
    func until(_ interval: Interval) -> WallTime? {
      apply(.knownNotSucceeded(reason: "http_429", retryAfter: interval)).backoff?.until
    }
    #expect(until(.seconds(120)) == after(120))
    #expect(until(.zero) == after(1))
    #expect(until(.seconds(-5)) == after(1))
    #expect(until(.seconds(86_399)) == after(86_399))
    #expect(until(Interval(nanoseconds: .max)) == noon + SessionRecord.retryAfterMax)
  }

  @Test("a clock that is set back does not prolong a back-off: nobody waits longer than it was meant to last")
  func clockSetBack() {
    let record = apply(.knownNotSucceeded(reason: "http_429", retryAfter: .seconds(60)))
    func permission(_ now: WallTime) -> RefreshPermission {
      record.refreshPermission(provider: provider(), now: now, trigger: .preflight, settings: "s")
    }
    for now in [noon, after(59)] {
      #expect(permission(now) == .backingOff(until: after(60), reason: "http_429"))
    }
    for now in [after(-1), after(-86_400), after(60), WallTime(milliseconds: .min)] {
      #expect(permission(now) == .allowed)
    }
  }

  @Test("a count at the end of its range, and a jitter outside its own, do not trap")
  func backoffEnds() {
    let record = session { $0.backoff = SessionRecord.Backoff(failures: .max, since: noon, until: noon, reason: "x") }
    #expect(apply(.notSent(reason: "x"), to: record, jitter: .nan).backoff?.failures == .max)
    #expect(apply(.notSent(reason: "x"), jitter: 9).backoff?.until == after(2))
    #expect(apply(.notSent(reason: "x"), jitter: -9).backoff?.until == after(1))
  }
}

@Suite("I1 what happens: an unknown outcome") struct UnknownTransitionTests {
  @Test("quarantine: the refresh token is gone, the access token stays")
  func quarantine() {
    let expected = session {
      $0.standing = .fenced(reason: "timed_out", since: noon)
      $0.refreshToken = nil
      $0.spent = [fingerprintA]
      $0.unknownCause = "timed_out"
    }
    #expect(apply(unknown, to: session { $0.intent = intent() }) == expected)
  }

  @Test("the tombstone keeps the cause, whichever way the session ends of it; a success forgets it")
  func cause() {
    let fenced = apply(unknown, to: session { $0.intent = intent() })
    #expect(fenced.endReason == "outcome_unknown, timed_out")
    let ended = [
      fenced.settled(at: fenced.expiresAt), fenced.afterRejection(generation: 7, now: noon),
      apply(unknown, to: session { $0.intent = intent() }, provider { $0.onUnknown = .clear }),
    ]
    for record in ended {
      guard case .dead("outcome_unknown", _) = record.standing else {
        Issue.record("\(record.standing)")
        continue
      }
      #expect(record.endReason == "outcome_unknown, timed_out")
    }
    #expect(apply(.dead(code: "invalid_grant")).endReason == "invalid_grant")
    #expect(session().endReason == nil)
    let google = provider { $0.rotation = .never }
    let doubtful = apply(unknown, google)
    #expect(doubtful.unknownCause == "timed_out" && apply(.success(newTokens), to: doubtful, google).unknownCause == nil)
  }

  @Test("quarantine with no access token left is dead at once")
  func quarantineExpired() {
    for change: (inout SessionRecord) -> Void in [{ $0.expiresAt = noon }, { $0.accessToken = nil }] {
      let next = apply(unknown, to: session(change))
      #expect(next.standing == deadUnknown)
      #expect(next.accessToken == nil && next.refreshToken == nil)
    }
  }

  @Test("clear: dead at once (seed 000)")
  func clear() {
    let next = apply(unknown, provider { $0.onUnknown = .clear })
    #expect(next.standing == deadUnknown)
    #expect(next.accessToken == nil && next.refreshToken == nil)
    #expect(next.spent == [fingerprintA])
  }

  @Test("replay-in-grace without a grace is quarantine")
  func noGrace() {
    let next = apply(unknown, provider { $0.onUnknown = .replayInGrace })
    #expect(next.standing == .fenced(reason: "timed_out", since: noon))
    #expect(next.refreshToken == nil)
  }

  @Test("a finite grace allows one more presentation, counted from the first one, at once")
  func finiteGrace() {
    let okta = provider {
      $0.onUnknown = .replayInGrace
      $0.grace = .seconds(30)
    }
    let first = apply(unknown, to: session { $0.intent = intent(at: after(-10)) }, okta)
    let expected = session {
      $0.graceUntil = after(19)  // less the margin for its way
      $0.spent = [fingerprintA]
      $0.unknownCause = "timed_out"
    }
    #expect(first == expected)
    // The second unknown outcome is the last.
    let second = apply(unknown, to: first, okta, now: after(5))
    #expect(second.standing == .fenced(reason: "timed_out", since: after(5)))
    #expect(second.refreshToken == nil && second.graceUntil == nil && second.graceUsed)
    // A presentation that provably did not succeed leaves the grace open.
    let notSent = apply(.notSent(reason: "connect"), to: first, okta, now: after(5))
    #expect(notSent.graceUntil == after(19) && notSent.refreshToken != nil && notSent.standing == .active)
  }

  @Test("a grace that is over when the outcome comes fences")
  func graceOver() {
    let okta = provider {
      $0.onUnknown = .replayInGrace
      $0.grace = .seconds(10)
    }
    let next = apply(unknown, to: session { $0.intent = intent(at: after(-10)) }, okta)
    #expect(next.standing == .fenced(reason: "timed_out", since: noon))
    #expect(next.refreshToken == nil && !next.graceUsed)
    let zero = apply(
      unknown,
      provider {
        $0.onUnknown = .replayInGrace
        $0.grace = .seconds(0)
      })
    #expect(zero.standing == .fenced(reason: "timed_out", since: noon))
  }

  @Test("an unlimited grace keeps the refresh token, after a back-off, each time")
  func unlimitedGrace() {
    let supabase = provider {
      $0.onUnknown = .replayInGrace
      $0.grace = .unlimited
    }
    let first = apply(unknown, supabase)
    #expect(first.standing == .active && first.refreshToken == Secret("refresh-7") && first.graceUntil == nil)
    #expect(first.backoff == SessionRecord.Backoff(failures: 1, since: noon, until: after(1), reason: "timed_out"))
    let second = apply(unknown, to: first, supabase, now: after(1))
    #expect(second.backoff == SessionRecord.Backoff(failures: 2, since: after(1), until: after(3), reason: "timed_out"))
    #expect(second.refreshToken == Secret("refresh-7"))
  }

  @Test("rotation never: the refresh token stays whatever on_unknown says", arguments: Provider.OnUnknown.allCases)
  func neverRotates(_ policy: Provider.OnUnknown) {
    let google = provider {
      $0.rotation = .never
      $0.onUnknown = policy
    }
    let next = apply(unknown, google)
    #expect(next.standing == .active && next.refreshToken == Secret("refresh-7") && next.spent.isEmpty)
    #expect(next.backoff == SessionRecord.Backoff(failures: 1, since: noon, until: after(1), reason: "timed_out"))
  }

  @Test("earlier troubles do not outlive it, whatever the policy")
  func endsEarlierTroubles() {
    let troubled = session {
      $0.backoff = SessionRecord.Backoff(failures: 5, since: noon, until: noon, reason: "connect")
      $0.configurationFault = SessionRecord.ConfigurationFault(code: "x", since: noon, settings: "s")
    }
    for (policy, grace) in [
      (Provider.OnUnknown.quarantine, Provider.Grace.none), (.clear, .none), (.replayInGrace, .seconds(30)),
      (.replayInGrace, .none),
    ] {
      let used = provider {
        $0.onUnknown = policy
        $0.grace = grace
      }
      let next = apply(unknown, to: troubled, used)
      #expect(next.backoff == nil && next.configurationFault == nil)
    }
    // Where a back-off follows, it counts on.
    let unlimited = provider {
      $0.onUnknown = .replayInGrace
      $0.grace = .unlimited
    }
    let next = apply(unknown, to: troubled, unlimited)
    #expect(next.backoff?.failures == 6 && next.configurationFault == nil)
  }

  @Test("an abandoned intent is an unknown outcome whose holder died")
  func abandonedIntent() {
    let found = session { $0.intent = intent(at: after(-100)) }
    func classified(_ used: Provider) -> SessionRecord {
      found.classifyingAbandonedIntent(provider: used, now: noon, jitter: 0, settings: "s")
    }
    #expect(classified(provider()).standing == .fenced(reason: "holder_died", since: noon))
    #expect(classified(provider { $0.onUnknown = .clear }).standing == deadUnknown)
    let grace = classified(
      provider {
        $0.onUnknown = .replayInGrace
        $0.grace = .seconds(102)
      })
    #expect(grace.graceUntil == after(1) && grace.refreshToken != nil && grace.intent == nil)
    #expect(
      classified(
        provider {
          $0.onUnknown = .replayInGrace
          $0.grace = .seconds(100)
        }
      ).refreshToken == nil)
    #expect(classified(provider { $0.rotation = .never }).backoff?.reason == "holder_died")
    let none = session()
    #expect(none.classifyingAbandonedIntent(provider: provider(), now: noon, jitter: 0, settings: "s") == none)
  }

  @Test("an intent beside a session that is over changes nothing but itself")
  func intentOfDead() {
    let dead = session {
      $0.standing = .dead(reason: "invalid_grant", since: after(-1))
      $0.accessToken = nil
      $0.refreshToken = nil
    }
    var found = dead
    found.intent = intent()
    #expect(found.classifyingAbandonedIntent(provider: provider(), now: noon, jitter: 0, settings: "s") == dead)
  }
}

@Suite("SPEC §3 a fenced session ends") struct FencedTests {
  private let fenced = session {
    $0.standing = .fenced(reason: "timed_out", since: after(-5))
    $0.refreshToken = nil
  }

  @Test("at the expiry of its access token, not before")
  func expiry() {
    #expect(fenced.settled(at: after(2999)) == fenced)
    let over = fenced.settled(at: after(3000))
    #expect(over.standing == .dead(reason: "outcome_unknown", since: after(3000)))
    #expect(over.accessToken == nil)
  }

  @Test("at a 401 for its current generation only (I5)")
  func rejection() {
    #expect(fenced.afterRejection(generation: 7, now: noon).standing == deadUnknown)
    #expect(fenced.afterRejection(generation: 7, now: noon).accessToken == nil)
    #expect(fenced.afterRejection(generation: 6, now: noon) == fenced)
    #expect(session().afterRejection(generation: 7, now: noon) == session())
  }

  @Test("a grace that passes unused fences, and past the access token's expiry ends")
  func graceRunsOut() {
    let waiting = session { $0.graceUntil = after(10) }
    #expect(waiting.settled(at: after(9)) == waiting)
    let over = waiting.settled(at: after(10))
    #expect(over.standing == .fenced(reason: "grace_over", since: after(10)))
    #expect(over.refreshToken == nil && over.accessToken != nil && over.graceUntil == nil)
    #expect(waiting.settled(at: after(3000)).standing == .dead(reason: "outcome_unknown", since: after(3000)))
  }

  @Test("time does nothing to an active session, nor to a dead one")
  func others() {
    #expect(session().settled(at: after(1_000_000)) == session())
    let dead = session { $0.standing = .dead(reason: "x", since: noon) }
    #expect(dead.settled(at: after(1_000_000)) == dead)
  }
}
