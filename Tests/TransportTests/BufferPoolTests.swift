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
    #expect(small.capacity == BufferPool.ordinaryBytes)
    #expect(large.capacity == BufferPool.largeBytes)
    #expect(pool.lentBytes == BufferPool.ordinaryBytes + BufferPool.largeBytes)
    pool.giveBack(small)
    #expect(pool.lentBytes == BufferPool.largeBytes)
    pool.giveBack(large)
    #expect(pool.lentBytes == 0)
  }

  @Test("what came back is lent again, empty")
  func reuse() {
    let pool = BufferPool()
    let first = pool.borrowOrdinary()
    first.append("secret")
    pool.giveBack(first)
    let second = pool.borrowOrdinary()
    #expect(second === first)
    #expect(second.isEmpty && second.room == BufferPool.ordinaryBytes)
    #expect(pool.borrowOrdinary() !== first)
  }

  @Test("no more are kept than the bound says")
  func bound() {
    let pool = BufferPool(ordinaryKeptMax: 1, largeKeptMax: 0)
    let lent = [pool.borrowOrdinary(), pool.borrowOrdinary()]
    for buffer in lent { pool.giveBack(buffer) }
    #expect(pool.borrowOrdinary() === lent[0])
    #expect(pool.borrowOrdinary() !== lent[1])
    let large = pool.borrowLarge()
    pool.giveBack(large)
    #expect(pool.borrowLarge() !== large)
  }

  @Test("a buffer of another size is neither kept nor counted")
  func foreign() {
    let pool = BufferPool()
    let lent = pool.borrowOrdinary()
    pool.giveBack(ByteBuffer(capacity: 100_000))
    #expect(pool.lentBytes == BufferPool.ordinaryBytes)
    pool.giveBack(lent)
    #expect(pool.lentBytes == 0)
  }
}
