internal import BearerPolicy
internal import CLinux
internal import Chronology
internal import Glibc

/// Which session holds, or has spent, a refresh token: one small file per token's fingerprint, so that
/// `session add` need not read 100 000 sessions.
///
/// An entry is a hint about a session that exists (its own file decides whether the token is held, spent or
/// neither) and a fact about tokens that no session's own list has any more (`spent`). Entries follow a session's
/// file, which is made durable first because only it can be lost; one that a crash left out is put back by the
/// next write. Only `session add` puts the entry first. Entries do not pile up: a token that a server issued is
/// forgotten when it falls out of its session's list; only one that a person or a container handed in, and may
/// hand in again at its next start, is remembered.
struct FingerprintIndex {
  let directory: String
  let disk: Disk

  struct Entry {
    /// `held`: issued to the session in a refresh. `imported`: handed in. `spent`: must not be handed in again,
    /// whatever became of the session.
    enum Standing: String { case held, imported, spent }
    var standing: Standing
    var session: SessionName
  }

  /// Longest wait for a directory's lock where the entry can be put back later.
  private static let patience = Interval.seconds(1)
  /// The lock is held for two fsyncs or so: short naps.
  private static let lockRetryInterval = Interval.milliseconds(5)
  private static let entryBytesMax = 512

  private func shardPath(_ fingerprint: Fingerprint) -> String {
    precondition(fingerprint.isWellFormed, "a fingerprint is 64 lower-case hexadecimal digits")
    return "\(directory)/\(fingerprint.hexadecimal.prefix(2))"
  }

  private func path(_ fingerprint: Fingerprint) -> String {
    "\(shardPath(fingerprint))/\(fingerprint.hexadecimal)"
  }

  /// nil where the token is not known, or a crash tore the entry (then its session was not written either).
  func entry(_ fingerprint: Fingerprint) throws(StoreFault) -> Entry? {
    let path = path(fingerprint)
    let bytes: [UInt8]
    do {
      bytes = try disk.read(disk.open(path, O_RDONLY), bytesMax: Self.entryBytesMax)
    } catch {
      if error.code == ENOENT { return nil }
      throw .reading(path, error)
    }
    let words = String(decoding: bytes, as: UTF8.self).split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 2, let standing = Entry.Standing(rawValue: String(words[0])), words[1].last == "\n",
      let session = SessionName(encoded: words[1].dropLast())
    else { return nil }
    return Entry(standing: standing, session: session)
  }

  /// Held while the entries of one directory are changed, or looked at and then changed.
  func lock(_ fingerprint: Fingerprint, until deadline: Instant) throws(StoreFault) -> Descriptor {
    let path = shardPath(fingerprint) + "/.lock"
    do {
      if try disk.makeDirectory(shardPath(fingerprint)) { try disk.syncDirectory(directory) }
      let file = try disk.open(path, O_RDWR | O_CREAT, mode: 0o600)
      if try disk.waitForLock(file, until: deadline, every: Self.lockRetryInterval) { return file }
    } catch {
      throw .writing(path, error)
    }
    throw .lockTimeout(path: path)
  }

  /// Makes the entry durable; `lock` is this fingerprint's.
  func put(
    _ entry: Entry, for fingerprint: Fingerprint, lock: borrowing Descriptor
  ) throws(StoreFault) {
    let path = path(fingerprint)
    let line = "\(entry.standing.rawValue) \(entry.session.encoded)\n"
    do {
      try disk.replace(
        path, with: Array(line.utf8), by: shardPath(fingerprint) + "/.new", in: shardPath(fingerprint))
    } catch {
      throw .writing(path, error)
    }
  }

  // MARK: following a session

  /// Brings the entries in line with a session's new state: the token it holds now is known, tokens it neither
  /// holds nor remembers any more are not. Best effort: the session itself is durable already.
  func follow(from old: SessionRecord?, to new: SessionRecord, _ name: SessionName) {
    let held = new.refreshToken.map { FileSessionStore.fingerprint(of: $0) }
    if let held { note(held, name) }
    guard let old else { return }
    var kept = Set(new.spent)
    if let held { kept.insert(held) }
    if let intent = new.intent { kept.insert(intent.fingerprint) }
    for fingerprint in old.knownFingerprints where !kept.contains(fingerprint) {
      if old.hasSpent(fingerprint) {
        change(fingerprint, of: name) { $0 == .imported ? .spent : nil }
      } else {
        drop(fingerprint, of: name)
      }
    }
  }

  private func note(_ fingerprint: Fingerprint, _ name: SessionName) {
    func isNoted() -> Bool {
      guard let entry = try? entry(fingerprint), entry.session.encoded == name.encoded else { return false }
      return entry.standing != .spent
    }
    if isNoted() { return }
    guard let lock = try? lock(fingerprint, until: soon), !isNoted() else { return }
    try? put(Entry(standing: .held, session: name), for: fingerprint, lock: lock)
  }

  /// Forgets a token that the session holds no more and never presented. Best effort.
  func drop(_ fingerprint: Fingerprint, of name: SessionName) {
    change(fingerprint, of: name) { _ in nil }
  }

  /// Gives this session's entry another standing, or (nil) removes it; another's entry, or one that is `spent`,
  /// stays. Best effort.
  private func change(
    _ fingerprint: Fingerprint, of name: SessionName, to standing: (Entry.Standing) -> Entry.Standing?
  ) {
    func own() -> Entry? {
      guard let entry = try? entry(fingerprint), entry.session.encoded == name.encoded else { return nil }
      return entry.standing == .spent ? nil : entry
    }
    // Looked at again under the lock: meanwhile it may have become another session's.
    guard own() != nil, let lock = try? lock(fingerprint, until: soon), var entry = own() else { return }
    if let next = standing(entry.standing) {
      entry.standing = next
      try? put(entry, for: fingerprint, lock: lock)
    } else {
      _ = try? disk.unlink(path(fingerprint))
    }
    _ = consume lock
  }

  /// Before a session goes: what it has spent stays spent.
  func keepSpent(of record: SessionRecord, _ name: SessionName) throws(StoreFault) {
    let spent = record.spent + (record.intent.map { [$0.fingerprint] } ?? [])
    for fingerprint in spent {
      let lock = try lock(fingerprint, until: soon)
      try put(Entry(standing: .spent, session: name), for: fingerprint, lock: lock)
    }
  }

  private var soon: Instant { Instant(nanoseconds: bearerd_boottime()) + Self.patience }
}

extension SessionRecord {
  /// Of the refresh token held, of the one in flight, and of those spent.
  var knownFingerprints: [Fingerprint] {
    spent + (intent.map { [$0.fingerprint] } ?? [])
      + (refreshToken.map { [FileSessionStore.fingerprint(of: $0)] } ?? [])
  }

  /// Whether this refresh token was presented, or is being presented.
  func hasSpent(_ fingerprint: Fingerprint) -> Bool {
    spent.contains(fingerprint) || intent?.fingerprint == fingerprint
  }
}
