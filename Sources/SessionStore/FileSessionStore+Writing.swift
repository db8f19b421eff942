public import BearerPolicy
internal import CLinux
internal import Glibc
internal import Synchronization

/// Room on disk for the answer of a refresh, made before the refresh token is sent: a full disk is found first.
///
/// Belongs to the lock it was reserved under. What the refresh leaves to put away (room that was not used, the files
/// that its writes replaced) is put away by `close()` or with the value's life: that takes the disk milliseconds
/// which nobody should wait for.
public final class ReservedResult: Sendable {
  fileprivate struct Contents: ~Copyable {
    var file: Descriptor?
    /// Set once the file has the session's name: its length.
    var writtenCount: Int?
    /// The files that the intent's write and the result's took the place of (`Disk.rename`).
    var replacedByIntent: Descriptor?
    var replacedByResult: Descriptor?
    /// Brings the index in line with the result.
    var follow: (@Sendable () -> Void)?
  }

  private let contents: Mutex<Contents>
  private let path: String
  private let lock: SessionLock
  private let disk: Disk

  fileprivate init(file: consuming Descriptor, lock: SessionLock, disk: Disk) {
    path = file.path
    contents = Mutex(Contents(file: consume file))
    self.lock = lock
    self.disk = disk
  }

  deinit { close() }

  /// Puts away what is left, the room itself if it was not used; again is nothing. Before the lock is released.
  public func close() {
    removeUnused()
    let left = contents.withLock { contents in
      let left = consume contents
      contents = Contents()
      return left
    }
    left.follow?()
    switch left.file {
    case .some(let file): if let count = left.writtenCount { _ = try? disk.truncate(file, count: count) }
    case .none: break
    }
  }

  /// Without the lock the path may be the next holder's; ours was, or will be, swept by a holder.
  fileprivate func removeUnused() {
    let isUnused = contents.withLock { contents in
      guard contents.writtenCount == nil else { return false }
      defer { contents.file = nil }
      switch contents.file {
      case .some: return true
      case .none: return false
      }
    }
    if isUnused { lock.whileHeld { _ = try? disk.unlink(path) } }
  }

  fileprivate func intentWritten(replacing file: consuming Descriptor?) {
    contents.withLock { swap(&$0.replacedByIntent, &file) }
  }

  fileprivate func resultWritten(replacing file: consuming Descriptor?, inRoom count: Int? = nil) {
    contents.withLock {
      swap(&$0.replacedByResult, &file)
      $0.writtenCount = count
    }
  }

  fileprivate func follow(_ follow: @escaping @Sendable () -> Void) {
    contents.withLock { $0.follow = follow }
  }

  /// Makes the room durable: some file systems say only now that there is none.
  fileprivate func sync() throws(DiskError) {
    try contents.withLock { (contents) throws(DiskError) in
      switch contents.file {
      case .some(let open): try disk.sync(open)
      case .none: break
      }
    }
  }

  /// Writes the result and makes its content durable; the caller renames it.
  fileprivate func fill(_ bytes: [UInt8]) throws(DiskError) {
    try contents.withLock { (contents) throws(DiskError) in
      switch contents.file {
      case .some(let open):
        try disk.write(open, bytes)
        // Where the room made the file longer.
        if try disk.status(open).st_size != bytes.count { try disk.truncate(open, count: bytes.count) }
        try disk.sync(open)
      case .none:
        preconditionFailure("a reserved result is used once")
      }
    }
  }
}

extension FileSessionStore {
  /// Least room reserved for a result: two tokens of the longest that is accepted (16 KiB each), twice.
  static let reservedBytesMin = 64 << 10
  /// The longest access token, and as much for a refresh token.
  private static let tokensBytesMax = 32 << 10
  /// Attempts at a creation that reads back as it was written (seed 003).
  private static let createAttemptsMax = 3

  /// Makes durable what can be read now: another process may have renamed a new file into place and not yet, or never
  /// again, made the directory durable. Without it a power loss could take back a token that is in use (I7).
  public func makeDurable(_ name: String) throws(StoreFault) {
    let name = try SessionName(name)
    let path = shardPath(name)
    do {
      try disk.syncDirectory(path)
    } catch {
      throw .writing(path, error)
    }
  }

  /// Makes `record` the session's durable state. The file before it stays whole until then.
  public func replace(_ record: SessionRecord, lock: SessionLock) throws(StoreFault) {
    let name = try checked(record.name, lock)
    let old = try replaceable(name)
    try put(record, name)
    index.follow(from: old, to: record, name)
  }

