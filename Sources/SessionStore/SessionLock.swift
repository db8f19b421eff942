internal import CLinux
public import Chronology
internal import Glibc
internal import Synchronization

/// The right to refresh, add or remove one session, against every thread and process that uses the same store.
///
/// An open-file-description lock: it ends with `release()`, with the value's life, or with the process. Open one for each
/// flight.
public final class SessionLock: Sendable {
  /// The session it is for.
  public let name: String
  let path: String
  private let descriptor: Mutex<Descriptor?>

  init(name: String, descriptor: consuming Descriptor) {
    self.name = name
    path = descriptor.path
    self.descriptor = Mutex(consume descriptor)
  }

  deinit { release() }

  /// Gives the lock up; again is nothing.
  ///
  /// By closing, because only that wakes those who watch the file, but not by closing alone: a child of this process has
  /// the descriptor too until it runs its own program, and would keep the lock for so long.
  public func release() {
    descriptor.withLock { descriptor in
      switch descriptor {
      case .some(let held): bearerd_ofd_unlock(held.number)
      case .none: break
      }
      descriptor = nil
    }
  }

  public var isHeld: Bool {
    descriptor.withLock { descriptor in
      switch descriptor {
      case .some: true
      case .none: false
      }
    }
  }

  /// Runs `body` if the lock is still held, and keeps it held meanwhile.
  func whileHeld(_ body: () -> Void) {
    descriptor.withLock { descriptor in
      switch descriptor {
      case .some: body()
      case .none: break
      }
    }
  }

  /// Whether the path still leads to the file that is locked; false also once released.
  func isInPlace(_ disk: Disk) throws(DiskError) -> Bool {
    try descriptor.withLock { (descriptor) throws(DiskError) -> Bool in
      switch descriptor {
      case .some(let held): try disk.isInPlace(held)
      case .none: false
      }
    }
  }
}

extension FileSessionStore {
  /// How long a waiter sleeps between two tries (SPEC §5).
  static let lockRetryInterval = Interval.milliseconds(100)
  /// A lock file replaced this often while it was being taken is being fought over.
  private static let replacementsMax = 3

  /// Waits for the session's lock, blocking the thread, until `deadline` (monotonic clock) at the latest; one try
  /// is always made. The session need not exist.
  ///
  /// What a process that died under the lock left unfinished is removed before it is handed out.
  /// - Throws: `lockTimeout`; `lockReplaced`; `unwritable` or `full` where the lock's file cannot be made.
  public func lock(_ name: String, until deadline: Instant) throws(StoreFault) -> SessionLock {
    let place = try SessionName(name)
    guard let lock = try acquire(place, until: deadline) else { throw .lockTimeout(path: lockPath(place)) }
    return lock
  }

  /// The session's lock, or nil where somebody holds it.
  public func tryLock(_ name: String) throws(StoreFault) -> SessionLock? {
    let place = try SessionName(name)
    if try isLocked(place) { return nil }
    return try acquire(place, until: nil)
  }

  /// A look through a reader's descriptor: closing a writer's after a try in vain would tell every watcher that
  /// the lock was released, and waiters who then try would wake each other for ever.
  private func isLocked(_ name: SessionName) throws(StoreFault) -> Bool {
    let path = lockPath(name)
    do {
      return try disk.isLocked(disk.open(path, O_RDONLY))
    } catch {
      if error.code == ENOENT { return false }
      throw .writing(path, error)
    }
  }

  private func acquire(_ name: SessionName, until deadline: Instant?) throws(StoreFault) -> SessionLock? {
    let path = lockPath(name)
    do {
      for _ in 0..<Self.replacementsMax {
        let file = try openLockFile(name)
        guard try disk.waitForLock(file, until: deadline, every: Self.lockRetryInterval) else { return nil }
        // Who deletes a lock's file lets two processes hold "the" lock: only the file at the path counts.
        if try disk.isInPlace(file) {
          sweep(name)
          return SessionLock(name: name.text, descriptor: file)
        }
      }
    } catch {
      throw .writing(path, error)
    }
    throw .lockReplaced(path: path)
  }

  private func openLockFile(_ name: SessionName) throws(DiskError) -> Descriptor {
    let path = lockPath(name)
    do {
      return try disk.open(path, O_RDWR | O_CREAT, mode: 0o600)
    } catch {
      guard error.code == ENOENT else { throw error }
    }
    if try disk.makeDirectory(shardPath(name)) { try disk.syncDirectory(sessionsDirectory) }
    return try disk.open(path, O_RDWR | O_CREAT, mode: 0o600)
  }

  /// Only a lock's holder has unfinished files, so any found by the next one are a dead process's. One that
  /// cannot be removed is found again by the write it is in the way of.
  private func sweep(_ name: SessionName) {
    _ = try? disk.unlink(newPath(name))
    _ = try? disk.unlink(resultPath(name))
  }
}

extension Disk {
  /// false where the deadline (nil: at once) passed first.
  func waitForLock(
    _ file: borrowing Descriptor, until deadline: Instant?, every interval: Interval
  ) throws(DiskError) -> Bool {
    while !(try tryLock(file)) {
      guard let deadline else { return false }
      let left = deadline.since(Instant(nanoseconds: bearerd_boottime()))
      guard left > .zero else { return false }
      let nap = min(left, interval).nanoseconds
      var time = timespec(tv_sec: Int(nap / 1_000_000_000), tv_nsec: Int(nap % 1_000_000_000))
      // Cut short by a signal it only tries earlier.
      nanosleep(&time, nil)
    }
    return true
  }

  /// Whether the descriptor's path leads to the descriptor's file.
  func isInPlace(_ file: borrowing Descriptor) throws(DiskError) -> Bool {
    let held = try status(file)
    do {
      let named = try status(file.path)
      return held.st_ino == named.st_ino && held.st_dev == named.st_dev
    } catch {
      if error.code == ENOENT { return false }
      throw error
    }
  }
}
