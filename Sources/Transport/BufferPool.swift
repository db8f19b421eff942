public import HTTPSyntax

/// Buffers of two sizes that a loop lends to its connections: an idle connection holds none.
///
/// Owned by one loop. What comes back is kept up to a bound, so that memory follows load down again (I12).
public final class BufferPool {
  /// Small exchanges: head and body of most requests fit.
  public static let ordinaryBytes = 16 * 1024
  /// The longest head (`HeadLimits` keeps its offsets within sixteen bits) and bulk bodies: four full TLS records
  /// (RFC 8446 §5.1). One byte less, and each fourth record was read in two parts: 3 % of the CPU of a download.
  public static let largeBytes = 65_536

  private var ordinary: [UnsafeMutableRawBufferPointer] = []
  private var large: [UnsafeMutableRawBufferPointer] = []
  private let ordinaryKeptMax: Int
  private let largeKeptMax: Int

  /// Bytes lent at present: the buffer gauge.
  public private(set) var lentBytes = 0

  /// Those that are here to be lent.
  public var keptCount: Int { ordinary.count + large.count }

  public init(ordinaryKeptMax: Int = 128, largeKeptMax: Int = 16) {
    self.ordinaryKeptMax = ordinaryKeptMax
    self.largeKeptMax = largeKeptMax
    ordinary.reserveCapacity(ordinaryKeptMax)
    large.reserveCapacity(largeKeptMax)
  }

  deinit { for memory in ordinary + large { memory.deallocate() } }

  public func borrowOrdinary() -> ByteBuffer {
    lentBytes += Self.ordinaryBytes
    guard let memory = ordinary.popLast() else { return ByteBuffer(capacity: Self.ordinaryBytes) }
    return ByteBuffer(memory: memory)
  }

  public func borrowLarge() -> ByteBuffer {
    lentBytes += Self.largeBytes
    guard let memory = large.popLast() else { return ByteBuffer(capacity: Self.largeBytes) }
    return ByteBuffer(memory: memory)
  }

  /// The smaller that holds `count` bytes; beyond the large ones it is made for them.
  public func borrow(_ count: Int) -> ByteBuffer {
    if count <= Self.ordinaryBytes { return borrowOrdinary() }
    return count <= Self.largeBytes ? borrowLarge() : ByteBuffer(capacity: count)
  }

  /// Moves the content into a buffer that holds `count` bytes; takes the old one back.
  public func replace(_ buffer: inout ByteBuffer, holding count: Int) {
    var larger = borrow(count)
    larger.append(buffer.readable)
    swap(&buffer, &larger)
    giveBack(larger)
  }

  /// Takes a buffer back, empty or not; its content is gone. One of another size was not lent here: it is let go.
  public func giveBack(_ buffer: consuming ByteBuffer) {
    if buffer.capacity == Self.ordinaryBytes {
      lentBytes -= Self.ordinaryBytes
      if ordinary.count < ordinaryKeptMax { ordinary.append(buffer.takeMemory()) }
    } else if buffer.capacity == Self.largeBytes {
      lentBytes -= Self.largeBytes
      if large.count < largeKeptMax { large.append(buffer.takeMemory()) }
    }
  }
}
