import BearerPolicy
import Chronology
import Glibc
import SessionStore
import Testing

@Suite("SPEC §5 conversion of a store") struct ConversionTests {
  enum Direction: CaseIterable { case encrypt, rotate, decrypt }

  /// A store with sessions in the old form, and what is needed to bring it into the new one.
  private final class Scene {
    let directory = TemporaryDirectory()
    let old: StoreKey?
    let new: StoreKey?
    let change: StoreConversion.Change
    var records: [SessionRecord]

    init(_ direction: Direction, sessions: Int = 3) throws {
      let one = try makeKey(directory, "one")
      switch direction {
      case .encrypt: (old, new, change) = (nil, one, .encrypt(one))
      case .rotate:
        let two = try makeKey(directory, "two")
        (old, new, change) = (one, two, .rotate(from: one, to: two))
      case .decrypt: (old, new, change) = (one, nil, .decrypt(one))
      }
      records = (0..<sessions).map { makeRecord("s\($0)", refresh: "REFRESH-\($0)", spent: ["OLD-\($0)"]) }
      // A refresh whose holder died: the conversion is no answer to it.
      records[0].intent = makeIntent("REFRESH-0")
      let store = try self.store(old)
      for record in records { try store.seed(record) }
    }

    func store(_ key: StoreKey?) throws -> FileSessionStore {
      try FileSessionStore(stateDirectory: directory.path, disk: FaultScript().disk, key: key)
    }

    /// - Parameter patience: of other tests' children each has the descriptor of a lock that is open when it is born,
    ///   until it executes its program: a lock that has been released is free a moment later.
    func convert(_ disk: Disk? = nil, patience: Interval = .seconds(30)) throws -> StoreConversion.Outcome {
      let conversion = try StoreConversion(
        stateDirectory: directory.path, change, disk: disk ?? FaultScript().disk, patience: patience)
      return conversion.run()
    }

    /// How many sessions have the new form; each is whole in one of the two.
    func convertedCount(_ context: String) throws -> Int {
      let (before, after) = (try store(old), try store(new))
      var count = 0
      for record in records {
        if let found = try? after.load(record.name) {
          count += 1
          #expect(found == record, "\(context)")
        } else {
          #expect(try before.load(record.name) == record, "\(context)")
        }
      }
      return count
    }
  }

  @Test(
    "Every session has the new form afterwards, and nothing else of it has changed",
    arguments: Direction.allCases)
  func all(_ direction: Direction) throws {
    let scene = try Scene(direction)
    let before = scene.directory.files()
    var outcome = try scene.convert()
    #expect(outcome.convertedCount == 3 && outcome.unchangedCount == 0 && outcome.isComplete)
    #expect(try scene.convertedCount("first run") == 3)
    #expect(scene.directory.files() == before)
    // Again: nothing to do, and nothing is written.
    let written = scene.directory.files().map { fileBytes("\(scene.directory.path)/\($0)") }
    outcome = try scene.convert()
    #expect(outcome.convertedCount == 0 && outcome.unchangedCount == 3 && outcome.isComplete)
    #expect(scene.directory.files().map { fileBytes("\(scene.directory.path)/\($0)") } == written)
  }

  @Test("An empty store is complete")
  func empty() throws {
    let directory = TemporaryDirectory()
    let change = StoreConversion.Change.encrypt(try makeKey(directory))
    let outcome = try StoreConversion(stateDirectory: directory.path + "/state", change).run()
    #expect(outcome.convertedCount == 0 && outcome.unchangedCount == 0)
    #expect(outcome.isComplete)
  }

  @Test(
    "Wherever the machine stops, every session is whole, and the next run goes on",
    arguments: Direction.allCases)
  func crash(_ direction: Direction) throws {
    var counts = Set<Int>()
    var failing = 0
    while true {
      let scene = try Scene(direction, sessions: 2)
      let script = FaultScript { [failing] number, _ in number >= failing ? EIO : nil }
      script.start()
      let stopped = try? scene.convert(script.disk)
      script.stop()
      counts.insert(try scene.convertedCount("call \(failing)"))
      let outcome = try scene.convert()
      #expect(outcome.isComplete && outcome.convertedCount + outcome.unchangedCount == 2, "call \(failing)")
      #expect(try scene.convertedCount("resumed after call \(failing)") == 2)
      let left = scene.directory.files().filter { $0.hasPrefix("sessions/") && !$0.hasSuffix(".json") }
      #expect(left.isEmpty, "call \(failing)")
      if script.events.count <= failing {
        #expect(stopped?.isComplete == true)
        break
      }
      #expect(stopped?.isComplete != true, "call \(failing)")
      failing += 1
    }
    #expect(failing > 50)
    #expect(counts == [0, 1, 2])
  }

  @Test(
    "Whichever one call fails, no session is lost, and the next run completes", arguments: Direction.allCases)
  func oneFailure(_ direction: Direction) throws {
    var failing = 0
    while true {
      let scene = try Scene(direction, sessions: 2)
      let script = FaultScript { [failing] number, _ in number == failing ? EIO : nil }
      script.start()
      _ = try? scene.convert(script.disk)
      script.stop()
      _ = try scene.convertedCount("call \(failing)")
      #expect(try scene.convert().isComplete, "call \(failing)")
      #expect(try scene.convertedCount("again after call \(failing)") == 2)
      if script.events.count <= failing { break }
      failing += 1
    }
    #expect(failing > 50)
  }

