import BearerPolicy
import FoundationEssentials
import Glibc
import SessionStore
import Testing

@Suite("I1, I7: the sessions' directory is deleted under a running process") struct DirectoryGoneTests {
  private let directory = TemporaryDirectory()
  private let store: FileSessionStore

  init() throws {
    store = try FileSessionStore(stateDirectory: directory.path, disk: FaultScript().disk)
    try store.seed(makeRecord())
  }

  private func delete() throws { try FileManager.default.removeItem(atPath: store.sessionsDirectory) }
  private func putBack() { mkdir(store.sessionsDirectory, 0o700) }

  @Test("No session counts as missing, for nothing is known, and nothing is made in the directory's place")
  func reading() throws {
    try delete()
    let gone = StoreFault.unreadable(path: store.sessionsDirectory, errno: ENOENT)
    #expect(throws: gone) { try store.load("alice") }
    #expect(throws: gone) { try store.names(limit: 10) }
    #expect(store.stamp("alice") == nil)
    #expect(gone.detail.contains("gone"))
    #expect(throws: StoreFault.self) { try store.tryLock("alice") }
    #expect(throws: StoreFault.self) { try store.lock("alice", until: atOnce) }
    #expect(throws: AddFailure.self) {
      try store.add(makeRecord(), refreshTokenFingerprint: fingerprint("REFRESH-1"))
    }
    #expect(access(store.sessionsDirectory, F_OK) == -1)
    putBack()
    #expect(throws: StoreFault.missing(session: "alice")) { try store.load("alice") }
    #expect(try store.names(limit: 10) == [])
  }

  @Test("Under a lock taken before, no intent is written, so nothing is sent; nor when an empty one is back")
  func intent() throws {
    let lock = try store.lock("alice", until: inTime)
    try delete()
    for isBack in [false, true] {
      if isBack { putBack() }
      #expect(throws: StoreFault.lockReplaced(path: store.sessionsDirectory + "/2b/alice.lock")) {
        _ = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
      }
    }
    #expect(directory.files().filter { $0.hasPrefix("sessions/") } == [])
  }

  @Test("A result that has nowhere to go is thrown back, and is written once the directory is there again")
  func result() throws {
    let lock = try store.lock("alice", until: inTime)
    let reserved = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
    try delete()
    let result = makeRecord(generation: 2, access: "ACCESS-2", refresh: "REFRESH-2")
    #expect(throws: StoreFault.unwritable(path: store.sessionsDirectory + "/2b/alice.json", errno: ENOENT)) {
      try store.writeResult(result, into: reserved, lock: lock)
    }
    #expect(throws: StoreFault.self) { try store.replace(result, lock: lock) }
    putBack()
    try store.replace(result, lock: lock)
    #expect(try store.load("alice") == result)
    #expect(mode(store.sessionsDirectory + "/2b") == 0o700)
    lock.release()
  }

  @Test("The sessions are there again when the directory is")
  func back() throws {
    let away = directory.path + "/away"
    rename(store.sessionsDirectory, away)
    #expect(throws: StoreFault.unreadable(path: store.sessionsDirectory, errno: ENOENT)) {
      try store.load("alice")
    }
    rename(away, store.sessionsDirectory)
    #expect(try store.load("alice") == makeRecord())
    try #require(try store.tryLock("alice")).release()
  }
}
