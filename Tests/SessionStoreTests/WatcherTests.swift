import BearerPolicy
import Dispatch
import FoundationEssentials
import Glibc
import SessionStore
import Synchronization
import Testing

/// Keeps what a watcher tells, and waits for it.
private final class Listener: Sendable {
  let directory: TemporaryDirectory
  let store: FileSessionStore
  let queue = DispatchQueue(label: "watcher")
  private let told = Mutex([StoreWatcher.Change]())
  private let news = DispatchSemaphore(value: 0)
  private let watcher = Mutex<StoreWatcher?>(nil)

  init(below state: String = "", sessions: [String] = ["alice"]) throws {
    directory = TemporaryDirectory()
    store = try FileSessionStore(stateDirectory: directory.path + state, disk: FaultScript().disk)
    for name in sessions { try store.seed(makeRecord(name)) }
  }

  deinit { watcher.withLock { $0?.stop() } }

  /// Begins, and waits until nothing is missed any more.
  func start(_ store: FileSessionStore? = nil) throws -> StoreWatcher {
    let watcher = try StoreWatcher(store: store ?? self.store, queue: queue) { [weak self] change in
      guard let self else { return }
      self.told.withLock { $0.append(change) }
      self.news.signal()
    }
    self.watcher.withLock { $0 = watcher }
    expect(.everything)
    return watcher
  }

  var changes: [StoreWatcher.Change] { told.withLock { $0 } }

  /// Waits until it is told, and forgets it and what came before. The deadline is for a test that fails.
  func expect(_ change: StoreWatcher.Change, sourceLocation: SourceLocation = #_sourceLocation) {
    let deadline = DispatchTime.now() + 20
    repeat {
      let isTold = told.withLock { told in
        guard let index = told.firstIndex(of: change) else { return false }
        told.removeSubrange(...index)
        return true
      }
      if isTold { return }
    } while news.wait(timeout: deadline) == .success
    Issue.record("never told of \(change), only of \(changes)", sourceLocation: sourceLocation)
  }

  /// Writes until that is told of by the session's name: what is written while the watches are put up anew is told
  /// of as `everything`.
  func expect(_ change: StoreWatcher.Change, after write: () -> Void) {
    told.withLock { $0 = [] }
    write()
    let deadline = DispatchTime.now() + 20
    repeat {
      let seen = told.withLock { told in
        defer { told = [] }
        return told
      }
      if seen.contains(change) { return }
      if seen.contains(.everything) { write() }
    } while news.wait(timeout: deadline) == .success
    Issue.record("never told of \(change)")
  }

  /// What was told until now, and forgets it: everything done before has been seen.
  func flush() throws -> [StoreWatcher.Change] {
    let marker = "\(store.sessionsDirectory)/2b/marker.json"
    overwriteOrMake(marker, "{}")
    let deadline = DispatchTime.now() + 20
    repeat {
      let seen: [StoreWatcher.Change]? = told.withLock { told in
        guard let index = told.firstIndex(of: .session("marker")) else { return nil }
        defer { told = [] }
        return Array(told[..<index])
      }
      if let seen { return seen }
    } while news.wait(timeout: deadline) == .success
    throw POSIXFailure()
  }

  struct POSIXFailure: Error {}

  func path(_ file: String) -> String { "\(store.sessionsDirectory)/\(file)" }

  private func overwriteOrMake(_ path: String, _ text: String) {
    access(path, F_OK) == 0 ? overwrite(path, text) : makeFile(path, text)
  }
}

/// The shard of `alice` is 2b, that of `bob` 81.
@Suite("SPEC §5 changes by others are seen at once") struct WatcherTests {
  @Test("A session that another process replaces, adds or removes")
  func store() throws {
    let listener = try Listener()
    let watcher = try listener.start()
    let other = try FileSessionStore(stateDirectory: listener.directory.path, disk: FaultScript().disk)
    let lock = try other.lock("alice", until: atOnce)
    try other.replace(makeRecord(generation: 2), lock: lock)
    listener.expect(.session("alice"))
    try other.remove("alice", lock: lock)
    listener.expect(.session("alice"))
    lock.release()
    listener.expect(.lockReleased("alice"))
    watcher.stop()
  }

  @Test("A file that is edited in place, moved in or away, deleted, or closed to others again")
  func byHand() throws {
    let listener = try Listener(sessions: ["alice", "ci bot"])
    let watcher = try listener.start()
    let path = listener.path("2b/alice.json")
    let content = String(decoding: fileBytes(path), as: UTF8.self)
    let steps: [() -> Void] = [
      { overwrite(path, content) }, { chmod(path, 0o644) }, { chmod(path, 0o600) },
      { rename(path, listener.path("moved")) }, { rename(listener.path("moved"), path) }, { unlink(path) },
      { makeFile(path, content) },
    ]
    for step in steps {
      step()
      listener.expect(.session("alice"))
      _ = try listener.flush()
    }
    let encoded = try #require(listener.directory.files().first { $0.hasSuffix("/ci%20bot.json") })
    unlink("\(listener.directory.path)/\(encoded)")
    listener.expect(.session("ci bot"))
    watcher.stop()
  }

  @Test("Files that are no session's, and files being written, are not told of")
  func others() throws {
    let listener = try Listener()
    let watcher = try listener.start()
    _ = try listener.flush()
    for name in ["notes.txt", "alice.new", "alice.result", "%zz.json", ".json"] {
      makeFile(listener.path("2b/\(name)"), "x")
      unlink(listener.path("2b/\(name)"))
    }
    makeFile(listener.path("stray.json"), "x")
    mkdir(listener.path("not-a-shard"), 0o700)
    #expect(try listener.flush() == [])
    watcher.stop()
  }

