import CLinux
import Glibc

/// A pipe between two plain sockets: content goes from one to the other inside the kernel (splice(2)), never copied.
///
/// Measured, 1 GiB through a bare relay on loopback: 0.11 s of CPU; by recv and send of 64 KiB 0.34 s.
/// Owned by one loop; takes from a socket only when it is empty.
public final class SplicePipe {
  private let readEnd: Descriptor
  private let writeEnd: Descriptor
  /// Bytes that fit; the kernel grants what it likes.
  public let capacity: Int
  /// Bytes inside.
  public private(set) var count = 0

  public var isEmpty: Bool { count == 0 }

  /// What a pipe is asked to hold. Unprivileged processes may have 64 MiB of pipes (pipe(7), pipe-user-pages-soft);
  /// beyond, the kernel refuses.
  enum Width: Int32 {
    /// For a trial: every pipe holds a page.
    case least = 4096
    case ordinary = 262_144
    /// A third less CPU for a download than through an ordinary one (0.17 s to 0.26 for 1 GiB, by turns), a tenth for an
    /// upload.
    case wide = 1_048_576
  }

  let width: Width

  /// nil where no descriptor is left, or not so much room. (Through pipes narrower than an ordinary one content costs more
  /// than copied: 0.27 s of CPU for 400 MiB by 8 KiB, 0.15 copied.)
  init?(_ width: Width) {
    var ends: (Int32, Int32) = (-1, -1)
    let result = withUnsafeMutableBytes(of: &ends) {
      bearerd_pipe($0.baseAddress!.assumingMemoryBound(to: Int32.self))
    }
    if result != 0 { return nil }
    readEnd = Descriptor(ends.0)
    writeEnd = Descriptor(ends.1)
    let granted = bearerd_set_pipe_capacity(ends.1, width.rawValue)
    if granted < 0 { return nil }
    self.width = width
    capacity = Int(granted)
  }

  /// At most `max` bytes from a socket; as splice(2) answers.
  func take(from socket: Int32, max: Int) -> Int {
    precondition(isEmpty, "a pipe that holds something would block for its own sake")
    let taken = bearerd_splice(socket, writeEnd.raw, min(max, capacity))
    if taken > 0 { count = taken }
    return taken
  }

  /// What is inside to a socket; as splice(2) answers.
  func give(to socket: Int32) -> Int {
    let given = bearerd_splice(readEnd.raw, socket, count)
    if given > 0 { count -= given }
    return given
  }
}

/// Pipes that a loop lends to large transfers.
public final class PipePool {
  /// Wide ones last.
  private var kept: [SplicePipe] = []
  private var lentCount = 0
  /// Kept or lent.
  private var wideCount = 0
  /// Pipes that are lent before a wide one is asked for again, after the kernel has refused one.
  private var wideIsDueIn = 0

  /// Two descriptors and what fits of the kernel's memory each, 22 MiB in all (I12); who finds none moves its bytes by
  /// itself.
  private static let lentMax = 64
  private static let wideMax = 8
  private static let keptMax = 8
  private static let pauseAfterRefusal = 64

  /// Asks once whether the call works, while descriptors are to be had.
  public init() { _ = Self.isUsable }

  /// A sandbox may forbid the call, which a service can do without.
  private static let isUsable: Bool = {
    var pair: (Int32, Int32) = (-1, -1)
    let result = withUnsafeMutableBytes(of: &pair) {
      socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, $0.baseAddress!.assumingMemoryBound(to: Int32.self))
    }
    guard result == 0 else { return false }
    let first = Descriptor(pair.0)
    let second = Descriptor(pair.1)
    var byte: UInt8 = 0
    guard let pipe = SplicePipe(.least), Glibc.send(first.raw, &byte, 1, Int32(MSG_NOSIGNAL)) == 1 else { return false }
    return pipe.take(from: second.raw, max: 1) == 1 && pipe.give(to: second.raw) == 1
  }()

  public func borrow() -> SplicePipe? {
    guard Self.isUsable, lentCount < Self.lentMax, let pipe = keptWide() ?? newWide() ?? kept.popLast() ?? SplicePipe(.ordinary)
    else { return nil }
    lentCount += 1
    return pipe
  }

  private func keptWide() -> SplicePipe? { kept.last?.width == .wide ? kept.popLast() : nil }

  private func newWide() -> SplicePipe? {
    if wideCount == Self.wideMax { return nil }
    if wideIsDueIn > 0 {
      wideIsDueIn -= 1
      return nil
    }
    let pipe = SplicePipe(.wide)
    if pipe == nil { wideIsDueIn = Self.pauseAfterRefusal } else { wideCount += 1 }
    return pipe
  }

  /// One that holds something is closed: its content is nobody else's.
  public func giveBack(_ pipe: SplicePipe) {
    lentCount -= 1
    if !pipe.isEmpty {
      if pipe.width == .wide { wideCount -= 1 }
      return
    }
    kept.insert(pipe, at: pipe.width == .wide ? kept.count : 0)
    // As many are wide at most: an ordinary one goes.
    if kept.count > Self.keptMax { kept.removeFirst() }
  }
}
