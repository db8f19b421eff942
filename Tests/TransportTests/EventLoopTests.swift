import Chronology
import Dispatch
import Glibc
import Testing
import Transport

/// Notes what its loop tells it. Its own state is touched on the loop's queue only.
private final class Recorder: LoopMember, @unchecked Sendable {
  enum Call: Equatable, Sendable {
    case ready(String, Readiness)
    case deadline(String)
    case released(String)
    case sends(String)
  }

  let name: String
  let calls: Inbox<Call>
  var token = MemberToken.unassigned
  var onReady: (Readiness) -> Void = { _ in }
  var onDeadline: () -> Void = {}
  var onSend: () -> Void = {}

  init(_ name: String, _ calls: Inbox<Call>) {
    self.name = name
    self.calls = calls
  }

  deinit { calls.put(.released(name)) }

  func ready(_ readiness: Readiness) {
    calls.put(.ready(name, readiness))
    onReady(readiness)
  }

  func sendNow() {
    calls.put(.sends(name))
    onSend()
  }

  func deadlinePassed() {
    calls.put(.deadline(name))
    onDeadline()
  }
}

private typealias Calls = Inbox<Recorder.Call>

@Suite("Event loop: deadlines") struct EventLoopDeadlineTests {
  private let running: RunningLoop
  private let calls = Calls()

  init() throws { running = try RunningLoop() }

  /// Enrolls a member per name, sets what `schedule` says, waits until all of it has passed; the names in the
  /// order they were called.
  private func fired(
    _ names: [String], _ schedule: @escaping @Sendable (EventLoop, [String: MemberToken]) -> Void
  ) throws -> [String] {
    let members = names.map { Recorder($0, calls) }
    try running.run { loop in
      var tokens: [String: MemberToken] = [:]
      for member in members {
        member.token = loop.enroll(member)
        tokens[member.name] = member.token
      }
      schedule(loop, tokens)
    }
    try running.settle()
    return calls.all.compactMap { call in
      if case .deadline(let name) = call { return name }
      return nil
    }
  }

  private static func at(_ nanoseconds: UInt64) -> Instant { Instant(nanoseconds: nanoseconds) }

  @Test("fire once each, the earliest first, whatever the order they were set in")
  func order() throws {
    let order = try fired(["a", "b", "c", "d"]) { loop, tokens in
      for (name, instant) in [("c", 30), ("a", 10), ("d", 40), ("b", 20)] as [(String, UInt64)] {
        if let token = tokens[name] { loop.setDeadline(Self.at(instant), for: token) }
      }
    }
    #expect(order == ["a", "b", "c", "d"])
  }

  @Test("one in the future fires when its time comes, not before another that is due")
  func future() throws {
    let members = ["late", "due"].map { Recorder($0, calls) }
    try running.run { loop in
      for member in members { member.token = loop.enroll(member) }
      loop.setDeadline(loop.now + .milliseconds(20), for: members[0].token)
      loop.setDeadline(loop.now, for: members[1].token)
    }
    #expect(try calls.next(2) == [.deadline("due"), .deadline("late")])
  }

  @Test("moved later: only the last instant counts")
  func movedLater() throws {
    let order = try fired(["a", "b"]) { loop, tokens in
      guard let a = tokens["a"], let b = tokens["b"] else { return }
      loop.setDeadline(Self.at(10), for: a)
      loop.setDeadline(Self.at(20), for: b)
      loop.setDeadline(Self.at(30), for: a)
    }
    // Both are due; each is called once.
    #expect(order.sorted() == ["a", "b"])
  }

  @Test("moved later while it waits, it does not fire at the first instant")
  func movedLaterInTheFuture() throws {
    let member = Recorder("a", calls)
    let witness = Recorder("witness", calls)
    try running.run { loop in
      member.token = loop.enroll(member)
      witness.token = loop.enroll(witness)
      loop.setDeadline(loop.now + .milliseconds(5), for: member.token)
      loop.setDeadline(loop.now + .milliseconds(10), for: witness.token)
      loop.setDeadline(loop.now + .seconds(1000), for: member.token)
    }
    #expect(try calls.next() == .deadline("witness"))
    // And earlier again.
    try running.run { $0.setDeadline($0.now + .milliseconds(1), for: member.token) }
    #expect(try calls.next() == .deadline("a"))
  }

