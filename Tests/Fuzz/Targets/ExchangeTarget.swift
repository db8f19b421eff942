import BearerPolicy
import Chronology
import ProxyCore

/// Requests that share one session, their events in the order that the bytes choose: I2, I3, I4, I5, I11, and no
/// order of events that traps.
enum ExchangeTarget {
  static func check(_ bytes: [UInt8]) throws {
    var source = ByteSource(bytes)
    let budget = ReplayBudget(bytesMax: 96)
    var session = SharedSession(startsStale: source.flag())
    var requests: [FuzzedRequest] = []
    for id in 0..<(1 + source.next(below: 3)) {
      requests.append(FuzzedRequest(id: UInt64(id), &source, budget))
    }
    for index in requests.indices { try requests[index].begin(&session) }
    for _ in 0..<400 where !source.isEmpty {
      let choice = source.next(below: requests.count + 1)
      if choice == requests.count {
        for (id, answer) in try session.step(&source) {
          guard let waiting = requests.firstIndex(where: { $0.id == id }) else {
            throw Broken(description: "nobody has the number \(id)")
          }
          try requests[waiting].woken(answer, &session)
        }
      } else {
        try requests[choice].step(&source, &session)
      }
      try require(budget.bytesUsed >= 0 && budget.bytesUsed <= budget.bytesMax, "I12: \(budget.bytesUsed) bytes kept")
    }
    for index in requests.indices { try requests[index].leave(&session) }
    requests = []
    try requireEqual(budget.bytesUsed, 0, "I12: every copy is given back")
  }
}

/// The session's ledger with at most one flight, which lands as the bytes say.
struct SharedSession {
  private(set) var ledger = SessionLedger(name: "ada")
  private var now = DateTarget.now
  private var instant = Instant(nanoseconds: 1_000_000_000)
  private var isFlying = false
  private var parked: Set<UInt64> = []

  init(startsStale: Bool) {
    ledger.adopt(record(generation: 1, expiresIn: startsStale ? 1 : 3600), provider: Provider(name: "p"), settings: "s")
  }

  private func record(generation: UInt64, expiresIn seconds: Int64) -> SessionRecord {
    SessionRecord(
      name: "ada", provider: "p", generation: generation, accessToken: Secret("a\(generation)"),
      refreshToken: Secret("r\(generation)"), obtainedAt: now, expiresAt: now + .seconds(seconds),
      expirySource: .expiresIn, isImported: false)
  }

  /// nil: parked, `woken` follows.
  mutating func ask(_ id: UInt64, rejected: UInt64?) throws -> BearerAnswer? {
    let current = ledger.record?.generation
    let answer = ledger.ask(id, rejected: rejected, route: 0, waitersMax: 2, now: now, at: instant)
    if case .parked(let trigger) = answer {
      try require(parked.insert(id).inserted, "a request waits once")
      if let trigger {
        try require(!isFlying, "one refresh at a time")
        if let rejected { try requireEqual(rejected, current, "I5: only the current generation's 401 refreshes") }
        try require(ledger.takeOff(trigger) != nil, "a flight that must take off can")
        isFlying = true
      }
      try require(isFlying, "I11: who waits waits for a flight")
      try require(ledger.takeOff(.ahead) == nil, "one refresh at a time")
      return nil
    }
    return bearer(answer)
  }

  private func bearer(_ answer: SessionLedger.Answer) -> BearerAnswer {
    switch answer {
    case .ready(let generation), .unchanged(let generation): .ready(generation: generation)
    case .refused, .tooManyWaiters, .parked:
      .unavailable(BearerRefusal(code: .refreshUnavailable, detail: "no token"))
    }
  }

  mutating func accept(_ generation: UInt64) { ledger.accept(generation: generation) }

  mutating func rejectAfterReplay(_ generation: UInt64) {
    ledger.rejectAfterReplay(generation: generation, route: 0, coolDown: .seconds(30), at: instant)
  }

  /// Time passes, or the flight lands.
  mutating func step(_ source: inout ByteSource) throws -> [(UInt64, BearerAnswer)] {
    guard isFlying, source.flag() else {
      let seconds = Int64(source.next()) * 8
      now = now + .seconds(seconds)
      instant = instant + .seconds(seconds)
      return []
    }
    guard let current = ledger.record else { return [] }
    let newer = record(generation: current.generation + 1, expiresIn: Int64(source.next()) * 20)
    let result: FlightResult
    switch source.next(below: 5) {
    case 0, 1: result = .refreshed(newer, isDurable: source.flag())
    case 2: result = .alreadyNewer(newer)
    case 3: result = .failed(current, .notSent(reason: "connect"))
    default:
      var ended = current
      ended.standing = .fenced(reason: "timed_out", since: now)
      ended.refreshToken = nil
      result = .failed(source.flag() ? ended : nil, .outcomeUnknown(reason: "timed_out"))
    }
    isFlying = false
    let woken = ledger.landed(result, now: now)
    try requireEqual(Set(woken.map(\.waiter)), parked, "I11: a landing wakes everybody who waits")
    try requireEqual(woken.count, parked.count, "once")
    parked = []
    return woken.map { ($0.waiter, bearer($0.answer)) }
  }
}
