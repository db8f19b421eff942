import BearerPolicy
import Chronology
import Glibc
import SessionStore
import Testing

@Suite("SPEC §5 durable replacement") struct ReplacementTests {
  private func steps(_ body: (FileSessionStore, SessionLock) throws -> Void) throws -> [String] {
    let directory = TemporaryDirectory()
    let script = FaultScript()
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    // Without refresh tokens the index has nothing to do.
    try store.seed(makeRecord(refresh: nil))
    let lock = try store.lock("alice", until: inTime)
    script.start()
    try body(store, lock)
    return script.events.compactMap { event in
      switch event.call {
      case .write, .allocate, .truncate, .sync, .syncDirectory, .rename:
        "\(event.call) \(event.path.split(separator: "/").last?.split(separator: ".").last ?? "")"
      case .open, .lock, .read, .unlink, .makeDirectory, .status, .list: nil
      }
    }
  }

  @Test("Write, fsync, rename, fsync of the directory, in this order")
  func order() throws {
    let seen = try steps { try $0.replace(makeRecord(generation: 2, refresh: nil), lock: $1) }
    #expect(seen == ["write new", "sync new", "rename json", "syncDirectory 2b"])
  }

  @Test("The result's room is durable before the intent has its name, and the intent before anything is sent")
  func intentOrder() throws {
    let seen = try steps { store, lock in
      let reserved = try store.writeIntent(makeRecord(refresh: nil, intent: makeIntent()), lock: lock)
      reserved.close()
    }
    #expect(
      seen == ["allocate result", "write new", "sync new", "sync result", "rename json", "syncDirectory 2b"])
  }

  @Test("The result is durable before it has its name; what its room has left over is given back after it can be used")
  func resultOrder() throws {
    let intentStepsCount = 6
    let seen = try steps { store, lock in
      let reserved = try store.writeIntent(makeRecord(refresh: nil, intent: makeIntent()), lock: lock)
      try store.writeResult(makeRecord(generation: 2, refresh: nil), into: reserved, lock: lock)
      reserved.close()
    }
    #expect(
      seen.dropFirst(intentStepsCount)
        == ["write result", "sync result", "rename json", "syncDirectory 2b", "truncate result"])
  }

  @Test("Nothing of the room stays allocated")
  func roomLeft() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let lock = try store.lock("alice", until: inTime)
    let reserved = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
    try store.writeResult(makeRecord(generation: 2), into: reserved, lock: lock)
    reserved.close()
    var status = stat()
    #expect(stat(directory.path + "/sessions/2b/alice.json", &status) == 0)
    #expect(status.st_blocks * 512 <= 8192, "\(status.st_size) bytes take \(status.st_blocks) blocks of 512")
  }

  /// What each operation must leave when the disk refuses every call of one kind from then on.
  static let refusals: [(call: Disk.Call, code: Int32, isFull: Bool)] = [
    (.write, ENOSPC, true), (.write, EDQUOT, true), (.write, EIO, false), (.sync, EIO, false),
    (.sync, ENOSPC, true),
    (.rename, EIO, false), (.rename, EROFS, false), (.open, EACCES, false), (.open, EROFS, false),
    (.open, ENOSPC, true), (.unlink, EROFS, false),
  ]

  @Test(
    "A disk that refuses leaves the old file whole, nothing beside it, and a typed fault", arguments: refusals)
  func refused(_ row: (call: Disk.Call, code: Int32, isFull: Bool)) throws {
    let directory = TemporaryDirectory()
    let script = FaultScript { _, event in
      // Opening to read still works on a full or read-only disk.
      guard event.call == row.call,
        row.call != .open || event.path.hasSuffix(".new") || event.path.hasSuffix(".result")
      else { return nil }
      return row.code
    }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    try store.seed(makeRecord())
    let old = fileBytes(directory.sessionPath())
    let before = directory.files()
    let lock = try store.lock("alice", until: inTime)
    let next = makeRecord(generation: 2, refresh: "REFRESH-2")
    let attempts: [() throws -> Void] = [
      { try store.replace(next, lock: lock) },
      { try store.create(next, lock: lock) },
      { _ = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock) },
    ]
    for attempt in attempts {
      script.start()
      let fault = #expect(throws: StoreFault.self) { try attempt() }
      script.stop()
      switch fault {
      case .full: #expect(row.isFull)
      case .unwritable(_, let code): #expect(!row.isFull && code == row.code)
      default: Issue.record("\(String(describing: fault))")
      }
      #expect(fault?.detail.contains("REFRESH") == false)
      #expect(fileBytes(directory.sessionPath()) == old)
      #expect(directory.files() == before)
      #expect(lock.isHeld)
    }
  }

  @Test("Room that cannot be made durable leaves the session without an intent, and nothing beside it")
  func roomRefused() throws {
    let directory = TemporaryDirectory()
    let script = FaultScript { _, event in event.call == .sync && event.path.hasSuffix(".result") ? ENOSPC : nil }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    try store.seed(makeRecord())
    let old = fileBytes(directory.sessionPath())
    let before = directory.files()
    let lock = try store.lock("alice", until: inTime)
    script.start()
    let fault = #expect(throws: StoreFault.self) {
      try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
    }
    if case .full? = fault {} else { Issue.record("\(String(describing: fault))") }
    #expect(fileBytes(directory.sessionPath()) == old)
    #expect(directory.files() == before)
  }

  @Test("A failed fsync is followed by a new file, never by a second fsync of the same one")
  func newFileAfterFailedSync() throws {
    let directory = TemporaryDirectory()
    let inodes = Box([UInt]())
    let script = FaultScript { _, event in
      guard event.call == .sync, event.path.hasSuffix(".new") else { return nil }
      inodes.value.append(inode(event.path) ?? 0)
      // Held open, so that its inode cannot be given to the file that follows.
      if inodes.value.count == 1 { _ = open(event.path, O_RDONLY | O_CLOEXEC) }
      return inodes.value.count == 1 ? EIO : nil
    }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    try store.seed(makeRecord(refresh: nil))
    let lock = try store.lock("alice", until: inTime)
    script.start()
    try store.replace(makeRecord(generation: 2, refresh: nil), lock: lock)
    try #require(inodes.value.count == 2)
    #expect(inodes.value[0] != inodes.value[1])
    #expect(inode(directory.sessionPath()) == inodes.value[1])
    #expect(try store.load("alice").generation == 2)
  }

  @Test("A call interrupted by a signal is made again")
  func interrupted() throws {
    let directory = TemporaryDirectory()
    let seen = Box(Set<String>())
    let script = FaultScript { _, event in seen.value.insert("\(event)").inserted ? EINTR : nil }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    script.start()
    #expect(try store.add(makeRecord(), refreshTokenFingerprint: fingerprint("REFRESH-1")) == .added)
    #expect(try store.load("alice") == makeRecord())
  }

  @Test("Seed 003: a creation that reads back differently is made again, three times at most", arguments: 0...4)
  func readBack(_ corruptions: Int) throws {
    let directory = TemporaryDirectory()
    let other = TemporaryDirectory()
    try FileSessionStore(stateDirectory: other.path).seed(makeRecord(refresh: "OTHER"))
    let otherText = String(decoding: fileBytes(other.sessionPath()), as: UTF8.self)
    let left = Box(corruptions)
    let script = FaultScript { _, event in
      guard event.call == .rename, event.path.hasSuffix(".json"), left.value > 0 else { return nil }
      left.value -= 1
      // Another record than the one being written: it parses, and is not the same.
      overwrite(String(event.path.dropLast(5)) + ".new", otherText)
      return nil
    }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    script.start()
    let lock = try store.lock("alice", until: inTime)
    if corruptions < 3 {
      try store.create(makeRecord(), lock: lock)
      #expect(try store.load("alice") == makeRecord())
    } else {
      #expect(throws: StoreFault.readBackDiffers(path: directory.path + "/sessions/2b/alice.json")) {
        try store.create(makeRecord(), lock: lock)
      }
    }
    #expect(left.value == max(0, corruptions - 3))
  }

  @Test("Removing a session that cannot be read works, and of one that is not there says so")
  func removal() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let lock = try store.lock("alice", until: inTime)
    #expect(throws: StoreFault.missing(session: "alice")) { try store.remove("alice", lock: lock) }
    try store.create(makeRecord(), lock: lock)
    overwrite(directory.sessionPath(), "damaged")
    try store.remove("alice", lock: lock)
    #expect(throws: StoreFault.missing(session: "alice")) { try store.load("alice") }
    #expect(try store.names(limit: 1) == [])
  }
}