  @Test("moved earlier: fires at the earlier one, once")
  func movedEarlier() throws {
    let order = try fired(["a", "b"]) { loop, tokens in
      guard let a = tokens["a"], let b = tokens["b"] else { return }
      loop.setDeadline(Self.at(30), for: a)
      loop.setDeadline(Self.at(20), for: b)
      loop.setDeadline(Self.at(10), for: a)
    }
    #expect(order == ["a", "b"])
  }

  @Test("never ends it, and it can be set again")
  func never() throws {
    let order = try fired(["a", "b"]) { loop, tokens in
      guard let a = tokens["a"], let b = tokens["b"] else { return }
      loop.setDeadline(Self.at(10), for: a)
      loop.setDeadline(.never, for: a)
      loop.setDeadline(Self.at(20), for: b)
      loop.setDeadline(.never, for: b)
      loop.setDeadline(Self.at(30), for: b)
    }
    #expect(order == ["b"])
  }

  @Test("set from inside the call, it fires again")
  func again() throws {
    let member = Recorder("a", calls)
    try running.run { loop in
      member.token = loop.enroll(member)
      var left = 3
      member.onDeadline = { [unowned member] in
        left -= 1
        if left > 0 { loop.setDeadline(loop.now + .microseconds(100), for: member.token) }
      }
      loop.setDeadline(loop.now, for: member.token)
    }
    #expect(try calls.next(3) == Array(repeating: .deadline("a"), count: 3))
    try running.settle()
    #expect(calls.all.count == 3)
  }

  @Test("of a member that was dismissed, by itself or by another, none fires")
  func dismissed() throws {
    let first = Recorder("first", calls)
    let second = Recorder("second", calls)
    try running.run { loop in
      first.token = loop.enroll(first)
      second.token = loop.enroll(second)
      first.onDeadline = { [unowned first, unowned second] in
        loop.dismiss(second.token)
        loop.setDeadline(loop.now, for: first.token)
        loop.dismiss(first.token)
      }
      loop.setDeadline(Self.at(10), for: first.token)
      loop.setDeadline(Self.at(20), for: second.token)
    }
    try running.settle()
    #expect(
      calls.all.filter { $0 != .released("first") && $0 != .released("second") } == [.deadline("first")])
    #expect(try running.run { $0.memberCount } == 0)
  }

  /// Method: thousands of random settings on a few members, against the last one of each.
  @Test("random settings: each member fires once or not at all, in the order of the last settings")
  func random() throws {
    let names = (0..<50).map { "m\($0)" }
    let expected = Inbox<[String]>()
    let order = try fired(names) { loop, tokens in
      var generator = SystemRandomNumberGenerator()
      var last: [String: UInt64] = [:]
      var used = Set<UInt64>()
      for _ in 0..<5000 {
        let name = names[Int.random(in: 0..<names.count, using: &generator)]
        guard let token = tokens[name] else { continue }
        if Int.random(in: 0..<10, using: &generator) == 0 {
          loop.setDeadline(.never, for: token)
          last[name] = nil
          continue
        }
        let instant = UInt64.random(in: 1...1_000_000_000, using: &generator)
        if !used.insert(instant).inserted { continue }
        loop.setDeadline(Self.at(instant), for: token)
        last[name] = instant
      }
      expected.put(last.keys.sorted())
    }
    #expect(order.sorted() == (try expected.next()))
  }
}

@Suite("Event loop: readiness") struct EventLoopReadinessTests {
  private let running: RunningLoop
  private let calls = Calls()

  init() throws { running = try RunningLoop() }

  private func watched(_ name: String) throws -> (member: Recorder, far: Int32) {
    let (near, far) = try socketPair()
    let member = Recorder(name, calls)
    try running.run { loop in
      member.token = loop.enroll(member)
      try loop.watch(near, for: member.token)
    }
    return (member, far)
  }

