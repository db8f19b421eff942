import HTTPSyntax
import Testing
import Transport

@Suite("I12: the buffer pool") struct BufferPoolTests {
  @Test("bytes lent are counted until they come back")
  func accounting() {
    let pool = BufferPool()
    #expect(pool.lentBytes == 0)
    let small = pool.borrowOrdinary()
    let large = pool.borrowLarge()
    let capacities = [small.capacity, large.capacity]
    #expect(capacities == [BufferPool.ordinaryBytes, BufferPool.largeBytes])
    #expect(pool.lentBytes == BufferPool.ordinaryBytes + BufferPool.largeBytes)
    pool.giveBack(small)
    #expect(pool.lentBytes == BufferPool.largeBytes)
    pool.giveBack(large)
    #expect(pool.lentBytes == 0)
  }

  /// Where its memory is.
  private func place(_ buffer: borrowing ByteBuffer) -> UnsafeRawPointer? {
    UnsafeRawPointer(buffer.readable.baseAddress)
  }

  @Test("what came back is lent again, empty")
  func reuse() {
    let pool = BufferPool()
    var first = pool.borrowOrdinary()
    first.append("secret")
    let firstPlace = place(first)
    pool.giveBack(first)
    let second = pool.borrowOrdinary()
    let third = pool.borrowOrdinary()
    let (secondPlace, thirdPlace) = (place(second), place(third))
    #expect(secondPlace == firstPlace)
    #expect(thirdPlace != firstPlace)
    let (count, room) = (second.count, second.room)
    #expect(count == 0 && room == BufferPool.ordinaryBytes)
  }

  @Test("of several that came back each is lent once, the last first")
  func several() {
    let pool = BufferPool(ordinaryKeptMax: 3, largeKeptMax: 0)
    let first = pool.borrowOrdinary()
    let second = pool.borrowOrdinary()
    let third = pool.borrowOrdinary()
    let places = [place(third), place(second), place(first)]
    pool.giveBack(first)
    pool.giveBack(second)
    pool.giveBack(third)
    #expect(pool.keptCount == 3)
    let one = pool.borrowOrdinary()
    let two = pool.borrowOrdinary()
    let three = pool.borrowOrdinary()
    let lent = [place(one), place(two), place(three)]
    #expect(lent == places && Set(places).count == 3)
    #expect(pool.keptCount == 0)
    let fourth = pool.borrowOrdinary()
    let fourthPlace = place(fourth)
    #expect(!lent.contains(fourthPlace))
  }

  @Test("no more are kept than the bound says")
  func bound() {
    let pool = BufferPool(ordinaryKeptMax: 1, largeKeptMax: 0)
    let kept = pool.borrowOrdinary()
    let surplus = pool.borrowOrdinary()
    let large = pool.borrowLarge()
    let (keptPlace, surplusPlace, largePlace) = (place(kept), place(surplus), place(large))
    pool.giveBack(kept)
    pool.giveBack(surplus)
    pool.giveBack(large)
    #expect(pool.keptCount == 1)
    let again = pool.borrowOrdinary()
    let againPlace = place(again)
    #expect(againPlace == keptPlace && keptPlace != surplusPlace && largePlace != keptPlace)
    #expect(pool.keptCount == 0)
  }

  @Test("the smaller that holds what is asked for is lent; beyond the large ones it is made")
  func borrow() {
    let pool = BufferPool()
    for (asked, capacity) in [
      (1, BufferPool.ordinaryBytes), (BufferPool.ordinaryBytes, BufferPool.ordinaryBytes),
      (BufferPool.ordinaryBytes + 1, BufferPool.largeBytes), (BufferPool.largeBytes, BufferPool.largeBytes),
      (BufferPool.largeBytes + 1, BufferPool.largeBytes + 1),
    ] {
      let buffer = pool.borrow(asked)
      let found = buffer.capacity
      #expect(found == capacity)
      pool.giveBack(buffer)
    }
    #expect(pool.lentBytes == 0)
  }

  @Test("a buffer of another size, or of none, is neither kept nor counted")
  func foreign() {
    let pool = BufferPool()
    let lent = pool.borrowOrdinary()
    pool.giveBack(ByteBuffer(capacity: 100_000))
    pool.giveBack(ByteBuffer())
    #expect(pool.lentBytes == BufferPool.ordinaryBytes)
    pool.giveBack(lent)
    #expect(pool.lentBytes == 0 && pool.keptCount == 1)
  }

  @Test("eight wide receive windows are lent at a time")
  func windows() {
    let pool = BufferPool()
    #expect((0..<10).map { _ in pool.lendWindow() } == Array(repeating: true, count: 8) + [false, false])
    pool.giveBackWindow()
    #expect(pool.lendWindow())
    #expect(!pool.lendWindow())
  }
}
