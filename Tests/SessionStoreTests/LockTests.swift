import BearerPolicy
import Chronology
import Glibc
import SessionStore
import Testing

@Suite("SPEC §3, §5 the session's lock") struct LockTests {
  @Test("One holder at a time, across stores; release, or the value's end, hands it on")
  func exclusive() throws {
    let directory = TemporaryDirectory()
    let one = try FileSessionStore(stateDirectory: directory.path)
    let two = try FileSessionStore(stateDirectory: directory.path)
    var lock: SessionLock? = try one.lock("alice", until: inTime)
    #expect(try two.tryLock("alice") == nil)
    #expect(try one.tryLock("alice") == nil)
    #expect(throws: StoreFault.lockTimeout(path: directory.lockPath())) { try two.lock("alice", until: atOnce) }
    #expect(try two.tryLock("bob") != nil)
    lock?.release()
    lock?.release()
    #expect(lock?.isHeld == false)
    let next = try #require(try two.tryLock("alice"))
    #expect(next.isHeld && next.name == "alice")
    lock = next
    #expect(try one.tryLock("alice") == nil)
    lock = nil
    _ = consume next
    #expect(try one.tryLock("alice") != nil)
  }

  @Test("What is released is free though the descriptor lives on, as in a child that has not begun its own program")
  func releasedForAll() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let lock = try store.lock("alice", until: inTime)
    let held = try #require(descriptor(of: directory.lockPath()))
    let other = dup(held)
    defer { close(other) }
    #expect(try store.tryLock("alice") == nil)
    lock.release()
    #expect(fcntl(other, F_GETFD) != -1)
    #expect(try store.tryLock("alice") != nil)
  }

  /// This process's own for the file, found as lsof(8) does.
  private func descriptor(of path: String) -> Int32? {
    (0..<4096).first { number in
      var target = [UInt8](repeating: 0, count: 4096)
      let count = target.withUnsafeMutableBytes {
        readlink("/proc/self/fd/\(number)", $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
      }
      return count > 0 && String(decoding: target[..<count], as: UTF8.self) == path
    }
  }

  @Test("The lock's file stays for the next holder, and nothing else is left")
  func neverUnlinked() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.lock("alice", until: atOnce).release()
    let before = inode(directory.lockPath())
    try store.seed(makeRecord("alice"))
    let lock = try store.lock("alice", until: inTime)
    try store.remove("alice", lock: lock)
    lock.release()
    #expect(before != nil && inode(directory.lockPath()) == before)
    #expect(directory.files() == [])
  }

  @Test("A lock file replaced while it is being taken is not the lock: the new one is taken instead")
  func replacedMeanwhile() throws {
    let directory = TemporaryDirectory()
    let path = Box("")
    let script = FaultScript { _, event in
      guard event.call == .lock, path.value.isEmpty else { return nil }
      path.value = event.path
      unlink(event.path)
      return nil
    }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    script.start()
    let lock = try store.lock("alice", until: inTime)
    #expect(script.events.filter { $0.call == .lock }.count == 2)
    #expect(try FileSessionStore(stateDirectory: directory.path).tryLock("alice") == nil)
    lock.release()
  }

  @Test("A lock file that is replaced again and again is an error, not a lock")
  func alwaysReplaced() throws {
    let directory = TemporaryDirectory()
    let script = FaultScript { _, event in
      if event.call == .lock { unlink(event.path) }
      return nil
    }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    script.start()
    let fault = #expect(throws: StoreFault.self) { try store.lock("alice", until: .never) }
    guard case .lockReplaced? = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
  }

  @Test("I1: under a lock whose file was replaced nothing is begun, yet a result is still written")
  func replacedWhileHeld() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let lock = try store.lock("alice", until: inTime)
    let reserved = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
    unlink(directory.lockPath())
    try store.writeResult(makeRecord(generation: 2, refresh: "REFRESH-2"), into: reserved, lock: lock)
    #expect(try store.load("alice").generation == 2)
    let usurper = try #require(try store.tryLock("alice"))
    let fault = StoreFault.lockReplaced(path: directory.lockPath())
    let begun = makeRecord(generation: 2, refresh: "REFRESH-2", intent: makeIntent("REFRESH-2"))
    #expect(throws: fault) { _ = try store.writeIntent(begun, lock: lock) }
    #expect(throws: fault) { try store.create(begun, lock: lock) }
    #expect(throws: fault) { try store.remove("alice", lock: lock) }
    #expect(try store.load("alice").intent == nil)
    usurper.release()
  }

  @Test("What a dead holder left unfinished is removed by the next one, and only by a holder")
  func leftovers() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord(refresh: nil))
    let stem = String(directory.sessionPath().dropLast(5))
    for suffix in [".new", ".result"] { close(open(stem + suffix, O_CREAT | O_WRONLY, 0o600)) }
    #expect(try store.load("alice") == makeRecord(refresh: nil))
    #expect(try store.names(limit: 9) == ["alice"])
    #expect(directory.files().count == 3)
    try store.lock("alice", until: atOnce).release()
    #expect(directory.files().count == 1)
    #expect(try store.load("alice") == makeRecord(refresh: nil))
  }

  @Test(
    "A lock that cannot be had is a fault, never a lock",
    arguments: [(EACCES, false), (EROFS, false), (EMFILE, false), (ENOSPC, true)] as [(Int32, Bool)])
  func noLock(_ code: Int32, _ isFull: Bool) throws {
    let directory = TemporaryDirectory()
    let script = FaultScript { _, event in event.call == .open && event.path.hasSuffix(".lock") ? code : nil }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    script.start()
    for attempt in [{ _ = try store.lock("alice", until: atOnce) }, { _ = try store.tryLock("alice") }] {
      let fault = #expect(throws: StoreFault.self) { try attempt() }
      switch fault {
      case .full: #expect(isFull)
      case .unwritable(_, let reported): #expect(!isFull && reported == code)
      default: Issue.record("\(String(describing: fault))")
      }
    }
  }

  @Test("Writing without the lock, or with another session's, is a programmer's error")
  func preconditions() async {
    let directory = TemporaryDirectory()
    await #expect(processExitsWith: .failure) { [path = directory.path as String] in
      let store = try FileSessionStore(stateDirectory: path)
      let lock = try store.lock("bob", until: inTime)
      try store.replace(makeRecord("alice"), lock: lock)
    }
    await #expect(processExitsWith: .failure) { [path = directory.path as String] in
      let store = try FileSessionStore(stateDirectory: path)
      let lock = try store.lock("alice", until: inTime)
      lock.release()
      try store.replace(makeRecord("alice"), lock: lock)
    }
    #expect(directory.files() == [])
  }
}

