import BearerPolicy
import Chronology
import MockBackend

/// A rule of SPEC §0 that did not hold.
struct Violation: Equatable {
  var invariant: String
  var detail: String
}

/// What became of one presentation of a refresh token, as far as a process can know.
final class Presentation {
  enum Fate {
    /// Under way, lost, or answered in a way that proves nothing: it may have succeeded.
    case perhaps
    /// An answer that proves the contrary reached a process.
    case provenNot
    /// It succeeded and left the refresh token in force.
    case keptInForce
  }

  let refreshToken: String
  /// Of the intent, which a grace counts from.
  let at: WallTime
  var fate = Fate.perhaps

  init(refreshToken: String, at: WallTime) {
    self.refreshToken = refreshToken
    self.at = at
  }
}

/// What has just happened that an invariant speaks of.
enum Fact {
  /// A flight is about to send. `cause`: the generation whose 401 it is for; `loaded`: what it read under the lock,
  /// at that time.
  case presents(
    Presentation, holdsLock: Bool, inFile: SessionRecord?, cause: UInt64?, loaded: SessionRecord,
    loadedAt: WallTime, url: String, owner: Int?)
  /// The connection for a presentation inside a grace is made: its first byte leaves.
  case leaves(Presentation, at: WallTime)
  /// A request leaves for the API.
  case sends(SimRequest, Attached?)
  /// A 401 is held back and a newer token asked for.
  case holds(SimRequest, status: Int)
  /// A session's file is about to say `new` where the flight had loaded `old`.
  case rewrites(old: SessionRecord, new: SessionRecord, row: Row?, isRejection: Bool, now: WallTime)
  /// A request got its one answer, or its connection was cut.
  case ended(SimRequest, after: Interval)
  /// After a power loss the session's file says `now` where `promised` had been made durable.
  case recovered(promised: SessionRecord, now: SessionRecord?)
}

/// The access token that a request carries.
struct Attached {
  var owner: Int?
  var isRefreshToken: Bool
  /// It survives a power loss.
  var isDurable: Bool
  /// The process knows that it does not.
  var isDegraded: Bool
  /// When its life ends, counted by a clock that nobody sets from when the process got to know it.
  var expiresAt: Instant
  var now: Instant
}

/// Each rule as a function: nil where it holds.
enum Invariants {
  static func judge(_ fact: Fact, in world: World) -> Violation? {
    let rules: [(Fact, World) -> Violation?] = [
      oncePresented, replayedOnce, forbiddenEndsIt, refreshesCurrentOnly, tokensKeepToTheirOrigin,
      durableBeforeUse, endsOnProofOnly, answeredOnce, usedWhileItLives,
    ]
    for rule in rules {
      if let violation = rule(fact, world) { return violation }
    }
    return nil
  }

  /// What can be judged at any time, after every step.
  static func judge(_ world: World) -> Violation? {
    backendAgrees(world) ?? bodiesLeaveOnce(world)
  }

  /// I1, from the client's side: no presentation after one that may have succeeded, and none unless the lock is
  /// held and the intent is durable.
  static func oncePresented(_ fact: Fact, _ world: World) -> Violation? {
    if case .leaves(let presentation, let at) = fact { return leftInsideGrace(presentation, at, world) }
    guard case .presents(let presentation, let holdsLock, let inFile, _, _, _, _, _) = fact else { return nil }
    guard holdsLock else { return Violation(invariant: "I1", detail: "presented without the lock") }
    guard inFile?.intent != nil else {
      return Violation(invariant: "I1", detail: "presented before the intent is durable")
    }
    let doubtful = world.doubtful(before: presentation)
    guard let first = doubtful.first else { return nil }
    switch world.scenario.declaration {
    case .neverRotates, .graceUnlimited: return nil
    case .graceOfSeconds:
      let until = first.at + .seconds(Int64(Scenario.graceSeconds))
      if doubtful.count == 1, presentation.at < until { return nil }
    case .quarantine, .clear, .graceMissing: break
    }
    return Violation(
      invariant: "I1", detail: "presented again after \(doubtful.count) presentations that may have succeeded"
    )
  }