  /// Reserves room for the answer, then makes `record`, which carries the intent, durable: after it returns the
  /// refresh token may be sent. On a throw nothing may be sent, and the session is as it was.
  /// - Parameter old: what was read, or written, last under this lock; nil: it is read.
  public func writeIntent(
    _ record: SessionRecord, over old: SessionRecord? = nil, lock: SessionLock
  ) throws(StoreFault) -> ReservedResult {
    precondition(record.intent != nil, "the record carries the intent")
    let name = try checked(record.name, lock)
    // The last moment at which a lock that is none any more does no harm.
    try checkInPlace(lock)
    let old = if let old { old } else { try replaceable(name) }
    let reserved = try reserve(name, record, lock)
    do {
      reserved.intentWritten(replacing: try put(record, name, with: reserved))
    } catch {
      reserved.close()
      // Renamed but not made durable: were the intent to stay, it would end a session whose token was not sent.
      if let old, (try? load(name)) == record { _ = try? put(old, name) }
      throw error
    }
    index.follow(from: old, to: record, name)
    FaultPoint.reached("after-intent")
    return reserved
  }

  private func reserve(
    _ name: SessionName, _ record: SessionRecord, _ lock: SessionLock
  ) throws(StoreFault) -> ReservedResult {
    let path = resultPath(name)
    var bytes = try fileBytes(record, name)
    let count = max(Self.reservedBytesMin, 2 * bytes.count + Self.tokensBytesMax)
    wipe(&bytes)
    do {
      try disk.unlink(path)
      let file = try disk.open(path, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
      try disk.allocate(file, count: count)
      // It becomes durable with the intent's file, its name with the intent's.
      return ReservedResult(file: file, lock: lock, disk: disk)
    } catch {
      _ = try? disk.unlink(path)
      throw .writing(path, error)
    }
  }

  /// Makes the refresh's result durable, in the reserved room, else (after a failed fsync a second one of the
  /// same file can falsely succeed) in a new file. On a throw the caller still has the only copy: it keeps it,
  /// uses it and tries again with `replace` (I7). Once it returns the tokens may be used; `reserved.close()` does the
  /// rest.
  /// - Parameter old: what was written last under this lock, the intent; nil: it is read.
  public func writeResult(
    _ record: SessionRecord, over old: SessionRecord? = nil, into reserved: ReservedResult, lock: SessionLock
  ) throws(StoreFault) {
    let name = try checked(record.name, lock)
    let old = old ?? (try? load(name))
    var bytes = try fileBytes(record, name)
    defer { wipe(&bytes) }
    if !fillAndRename(bytes, reserved, name) {
      reserved.removeUnused()
      reserved.resultWritten(replacing: try put(record, name))
    }
    reserved.follow { [index] in index.follow(from: old, to: record, name) }
  }

  /// false where any step failed.
  private func fillAndRename(_ bytes: [UInt8], _ reserved: ReservedResult, _ name: SessionName) -> Bool {
    do {
      try reserved.fill(bytes)
      FaultPoint.reached("before-rename")
      let replaced = try disk.rename(resultPath(name), to: sessionPath(name))
      reserved.resultWritten(replacing: replaced, inRoom: bytes.count)
      FaultPoint.reached("after-rename")
      try disk.syncDirectory(shardPath(name))
      return true
    } catch {
      return false
    }
  }

  /// Like `replace`, and read back and compared, in up to three attempts: for a session that nobody can refresh
  /// again if its first write was lost (seed 003).
  public func create(_ record: SessionRecord, lock: SessionLock) throws(StoreFault) {
    let name = try checked(record.name, lock)
    try checkInPlace(lock)
    let old = try replaceable(name)
    try putAndCompare(record, name)
    index.follow(from: old, to: record, name)
  }

  func putAndCompare(_ record: SessionRecord, _ name: SessionName) throws(StoreFault) {
    var attempt = 1
    while true {
      do throws(StoreFault) {
        try put(record, name)
        // The directory of the session's directory too: who made it may have died before this.
        do throws(DiskError) {
          try disk.syncDirectory(sessionsDirectory)
        } catch {
          throw StoreFault.writing(sessionsDirectory, error)
        }
        guard try load(name) == record else { throw .readBackDiffers(path: sessionPath(name)) }
        return
      } catch {
        if attempt == Self.createAttemptsMax { throw error }
        attempt += 1
      }
    }
  }

  /// Forgets the session; its spent refresh tokens stay known. A file that cannot be read is removed too, for
  /// that is what was asked.
  /// - Throws: `missing` where there is none.
  public func remove(_ name: String, lock: SessionLock) throws(StoreFault) {
    let place = try checked(name, lock)
    try checkInPlace(lock)
    let old: SessionRecord?
    do {
      old = try load(place)
    } catch {
      switch error {
      // With the right key it can be read, and what it has spent can be kept.
      case .missing, .undecryptable, .notEncrypted: throw error
      case .badName, .unparsable, .badKey, .encryptionFailed, .futureVersion, .wrongOwner, .wrongMode,
        .unreadable, .unwritable, .full, .lockTimeout, .lockReplaced, .readBackDiffers:
        old = nil
      }
    }
    if let old { try index.keepSpent(of: old, place) }
    let path = sessionPath(place)
    do {
      try disk.unlink(path)
      try disk.syncDirectory(shardPath(place))
    } catch {
      throw .writing(path, error)
    }
    // Not presented, so it may be handed in again; of those presented the entry says `spent` and stays.
    if let token = old?.refreshToken { index.drop(Self.fingerprint(of: token), of: place) }
  }
}

// MARK: - steps

extension FileSessionStore {
  /// Returns the file that was replaced (`Disk.rename`).
  /// - Parameter room: made durable before the record is the session's.
  @discardableResult
  private func put(
    _ record: SessionRecord, _ name: SessionName, with room: ReservedResult? = nil
  ) throws(StoreFault) -> Descriptor? {
    var bytes = try fileBytes(record, name)
    defer { wipe(&bytes) }
    func replace() throws(DiskError) -> Descriptor? {
      try disk.replace(sessionPath(name), with: bytes, by: newPath(name), in: shardPath(name)) {
        () throws(DiskError) in try room?.sync()
      }
    }
    do throws(DiskError) {
      do throws(DiskError) {
        return try replace()
      } catch {
        // The sessions' directory was deleted and is back, empty: a result kept in memory goes there (I7).
        guard error.code == ENOENT, try disk.makeDirectory(shardPath(name)) else { throw error }
        try disk.syncDirectory(sessionsDirectory)
        return try replace()
      }
    } catch {
      throw .writing(sessionPath(name), error)
    }
  }