@Suite("SPEC §3 crash safety across processes") struct ProcessTests {
  @Test("Another process finds the lock held, and has it once released")
  func contention() async throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let lock = try store.lock("alice", until: inTime)
    await #expect(processExitsWith: .exitCode(10)) { [path = directory.path as String] in
      let other = try FileSessionStore(stateDirectory: path)
      exit(try other.tryLock("alice") == nil ? 10 : 11)
    }
    lock.release()
    await #expect(processExitsWith: .exitCode(11)) { [path = directory.path as String] in
      let other = try FileSessionStore(stateDirectory: path)
      exit(try other.tryLock("alice") == nil ? 10 : 11)
    }
  }

  @Test(
    "A process killed under the lock leaves the lock free and the session whole",
    .enabled(if: FaultPoint.areCompiledIn),
    arguments: [
      ("after-intent", 1, true), ("after-answer", 1, true), ("before-rename", 1, true),
      ("after-rename", 2, false),
    ] as [(String, UInt64, Bool)])
  func killed(_ point: String, _ generation: UInt64, _ hasIntent: Bool) async throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    await #expect(processExitsWith: .signal(SIGKILL)) {
      [path = directory.path as String, point = point as String] in
      setenv("BEARERD_FAULT", point, 1)
      let store = try FileSessionStore(stateDirectory: path)
      let lock = try store.lock("alice", until: inTime)
      let reserved = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
      FaultPoint.reached("after-answer")
      try store.writeResult(
        makeRecord(generation: 2, refresh: "REFRESH-2", spent: ["REFRESH-1"]), into: reserved, lock: lock)
    }
    let lock = try #require(try store.tryLock("alice"))
    let record = try store.load("alice")
    #expect(record.generation == generation)
    #expect((record.intent != nil) == hasIntent)
    #expect(directory.files().filter { $0.hasPrefix("sessions/") }.count == 1)
    lock.release()
  }
}

final class Box<Value>: @unchecked Sendable {
  // Used by one thread at a time, inside one test.
  var value: Value
  init(_ value: Value) { self.value = value }
}

func inode(_ path: String) -> UInt? {
  var status = stat()
  return stat(path, &status) == 0 ? UInt(status.st_ino) : nil
}

extension TemporaryDirectory {
  /// The lock's file of the session “alice”, whose name's SHA-256 begins with 2b.
  func lockPath() -> String { path + "/sessions/2b/alice.lock" }
}