@Suite("SPEC §3 room for the result") struct ReservedResultTests {
  @Test("A full disk is found before anything is sent, and the session has no intent")
  func fullDisk() throws {
    let directory = TemporaryDirectory()
    let script = FaultScript { _, event in event.call == .allocate ? ENOSPC : nil }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    try store.seed(makeRecord())
    let before = directory.files()
    let lock = try store.lock("alice", until: inTime)
    script.start()
    #expect(throws: StoreFault.full(path: directory.path + "/sessions/2b/alice.result")) {
      _ = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
    }
    #expect(try store.load("alice") == makeRecord())
    #expect(directory.files() == before)
  }

  @Test(
    "The room is really there: at least 64 KiB, and for a large session twice its size and two tokens",
    arguments: [(1, 64 << 10), (100_000, 200_000 + (32 << 10))])
  func room(_ tokenBytes: Int, _ least: Int) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let token = String(repeating: "t", count: tokenBytes)
    try store.seed(makeRecord(refresh: token))
    let lock = try store.lock("alice", until: inTime)
    let reserved = try store.writeIntent(makeRecord(refresh: token, intent: makeIntent(token)), lock: lock)
    var status = stat()
    #expect(stat(directory.path + "/sessions/2b/alice.result", &status) == 0)
    #expect(status.st_blocks * 512 >= least)
    reserved.close()
    #expect(!directory.files().contains { $0.hasSuffix(".result") })
  }

  @Test("Unused room goes with the value, but not once the lock is another's")
  func discard() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    func reserve() throws -> (SessionLock, ReservedResult) {
      let lock = try store.lock("alice", until: inTime)
      return (lock, try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock))
    }
    func isThere() -> Bool { directory.files().contains { $0.hasSuffix("/alice.result") } }
    do {
      let (lock, reserved) = try reserve()
      #expect(isThere())
      withExtendedLifetime(reserved) {}
      _ = lock
    }
    #expect(!isThere())
    let (old, stale) = try reserve()
    old.release()
    let (lock, reserved) = try reserve()
    stale.close()
    #expect(isThere())
    reserved.close()
    #expect(!isThere())
    lock.release()
  }

  @Test("A result larger than its room, and one far smaller, are whole", arguments: [1, 300_000])
  func sizes(_ tokenBytes: Int) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let lock = try store.lock("alice", until: inTime)
    let reserved = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
    let result = makeRecord(generation: 2, refresh: String(repeating: "t", count: tokenBytes))
    try store.writeResult(result, into: reserved, lock: lock)
    reserved.close()
    #expect(try store.load("alice") == result)
    #expect(!directory.files().contains { $0.hasSuffix(".result") || $0.hasSuffix(".new") })
  }
}

