import BearerPolicy
import Chronology

/// The session store's operations, call by call, each call an event of its own: others may look, and anybody may die,
/// in between. The order is that of the file store.
extension SimProcess {
  typealias DiskCall = (step: DiskStep, body: (inout VirtualDirectory, DiskFault?) -> Void)
  typealias Outcome = (DiskFault?) -> Void

  /// One call: `body` learns of the fault that strikes, so that a torn write can be left behind.
  private func call(
    _ step: DiskStep, _ session: Int, _ body: @escaping (inout VirtualDirectory, DiskFault?) -> Void,
    then: @escaping Outcome
  ) {
    let isSlow = world.chance.happens(world.scenario.rates.slowDisk)
    world.after(world.chance.milliseconds(isSlow ? 200...4000 : 0...4), self) { [self] in
      if world.crashes(self, at: step, isBefore: true) { return }
      let fault = world.diskFault(step)
      if let fault { world.note("process \(index): \(step) of session \(session) fails: \(fault)") }
      let stamp = world.directories[session].stamp
      body(&world.directories[session], fault)
      if world.directories[session].stamp != stamp { world.tellWatchers(session, of: self) }
      world.noteDurable()
      if world.crashes(self, at: step, isBefore: false) { return }
      then(fault)
    }
  }

  /// Call after call, up to the first that fails.
  private func run(_ calls: [DiskCall], _ session: Int, then: @escaping (DiskFault?, DiskStep?) -> Void) {
    guard let first = calls.first else { return then(nil, nil) }
    call(first.step, session, first.body) { [self] fault in
      if fault != nil { return then(fault, first.step) }
      run(Array(calls.dropFirst()), session, then: then)
    }
  }

  private static func plain(
    _ step: DiskStep, _ body: @escaping (inout VirtualDirectory) -> Void
  ) -> DiskCall {
    (step, { directory, fault in if fault == nil { body(&directory) } })
  }

  private static func write(_ record: SessionRecord, _ step: DiskStep, _ name: VirtualDirectory.Name)
    -> DiskCall
  {
    (
      step,
      { directory, fault in if fault == nil { directory.write(record, name) } else { directory.tear(name) } }
    )
  }

  private static func sync(_ step: DiskStep, _ name: VirtualDirectory.Name) -> DiskCall {
    (step, { directory, fault in if fault == nil { directory.sync(name) } else { directory.failSync(name) } })
  }

  // MARK: locks

  /// Tries until `deadline`, then sweeps what a dead holder left. `then` gets nil where the lock is held.
  func acquireLock(
    _ session: Int, until deadline: Instant, then: @escaping (LockHolder?, StoreTrouble?) -> Void
  ) {
    call(.lock, session, { _, _ in }) { [self] fault in
      if let fault { return then(nil, fault.trouble) }
      guard world.locks[session] == nil else {
        if world.now >= deadline { return then(nil, StoreTrouble(kind: .lockTimeout, detail: "held")) }
        return world.after(.milliseconds(100), self) { [self] in
          acquireLock(session, until: deadline, then: then)
        }
      }
      let holder = LockHolder(self)
      world.locks[session] = holder
      let sweep = [
        Self.plain(.sweepNew) { $0.unlink(.new) }, Self.plain(.sweepResult) { $0.unlink(.result) },
      ]
      run(sweep, session) { _, _ in then(holder, nil) }
    }
  }

  func releaseLock(_ session: Int, _ holder: LockHolder, then: @escaping () -> Void) {
    call(.release, session, { _, _ in }) { [self] _ in
      if world.locks[session] === holder { world.locks[session] = nil }
      then()
    }
  }

  /// What `isNews` is made durable too.
  func load(
    _ session: Int, isNews: @escaping (SessionRecord) -> Bool,
    then: @escaping (Result<SessionRecord, StoreTrouble>) -> Void
  ) {
    call(.load, session, { _, _ in }) { [self] _ in
      let found = readSession(session)
      guard case .success(let record) = found, isNews(record) else { return then(found) }
      run([Self.plain(.syncFound) { $0.syncDirectory() }], session) { fault, _ in
        then(fault.map { .failure($0.trouble) } ?? found)
      }
    }
  }

  // MARK: writing

  /// A new file, synced, renamed, the directory synced; after a failed sync another new file is tried once.
  func put(_ record: SessionRecord, _ session: Int, then: @escaping Outcome) {
    writeNew(record, session) { [self] fault, step in
      if step == .syncNew {
        writeNew(record, session) { [self] fault, _ in nameNew(session, fault, then) }
      } else {
        nameNew(session, fault, then)
      }
    }
  }