  /// The next readiness that says more than "writable".
  private func nextReadable() throws -> (String, Readiness) {
    while true {
      if case .ready(let name, let readiness) = try calls.next(), readiness != .writable {
        return (name, readiness)
      }
    }
  }

  @Test("writable at first, readable with data, peer's shutdown with FIN")
  func edges() throws {
    let (_, far) = try watched("a")
    #expect(try calls.next() == .ready("a", .writable))
    writeAll(far, [1])
    #expect(try nextReadable().1.contains(.readable))
    shutdown(far, Int32(SHUT_WR))
    #expect(try nextReadable().1.isSuperset(of: [.readable, .peerShutdown]))
    close(far)
    #expect(try nextReadable().1.contains(.hangup))
  }

  @Test("each member hears of its own descriptor")
  func separate() throws {
    let (_, farA) = try watched("a")
    let (_, farB) = try watched("b")
    writeAll(farB, [1])
    #expect(try nextReadable().0 == "b")
    writeAll(farA, [1])
    #expect(try nextReadable().0 == "a")
    close(farA)
    close(farB)
  }

  @Test("a member that was dismissed in the same batch is not called any more")
  func dismissedInBatch() throws {
    let (first, farA) = try watched("a")
    let (second, farB) = try watched("b")
    _ = try calls.next(2)
    try running.run { loop in
      for (member, other) in [(first, second), (second, first)] {
        member.onReady = { [unowned other] _ in loop.dismiss(other.token) }
      }
      // Both edges stand when the loop looks next.
      writeAll(farA, [1])
      writeAll(farB, [1])
    }
    try running.settle()
    #expect(
      calls.all.count { if case .ready(_, let readiness) = $0 { readiness != .writable } else { false } } == 1
    )
    #expect(try running.run { $0.memberCount } == 1)
  }

  @Test("Members that come and go leave no deadlines behind, however many there were")
  func deadlinesOfPlaces() throws {
    let member = Recorder("one of many", calls)
    let count = try running.run { loop in
      for index in 0..<10_000 {
        let token = loop.enroll(member)
        loop.setDeadline(loop.now + .seconds(60 + Int64(index)), for: token)
        loop.dismiss(token)
      }
      return loop.deadlineCount
    }
    #expect(count <= 1)
  }

  @Test("a slot's next occupant hears nothing of the descriptor, the deadline and the token of the last one")
  func slotReuse() throws {
    let (old, far) = try watched("old")
    _ = try calls.next()
    let new = Recorder("new", calls)
    let intruder = Recorder("intruder", calls)
    try running.run { loop in
      loop.setDeadline(Instant(nanoseconds: 1), for: old.token)
      loop.dismiss(old.token)
      new.token = loop.enroll(new)
      #expect(new.token != old.token)
      loop.setDeadline(Instant(nanoseconds: 1), for: old.token)
      loop.again(old.token)
      loop.transfer(old.token, to: intruder)
      loop.dismiss(old.token)
      #expect(loop.memberCount == 1)
      // The old descriptor is still open and watched.
      writeAll(far, [1])
    }
    try running.settle()
    #expect(calls.all == [.ready("old", .writable)])
    try running.run { $0.setDeadline($0.now, for: new.token) }
    #expect(try calls.next() == .deadline("new"))
    close(far)
  }

  @Test("a place handed over keeps its descriptor and deadline for the new member, and lets the old one go")
  func transfer() throws {
    let (near, far) = try socketPair()
    let heir = Recorder("heir", calls)
    try running.run { loop in
      let owner = Recorder("owner", self.calls)
      let token = loop.enroll(owner)
      try loop.watch(near, for: token)
      loop.setDeadline(loop.now, for: token)
      loop.transfer(token, to: heir)
    }
    #expect(try calls.next() == .released("owner"))
    let heard = try calls.next(2)
    #expect(heard.contains(.deadline("heir")) && heard.contains(.ready("heir", .writable)))
    writeAll(far, [1])
    #expect(try nextReadable().0 == "heir")
    close(far)
  }

  @Test("again calls with nothing new after the others, once however often it is asked for, never after dismissal")
  func again() throws {
    let postponed = Recorder("postponed", calls)
    let gone = Recorder("gone", calls)
    try running.run { loop in
      postponed.token = loop.enroll(postponed)
      gone.token = loop.enroll(gone)
      for _ in 0..<3 { loop.again(postponed.token) }
      loop.again(gone.token)
      loop.dismiss(gone.token)
    }
    #expect(try calls.next() == .ready("postponed", []))
    try running.settle()
    #expect(calls.all.count { $0 == .ready("postponed", []) } == 1)
    try running.run { $0.again(postponed.token) }
    try running.settle()
    #expect(calls.all.count { $0 == .ready("postponed", []) } == 2)
    #expect(!calls.all.contains(.ready("gone", [])))
  }

  private func sends(in heard: [Recorder.Call]) -> Int { heard.count { if case .sends = $0 { true } else { false } } }

  /// Members whose descriptors all have an event when the loop looks next, each acting as `onReady` says when it comes.
  private func crowd(
    of count: Int, _ onReady: @escaping @Sendable (Recorder, EventLoop, [Recorder]) -> Void
  ) throws -> [Recorder.Call] {
    let pairs = try (0..<count).map { try watched("m\($0)") }
    let members = pairs.map { $0.member }
    _ = try calls.next(count)
    try running.run { loop in
      for member in members {
        member.onReady = { [unowned member] _ in onReady(member, loop, members) }
      }
      for (_, far) in pairs { writeAll(far, [1]) }
    }
    try running.settle()
    let heard = calls.all.filter { if case .ready(_, .writable) = $0 { false } else { true } }
    // Their ends are events too.
    for (_, far) in pairs { close(far) }
    return heard
  }

  @Test("what is put off is sent when all that came together have been served, in their order, each once")
  func sendsLater() throws {
    let heard = try crowd(of: 5) { member, loop, _ in
      #expect(loop.sendsLater(member.token))
      member.onReady = { _ in }
    }
    let names = (0..<5).map { "m\($0)" }
    let served = heard.prefix(5).compactMap { if case .ready(let name, _) = $0 { name } else { nil } }
    #expect(served.sorted() == names)
    #expect(Array(heard.dropFirst(5).prefix(5)) == served.map { .sends($0) })
    #expect(sends(in: heard) == 5)
  }

  @Test("in a large crowd the first do not wait for the last")
  func sendsLaterInParts() throws {
    let heard = try crowd(of: 40) { member, loop, _ in
      #expect(loop.sendsLater(member.token))
      member.onReady = { _ in }
    }
    let firstSend = try #require(heard.firstIndex { if case .sends = $0 { true } else { false } })
    #expect((1..<40).contains(firstSend))
    #expect(sends(in: heard) == 40)
  }

  @Test("who works long lets the others send first; who was dismissed does not send")
  func sendGathered() throws {
    let heard = try crowd(of: 3) { first, loop, members in
      for member in members {
        member.onReady = { _ in }
        #expect(loop.sendsLater(member.token))
      }
      let others = members.filter { $0.token != first.token }
      loop.dismiss(others[0].token)
      loop.sendGathered()
    }
    let served = heard.compactMap { if case .ready(let name, _) = $0 { name } else { nil } }
    #expect(served.count == 2)
    let sent = served.sorted().map { Recorder.Call.sends($0) }
    #expect(Array(heard[1...2]) == sent)
    #expect(sends(in: heard) == 2)
  }

  @Test("the first to be served can ask what has come for the others; who has been served has nothing to be told")
  func announced() throws {
    let asked = Inbox<[Bool]>()
    _ = try crowd(of: 3) { member, loop, members in
      asked.put(members.map { loop.announced(to: $0.token).contains(.readable) })
      let gone = members.last { $0.token != member.token }!
      if loop.announced(to: gone.token) != [] {
        loop.dismiss(gone.token)
        #expect(loop.announced(to: gone.token) == [])
      }
    }
    let answers = try asked.next(2)
    #expect(answers[0].count { $0 } == 2)
    #expect(answers[1].count { $0 } == 0)
  }

  /// One whose sending fails would put it off without end, and the loop with it.
  @Test("who is sending, or made to send by another, puts nothing off")
  func sendsAtOnceWhileSending() throws {
    let asked = Inbox<Bool>()
    _ = try crowd(of: 3) { member, loop, members in
      member.onReady = { _ in }
      #expect(loop.sendsLater(member.token))
      var count = 0
      member.onSend = {
        count += 1
        if count <= 2 { for other in members { asked.put(loop.sendsLater(other.token)) } }
      }
    }
    #expect(try asked.next(9) == Array(repeating: false, count: 9))
    #expect(sends(in: calls.all) == 3)
  }

  @Test("alone, or outside of events, nothing is put off")
  func sendsAtOnce() throws {
    let (member, far) = try watched("a")
    _ = try calls.next()
    let asked = Inbox<Bool>()
    try running.run { loop in
      asked.put(loop.sendsLater(member.token))
      member.onReady = { [unowned member] _ in asked.put(loop.sendsLater(member.token)) }
      member.onDeadline = { [unowned member] in asked.put(loop.sendsLater(member.token)) }
      writeAll(far, [1])
    }
    #expect(try asked.next(2) == [false, false])
    try running.run { $0.setDeadline($0.now, for: member.token) }
    #expect(try asked.next() == false)
    try running.settle()
    #expect(!calls.all.contains(.sends("a")))
    close(far)
  }

  @Test("a member that always wants to go on starves neither posted work nor deadlines")
  func fairness() throws {
    let greedy = Greedy()
    try running.run { loop in
      greedy.loop = loop
      greedy.token = loop.enroll(greedy)
      loop.again(greedy.token)
    }
    try running.settle()
    try running.run { $0.dismiss(greedy.token) }
    #expect(try running.run { _ in greedy.count } > 0)
  }

  private final class Greedy: LoopMember, @unchecked Sendable {
    var token = MemberToken.unassigned
    var count = 0
    unowned var loop: EventLoop?
    func ready(_ readiness: Readiness) {
      count += 1
      loop?.again(token)
    }
    func deadlinePassed() {}
  }

  @Test("posted work runs on the loop's queue, in order, with a time that does not go back")
  func post() throws {
    let order = Inbox<(Int, Instant)>()
    for number in 0..<100 {
      running.loop.post { [loop = running.loop] in
        dispatchPrecondition(condition: .onQueue(loop.queue))
        order.put((number, loop.now))
      }
    }
    let heard = try order.next(100)
    #expect(heard.map(\.0) == Array(0..<100))
    #expect(zip(heard, heard.dropFirst()).allSatisfy { $0.1 <= $1.1 })
  }

  @Test("performed work runs on the loop's queue at once, at the present time, and its deadlines fire")
  func perform() throws {
    let member = Recorder("a", calls)
    let before = running.loop.perform { running.loop.now }
    let isLater = running.loop.perform { () -> Bool in
      let loop = running.loop
      dispatchPrecondition(condition: .onQueue(loop.queue))
      member.token = loop.enroll(member)
      loop.setDeadline(loop.now, for: member.token)
      return loop.now > before
    }
    #expect(isLater)
    #expect(try calls.next() == .deadline("a"))
    struct Refused: Error {}
    #expect(throws: Refused.self) { try running.loop.perform { throw Refused() } }
  }

  @Test("stopping releases the members and calls none")
  func stop() throws {
    let (near, far) = try socketPair()
    do {
      let member = Recorder("a", calls)
      try running.run { loop in
        member.token = loop.enroll(member)
        try loop.watch(near, for: member.token)
      }
      _ = try calls.next()
    }
    running.loop.stop()
    #expect(try calls.next() == .released("a"))
    writeAll(far, [1])
    #expect(try running.run { $0.memberCount } == 0)
    #expect(calls.all.count == 2)
    close(near)
    close(far)
  }

  @Test("a token of nobody does nothing")
  func unassigned() throws {
    try running.run { loop in
      loop.setDeadline(loop.now, for: .unassigned)
      loop.again(.unassigned)
      loop.dismiss(.unassigned)
    }
    try running.settle()
    #expect(try running.run { $0.memberCount } == 0)
  }
}