  @Test("A directory for a new session is watched from then on, and what came before that is told of")
  func newShard() throws {
    let listener = try Listener()
    let watcher = try listener.start()
    try listener.store.seed(makeRecord("bob"))
    listener.expect(.session("bob"))
    _ = try listener.flush()
    let lock = try listener.store.lock("bob", until: atOnce)
    try listener.store.replace(makeRecord("bob", generation: 2), lock: lock)
    lock.release()
    listener.expect(.session("bob"))
    listener.expect(.lockReleased("bob"))
    // One that arrives complete.
    let shard = listener.path("81")
    rename(shard, listener.directory.path + "/81")
    listener.expect(.everything)
    rename(listener.directory.path + "/81", shard)
    listener.expect(.session("bob"))
    watcher.stop()
  }

  @Test("A directory that was moved away is not watched where it is now")
  func movedShard() throws {
    let listener = try Listener(sessions: ["alice", "bob"])
    let watcher = try listener.start()
    rename(listener.path("81"), listener.directory.path + "/81")
    listener.expect(.everything)
    _ = try listener.flush()
    overwrite(listener.directory.path + "/81/bob.json", "{}")
    #expect(try listener.flush() == [])
    watcher.stop()
  }

  @Test("A waiter that tries in vain wakes nobody; the release wakes all")
  func waiters() throws {
    let listener = try Listener()
    let watcher = try listener.start()
    let held = try listener.store.lock("alice", until: atOnce)
    _ = try listener.flush()
    for _ in 0..<20 { #expect(try listener.store.tryLock("alice") == nil) }
    #expect(try listener.flush() == [])
    held.release()
    listener.expect(.lockReleased("alice"))
    let lock = try #require(try listener.store.tryLock("alice"))
    lock.release()
    watcher.stop()
  }

  /// Ways in which the directory itself may be exchanged.
  private static let exchanges:
    [(name: String, below: String, run: @Sendable (_ root: String) throws -> Void)] = [
      (
        "deleted, and made anew", "",
        { root in
          try FileManager.default.removeItem(atPath: root + "/sessions")
          mkdir(root + "/sessions", 0o700)
        }
      ),
      (
        "replaced by a copy", "",
        { root in
          try FileManager.default.copyItem(atPath: root + "/sessions", toPath: root + "/copy")
          rename(root + "/sessions", root + "/before")
          rename(root + "/copy", root + "/sessions")
        }
      ),
      (
        "deleted with the state directory, and made anew", "/a/state",
        { root in
          try FileManager.default.removeItem(atPath: root + "/a")
          for path in ["/a", "/a/state", "/a/state/sessions"] { mkdir(root + path, 0o700) }
        }
      ),
      (
        "moved with a directory above it", "/a/b/state",
        { root in
          rename(root + "/a", root + "/before")
          for path in ["/a", "/a/b", "/a/b/state", "/a/b/state/sessions"] { mkdir(root + path, 0o700) }
        }
      ),
    ]

  @Test("The directory is replaced: that is told, and the new one is watched", arguments: exchanges.indices)
  func replaced(_ index: Int) throws {
    let (name, below, exchange) = Self.exchanges[index]
    let listener = try Listener(below: below)
    let watcher = try listener.start()
    try exchange(listener.directory.path)
    listener.expect(.everything)
    let again = try FileSessionStore(stateDirectory: listener.directory.path + below, disk: FaultScript().disk)
    try again.seed(makeRecord("alice", generation: 7))
    listener.expect(.session("alice")) { overwrite(listener.path("2b/alice.json"), name) }
    watcher.stop()
  }

  @Test("A link on the way that is set anew leads to the directory it names now")
  func link() throws {
    let listener = try Listener(below: "/one")
    let root = listener.directory.path
    _ = try FileSessionStore(stateDirectory: root + "/two").seed(makeRecord())
    symlink("one", root + "/state")
    let watched = try FileSessionStore(stateDirectory: root + "/state")
    let watcher = try listener.start(watched)
    overwrite(root + "/one/sessions/2b/alice.json", "{}")
    listener.expect(.session("alice"))
    symlink("two", root + "/next")
    rename(root + "/next", root + "/state")
    listener.expect(.everything)
    listener.expect(.session("alice")) { overwrite(root + "/two/sessions/2b/alice.json", "{}") }
    watcher.stop()
  }

  @Test("An overflow of the kernel's queue means everything, and what is new since is watched")
  func overflow() throws {
    let listener = try Listener()
    let watcher = try listener.start()
    watcher.overflow()
    listener.expect(.everything)
    overwrite(listener.path("2b/alice.json"), "{}")
    listener.expect(.session("alice"))
    watcher.stop()
  }

  @Test("Once stopped on its queue it tells nothing more")
  func stop() throws {
    let listener = try Listener()
    let watcher = try listener.start()
    listener.queue.sync { watcher.stop() }
    let before = listener.changes
    watcher.overflow()
    overwrite(listener.path("2b/alice.json"), "{}")
    listener.queue.sync {}
    #expect(listener.changes == before)
  }

  @Test(
    "A directory that may not be read is said to be unwatched, and everything is told when it may be again",
    .enabled(if: geteuid() != 0))
  func unreadable() throws {
    let listener = try Listener()
    let watcher = try listener.start()
    chmod(listener.store.sessionsDirectory, 0)
    listener.expect(.unwatched(directory: listener.store.sessionsDirectory, errno: EACCES))
    listener.expect(.everything)
    chmod(listener.store.sessionsDirectory, 0o700)
    listener.expect(.everything)
    listener.expect(.session("alice")) { overwrite(listener.path("2b/alice.json"), "{}") }
    watcher.stop()
  }
}
