import BearerPolicy

/// The row of SPEC §3's table that a presentation belongs to, by what was made to happen on the way and not by
/// what was concluded from it.
enum Row: String, CaseIterable {
  case success, dead, configurationFault, notSent, knownNotSucceeded, unknown
}

/// A line of SPEC §4's table, in its order.
enum GateLine: String, CaseIterable {
  case alreadyReplayed, clientDenies, pathDenies, bodyHasLeft, clientAllows, pathAllows, safeMethod,
    idempotencyKey
  case writesAlways, noIdempotencyKey

  /// Which line decides for these facts; written a second time, as the table says it.
  init(_ facts: ReplayFacts) {
    let lines: [(Bool, GateLine)] = [
      (facts.alreadyReplayed, .alreadyReplayed),
      (facts.clientRetry == .deny, .clientDenies),
      (facts.pathRetry == .never, .pathDenies),
      (!facts.isBodyReplayable && facts.hasBodyLeft, .bodyHasLeft),
      (facts.clientRetry == .allow, .clientAllows),
      (facts.pathRetry == .always, .pathAllows),
      (facts.method == .getHeadOptions, .safeMethod),
      (facts.hasIdempotencyKey, .idempotencyKey),
      (facts.writes == .always, .writesAlways),
    ]
    self = lines.first { $0.0 }?.1 ?? .noIdempotencyKey
  }

  var replays: Bool {
    switch self {
    case .clientAllows, .pathAllows, .safeMethod, .idempotencyKey, .writesAlways: true
    case .alreadyReplayed, .clientDenies, .pathDenies, .bodyHasLeft, .noIdempotencyKey: false
    }
  }
}

/// What the runs have passed through.
struct Coverage {
  enum Mark: Hashable {
    case row(Row)
    case failure(String)
    case gate(GateLine)
    case unknownUnder(Scenario.Declaration)
    case crash(DiskStep, isBefore: Bool)
    case powerLoss, processCrash
    case trigger(RefreshTrigger)
    case alreadyNewer, degraded, degradedSaved, abandonedIntent
    case staleRejection, coolDown, pooledRetry, letGo
    /// Connecting for the second presentation took until the end of the grace.
    case graceOverWhileConnecting
    /// An intent stayed in the file though nothing was sent: taking it back failed too.
    case intentLeftUnsent
  }

  private(set) var counts: [Mark: Int] = [:]

  mutating func note(_ mark: Mark) { counts[mark, default: 0] += 1 }

  mutating func merge(_ other: Coverage) { counts.merge(other.counts, uniquingKeysWith: +) }

  /// Every mark that a thousand seeds must have left.
  static var required: [Mark] {
    var marks: [Mark] = Row.allCases.map { .row($0) }
    marks += GateLine.allCases.map { .gate($0) }
    marks += Scenario.Declaration.allCases.map { .unknownUnder($0) }
    marks += RefreshTrigger.allCases.map { .trigger($0) }
    marks += failures.map { .failure($0) }
    for step in DiskStep.allCases { marks += [.crash(step, isBefore: true), .crash(step, isBefore: false)] }
    return marks + [
      .powerLoss, .processCrash, .alreadyNewer, .degraded, .degradedSaved, .abandonedIntent, .staleRejection,
      .coolDown, .pooledRetry, .intentLeftUnsent, .graceOverWhileConnecting, .letGo,
    ]
  }

  private static let failures = [
    "dead", "fenced", "backingOff", "misconfigured", "notSent", "knownFailure", "outcomeUnknown",
    "storeUnwritable",
    "storeUnreadable", "missing", "noRefreshToken", "noEndpoint",
  ]

  static func name(_ failure: FlightFailure) -> String {
    switch failure {
    case .dead: "dead"
    case .fenced: "fenced"
    case .backingOff: "backingOff"
    case .misconfigured: "misconfigured"
    case .notSent: "notSent"
    case .knownFailure: "knownFailure"
    case .outcomeUnknown: "outcomeUnknown"
    case .storeUnwritable: "storeUnwritable"
    case .storeUnreadable: "storeUnreadable"
    case .lockHeld: "lockHeld"
    case .missing: "missing"
    case .noRefreshToken: "noRefreshToken"
    case .noEndpoint: "noEndpoint"
    }
  }
}

/// A mistake put into the driver on purpose, to see that its invariant is watched.
enum PlantedBug: String, CaseIterable {
  /// I1: who finds an intent takes it for nothing.
  case forgetsIntent
  /// I2: a replay that is answered 401 is sent once more.
  case replaysTwice
  /// I3: a body is taken for replayable though its copy was dropped.
  case forgetsDroppedCopy
  /// I4: a 403 is taken for a 401.
  case refreshesAfterForbidden
  /// I5: a 401 for an old generation is taken for one for the current one.
  case refreshesStaleGeneration
  /// I6: the access token goes to the token endpoint too.
  case sendsBearerToTokenEndpoint
  /// I7: a failed write of the result is taken for a success, and the tokens are not written again.
  case dropsUnsavedTokens
  /// I8: a connection that was never made is taken for an answer that never came.
  case endsSessionUnsent
  /// I1: the second presentation leaves though connecting took until the end of the grace.
  case presentsAfterGrace
  /// I6: a session's refresh token goes to the other provider's endpoint.
  case mixesProviders
  /// I7: a token that another process's file shows is used before its name is durable.
  case trustsWhatItReads
  /// SPEC §3: a wall clock that is set back prolongs a token's life.
  case trustsWallClock
  /// I8: the lock is given back though an intent that was not sent is in the file.
  case leavesUnsentIntent
  /// I11: the first of those who wait for a flight is not woken.
  case forgetsWaiter

  var invariant: String {
    switch self {
    case .forgetsIntent: "I1"
    case .replaysTwice: "I2"
    case .forgetsDroppedCopy: "I3"
    case .refreshesAfterForbidden: "I4"
    case .refreshesStaleGeneration: "I5"
    case .sendsBearerToTokenEndpoint: "I6"
    case .dropsUnsavedTokens: "I7"
    case .endsSessionUnsent, .leavesUnsentIntent: "I8"
    case .presentsAfterGrace: "I1"
    case .mixesProviders: "I6"
    case .trustsWhatItReads: "I7"
    case .trustsWallClock: "clock"
    case .forgetsWaiter: "I11"
    }
  }
}
