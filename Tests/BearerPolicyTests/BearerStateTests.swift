import BearerPolicy
import Chronology
import Testing

@Suite("SPEC §3 whether a refresh token may be presented") struct RefreshPermissionTests {
  private let fault = SessionRecord.ConfigurationFault(code: "invalid_client", since: after(-9), settings: "s1")
  private let backoff = SessionRecord.Backoff(failures: 2, since: noon, until: after(5), reason: "connect")

  private func permission(
    _ trigger: RefreshTrigger = .preflight, settings: String = "s1", now: WallTime = noon,
    _ change: (inout SessionRecord) -> Void
  ) -> RefreshPermission {
    session(change).refreshPermission(provider: provider(), now: now, trigger: trigger, settings: settings)
  }

  @Test("each answer, the graver one first", arguments: RefreshTrigger.allCases)
  func order(_ trigger: RefreshTrigger) {
    let troubles: (inout SessionRecord) -> Void = {
      $0.backoff = backoff
      $0.configurationFault = fault
      $0.refreshToken = nil
    }
    #expect(permission(trigger) { _ in } == .allowed)
    #expect(
      permission(trigger) {
        troubles(&$0)
        $0.standing = .dead(reason: "gone", since: noon)
      } == .dead(reason: "gone"))
    #expect(
      permission(trigger) {
        troubles(&$0)
        $0.standing = .fenced(reason: "timed_out", since: noon)
      } == .fenced(reason: "timed_out"))
    #expect(permission(trigger, troubles) == .noRefreshToken)
  }

  @Test("a configuration fault holds for the same settings, and not for a command")
  func configurationFault() {
    for trigger in RefreshTrigger.allCases {
      let expected: RefreshPermission = trigger == .command ? .allowed : .misconfigured(code: "invalid_client")
      #expect(permission(trigger) { $0.configurationFault = fault } == expected)
      #expect(permission(trigger, settings: "s2") { $0.configurationFault = fault } == .allowed)
    }
  }

  @Test("a back-off holds for everybody until its time", arguments: RefreshTrigger.allCases)
  func backingOff(_ trigger: RefreshTrigger) {
    #expect(permission(trigger) { $0.backoff = backoff } == .backingOff(until: after(5), reason: "connect"))
    #expect(permission(trigger, now: after(5)) { $0.backoff = backoff } == .allowed)
  }

  @Test("a grace ends at its moment", arguments: RefreshTrigger.allCases)
  func grace(_ trigger: RefreshTrigger) {
    #expect(permission(trigger) { $0.graceUntil = after(1) } == .allowed)
    #expect(permission(trigger) { $0.graceUntil = noon } == .fenced(reason: "grace_over"))
  }
}

@Suite("SPEC §3 preflight and ahead of time") struct BearerStateTests {
  private func judge(
    _ now: WallTime, rejected: UInt64? = nil, _ change: (inout SessionRecord) -> Void = { _ in }
  ) -> BearerReadiness {
    BearerState.judge(
      session(change), provider: provider(), settings: "s1", now: now, rejectedGeneration: rejected)
  }

  @Test("inside the leeway a request refreshes first")
  func leeway() {
    #expect(judge(after(2939)) == .ready)
    #expect(judge(after(2940)) == .refreshFirst)
    #expect(judge(after(3000)) == .refreshFirst)
    #expect(judge(noon) { $0.accessToken = nil } == .refreshFirst)
  }

  @Test("where no refresh may be tried, the token serves to its end, then nothing does")
  func withoutRefresh() {
    let troubles: [(inout SessionRecord) -> Void] = [
      { $0.refreshToken = nil },
      { $0.standing = .fenced(reason: "timed_out", since: noon) },
      { $0.backoff = SessionRecord.Backoff(failures: 1, since: noon, until: after(9000), reason: "connect") },
      { $0.configurationFault = SessionRecord.ConfigurationFault(code: "x", since: noon, settings: "s1") },
      { $0.graceUntil = noon },
    ]
    for trouble in troubles {
      #expect(judge(noon, trouble) == .ready)
      #expect(judge(after(2999), trouble) == .ready)
      #expect(judge(after(3000), trouble) == .unusable)
      #expect(judge(noon, rejected: 7, trouble) == .unusable)
    }
    #expect(
      judge(noon) {
        $0.standing = .dead(reason: "x", since: noon)
      } == .unusable)
  }

  @Test("a rejected generation does not serve, an older one's rejection says nothing (I5)")
  func rejected() {
    #expect(judge(noon, rejected: 7) == .refreshFirst)
    #expect(judge(noon, rejected: 6) == .ready)
  }

  @Test(
    "leeway is at most a quarter of a lifetime that bearerd knows, ahead at most a half",
    arguments: [
      (3600, false, 60, 300.0), (3600, true, 60, 300.0), (100, false, 25, 45.4545), (100, true, 60, 300.0),
      (240, false, 60, 109.0909), (0, false, 0, 0.0), (-50, false, 0, 0.0),
    ] as [(Int64, Bool, Int64, Double)])
  func caps(_ lifetime: Int64, _ isImported: Bool, _ leeway: Int64, _ ahead: Double) {
    let record = session {
      $0.obtainedAt = noon
      $0.expiresAt = after(lifetime)
      $0.isImported = isImported
    }
    let timing = RefreshTiming(record: record, provider: provider())
    #expect(timing.staleAt == after(lifetime - leeway))
    for (jitter, factor) in [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1)] {
      let expected = after(lifetime) + .fractionalSeconds(-ahead * factor)
      let found = timing.aheadAt(jitter: jitter)
      #expect(found.map { abs($0.since(expected).milliseconds) <= 2 } == true)
      if !isImported, lifetime > 0 {
        #expect(found.map { $0 >= noon + .milliseconds(lifetime * 500 - 1) } == true)
      }
    }
  }

  @Test("no refresh ahead of time without the setting, a refresh token, or an active session")
  func noAhead() {
    #expect(RefreshTiming(record: session(), provider: provider()).aheadAt(jitter: 0) != nil)
    #expect(
      RefreshTiming(record: session(), provider: provider { $0.refreshAhead = nil }).aheadAt(jitter: 0) == nil)
    #expect(
      RefreshTiming(record: session { $0.refreshToken = nil }, provider: provider()).aheadAt(jitter: 0) == nil)
    let fenced = session { $0.standing = .fenced(reason: "x", since: noon) }
    #expect(RefreshTiming(record: fenced, provider: provider()).aheadAt(jitter: 0) == nil)
  }

  @Test("a leeway of zero refreshes at expiry, times at the ends of the clock do not trap")
  func ends() {
    let zero = RefreshTiming(record: session(), provider: provider { $0.leeway = .zero })
    #expect(zero.staleAt == after(3000))
    for time in [WallTime(milliseconds: .min), WallTime(milliseconds: .max)] {
      let record = session { $0.expiresAt = time }
      #expect(
        BearerState.judge(record, provider: provider(), settings: "", now: noon)
          == (time < noon ? .refreshFirst : .ready))
    }
  }
}