  @Test("A full disk stops it with that fault; what was converted stays so, the rest stays as it was")
  func full() throws {
    let scene = try Scene(.encrypt)
    let writes = Box(0)
    let script = FaultScript { _, event in
      guard event.call == .write else { return nil }
      writes.value += 1
      return writes.value > 1 ? ENOSPC : nil
    }
    script.start()
    let outcome = try scene.convert(script.disk)
    guard case .full? = outcome.stopped else {
      Issue.record("\(outcome)")
      return
    }
    #expect(outcome.convertedCount == 1)
    #expect(try scene.convertedCount("full disk") == 1)
  }

  @Test(
    "Files that neither key opens, or that are damaged, are named and left as they are; the others are converted"
  )
  func refusals() throws {
    let scene = try Scene(.rotate)
    let directory = scene.directory
    try scene.store(try makeKey(directory, "stranger")).seed(makeRecord("foreign"))
    try scene.store(nil).seed(makeRecord("plain"))
    try scene.store(scene.old).seed(makeRecord("damaged"))
    let paths = directory.files().filter { file in
      ["/foreign.json", "/plain.json", "/damaged.json"].contains { file.hasSuffix($0) }
    }.map { "\(directory.path)/\($0)" }
    try #require(paths.count == 3)
    for path in paths where path.hasSuffix("/damaged.json") { overwrite(path, "{") }
    let before = paths.map(fileBytes)
    let outcome = try scene.convert()
    #expect(outcome.convertedCount == 3 && outcome.refusedCount == 3 && outcome.stopped == nil)
    #expect(!outcome.isComplete)
    for path in paths { #expect(outcome.refusals.contains { $0.detail.contains(path) }, "\(path)") }
    #expect(paths.map(fileBytes) == before)
  }

  @Test("The wrong old key converts nothing, names the right one and touches no file")
  func wrongKey() throws {
    let scene = try Scene(.rotate)
    let directory = scene.directory
    let before = directory.files().map { fileBytes("\(directory.path)/\($0)") }
    let wrong = try makeKey(directory, "wrong")
    let other = try makeKey(directory, "other")
    let files = directory.files().filter { $0.hasPrefix("sessions/") }.map { "\(directory.path)/\($0)" }
    let old = files.map(fileBytes)
    #expect(before.count > old.count)
    let outcome = try StoreConversion(
      stateDirectory: directory.path, .rotate(from: wrong, to: other), disk: FaultScript().disk
    ).run()
    #expect(outcome.convertedCount == 0 && outcome.refusedCount == 3)
    for fault in outcome.refusals { #expect(fault.detail.contains(try #require(scene.old).id)) }
    #expect(files.map(fileBytes) == old)
  }

  @Test("At most 20 refusals are kept, all are counted")
  func manyRefusals() throws {
    let scene = try Scene(.encrypt, sessions: 25)
    let stranger = try makeKey(scene.directory, "stranger")
    let conversion = try StoreConversion(
      stateDirectory: scene.directory.path, .decrypt(stranger), disk: FaultScript().disk)
    #expect(conversion.run().unchangedCount == 25)
    #expect(try scene.convert().isComplete)
    let outcome = conversion.run()
    #expect(outcome.refusedCount == 25 && outcome.refusals.count == StoreConversion.Outcome.refusalsMax)
  }

  @Test(
    "A session that is being refreshed is not touched; one that a dead process left unfinished is cleaned up")
  func locks() throws {
    let scene = try Scene(.encrypt)
    let store = try scene.store(nil)
    let lock = try store.lock("s1", until: inTime)
    let reserved = try store.writeIntent(makeRecord("s1", intent: makeIntent()), lock: lock)
    scene.records[1] = makeRecord("s1", intent: makeIntent())
    let shard = try #require(
      scene.directory.files().first { $0.hasPrefix("sessions/") && $0.hasSuffix("/s2.json") }?.dropLast(8))
    makeFile("\(scene.directory.path)/\(shard)/s2.new", "ACCESS in plain text")
    // A session whose creation a crash cut short has no other file.
    let orphan = scene.directory.path + "/sessions/2b"
    mkdir(orphan, 0o700)
    makeFile(orphan + "/alice.new", "ACCESS in plain text")
    var outcome = try scene.convert(patience: .zero)
    #expect(outcome.convertedCount == 2 && outcome.refusedCount == 1)
    guard case .lockTimeout? = outcome.refusals.first else {
      Issue.record("\(outcome)")
      return
    }
    #expect(!scene.directory.files().contains { $0.hasSuffix(".new") })
    #expect(scene.directory.files().contains { $0.hasSuffix("/s1.result") })
    #expect(try store.load("s1") == scene.records[1])
    reserved.close()
    lock.release()
    outcome = try scene.convert()
    #expect(outcome.convertedCount == 1 && outcome.unchangedCount == 2 && outcome.isComplete)
    #expect(try scene.convertedCount("unlocked") == 3)
  }
}