  private func writeNew(
    _ record: SessionRecord, _ session: Int, then: @escaping (DiskFault?, DiskStep?) -> Void
  ) {
    let calls = [
      Self.plain(.unlinkNew) { $0.unlink(.new) }, Self.plain(.createNew) { $0.create(.new) },
      Self.write(record, .writeNew, .new), Self.sync(.syncNew, .new),
    ]
    run(calls, session, then: then)
  }

  private func nameNew(_ session: Int, _ fault: DiskFault?, _ then: @escaping Outcome) {
    if let fault { return discardNew(session, fault, then) }
    run([Self.plain(.renameNew) { $0.rename(.new, to: .session) }], session) { [self] fault, _ in
      if let fault { return discardNew(session, fault, then) }
      run([Self.plain(.syncNamed) { $0.syncDirectory() }], session) { fault, _ in then(fault) }
    }
  }

  private func discardNew(_ session: Int, _ fault: DiskFault, _ then: @escaping Outcome) {
    call(.discardNew, session, { directory, _ in directory.unlink(.new) }) { _ in then(fault) }
  }

  private func discardResult(_ session: Int, _ then: @escaping () -> Void) {
    call(.discardResult, session, { directory, _ in directory.unlink(.result) }) { _ in then() }
  }

  /// Room for the answer first, then the intent. Where that fails the session is put back as it was.
  func writeIntent(_ record: SessionRecord, _ session: Int, then: @escaping Outcome) {
    let old = world.directories[session].record
    let reserve = [
      Self.plain(.unlinkResult) { $0.unlink(.result) }, Self.plain(.createResult) { $0.create(.result) },
      Self.plain(.allocateResult) { $0.allocate(.result) }, Self.sync(.syncResult, .result),
    ]
    run(reserve, session) { [self] fault, _ in
      if let fault { return discardResult(session) { then(fault) } }
      put(record, session) { [self] fault in
        guard let fault else { return then(nil) }
        discardResult(session) { [self] in
          guard let old, world.directories[session].record == record else { return then(fault) }
          put(old, session) { _ in then(fault) }
        }
      }
    }
  }

  /// Into the reserved room, else into a new file.
  func writeResult(_ record: SessionRecord, _ session: Int, then: @escaping Outcome) {
    let fill = [
      Self.write(record, .writeResult, .result), Self.sync(.syncWritten, .result),
      Self.plain(.renameResult) { $0.rename(.result, to: .session) },
    ]
    run(fill, session) { [self] fault, _ in
      guard fault == nil else { return discardResult(session) { [self] in put(record, session, then: then) } }
      run([Self.plain(.syncRenamed) { $0.syncDirectory() }], session) { [self] fault, _ in
        if fault == nil { then(nil) } else { put(record, session, then: then) }
      }
    }
  }

  /// Room that was not used.
  func discardReserved(_ session: Int, then: @escaping () -> Void) { discardResult(session, then) }

  // MARK: commands and what the keeper saves by itself

  /// `session remove`.
  func remove(_ session: Int) {
    acquireLock(session, until: world.now + .seconds(20)) { [self] holder, _ in
      guard let holder else { return }
      world.note("session \(session) is removed")
      world.promised[session] = nil
      let calls = [
        Self.plain(.unlinkNew) { $0.unlink(.session) }, Self.plain(.syncNamed) { $0.syncDirectory() },
      ]
      run(calls, session) { [self] _, _ in releaseLock(session, holder) {} }
    }
  }

  /// `session add` with a new login: an existing session's generation is counted on and its spent tokens are kept.
  func add(_ session: Int) {
    acquireLock(session, until: world.now + .seconds(20)) { [self] holder, _ in
      guard let holder else { return }
      let existing = world.directories[session].record
      let login = world.signIn(
        session, generation: (existing?.generation ?? 0) + 1, spent: existing?.spent ?? [])
      world.note("session \(session) is signed in anew, generation \(login.generation)")
      put(login, session) { [self] fault in
        if fault == nil { world.promised[session] = login }
        releaseLock(session, holder) {}
      }
    }
  }

  /// Stores that a fenced session has ended by a 401.
  func saveEnd(_ session: Int, _ record: SessionRecord?) {
    guard let record, case .dead = record.standing, let rejected = entries[session].ledger.rejected else {
      return
    }
    guard world.locks[session] == nil else { return }
    acquireLock(session, until: world.now) { [self] holder, _ in
      guard let holder else { return }
      guard let stored = world.directories[session].record else { return releaseLock(session, holder) {} }
      let next = stored.afterRejection(generation: rejected, now: world.wallNow)
      guard next != stored else { return releaseLock(session, holder) {} }
      world.judge(.rewrites(old: stored, new: next, row: nil, isRejection: true, now: world.wallNow))
      put(next, session) { [self] _ in releaseLock(session, holder) {} }
    }
  }
}
