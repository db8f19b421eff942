import Chronology

/// What is still to happen, in the order of its time; at one time, in the order of its scheduling.
struct Timeline {
  struct Event {
    let at: Instant
    let order: UInt64
    /// Dropped unrun if this process has died meanwhile; nil: the world's own.
    let process: SimProcess?
    let run: () -> Void

    static func precedes(_ left: Event, _ right: Event) -> Bool {
      left.at == right.at ? left.order < right.order : left.at < right.at
    }
  }

  private var heap: [Event] = []
  private var scheduled: UInt64 = 0

  var isEmpty: Bool { heap.isEmpty }
  var nextAt: Instant? { heap.first?.at }

  mutating func add(at instant: Instant, process: SimProcess?, _ run: @escaping () -> Void) {
    scheduled += 1
    heap.append(Event(at: instant, order: scheduled, process: process, run: run))
    var child = heap.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard Event.precedes(heap[child], heap[parent]) else { break }
      heap.swapAt(child, parent)
      child = parent
    }
  }

  mutating func next() -> Event? {
    guard let first = heap.first else { return nil }
    let last = heap.removeLast()
    if heap.isEmpty { return first }
    heap[0] = last
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
        if Event.precedes(heap[child], heap[least]) { least = child }
      }
      if least == parent { return first }
      heap.swapAt(parent, least)
      parent = least
    }
  }
}
