import Dispatch
import Glibc
import Synchronization

/// Writes whole lines to a descriptor from a queue of its own, so that a slow reader of the log never holds a loop.
///
/// Past `backlogMax` lines are dropped and the next one written says how many.
public final class LineLog: Sendable {
  private let descriptor: Int32
  private let queue = DispatchQueue(label: "bearerd.log")
  private let state = Mutex(State())

  private struct State {
    var pending: [UInt8] = []
    var isScheduled = false
    var dropped = 0
    /// The last line was written in part.
    var isCut = false
  }

  /// Bytes that wait to be written.
  private static let backlogMax = 4 << 20

  public init(descriptor: Int32) { self.descriptor = descriptor }

  public func write(_ line: String) {
    let isFirst: Bool = state.withLock { state in
      if state.pending.count + line.utf8.count > Self.backlogMax {
        state.dropped += 1
        return false
      }
      if state.dropped > 0 {
        state.pending.append(contentsOf: "(\(state.dropped) log lines dropped: the log could not be written in time)\n".utf8)
        state.dropped = 0
      }
      state.pending.append(contentsOf: line.utf8)
      state.pending.append(0x0a)
      defer { state.isScheduled = true }
      return !state.isScheduled
    }
    if isFirst { queue.async { [self] in drain() } }
  }

  /// Returns when everything written so far has left, or cannot.
  public func flush() { queue.sync { drain() } }

  /// The descriptor takes nothing now (a full disk): these lines are lost, later ones are tried again.
  private func giveUp(_ bytes: [UInt8], _ offset: Int) {
    state.withLock { state in
      state.dropped += bytes[offset...].count { $0 == 0x0a }
      state.isCut = offset > 0 ? bytes[offset - 1] != 0x0a : bytes.first == 0x0a
      state.isScheduled = false
    }
  }

  private func drain() {
    while true {
      let bytes: [UInt8] = state.withLock { state in
        if state.pending.isEmpty { state.isScheduled = false }
        if state.pending.isEmpty { return [] }
        defer {
          state.pending = []
          state.isCut = false
        }
        return state.isCut ? [0x0a] + state.pending : state.pending
      }
      if bytes.isEmpty { return }
      var offset = 0
      while offset < bytes.count {
        let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + offset, $0.count - offset) }
        if count > 0 { offset += count } else if errno != EINTR { return giveUp(bytes, offset) }
      }
    }
  }
}