@Suite("SPEC §3 a refresh on a failing disk") struct FlightTests {
  static let before = makeRecord()
  static let intent = makeRecord(intent: makeIntent())
  static let after = makeRecord(generation: 2, access: "ACCESS-2", refresh: "REFRESH-2", spent: ["REFRESH-1"])

  enum Progress: Equatable { case refused, sent, written }

  /// A refresh as the flight's runner makes it, up to the first throw.
  private func fly(_ store: FileSessionStore) -> Progress {
    var progress = Progress.refused
    do {
      let lock = try store.lock("alice", until: inTime)
      defer { lock.release() }
      guard try store.load("alice") == Self.before else { return progress }
      let reserved = try store.writeIntent(Self.intent, lock: lock)
      progress = .sent
      try store.writeResult(Self.after, into: reserved, lock: lock)
      progress = .written
    } catch {}
    return progress
  }

  /// The flight once for each of its calls, the disk failing as `rule` says; returns how many there are.
  private func atEveryCall(
    _ rule: @escaping @Sendable (_ number: Int, _ failing: Int) -> Bool,
    _ check: (_ failing: Int, _ progress: Progress, _ directory: TemporaryDirectory) throws -> Void
  ) throws -> Int {
    var failing = 0
    while true {
      let directory = TemporaryDirectory()
      let script = FaultScript { [failing] number, _ in rule(number, failing) ? EIO : nil }
      let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
      try store.seed(Self.before)
      script.start()
      let progress = fly(store)
      script.stop()
      try check(failing, progress, directory)
      if script.events.count <= failing { return failing }
      failing += 1
    }
  }

