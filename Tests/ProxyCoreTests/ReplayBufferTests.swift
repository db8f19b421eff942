import ProxyCore
import Testing

@Suite("SPEC §4 copies of request bodies") struct ReplayBufferTests {
  private func tee(_ buffer: ReplayBuffer, _ bytes: [UInt8]) { bytes.withUnsafeBytes { buffer.tee($0) } }

  private func content(_ buffer: ReplayBuffer, from offset: Int = 0) -> [UInt8] {
    buffer.withBytes(from: offset) { Array($0) }
  }

  @Test("what was teed in pieces is read back whole, and from any offset")
  func readsBack() {
    let buffer = ReplayBuffer(
      expected: nil, keepsCopy: true, bytesMax: 100, budget: ReplayBudget(bytesMax: 10_000))
    let body = (0..<100).map { UInt8($0) }
    for start in stride(from: 0, to: 100, by: 7) { tee(buffer, Array(body[start..<min(100, start + 7)])) }
    #expect(buffer.isComplete)
    #expect(buffer.count == 100)
    for offset in 0...100 { #expect(content(buffer, from: offset) == Array(body[offset...])) }
  }

  @Test(
    "the byte past the limit drops the copy and turns replay off, also when less follows",
    arguments: [nil, 8] as [UInt64?])
  func limit(expected: UInt64?) {
    let budget = ReplayBudget(bytesMax: 10_000)
    let buffer = ReplayBuffer(expected: expected, keepsCopy: true, bytesMax: 8, budget: budget)
    tee(buffer, Array(repeating: 1, count: 8))
    #expect(buffer.isComplete)
    tee(buffer, [2])
    #expect(!buffer.isComplete)
    #expect(buffer.count == 0)
    #expect(budget.bytesUsed == 0)
    tee(buffer, [3])
    #expect(!buffer.isComplete)
    #expect(buffer.count == 0)
  }

  @Test("a known length is reserved at once and not a second time")
  func knownLength() {
    let budget = ReplayBudget(bytesMax: 100)
    let buffer = ReplayBuffer(expected: 60, keepsCopy: true, bytesMax: 100, budget: budget)
    #expect(budget.bytesUsed == 60)
    tee(buffer, Array(repeating: 0, count: 60))
    #expect(budget.bytesUsed == 60)
    #expect(buffer.isComplete)
  }

  @Test(
    "which bodies get a copy",
    arguments: [
      (expected: UInt64?.none, keepsCopy: true, isComplete: true, used: 0),
      (expected: nil, keepsCopy: false, isComplete: false, used: 0),
      (expected: 0, keepsCopy: true, isComplete: true, used: 0),
      (expected: 64, keepsCopy: true, isComplete: true, used: 64),
      (expected: 64, keepsCopy: false, isComplete: false, used: 0),
      (expected: 65, keepsCopy: true, isComplete: false, used: 0),
      (expected: UInt64.max, keepsCopy: true, isComplete: false, used: 0),
    ])
  func admission(_ row: (expected: UInt64?, keepsCopy: Bool, isComplete: Bool, used: Int)) {
    let budget = ReplayBudget(bytesMax: 1000)
    let buffer = ReplayBuffer(expected: row.expected, keepsCopy: row.keepsCopy, bytesMax: 64, budget: budget)
    #expect(buffer.isComplete == row.isComplete)
    #expect(budget.bytesUsed == row.used)
    withExtendedLifetime(buffer) {}
  }

  @Test("the budget is shared: what one copy holds another cannot have, until it is dropped")
  func sharedBudget() {
    let budget = ReplayBudget(bytesMax: 100)
    let first = ReplayBuffer(expected: 70, keepsCopy: true, bytesMax: 100, budget: budget)
    let refused = ReplayBuffer(expected: 31, keepsCopy: true, bytesMax: 100, budget: budget)
    #expect(!refused.isComplete)
    let fits = ReplayBuffer(expected: 30, keepsCopy: true, bytesMax: 100, budget: budget)
    #expect(fits.isComplete)
    #expect(budget.bytesUsed == 100)
    first.drop()
    #expect(budget.bytesUsed == 30)
    #expect(ReplayBuffer(expected: 31, keepsCopy: true, bytesMax: 100, budget: budget).isComplete)
    withExtendedLifetime((first, fits)) {}
  }

  @Test("a body of unknown length that outgrows the budget is dropped, and its share goes back")
  func budgetReachedWhileStreaming() {
    let budget = ReplayBudget(bytesMax: 10_000)
    let other = ReplayBuffer(expected: 1000, keepsCopy: true, bytesMax: 1000, budget: budget)
    let buffer = ReplayBuffer(expected: nil, keepsCopy: true, bytesMax: 1 << 20, budget: budget)
    var teed = 0
    while buffer.isComplete && teed < 1 << 20 {
      tee(buffer, Array(repeating: 7, count: 1000))
      teed += 1000
      #expect(budget.bytesUsed <= budget.bytesMax)
    }
    #expect(teed >= 5000 && teed <= 10_000)
    #expect(budget.bytesUsed == 1000)
    withExtendedLifetime(other) {}
  }

  @Test("dropping twice and letting go release once")
  func releasesOnce() {
    let budget = ReplayBudget(bytesMax: 100)
    do {
      let dropped = ReplayBuffer(expected: 40, keepsCopy: true, bytesMax: 100, budget: budget)
      dropped.drop()
      dropped.drop()
      #expect(budget.bytesUsed == 0)
    }
    #expect(budget.bytesUsed == 0)
    do {
      let kept = ReplayBuffer(expected: 40, keepsCopy: true, bytesMax: 100, budget: budget)
      #expect(budget.bytesUsed == 40)
      withExtendedLifetime(kept) {}
    }
    #expect(budget.bytesUsed == 0)
  }

  @Test("more than was announced is kept too, within the limit")
  func longerThanAnnounced() {
    let budget = ReplayBudget(bytesMax: 100)
    let buffer = ReplayBuffer(expected: 3, keepsCopy: true, bytesMax: 50, budget: budget)
    tee(buffer, Array(1...10))
    #expect(buffer.isComplete)
    #expect(content(buffer) == Array(1...10))
    #expect(budget.bytesUsed >= 10 && budget.bytesUsed <= 50)
  }
}
