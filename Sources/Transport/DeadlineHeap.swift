import Chronology

/// A binary min-heap of deadlines. Entries are never searched: a stale one is recognised when it comes up.
struct DeadlineHeap {
  private var entries: [(instant: Instant, token: MemberToken)] = []

  var first: (Instant, MemberToken)? {
    guard let entry = entries.first else { return nil }
    return (entry.instant, entry.token)
  }

  var count: Int { entries.count }

  mutating func insert(_ instant: Instant, _ token: MemberToken) {
    entries.append((instant, token))
    var child = entries.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      if entries[parent].instant <= entries[child].instant { break }
      entries.swapAt(parent, child)
      child = parent
    }
  }

  mutating func removeFirst() {
    let last = entries.removeLast()
    if entries.isEmpty { return }
    entries[0] = last
    var parent = 0
    while true {
      var least = 2 * parent + 1
      if least >= entries.count { break }
      if least + 1 < entries.count, entries[least + 1].instant < entries[least].instant { least += 1 }
      if entries[parent].instant <= entries[least].instant { break }
      entries.swapAt(parent, least)
      parent = least
    }
  }
}