  /// I1: a grace is judged when the token leaves, for connecting may have taken longer than was left of it.
  private static func leftInsideGrace(_ presentation: Presentation, _ at: WallTime, _ world: World) -> Violation? {
    guard case .graceOfSeconds = world.scenario.declaration,
      let first = world.doubtful(before: presentation).first, at >= first.at + .seconds(Int64(Scenario.graceSeconds))
    else { return nil }
    return Violation(invariant: "I1", detail: "presented again after the declared grace")
  }

  /// I1, from the server's side.
  static func backendAgrees(_ world: World) -> Violation? {
    let counters = world.backend.counters
    if counters.bearersAtTokenEndpoints > 0 {
      return Violation(invariant: "I6", detail: "an access token reached the token endpoint")
    }
    guard !world.scenario.permitsReuse else { return nil }
    guard counters.presentedAfterCommit == 0, counters.presentedAfterUnanswered == 0 else {
      return Violation(
        invariant: "I1",
        detail: "the server saw \(counters.presentedAfterCommit) presentations after a commit, "
          + "\(counters.presentedAfterUnanswered) after no answer")
    }
    return nil
  }

  /// I2.
  static func replayedOnce(_ fact: Fact, _ world: World) -> Violation? {
    guard case .sends(let request, _) = fact else { return nil }
    let sends = request.sends.filter { !$0.isPooledRetry }
    guard sends.count > 1, let last = sends.last else { return nil }
    let before = sends[sends.count - 2]
    guard sends.count == 2 else { return Violation(invariant: "I2", detail: "sent \(sends.count) times") }
    guard request.lastStatus == 401 else {
      return Violation(invariant: "I2", detail: "replayed, and not after a 401")
    }
    guard let newer = last.generation, let older = before.generation, newer > older else {
      return Violation(invariant: "I2", detail: "replayed without a newer generation")
    }
    return nil
  }

  /// I3: a body leaves once, and a second time only if its copy was whole when that was decided.
  static func bodiesLeaveOnce(_ world: World) -> Violation? {
    guard let request = world.lastUploader else { return nil }
    let bytes = world.backend.counters.bodyBytesByRequestID[request.label] ?? 0
    let most = request.bodyBytes * (request.mayBodyLeaveTwice ? 2 : 1)
    guard bytes > most else { return nil }
    return Violation(invariant: "I3", detail: "\(bytes) bytes of a body of \(request.bodyBytes) left")
  }

  /// I4.
  static func forbiddenEndsIt(_ fact: Fact, _ world: World) -> Violation? {
    guard case .holds(_, let status) = fact, status != 401 else { return nil }
    return Violation(invariant: "I4", detail: "a newer token was asked for after \(status)")
  }

  /// I5: a flight for a 401 presents only while the file says the generation that was refused; one that another
  /// flight brought and whose access token is over again may be refreshed like any other.
  static func refreshesCurrentOnly(_ fact: Fact, _ world: World) -> Violation? {
    guard case .presents(_, _, _, let cause?, let loaded, let loadedAt, _, _) = fact else { return nil }
    guard loaded.generation != cause, loaded.accessToken != nil, loadedAt < loaded.expiresAt else {
      return nil
    }
    return Violation(
      invariant: "I5", detail: "generation \(loaded.generation) refreshed for a 401 to generation \(cause)")
  }

  /// I6: each token goes to the place of its own session's, by what the servers issued.
  static func tokensKeepToTheirOrigin(_ fact: Fact, _ world: World) -> Violation? {
    switch fact {
    case .presents(_, _, _, _, _, _, let url, let owner):
      guard let owner, url == Scenario.endpoint(of: owner) else {
        return Violation(invariant: "I6", detail: "a refresh token of session \(owner ?? -1) left for \(url)")
      }
      return nil
    case .sends(let request, let attached?):
      guard !attached.isRefreshToken else { return Violation(invariant: "I6", detail: "a refresh token left for the API") }
      guard attached.owner == request.session else {
        return Violation(invariant: "I6", detail: "\(request.label) carries another session's token")
      }
      return nil
    case .sends, .leaves, .holds, .rewrites, .ended, .recovered: return nil
    }
  }

