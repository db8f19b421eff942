import BearerPolicy
import Chronology
import Glibc
import SessionStore
import Testing

@Suite("SPEC §3 spent tokens and session add") struct AddTests {
  private static let since = WallTime(seconds: 1_600_000_000)

  /// What is stored before a row's `session add alice --token HANDED`.
  enum Before: CaseIterable {
    case nothing
    case activeOtherToken, activeSameToken, activeSpentIt, activeIntent
    case deadOtherToken, deadSpentIt, fencedOtherToken, fencedSpentIt
    case otherHolds, otherSpentIt, otherDeadSpentIt, otherIntent
    case removedUnused, removedSpentIt, otherRemovedSpentIt

    func records() -> [SessionRecord] {
      let dead = SessionRecord.Standing.dead(reason: "invalid_grant", since: AddTests.since)
      let fenced = SessionRecord.Standing.fenced(reason: "outcome_unknown", since: AddTests.since)
      func alice(
        _ refresh: String?, _ standing: SessionRecord.Standing = .active, intent: SessionRecord.Intent? = nil,
        spent: [String] = ["OLDER"]
      ) -> SessionRecord {
        makeRecord("alice", generation: 7, refresh: refresh, standing: standing, intent: intent, spent: spent)
      }
      func bob(_ record: SessionRecord) -> SessionRecord {
        var other = record
        other.name = "bob"
        return other
      }
      return switch self {
      case .nothing: []
      case .activeOtherToken: [alice("CURRENT")]
      case .activeSameToken, .removedUnused: [alice("HANDED")]
      case .activeSpentIt, .removedSpentIt: [alice("CURRENT", spent: ["OLDER", "HANDED"])]
      case .activeIntent: [alice("HANDED", intent: makeIntent("HANDED"))]
      case .deadOtherToken: [alice(nil, dead)]
      case .deadSpentIt: [alice(nil, dead, spent: ["HANDED"])]
      case .fencedOtherToken: [alice(nil, fenced)]
      case .fencedSpentIt: [alice(nil, fenced, spent: ["HANDED"])]
      case .otherHolds: [bob(alice("HANDED"))]
      case .otherSpentIt, .otherRemovedSpentIt: [bob(alice("CURRENT", spent: ["HANDED"]))]
      case .otherDeadSpentIt: [bob(alice(nil, dead, spent: ["HANDED"]))]
      case .otherIntent: [bob(alice("HANDED", intent: makeIntent("HANDED")))]
      }
    }

    var removed: String? {
      switch self {
      case .removedUnused, .removedSpentIt: "alice"
      case .otherRemovedSpentIt: "bob"
      case .nothing, .activeOtherToken, .activeSameToken, .activeSpentIt, .activeIntent, .deadOtherToken,
        .deadSpentIt, .fencedOtherToken, .fencedSpentIt, .otherHolds, .otherSpentIt, .otherDeadSpentIt,
        .otherIntent:
        nil
      }
    }
  }

  enum Outcome: Equatable, Sendable {
    case added, kept
    case spent(String)
    case held(String)
  }

  /// Before; plain; with `--if-absent`. Forced, each is added.
  static let table: [(before: Before, plain: Outcome, ifAbsent: Outcome)] = [
    (.nothing, .added, .added),
    (.activeOtherToken, .added, .kept),
    (.activeSameToken, .added, .kept),
    (.activeSpentIt, .spent("alice"), .kept),
    (.activeIntent, .spent("alice"), .kept),
    (.deadOtherToken, .added, .added),
    (.deadSpentIt, .spent("alice"), .kept),
    (.fencedOtherToken, .added, .added),
    (.fencedSpentIt, .spent("alice"), .kept),
    (.otherHolds, .held("bob"), .held("bob")),
    (.otherSpentIt, .spent("bob"), .spent("bob")),
    (.otherDeadSpentIt, .spent("bob"), .spent("bob")),
    (.otherIntent, .spent("bob"), .spent("bob")),
    (.removedUnused, .added, .added),
    (.removedSpentIt, .spent("alice"), .spent("alice")),
    (.otherRemovedSpentIt, .spent("bob"), .spent("bob")),
  ]

  @Test("The table has a row for each state before")
  func complete() {
    #expect(Self.table.map(\.before) == Before.allCases)
  }

