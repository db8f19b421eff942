import BearerPolicy
import Chronology
import ProxyCore
import SessionStore

/// What a process keeps of every session that it has heard of. A hundred thousand of them lie here, most of them idle,
/// so only the rest (tokens, waiters, a flight) is behind a reference.
struct SessionPlace {
  let name: String
  /// When the present access token came: a clock that is set back must not revive it.
  var arrival: SessionLedger.Arrival?
  /// When a refresh ahead of time is due, and the schedule's entry for it.
  var aheadAt = Instant.never
  /// What `aheadAt` was planned for; the same record is not planned twice.
  var aheadKey = 0
  var live: LiveSession?

  init(name: String) { self.name = name }
}

/// What a flight that has told its result leaves for when all is on disk and its lock is free. Touched on the keeper's
/// queue only, which is what makes it safe to send.
final class Settling: @unchecked Sendable {
  /// Of the tokens that it brought; nil where it brought none.
  var generation: UInt64?
  var commands: [@Sendable () -> Void] = []
}

/// A session in use: touched on the keeper's queue only.
final class LiveSession {
  var ledger: SessionLedger
  /// Of the file that the ledger's record was read from; nil: read it again.
  var stamp: FileStamp?
  var parked: [UInt64: Asker] = [:]
  /// Commands wait for a flight of their own.
  var commands: [@Sendable (FlightResult) -> Void] = []
  var runner: FlightRunner?
  /// The generation whose end by a 401 has been told and is being stored.
  var endSaved: UInt64?
  /// Flights that have told their results and still have their lock.
  var settling: [Settling] = []

  init(_ place: SessionPlace) { ledger = SessionLedger(name: place.name, arrival: place.arrival) }

  /// The process should not end now.
  var isBusy: Bool { ledger.isBusy || !settling.isEmpty }

  func canBeLetGo(at now: Instant) -> Bool {
    !isBusy && runner == nil && parked.isEmpty && commands.isEmpty && ledger.canBeLetGo(at: now)
  }
}

/// The sessions by slot and by name, and those in use that may be let go one day, oldest look first.
struct SessionTable {
  private(set) var places: [SessionPlace] = []
  /// By the bytes of the name: strings that are canonically equivalent are the same to Swift, and two sessions here.
  private var slots: [[UInt8]: Int] = [:]
  /// Slots with a `live` part beyond the first `keptMax`, each once.
  private(set) var order: [Int] = []

  /// So many stay in memory whether they are used or not, which is as many as metrics tell one by one; a process with
  /// few sessions never reads a file twice.
  static let keptMax = 200

  var indices: Range<Int> { places.indices }
  var count: Int { places.count }

  subscript(slot: Int) -> SessionPlace {
    get { places[slot] }
    _modify { yield &places[slot] }
  }

  func slot(of name: String) -> Int? { slots[Array(name.utf8)] }

  mutating func makeSlot(_ name: String) -> Int {
    if let slot = slots[Array(name.utf8)] { return slot }
    places.append(SessionPlace(name: name))
    slots[Array(name.utf8)] = places.count - 1
    return places.count - 1
  }

  /// The session in memory; made, and still without its record, where it is not there.
  mutating func live(_ slot: Int) -> LiveSession {
    if let live = places[slot].live { return live }
    let live = LiveSession(places[slot])
    places[slot].live = live
    if slot >= Self.keptMax { order.append(slot) }
    return live
  }

  /// The oldest of those that may be let go, at most so many; they are out of the order until `keep` or `letGo`.
  mutating func takeOldest(_ count: Int) -> [Int] {
    let oldest = Array(order.prefix(count))
    order.removeFirst(oldest.count)
    return oldest
  }

  mutating func keep(_ slot: Int) { order.append(slot) }

  mutating func letGo(_ slot: Int) {
    places[slot].arrival = places[slot].live?.ledger.arrival
    places[slot].live = nil
  }
}
