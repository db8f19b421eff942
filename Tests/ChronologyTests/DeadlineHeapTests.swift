import Chronology
import Testing

@Suite("Deadline heap") struct DeadlineHeapTests {
  @Test("gives deadlines in order, whatever the order they came in", arguments: 0..<20)
  func isOrdered(_ seed: UInt64) {
    var state = seed
    func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state >> 33
    }
    var heap = DeadlineHeap<Int>()
    var expected: [UInt64] = []
    var given: [UInt64] = []
    for index in 0..<500 {
      let nanoseconds = next() % 100
      heap.insert(Instant(nanoseconds: nanoseconds), index)
      expected.append(nanoseconds)
      if next() % 3 == 0, let (instant, _) = heap.first {
        #expect(instant.nanoseconds == expected.min())
        expected.remove(at: expected.firstIndex(of: instant.nanoseconds) ?? 0)
        heap.removeFirst()
      }
    }
    while let (instant, _) = heap.first {
      given.append(instant.nanoseconds)
      heap.removeFirst()
    }
    #expect(given == expected.sorted())
    #expect(heap.count == 0)
  }
}