  /// I7: what a request carries survives a power loss, or is known not to; what was durable stays.
  static func durableBeforeUse(_ fact: Fact, _ world: World) -> Violation? {
    switch fact {
    case .sends(_, let attached?):
      return attached.isDurable || attached.isDegraded
        ? nil : Violation(invariant: "I7", detail: "an access token was used that is not durable")
    case .recovered(let promised, let now):
      guard let now, now.generation >= promised.generation else {
        return Violation(invariant: "I7", detail: "generation \(promised.generation) was durable and is gone")
      }
      return nil
    case .sends, .presents, .leaves, .holds, .rewrites, .ended: return nil
    }
  }

  /// SPEC §3: a wall clock that is set does not keep an expired token in use.
  static func usedWhileItLives(_ fact: Fact, _ world: World) -> Violation? {
    guard case .sends(_, let attached?) = fact, attached.now >= attached.expiresAt + Self.connecting else { return nil }
    return Violation(
      invariant: "clock", detail: "a token is used \(attached.now.since(attached.expiresAt).inSeconds) s after its life")
  }

  /// A connection is made between the question for a token and its use.
  private static let connecting = Interval.seconds(1)

  /// I8: only a row that proves something, an intent that was left behind, or time, ends a session.
  static func endsOnProofOnly(_ fact: Fact, _ world: World) -> Violation? {
    guard case .rewrites(let old, let new, let row, let isRejection, let now) = fact else { return nil }
    switch row {
    case .notSent, .knownNotSucceeded, .configurationFault:
      guard new.standing == old.standing, new.refreshToken == old.refreshToken else {
        return Violation(invariant: "I8", detail: "the session did not survive \(row?.rawValue ?? "")")
      }
    case .success:
      guard new.standing == .active else {
        return Violation(invariant: "I8", detail: "a success ended the session")
      }
    case .dead, .unknown: break
    case nil:
      if isRejection {
        guard case .fenced = old.standing else {
          return Violation(invariant: "I8", detail: "a 401 ended a session that was not fenced")
        }
      } else if old.standing == .active, new.standing != .active {
        let isGraceOver = old.graceUntil.map { now >= $0 } ?? false
        guard old.intent != nil || isGraceOver else {
          return Violation(invariant: "I8", detail: "the session ended without a presentation")
        }
      }
    }
    return nil
  }

  /// I11.
  static func answeredOnce(_ fact: Fact, _ world: World) -> Violation? {
    guard case .ended(let request, let after) = fact else { return nil }
    guard request.endings == 1 else {
      return Violation(invariant: "I11", detail: "\(request.label) ended \(request.endings) times")
    }
    guard after < Self.requestLongest else {
      return Violation(invariant: "I11", detail: "\(request.label) took \(after.inSeconds) s")
    }
    return nil
  }

  /// Two waits for a token (a lock's 20 s, a refresh's 10 s, a slow disk's), two attempts with 5 s to connect and
  /// 60 s for a head each, one more on a pooled connection, an upload.
  static let requestLongest = Interval.seconds(300)
}

extension Invariants {
  /// When all faults have stopped and nothing is left to happen.
  static func judgeAtRest(_ world: World) -> Violation? {
    for request in world.requests where request.endings != 1 {
      return Violation(invariant: "I11", detail: "\(request.label) ended \(request.endings) times")
    }
    for session in world.directories.indices {
      if world.locks[session] != nil { return Violation(invariant: "I11", detail: "a lock is still held") }
      let directory = world.directories[session]
      if directory.holds(.new) || directory.holds(.result) {
        return Violation(invariant: "I11", detail: "an unfinished file is left")
      }
    }
    for process in world.processes where process.isBusy {
      return Violation(invariant: "I11", detail: "a flight is still under way")
    }
    for token in world.obtained where !world.everDurable.contains(token) {
      return Violation(
        invariant: "I7", detail: "tokens were obtained, their process lived, and they are not saved")
    }
    return nil
  }
}
