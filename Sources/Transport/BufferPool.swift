public import HTTPSyntax

/// Buffers of two sizes that a loop lends to its connections: an idle connection holds none. And wide receive windows,
/// which are buffers too, the kernel's.
///
/// Owned by one loop. What comes back is kept up to a bound, so that memory follows load down again (I12).
public final class BufferPool {
  /// Small exchanges: head and body of most requests fit.
  public static let ordinaryBytes = 16 * 1024
  /// The longest head (`HeadLimits` keeps its offsets within sixteen bits), and bulk bodies.
  public static let largeBytes = 65_536

  private var ordinary: FreeList
  private var large: FreeList

  /// Bytes lent at present: the buffer gauge.
  public private(set) var lentBytes = 0

  /// Those that are here to be lent.
  public var keptCount: Int { ordinary.count + large.count }

  /// Connections that may still have their receive window widened at once (`SocketOptions.widenReceiveWindow`). The others'
  /// grow as the kernel sees fit: in either case net.ipv4.tcp_rmem and tcp_mem bound what it holds.
  private var windowsLeft = 8

  public init(ordinaryKeptMax: Int = 128, largeKeptMax: Int = 16) {
    ordinary = FreeList(bytes: Self.ordinaryBytes, countMax: ordinaryKeptMax)
    large = FreeList(bytes: Self.largeBytes, countMax: largeKeptMax)
  }

  public func borrowOrdinary() -> ByteBuffer {
    lentBytes += Self.ordinaryBytes
    return ordinary.take() ?? ByteBuffer(capacity: Self.ordinaryBytes)
  }

  public func borrowLarge() -> ByteBuffer {
    lentBytes += Self.largeBytes
    return large.take() ?? ByteBuffer(capacity: Self.largeBytes)
  }

  /// Whether a connection may have a wide receive window, until it closes: `giveBackWindow` then.
  public func lendWindow() -> Bool {
    if windowsLeft == 0 { return false }
    windowsLeft -= 1
    return true
  }

  public func giveBackWindow() { windowsLeft += 1 }

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
      ordinary.put(buffer)
    } else if buffer.capacity == Self.largeBytes {
      lentBytes -= Self.largeBytes
      large.put(buffer)
    }
  }
}

/// Buffers of one size that nobody has, each linked to the next by its own first bytes: an array's append and removal
/// cost ten times as much (measured: 450 instructions for a request).
private struct FreeList: ~Copyable {
  private var first: UnsafeMutableRawPointer?
  private(set) var count = 0
  private let bytes: Int
  private let countMax: Int

  init(bytes: Int, countMax: Int) {
    self.bytes = bytes
    self.countMax = countMax
  }

  deinit {
    var next = first
    while let memory = next {
      next = memory.load(as: UnsafeMutableRawPointer?.self)
      memory.deallocate()
    }
  }

  mutating func take() -> ByteBuffer? {
    guard let memory = first else { return nil }
    first = memory.load(as: UnsafeMutableRawPointer?.self)
    count -= 1
    return ByteBuffer(memory: UnsafeMutableRawBufferPointer(start: memory, count: bytes))
  }

  /// Beyond `countMax` it is let go.
  mutating func put(_ buffer: consuming ByteBuffer) {
    if count == countMax { return }
    let memory = buffer.takeMemory().baseAddress!
    memory.storeBytes(of: first, as: UnsafeMutableRawPointer?.self)
    first = memory
    count += 1
  }
}