  @Test("I1, I7: whichever one call fails, nothing is sent without an intent, and what was sent for is written")
  func oneFailure() throws {
    let calls = try atEveryCall {
      $0 == $1
    } _: { failing, progress, directory in
      let store = try FileSessionStore(stateDirectory: directory.path)
      switch progress {
      case .refused: #expect(try store.load("alice") == Self.before, "call \(failing)")
      case .written: #expect(try store.load("alice") == Self.after, "call \(failing)")
      case .sent: Issue.record("one failure at call \(failing) lost the result")
      }
      // Whatever it left behind is in nobody's way.
      let lock = try store.lock("alice", until: inTime)
      try store.replace(Self.after, lock: lock)
      #expect(directory.files().filter { $0.hasPrefix("sessions/") } == ["sessions/2b/alice.json"])
    }
    #expect(calls > 30)
  }

  @Test("I1: wherever the machine stops, the file is the old session, the intent or the result, never less")
  func crash() throws {
    var seen = [Int: Progress]()
    let calls = try atEveryCall {
      $0 >= $1
    } _: { failing, progress, directory in
      seen[failing] = progress
      let store = try FileSessionStore(stateDirectory: directory.path)
      let lock = try store.lock("alice", until: inTime)
      let found = try store.load("alice")
      switch progress {
      case .refused: #expect(found == Self.before || found == Self.intent, "call \(failing)")
      case .sent: #expect(found == Self.intent || found == Self.after, "call \(failing)")
      case .written: #expect(found == Self.after, "call \(failing)")
      }
      #expect(directory.files().filter { $0.hasPrefix("sessions/") } == ["sessions/2b/alice.json"])
      lock.release()
    }
    #expect(calls > 30)
    #expect(Set(seen.values.map { "\($0)" }) == ["refused", "sent", "written"])
  }

  @Test("After a failed fsync of the reserved room the result is written to a new file")
  func newFile() throws {
    let directory = TemporaryDirectory()
    let syncs = Box([String]())
    let isSent = Box(false)
    let script = FaultScript { _, event in
      guard event.call == .sync, isSent.value else { return nil }
      syncs.value.append(String(event.path.split(separator: ".").last ?? ""))
      return event.path.hasSuffix(".result") ? EIO : nil
    }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    try store.seed(Self.before)
    let lock = try store.lock("alice", until: inTime)
    script.start()
    let reserved = try store.writeIntent(Self.intent, lock: lock)
    isSent.value = true
    try store.writeResult(Self.after, into: reserved, lock: lock)
    #expect(syncs.value.prefix(2) == ["result", "new"])
    #expect(try FileSessionStore(stateDirectory: directory.path).load("alice") == Self.after)
    #expect(!directory.files().contains { $0.hasSuffix(".result") })
  }

  @Test(
    "I7: a result no file takes throws, leaves the intent, and a later replace under the lock makes it good")
  func retry() throws {
    let directory = TemporaryDirectory()
    let script = FaultScript { _, event in event.call == .rename ? EIO : nil }
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    try store.seed(Self.before)
    let lock = try store.lock("alice", until: inTime)
    let reserved = try store.writeIntent(Self.intent, lock: lock)
    script.start()
    #expect(throws: StoreFault.unwritable(path: directory.path + "/sessions/2b/alice.json", errno: EIO)) {
      try store.writeResult(Self.after, into: reserved, lock: lock)
    }
    #expect(try store.load("alice") == Self.intent)
    script.stop()
    try store.replace(Self.after, lock: lock)
    #expect(try store.load("alice") == Self.after)
  }
}
