import Foundation

/// What clients were told, counted by status and code, and what they should never have seen.
final class Tally: @unchecked Sendable {
  private let gate = NSLock()
  private var counts: [String: Int] = [:]
  private var wrong: [String] = []
  private var over: Set<String> = []

  /// Judges an answer: the API's 200, or words that say why not.
  func note(_ answer: Connection.Answer, session: String) {
    gate.withLock {
      if answer.status == 200, answer.body.contains("\"\(session)\"") {
        counts["200", default: 0] += 1
      } else if let code = answer.code {
        counts["\(answer.status) \(code)", default: 0] += 1
        let isExpected =
          switch code {
          case "SESSION_EXPIRED": answer.status == 401 && answer.field("www-authenticate") != nil
          case "REFRESH_UNAVAILABLE": answer.status == 503 && answer.field("retry-after") != nil
          default: false
          }
        if !isExpected { wrong.append("\(session): \(answer.head)\(answer.body)") }
        if code == "SESSION_EXPIRED" { over.insert(session) }
      } else if answer.status == 401, answer.field("proxy-status")?.hasPrefix("bearerd;") == true {
        counts["401 of the API, explained", default: 0] += 1
      } else {
        wrong.append("\(session): \(answer.head)\(answer.body)")
      }
    }
  }

  func noteBroken(_ what: String, wasKilled: Bool) {
    gate.withLock {
      if wasKilled { counts["broken by a kill", default: 0] += 1 } else { wrong.append(what) }
    }
  }

  /// The sessions that clients were told are over, since the last call.
  func takeOver() -> Set<String> {
    gate.withLock {
      defer { over = [] }
      return over
    }
  }

  func count(_ what: String) -> Int { gate.withLock { counts[what] ?? 0 } }
  var violations: [String] { gate.withLock { wrong } }
  var kinds: Set<String> { gate.withLock { Set(counts.keys) } }
  var summary: String {
    gate.withLock { counts.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ") }
  }
}

/// Client threads. They end in `finish`, which must be called before what they use goes.
final class Load: @unchecked Sendable {
  let tally = Tally()
  private let gate = NSLock()
  private var isOver = false
  private let threads = DispatchGroup()

  var goesOn: Bool { gate.withLock { !isOver } }

  /// Asks the clients to stop and waits for them.
  func finish(_ slots: [Slot]) {
    gate.withLock { isOver = true }
    for slot in slots { slot.close() }
    threads.wait()
  }

  private func thread(_ body: @escaping @Sendable () -> Void) {
    threads.enter()
    Thread.detachNewThread { [threads] in
      body()
      threads.leave()
    }
  }

  /// A client that sends one request after the other, keeps its connection as long as it can, and goes from session
  /// to session.
  func addClient(of slot: Slot, sessions: [String], seed: UInt64) {
    thread { [self] in
      var chance = Chance(seed: seed)
      var kept: (connection: Connection, incarnation: Int)?
      while goesOn, let place = slot.place() {
        let session = sessions[chance.number(in: 0...sessions.count - 1)]
        do throws(Connection.Broken) {
          if kept?.incarnation != place.incarnation { kept = nil }
          let connection = if let kept { kept.connection } else { try Connection(port: place.port) }
          kept = (connection, place.incarnation)
          tally.note(try connection.get("/me", session: session), session: session)
        } catch {
          kept = nil
          tally.noteBroken(error.description, wasKilled: slot.isDoomed(place.incarnation))
        }
        // Time to think: an unpaced client only measures how fast this machine can be kept busy.
        usleep(UInt32(chance.number(in: 0...6000)))
      }
    }
  }

  /// One thread that plays `connections` clients of a daemon that is not killed: all ask, then all are answered.
  func addCrowd(of slot: Slot, connections: Int, session: String, seed: UInt64) {
    thread { [self] in
      var chance = Chance(seed: seed)
      guard let place = slot.place() else { return }
      do throws(Connection.Broken) {
        var crowd: [Connection] = []
        for _ in 0..<connections { crowd.append(try Connection(port: place.port)) }
        while goesOn {
          for connection in crowd { try connection.send("/me", session: session) }
          for connection in crowd { tally.note(try connection.receive(), session: session) }
          usleep(UInt32(chance.number(in: 20_000...120_000)))
        }
      } catch {
        tally.noteBroken(error.description, wasKilled: false)
      }
    }
  }

  /// Any other actor, such as somebody at the command line; it ends by itself.
  func add(_ body: @escaping @Sendable () -> Void) { thread(body) }
}

/// A repeatable choice (SplitMix64).
struct Chance {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  mutating func number(in range: ClosedRange<Int>) -> Int {
    range.lowerBound + Int(next() % UInt64(range.count))
  }
}
