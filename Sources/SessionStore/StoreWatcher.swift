internal import CLinux
public import Dispatch
internal import Glibc
internal import Synchronization

/// Tells of sessions that were changed by another process or by hand, as it happens (inotify(7)).
///
/// What it tells is a reason to look, not a fact: a session may be told of twice, or for this process's own writes.
/// Nothing is lost: after an overflow of the kernel's queue, and when the directory was deleted, moved or replaced
/// and when it is back, it tells `everything`. Only a file system that is mounted over the directory is not noticed.
///
/// Lives until `stop()`.
public final class StoreWatcher: @unchecked Sendable {
  public enum Change: Hashable, Sendable {
    /// The session's file was written, replaced, removed, or got another owner or mode.
    case session(String)
    /// Somebody closed the session's lock: whoever waits for it may try at once.
    case lockReleased(String)
    /// Anything may be different.
    case everything
    /// A directory cannot be watched (inotify_add_watch(2); ENOSPC: fs.inotify.max_user_watches is reached), so
    /// changes in it go unnoticed until `everything` is told again.
    case unwatched(directory: String, errno: Int32)
  }

  private let descriptor: Int32
  private let source: any DispatchSourceRead
  private let queue: DispatchQueue
  private let changed: @Sendable (Change) -> Void
  private let store: FileSessionStore
  private let isStopped = Atomic(false)
  /// What each watch is for; a directory that is reached twice (`/a/../a`) has two roles. Touched on `queue` alone.
  private var roles: [Int32: [Role]] = [:]

  private enum Role: Equatable {
    /// On the way to the sessions; `next` is the next directory's name.
    case way(next: String)
    case sessions
    case shard(String)
  }

  /// The first thing told is `everything`: from then on nothing is missed.
  ///
  /// - Parameter queue: serial; `changed` is called on it, and may call `stop()`.
  /// - Throws: `unreadable` where there can be no further inotify instance (EMFILE:
  ///   fs.inotify.max_user_instances is reached).
  public init(
    store: FileSessionStore, queue: DispatchQueue, changed: @escaping @Sendable (Change) -> Void
  ) throws(StoreFault) {
    let number = bearerd_inotify()
    guard number >= 0 else { throw .unreadable(path: store.sessionsDirectory, errno: errno) }
    descriptor = number
    self.queue = queue
    self.changed = changed
    self.store = store
    source = DispatchSource.makeReadSource(fileDescriptor: number, queue: queue)
    // These hold the watcher until they are cancelled.
    source.setEventHandler { [self] in drain() }
    source.setCancelHandler { close(number) }
    source.activate()
    queue.async { [self] in if !hasStopped { establish() } }
  }

  /// Called on the queue, nothing more is told once it has returned; from elsewhere, one more may be under way.
  public func stop() {
    isStopped.store(true, ordering: .relaxed)
    source.cancel()
  }

  private var hasStopped: Bool { isStopped.load(ordering: .relaxed) }

  private func tell(_ change: Change) {
    if !hasStopped { changed(change) }
  }

  /// As if the kernel's queue had overflowed: its length cannot be set for one process.
  package func overflow() {
    queue.async { [self] in
      if !hasStopped { handle([Event(watch: -1, mask: Mask.overflow, name: "")]) }
    }
  }
}

// MARK: - watches

extension StoreWatcher {
  private enum Mask {
    static let itself = UInt32(IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
    /// `IN_ATTRIB`: a directory that could not be entered may have been opened.
    static let names = UInt32(IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_ATTRIB)
    /// No `IN_CREATE`: a file that is being written says nothing yet, and each would wake the queue.
    static let files = UInt32(IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE | IN_DELETE | IN_ATTRIB)
    static let gone = UInt32(IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)
    static let overflow = UInt32(IN_Q_OVERFLOW)
  }

  private struct Step {
    var path: String
    var role: Role
    var mask: UInt32
  }

  /// The directories from the root to the sessions. Of the last one's parent every name is watched, because a
  /// directory that somebody still has open does not say itself that it was deleted.
  private var steps: [Step] {
    var path = store.sessionsDirectory.hasPrefix("/") ? "/" : "."
    var steps = [Step]()
    let names = store.sessionsDirectory.split(separator: "/").map(String.init)
    for (index, name) in names.enumerated() {
      let isLast = index == names.count - 1
      steps.append(Step(path: path, role: .way(next: name), mask: Mask.itself | (isLast ? Mask.names : 0)))
      path += path.hasSuffix("/") ? name : "/" + name
    }
    return steps + [Step(path: path, role: .sessions, mask: Mask.itself | Mask.names)]
  }