  private func prepare(_ before: Before) throws -> (TemporaryDirectory, FileSessionStore) {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path, disk: FaultScript().disk)
    for record in before.records() {
      // The spent tokens were current once, as they are in a session's life.
      for token in ["OLDER", "HANDED"] where record.spent.contains(fingerprint(token)) {
        try store.seed(makeRecord(record.name, refresh: token))
      }
      try store.seed(record)
    }
    if let removed = before.removed {
      let lock = try store.lock(removed, until: inTime)
      try store.remove(removed, lock: lock)
      lock.release()
    }
    return (directory, store)
  }

  private func add(_ store: FileSessionStore, ifAbsent: Bool = false, force: Bool = false) throws -> Outcome {
    do {
      let result = try store.add(
        makeRecord("alice", access: "HANDED-ACCESS", refresh: "HANDED"),
        refreshTokenFingerprint: fingerprint("HANDED"), ifAbsent: ifAbsent, force: force, until: atOnce)
      return result == .added ? .added : .kept
    } catch AddFailure.refused(.spent(let session)) {
      return .spent(session)
    } catch AddFailure.refused(.held(let session)) {
      return .held(session)
    }
  }

  @Test("Each state before gives its outcome: plain, if absent, forced", arguments: table.indices)
  func rules(_ index: Int) throws {
    let row = Self.table[index]
    for (ifAbsent, force, expected) in [
      (false, false, row.plain), (true, false, row.ifAbsent), (false, true, .added),
    ] {
      let (directory, store) = try prepare(row.before)
      let old = try? store.load("alice")
      let outcome = try add(store, ifAbsent: ifAbsent, force: force)
      #expect(outcome == expected, "\(row.before) ifAbsent \(ifAbsent) force \(force)")
      let now = try? store.load("alice")
      guard outcome == .added else {
        #expect(now == old)
        continue
      }
      #expect(now?.refreshToken == Secret("HANDED") && now?.accessToken == Secret("HANDED-ACCESS"))
      #expect(now?.standing == .active && now?.intent == nil)
      #expect(now?.generation == (old.map { $0.generation + 1 } ?? 1))
      #expect(now?.spent == (old?.spent ?? []).filter { $0 != fingerprint("HANDED") })
      // From now on the index knows whose it is.
      #expect(throws: AddFailure.refused(.held(session: "alice"))) {
        try store.add(makeRecord("carol", refresh: "HANDED"), refreshTokenFingerprint: fingerprint("HANDED"))
      }
      _ = directory
    }
  }

  @Test(
    "A container that hands in the same token at each start does not burn it, however long the session lived")
  func container() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path, disk: FaultScript().disk)
    #expect(try add(store, ifAbsent: true) == .added)
    var record = try store.load("alice")
    let rotations = SessionRecord.spentMax + 3
    for generation in 0..<rotations {
      try refresh(store, &record, to: "ROTATED-\(generation)")
      if generation % 20 == 0 { #expect(try add(store, ifAbsent: true) == .kept) }
    }
    #expect(!record.spent.contains(fingerprint("HANDED")))
    #expect(try add(store, ifAbsent: true) == .kept)
    #expect(try add(store) == .spent("alice"))
    try end(store, &record)
    #expect(try add(store, ifAbsent: true) == .kept)
    #expect(try store.load("alice") == record)
    // One file for each token remembered: a long life does not fill the disk.
    #expect(directory.files().filter { $0.hasPrefix("fingerprints/") }.count == SessionRecord.spentMax + 1)
  }

  private func refresh(_ store: FileSessionStore, _ record: inout SessionRecord, to token: String) throws {
    let lock = try store.lock(record.name, until: inTime)
    defer { lock.release() }
    let presented = try #require(record.refreshToken)
    record.intent = .init(
      fingerprint: FileSessionStore.fingerprint(of: presented), startedAt: Self.since, trigger: .ahead)
    let reserved = try store.writeIntent(record, lock: lock)
    record.intent = nil
    record.spent = (record.spent + [FileSessionStore.fingerprint(of: presented)]).suffix(SessionRecord.spentMax)
    record.refreshToken = Secret(token)
    record.generation += 1
    try store.writeResult(record, into: reserved, lock: lock)
  }

  private func end(_ store: FileSessionStore, _ record: inout SessionRecord) throws {
    let lock = try store.lock(record.name, until: inTime)
    defer { lock.release() }
    let last = try #require(record.refreshToken)
    record.spent = (record.spent + [FileSessionStore.fingerprint(of: last)]).suffix(SessionRecord.spentMax)
    record.refreshToken = nil
    record.accessToken = nil
    record.standing = .dead(reason: "invalid_grant", since: Self.since)
    try store.replace(record, lock: lock)
  }

  @Test("A token issued in a refresh is known as the session's from then on")
  func rotatedIsHeld() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    _ = try add(store)
    var record = try store.load("alice")
    try refresh(store, &record, to: "NEXT")
    for token in ["NEXT", "HANDED"] {
      let expected: AddRefusal = token == "NEXT" ? .held(session: "alice") : .spent(session: "alice")
      #expect(throws: AddFailure.refused(expected)) {
        try store.add(makeRecord("bob", refresh: token), refreshTokenFingerprint: fingerprint(token))
      }
    }
  }

  @Test("A new login in an old one's place lets the unused token go, and keeps the grace of one that stays")
  func replacedLogin() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    var first = makeRecord(refresh: "FIRST")
    first.graceUsed = true
    first.graceUntil = WallTime(seconds: 1_800_000_000)
    try store.seed(first)
    #expect(
      try store.add(makeRecord(refresh: "FIRST"), refreshTokenFingerprint: fingerprint("FIRST")) == .added)
    #expect(try store.load("alice").graceUsed)
    #expect(try store.load("alice").graceUntil == first.graceUntil)
    #expect(try add(store) == .added)
    #expect(try store.load("alice").graceUsed == false)
    #expect(
      try store.add(makeRecord("bob", refresh: "FIRST"), refreshTokenFingerprint: fingerprint("FIRST"))
        == .added)
  }

  @Test("A login without a refresh token needs no fingerprint; if absent it keeps what can go on")
  func accessTokenOnly() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let record = makeRecord(refresh: nil)
    #expect(try store.add(record, refreshTokenFingerprint: nil, ifAbsent: true) == .added)
    #expect(try store.add(record, refreshTokenFingerprint: nil, ifAbsent: true) == .keptExisting)
    #expect(try store.add(record, refreshTokenFingerprint: nil) == .added)
    #expect(try store.load("alice").generation == 2)
    #expect(directory.files().filter { $0.hasPrefix("fingerprints/") } == [])
  }

  @Test("Adding waits for the session's lock, until the deadline")
  func locked() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let lock = try store.lock("alice", until: inTime)
    #expect(throws: AddFailure.store(.lockTimeout(path: directory.lockPath()))) { try add(store, force: true) }
    lock.release()
    #expect(try add(store) == .added)
  }

  @Test(
    "Wherever the machine stops in an add, the token is known before a session holds it, and a second add works"
  )
  func crash() throws {
    var failing = 0
    while true {
      let directory = TemporaryDirectory()
      let script = FaultScript { [failing] number, _ in number >= failing ? EIO : nil }
      let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
      script.start()
      let wasAdded = (try? add(store)) == .added
      script.stop()
      if (try? store.load("alice")) != nil {
        #expect(throws: AddFailure.refused(.held(session: "alice")), "call \(failing)") {
          try store.add(makeRecord("bob", refresh: "HANDED"), refreshTokenFingerprint: fingerprint("HANDED"))
        }
      } else {
        #expect(!wasAdded)
      }
      #expect(try add(store) == .added, "call \(failing)")
      if script.events.count <= failing { break }
      failing += 1
    }
    #expect(failing > 20)
  }

  @Test("Wherever the machine stops in a remove, a spent token stays spent")
  func crashInRemove() throws {
    var failing = 0
    while true {
      let (directory, seeded) = try prepare(.activeSpentIt)
      let script = FaultScript { [failing] number, _ in number >= failing ? EIO : nil }
      let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
      let lock = try store.lock("alice", until: inTime)
      script.start()
      try? store.remove("alice", lock: lock)
      script.stop()
      lock.release()
      #expect(try add(seeded) == .spent("alice"), "call \(failing)")
      if script.events.count <= failing { break }
      failing += 1
    }
    #expect(failing > 10)
  }

  @Test("Faults and refusals say what to do and show no token")
  func details() {
    let path = "/state/sessions/2b/alice.json"
    let faults: [StoreFault] = [
      .missing(session: "alice"), .badName(detail: "it is empty"), .unparsable(path: path, detail: "x"),
      .futureVersion(path: path, version: 9), .wrongOwner(path: path, detail: "x"),
      .wrongMode(path: path, detail: "y"),
      .unreadable(path: path, errno: EACCES), .unwritable(path: path, errno: EROFS), .full(path: path),
      .lockTimeout(path: path), .lockReplaced(path: path), .readBackDiffers(path: path),
    ]
    let details =
      faults.map(\.detail) + [AddRefusal.spent(session: "alice"), .held(session: "alice")].map(\.detail)
    #expect(Set(details).count == 14)
    for detail in details {
      #expect(!detail.contains("\n"))
      #expect(detail.contains("alice") || detail.contains("name"))
    }
  }
}
