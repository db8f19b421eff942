/// The memory that copies of request bodies may take together (`replay.memory`), counted per loop.
///
/// Owned by one loop; each loop has its share of the whole.
public final class ReplayBudget {
  public let bytesMax: Int
  public private(set) var bytesUsed = 0

  public init(bytesMax: Int) { self.bytesMax = bytesMax }

  func reserve(_ count: Int) -> Bool {
    guard count <= bytesMax - bytesUsed else { return false }
    bytesUsed += count
    return true
  }

  func release(_ count: Int) { bytesUsed -= count }
}

/// A copy of one request's body, kept while the body streams on, so that it can be sent once more (SPEC §4).
///
/// A byte past the limit or the budget drops the copy and turns replay off for the request. Owned by the exchange.
public final class ReplayBuffer {
  private let budget: ReplayBudget
  private let bytesMax: Int
  private var copy: [UInt8] = []
  private var reserved = 0
  /// All that came is here.
  public private(set) var isComplete = true

  /// - Parameters:
  ///   - expected: the Content-Length, reserved at once; nil where it is not known.
  ///   - keepsCopy: false for a body that must not be replayed.
  public init(expected: UInt64?, keepsCopy: Bool, bytesMax: Int, budget: ReplayBudget) {
    self.budget = budget
    self.bytesMax = bytesMax
    if let expected, keepsCopy, expected <= UInt64(bytesMax), budget.reserve(Int(expected)) {
      reserved = Int(expected)
      copy.reserveCapacity(reserved)
    } else if expected != nil || !keepsCopy {
      isComplete = false
    }
  }

  deinit { budget.release(reserved) }

  public var count: Int { copy.count }

  /// Keeps `bytes` too, or drops the copy where they no longer fit.
  public func tee(_ bytes: UnsafeRawBufferPointer) {
    guard isComplete else { return }
    let needed = copy.count + bytes.count
    if needed > bytesMax { return drop() }
    if needed > reserved {
      // Ahead by doubling, so that a long chunked body does not ask for every piece.
      let wanted = min(bytesMax, max(needed, reserved * 2, 4096))
      guard budget.reserve(wanted - reserved) else { return drop() }
      reserved = wanted
    }
    unsafe copy.append(contentsOf: bytes)
  }

  /// Calls `body` with the copy from `offset` on; valid during the call.
  public func withBytes<Result>(from offset: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    unsafe copy.withUnsafeBytes { unsafe body(UnsafeRawBufferPointer(rebasing: $0[offset...])) }
  }

  /// The copy is not wanted any more, or does not fit.
  public func drop() {
    isComplete = false
    budget.release(reserved)
    reserved = 0
    copy = []
  }
}
