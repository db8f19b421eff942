import BearerPolicy
import Configuration

/// Which sessions each upstream's pool holds: those whose names match its pattern and whose files are there.
public struct SessionPools: Sendable {
  /// What loops pick from. Of an epoch that is not its plan's a loop takes nothing, for the upstreams' order is the
  /// plan's (I6).
  public struct Snapshot: Sendable {
    var epoch: UInt64 = 0
    /// Slots, by upstream; empty for one without a pool.
    var slots: [[Int32]] = []
    public init() {}
  }

  private var patterns: [String?] = []
  private(set) var snapshot = Snapshot()

  /// A new configuration's pools; `names` are those in the store now.
  mutating func replace(_ patterns: [String?], names: [String], slot: (String) -> Int) {
    self.patterns = patterns
    snapshot.epoch += 1
    snapshot.slots = patterns.map { pattern in
      guard let pattern else { return [] }
      return names.filter { SessionPattern.matches(pattern, $0) }.map { Int32(slot($0)) }
    }
  }

  var areAny: Bool { patterns.contains { $0 != nil } }

  /// Whether some pool wants a session of that name.
  func want(_ name: String) -> Bool {
    patterns.contains { $0.map { SessionPattern.matches($0, name) } ?? false }
  }

  /// The session's file is there. True where that changed a pool.
  mutating func join(_ slot: Int, _ name: String) -> Bool {
    var hasChanged = false
    for (index, pattern) in patterns.enumerated() {
      guard let pattern, SessionPattern.matches(pattern, name), !snapshot.slots[index].contains(Int32(slot)) else {
        continue
      }
      snapshot.slots[index].append(Int32(slot))
      hasChanged = true
    }
    return hasChanged
  }

  /// The session's file is gone. True where that changed a pool.
  mutating func leave(_ slot: Int) -> Bool {
    var hasChanged = false
    for index in snapshot.slots.indices {
      guard let position = snapshot.slots[index].firstIndex(of: Int32(slot)) else { continue }
      snapshot.slots[index].remove(at: position)
      hasChanged = true
    }
    return hasChanged
  }
}
