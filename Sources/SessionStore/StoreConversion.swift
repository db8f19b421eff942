internal import BearerPolicy
internal import CLinux
package import Chronology

/// Brings every session file of a store into another form: encrypts it, changes its key, or decrypts it.
///
/// Each file is replaced under its session's lock, so at every moment, also after a crash, it is whole in one of the
/// two forms; running the same conversion again goes on where the one before ended. Files that neither form fits are
/// left as they are. The conversion reads both forms; everybody else's store reads one, so a running daemon refuses
/// files of the other form until its configuration says the same as they do.
public struct StoreConversion: Sendable {
  public enum Change: Equatable, Sendable {
    case encrypt(StoreKey)
    case rotate(from: StoreKey, to: StoreKey)
    case decrypt(StoreKey)
  }

  /// What came of it.
  public struct Outcome: Equatable, Sendable {
    public var convertedCount = 0
    /// Had the new form already.
    public var unchangedCount = 0
    /// Left as they are, each for its own fault.
    public var refusedCount = 0
    /// Of the refused, the first `refusalsMax`.
    public var refusals: [StoreFault] = []
    /// What stopped it before the end: the disk takes no more, or cannot be listed.
    public var stopped: StoreFault?

    /// Whether every session has the new form.
    public var isComplete: Bool { refusedCount == 0 && stopped == nil }

    public static let refusalsMax = 20
  }

  private let store: FileSessionStore
  /// A refresh under way ends within its deadline [10 s], and as much again for the disk.
  private let patience: Interval

  public init(stateDirectory: String, _ change: Change) throws(StoreFault) {
    try self.init(stateDirectory: stateDirectory, change, disk: Disk())
  }

  package init(
    stateDirectory: String, _ change: Change, disk: Disk, patience: Interval = .seconds(20)
  ) throws(StoreFault) {
    let forms =
      switch change {
      case .encrypt(let key): StoreForms(written: .encrypted(key), alsoRead: [.plain])
      case .rotate(let old, let new): StoreForms(written: .encrypted(new), alsoRead: [.encrypted(old)])
      case .decrypt(let key): StoreForms(written: .plain, alsoRead: [.encrypted(key)])
      }
    store = try FileSessionStore(stateDirectory: stateDirectory, disk: disk, forms: forms)
    self.patience = patience
  }

  /// Converts what is there, a directory at a time; blocks on the disk, and on sessions that are being refreshed.
  public func run() -> Outcome {
    var outcome = Outcome()
    do throws(StoreFault) {
      for shard in try store.shards().sorted() {
        try sweepLeftovers(shard)
        for name in try names(shard, ".json") {
          try convert(name, &outcome)
        }
      }
    } catch {
      outcome.stopped = error
    }
    return outcome
  }

  private func names(_ shard: String, _ suffix: String) throws(StoreFault) -> [SessionName] {
    var names = [SessionName]()
    try store.listSessions(in: shard, suffix: suffix) { names.append($0) }
    return names.sorted { $0.encoded < $1.encoded }
  }

  /// Files of a process that died while it wrote may hold tokens in the old form; taking the lock removes them.
  private func sweepLeftovers(_ shard: String) throws(StoreFault) {
    for suffix in [".new", ".result"] {
      for name in try names(shard, suffix) {
        // Where somebody holds it the files are in use, and theirs to remove.
        try store.tryLock(name.text)?.release()
      }
    }
  }

  /// - Throws: what would meet every other session, too.
  private func convert(_ name: SessionName, _ outcome: inout Outcome) throws(StoreFault) {
    do {
      let lock = try store.lock(name.text, until: Instant(nanoseconds: bearerd_boottime()) + patience)
      defer { lock.release() }
      let (record, form) = try store.loadWithForm(name)
      if form == store.forms.written {
        outcome.unchangedCount += 1
      } else {
        try store.putAndCompare(record, name)
        outcome.convertedCount += 1
      }
    } catch {
      switch error {
      case .missing: return
      case .full, .unwritable, .readBackDiffers, .encryptionFailed: throw error
      case .badName, .unparsable, .undecryptable, .notEncrypted, .badKey, .futureVersion, .wrongOwner,
        .wrongMode,
        .unreadable, .lockTimeout, .lockReplaced:
        outcome.refusedCount += 1
        if outcome.refusals.count < Outcome.refusalsMax { outcome.refusals.append(error) }
      }
    }
  }
}