  /// What is written for `record`; where it is plain text it holds tokens, so the caller wipes it.
  private func fileBytes(_ record: SessionRecord, _ name: SessionName) throws(StoreFault) -> [UInt8] {
    var plain = record.fileBytes()
    guard let key = forms.key else { return plain }
    defer { wipe(&plain) }
    guard let sealed = SealedRecord.fileBytes(sealing: plain, of: name, with: key) else {
      throw .encryptionFailed(path: sessionPath(name))
    }
    return sealed
  }

  /// The session that is about to be replaced, nil where there is none, or a damaged one. A whole file that needs
  /// another key is somebody's session: it is left alone.
  private func replaceable(_ name: SessionName) throws(StoreFault) -> SessionRecord? {
    do {
      return try load(name)
    } catch {
      switch error {
      case .undecryptable, .notEncrypted: throw error
      case .missing, .badName, .unparsable, .badKey, .encryptionFailed, .futureVersion, .wrongOwner, .wrongMode,
        .unreadable, .unwritable, .full, .lockTimeout, .lockReplaced, .readBackDiffers:
        return nil
      }
    }
  }

  func checked(_ name: String, _ lock: SessionLock) throws(StoreFault) -> SessionName {
    let place = try SessionName(name)
    precondition(lock.path == lockPath(place), "the lock is this store's and this session's")
    precondition(lock.isHeld, "the lock is held")
    return place
  }

  func checkInPlace(_ lock: SessionLock) throws(StoreFault) {
    do throws(DiskError) {
      if try lock.isInPlace(disk) { return }
    } catch {
      throw .writing(lock.path, error)
    }
    throw .lockReplaced(path: lock.path)
  }
}

extension Disk {
  /// Write a new file, fsync, rename, fsync the directory. After a failed fsync another new file is tried once.
  ///
  /// A throw from the last step leaves the new content in place, possibly not durable; from any other, the old.
  /// Returns the file that was replaced (`rename`).
  /// - Parameter beforeRename: what has to be durable first. On a file system with a journal the new file's fsync has
  ///   carried it along: 0.1 ms, before it 0.3 (measured, ext4).
  @discardableResult
  func replace(
    _ path: String, with bytes: [UInt8], by temporary: String, in directory: String,
    beforeRename: () throws(DiskError) -> Void = {}
  ) throws(DiskError) -> Descriptor? {
    let replaced: Descriptor?
    do throws(DiskError) {
      do throws(DiskError) {
        try write(bytes, to: temporary)
      } catch {
        guard error.call == .sync else { throw error }
        try write(bytes, to: temporary)
      }
      try beforeRename()
      replaced = try rename(temporary, to: path)
    } catch {
      _ = try? unlink(temporary)
      throw error
    }
    try syncDirectory(directory)
    return replaced
  }

  /// A new file every time: what lies there is removed, never opened.
  private func write(_ bytes: [UInt8], to path: String) throws(DiskError) {
    try unlink(path)
    let file = try open(path, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
    try write(file, bytes)
    try sync(file)
  }
}