  /// Watches everything anew, as far as it is there, and tells that anything may be different.
  private func establish() {
    for watch in roles.keys { inotify_rm_watch(descriptor, watch) }
    roles = [:]
    var above: Step?
    for step in steps {
      var code = add(step)
      if code != 0 || isLink(step.path), let above {
        // What is not there, or is a link that may be set anew, is told of by the directory above it. It may have
        // come, or been set, before that.
        add(Step(path: above.path, role: above.role, mask: Mask.itself | Mask.names))
        code = add(step)
      }
      if [ENOENT, ENOTDIR, ELOOP].contains(code) { break }
      // A directory on the way that may be passed but not read: only its being replaced goes unnoticed.
      if code != 0, step.role == .sessions || code != EACCES {
        tell(.unwatched(directory: step.path, errno: code))
      }
      above = step
    }
    for shard in (try? store.shards()) ?? [] { addShard(shard) }
    tell(.everything)
  }

  /// 0, or the errno.
  @discardableResult
  private func add(_ step: Step) -> Int32 {
    let watch = inotify_add_watch(descriptor, step.path, step.mask | UInt32(IN_MASK_ADD))
    guard watch >= 0 else { return errno }
    if roles[watch]?.contains(step.role) != true { roles[watch, default: []].append(step.role) }
    return 0
  }

  private func isLink(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
  }

  private func addShard(_ shard: String) {
    let path = "\(store.sessionsDirectory)/\(shard)"
    let code = add(Step(path: path, role: .shard(shard), mask: Mask.itself | Mask.files))
    // Gone again, or no directory at all.
    if code != 0, code != ENOENT, code != ENOTDIR { tell(.unwatched(directory: path, errno: code)) }
  }
}

// MARK: - events

extension StoreWatcher {
  private struct Event {
    var watch: Int32
    var mask: UInt32
    var name: String
  }

  private static let bufferBytesCount = 64 << 10
  /// Then others on the queue have their turn; the source fires again.
  private static let readsMax = 16

  private func drain() {
    for _ in 0..<Self.readsMax where !hasStopped {
      let events = readEvents()
      if events.isEmpty { return }
      handle(events)
    }
  }

  private func readEvents() -> [Event] {
    withUnsafeTemporaryAllocation(byteCount: Self.bufferBytesCount, alignment: 8) { buffer in
      var count = -1
      repeat {
        count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      } while count < 0 && errno == EINTR
      guard count > 0 else { return [] }
      var events = [Event]()
      var event = bearerd_file_event()
      var next = bearerd_inotify_next(buffer.baseAddress, count, 0, &event)
      while next != 0 {
        events.append(Event(watch: event.watch, mask: event.mask, name: String(cString: event.name)))
        next = bearerd_inotify_next(buffer.baseAddress, count, next, &event)
      }
      return events
    }
  }

  /// Tells each change of a batch once, in the order in which they came.
  private func handle(_ events: [Event]) {
    var news = News()
    for event in events {
      if event.mask & Mask.overflow != 0 { news.isBroken = true }
      for role in roles[event.watch] ?? [] { handle(event, as: role, &news) }
      // The kernel has dropped the watch.
      if event.mask & UInt32(IN_IGNORED) != 0 { roles[event.watch] = nil }
    }
    if news.isBroken { return establish() }
    for change in news.changes { tell(change) }
  }

  private struct News {
    private(set) var changes: [Change] = []
    private var seen: Set<Change> = []
    /// The watches are not where the sessions are any more.
    var isBroken = false

    mutating func add(_ change: Change) {
      if seen.insert(change).inserted { changes.append(change) }
    }
  }

  private func handle(_ event: Event, as role: Role, _ news: inout News) {
    let isGone = event.mask & Mask.gone != 0
    switch role {
    case .way(let next):
      if isGone || event.name == next { news.isBroken = true }
    case .sessions:
      if isGone || event.name.isEmpty {
        news.isBroken = true
      } else if FileSessionStore.isShard(event.name) {
        if event.mask & UInt32(IN_DELETE | IN_MOVED_FROM) != 0 {
          news.add(.everything)
          dropShard(event.name)
        } else {
          addShard(event.name)
          tellContent(of: event.name, &news)
        }
      }
    case .shard:
      if isGone || event.name.isEmpty {
        news.add(.everything)
      } else if let session = FileSessionStore.session(ofFile: event.name) {
        news.add(.session(session.text))
      } else if event.mask & UInt32(IN_CLOSE_WRITE) != 0,
        let session = FileSessionStore.session(ofFile: event.name, suffix: ".lock")
      {
        news.add(.lockReleased(session.text))
      }
    }
  }

  /// What came into a new directory before it was watched.
  private func tellContent(of shard: String, _ news: inout News) {
    for name in store.sessionsFound(in: shard, suffix: ".json") { news.add(.session(name)) }
    for name in store.sessionsFound(in: shard, suffix: ".lock") { news.add(.lockReleased(name)) }
  }

  /// One that was moved away is still watched where it is now.
  private func dropShard(_ shard: String) {
    for watch in roles.filter({ $0.value == [.shard(shard)] }).keys {
      inotify_rm_watch(descriptor, watch)
      roles[watch] = nil
    }
  }
}

extension FileSessionStore {
  fileprivate func sessionsFound(in shard: String, suffix: String) -> [String] {
    var names = [String]()
    // Gone again: then that is told, too.
    try? listSessions(in: shard, suffix: suffix) { names.append($0.text) }
    return names
  }
}
