import BearerPolicy
import Chronology
import Dispatch
import Logging
import SessionStore

/// Stores that a fenced session has ended because its access token was rejected. Whoever holds the lock meanwhile may
/// write something newer, and then that stays.
///
/// Keeps itself alive until the file says so; tries again after each failure, for the tombstone is what other
/// processes and `session list` know it by.
final class SessionEnding: Sendable {
  private let name: String
  private let rejected: UInt64
  private let store: FileSessionStore
  private let queue: DispatchQueue
  private let logger: Logger

  /// A lock is held for as long as a refresh takes; a full disk is freed by people, in minutes.
  private static let retryMax = Interval.seconds(32)

  /// - Parameters:
  ///   - rejected: the generation that was answered 401.
  ///   - queue: files are read and written there.
  init(name: String, rejected: UInt64, store: FileSessionStore, queue: DispatchQueue, logger: Logger) {
    self.name = name
    self.rejected = rejected
    self.store = store
    self.queue = queue
    self.logger = logger
  }

  func save() { queue.async { [self] in attempt(next: .milliseconds(100)) } }

  private func attempt(next: Interval) {
    do throws(StoreFault) {
      if let lock = try store.tryLock(name) {
        defer { lock.release() }
        let stored = try store.load(name)
        let ended = stored.afterRejection(generation: rejected, now: WallClock.now)
        if ended != stored { try store.replace(ended, lock: lock) }
        return
      }
    } catch {
      // Removed meanwhile: there is nothing left to tell.
      if error.trouble.kind == .missing { return }
      logger.warning(
        "the end of a session could not be saved; it is tried again",
        metadata: ["session": "\(name)", "detail": "\(error.trouble.detail)"])
    }
    queue.asyncAfter(deadline: .now() + .milliseconds(Int(next.milliseconds))) { [self] in
      attempt(next: min(next + next, Self.retryMax))
    }
  }
}
