/// A fixed-capacity run of bytes between two indices: what was received and not yet consumed, or what is
/// to be sent and has not left.
///
/// It owns its memory and never grows; not copyable, so it has one owner and counts no references. The pointers
/// it hands out are valid until the next mutating call. Every mutation checks its bounds in release too, because
/// subscripts of raw pointers do not.
@safe
public struct ByteBuffer: ~Copyable {
  private let memory: UnsafeMutableRawBufferPointer
  /// Index of the first readable byte.
  public private(set) var start = 0
  /// Index after the last readable byte; the first writable one.
  public private(set) var end = 0

  /// Without memory: nothing fits.
  public init() { unsafe memory = UnsafeMutableRawBufferPointer(start: nil, count: 0) }

  public init(capacity: Int) {
    precondition(capacity > 0, "a buffer needs room")
    unsafe memory = .allocate(byteCount: capacity, alignment: 16)
  }

  /// Takes over memory that `takeMemory` gave.
  @unsafe
  public init(memory: UnsafeMutableRawBufferPointer) { unsafe self.memory = memory }

  deinit { unsafe memory.deallocate() }

  /// The end of the buffer, not of its memory, which is now the caller's to deallocate.
  @unsafe
  public consuming func takeMemory() -> UnsafeMutableRawBufferPointer {
    let taken = unsafe memory
    discard self
    return unsafe taken
  }

  /// What it has, memory and content; it is left without memory.
  public mutating func take() -> ByteBuffer {
    var taken = ByteBuffer()
    swap(&taken, &self)
    return taken
  }

  /// Bytes of memory, content or not.
  public var capacity: Int { unsafe memory.count }
  public var hasMemory: Bool { capacity > 0 }
  /// Readable bytes.
  public var count: Int { end - start }
  public var isEmpty: Bool { start == end }
  /// Bytes that can be written before `compact()` is needed.
  public var room: Int { capacity - end }

  /// The content. Valid until the next mutating call.
  public var readable: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(rebasing: memory[start..<end])
  }

  /// The free bytes after the content; report what was written with `produced`.
  public var writable: UnsafeMutableRawBufferPointer {
    unsafe UnsafeMutableRawBufferPointer(rebasing: memory[end..<capacity])
  }

  /// The content as a bounds-checked view, during the call only. `body` must not mutate the buffer.
  public func withReadable<Result, Failure: Error>(_ body: (RawSpan) throws(Failure) -> Result) throws(Failure)
    -> Result
  {
    let bytes = unsafe RawSpan(_unsafeBytes: readable)
    return try body(bytes)
  }

  /// Drops `n` bytes from the front. When nothing is left both indices return to 0, so that an idle
  /// buffer always has its whole room.
  public mutating func consume(_ n: Int) {
    precondition(n >= 0 && n <= count, "consumed more than the buffer holds")
    start += n
    if start == end { reset() }
  }

  /// Makes readable `n` bytes that were written through `writable`.
  public mutating func produced(_ n: Int) {
    precondition(n >= 0 && n <= room, "produced more than the buffer's room")
    end += n
  }

  /// Moves the content to the front of the memory.
  public mutating func compact() {
    guard start > 0 else { return }
    let length = count
    if length > 0, let base = unsafe memory.baseAddress {
      unsafe base.copyMemory(from: base + start, byteCount: length)
    }
    start = 0
    end = length
  }

  /// Forgets the content.
  public mutating func reset() {
    start = 0
    end = 0
  }

  /// Overwrites the content.
  func zero() {
    for index in start..<end { unsafe memory[index] = 0 }
  }

  /// Compacts if that is needed; says whether `n` more bytes fit now.
  public mutating func ensureRoom(_ n: Int) -> Bool {
    if room >= n { return true }
    if capacity - count < n { return false }
    compact()
    return true
  }
}

extension ByteBuffer {
  public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    precondition(bytes.count <= room, "append past the buffer's room")
    guard let source = bytes.baseAddress, let base = unsafe memory.baseAddress else { return }
    unsafe (base + end).copyMemory(from: source, byteCount: bytes.count)
    end += bytes.count
  }

  public mutating func append(_ bytes: RawSpan) {
    unsafe bytes.withUnsafeBytes { source in unsafe append(source) }
  }

  public mutating func append(_ text: StaticString) {
    text.withUTF8Buffer { source in unsafe append(UnsafeRawBufferPointer(source)) }
  }

  public mutating func append(byte: UInt8) {
    precondition(room >= 1, "append past the buffer's room")
    unsafe memory[end] = byte
    end += 1
  }

  /// At most 20 bytes.
  public mutating func append(decimal value: UInt64) {
    append(value, radix: 10)
  }

  /// Lower-case digits without a prefix, at most 16 bytes.
  public mutating func append(hexadecimal value: UInt64) {
    append(value, radix: 16)
  }

  /// For cold paths: configuration, generated answers.
  public mutating func append(utf8 text: String) {
    let bytes = unsafe text.utf8.span.bytes
    append(bytes)
  }

  private mutating func append(_ value: UInt64, radix: UInt64) {
    let digits = value.digitCount(radix: radix)
    precondition(digits <= room, "append past the buffer's room")
    var rest = value
    var index = end + digits
    while index > end {
      index -= 1
      let digit = UInt8(truncatingIfNeeded: rest % radix)
      unsafe memory[index] = digit < 10 ? 0x30 + digit : 0x57 + digit
      rest /= radix
    }
    end += digits
  }
}

extension UInt64 {
  /// How many digits it is written with: at least one.
  public func digitCount(radix: UInt64 = 10) -> Int {
    var digits = 1
    var rest = self / radix
    while rest > 0 {
      digits += 1
      rest /= radix
    }
    return digits
  }
}
