/// A binary min-heap of deadlines. Entries are never searched: a stale one is recognised when it comes up.
public struct DeadlineHeap<Element> {
  private var entries: [(instant: Instant, element: Element)] = []

  public init() {}

  /// The earliest; of equal ones any.
  public var first: (Instant, Element)? {
    guard let entry = entries.first else { return nil }
    return (entry.instant, entry.element)
  }

  public var count: Int { entries.count }

  public mutating func insert(_ instant: Instant, _ element: Element) {
    entries.append((instant, element))
    var child = entries.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      if entries[parent].instant <= entries[child].instant { break }
      entries.swapAt(parent, child)
      child = parent
    }
  }

  /// Traps where there is none.
  public mutating func removeFirst() {
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

extension DeadlineHeap: Sendable where Element: Sendable {}
