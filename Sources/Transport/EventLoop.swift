import CLinux
public import Chronology
public import Dispatch
import Glibc
import Synchronization

/// What the kernel said of a descriptor, edge-triggered (epoll(7)).
public struct Readiness: OptionSet, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let readable = Readiness(rawValue: bearerd_EPOLLIN)
  public static let writable = Readiness(rawValue: bearerd_EPOLLOUT)
  /// The peer has shut its writing side down: data and FIN can arrive as one event, so read to the end.
  public static let peerShutdown = Readiness(rawValue: bearerd_EPOLLRDHUP)
  public static let hangup = Readiness(rawValue: bearerd_EPOLLHUP)
  public static let error = Readiness(rawValue: bearerd_EPOLLERR)
}

/// Something a loop wakes: it owns a descriptor, a deadline, or both.
///
/// Called on the loop's queue only. The loop holds it strongly from `enroll` until `dismiss`.
public protocol LoopMember: AnyObject {
  func ready(_ readiness: Readiness)
  /// Once for each `sendsLater` that was granted, in the same turn.
  func sendNow()
  func deadlinePassed()
}

extension LoopMember {
  public func sendNow() {}
}

/// A serial queue, and an epoll set that one dispatch source on that queue watches.
///
/// Everything a loop owns is touched on its queue alone, so the request path has no lock. Readiness comes in
/// batches: a dispatch source per descriptor costs 26 µs of CPU per small proxied request, this 10.8, a bare
/// epoll loop 10.2 (measured, 64 connections). Descriptors are registered once: connections edge-triggered, listeners not.
public final class EventLoop: @unchecked Sendable {
  public let index: Int
  public let queue: DispatchQueue

  /// Read once per turn; not the time of this very instruction.
  public private(set) var now: Instant

  public let buffers: BufferPool
  public let pipes = PipePool()

  private let epollDescriptor: Descriptor
  private let timerDescriptor: Descriptor
  private let wakeDescriptor: Descriptor
  /// Work posted and not yet begun. With `isLingering` it makes a handshake: whoever posts counts first and looks at
  /// the flag then, the loop raises the flag first and looks at the count then, so one of them sees the other.
  private let postedCount = Atomic<Int>(0)
  private let isLingering = Atomic<Bool>(false)
  private let source: any DispatchSourceRead
  /// As the source's `isCancelled`, which is asked for through dispatch and counts references, each turn.
  private let isStopped = Atomic<Bool>(false)
  private let events: UnsafeMutablePointer<bearerd_ready>
  private var members: [Member] = []
  private var freeIndices: [UInt32] = []
  private var deadlines = DeadlineHeap<MemberToken>()
  private var timerArmedFor = Instant.never
  private var turnBegan: Instant
  /// From the beginning of the turn before this one to its own, what it waited for events included.
  public private(set) var turnInterval = Interval.zero
  private var postponed: [MemberToken] = []
  private var resumed: [MemberToken] = []
  /// Several events came together, and are being served.
  private var isGathering = false
  /// Members that are to send once those served with them have been.
  private var gathered: [MemberToken] = []

  private struct Member {
    var occupant: (any LoopMember)?
    var generation: UInt32 = 0
    /// What came in this turn and `ready` has yet to tell.
    var announced: Readiness = []
    /// It has a place among those whose turn comes again.
    var isPostponed = false
    var deadline = Instant.never
    /// The earliest heap entry of this place, whoever had it then; a later deadline waits for it and is then entered
    /// again. So the heap grows with the places, not with the connections that have come and gone.
    var entered = Instant.never
  }

  private static let timerToken = UInt64.max
  private static let wakeToken = UInt64.max - 1
  /// The first have waited long enough by then, and the buffers that wait stay in the caches: at 512 connections 32 were
  /// a little better than 8 or 128 (measured by turns).
  private static let gatheredMax = 32

  /// Throws where the kernel has no descriptor left.
  public init(index: Int, buffers: BufferPool = BufferPool()) throws(SocketFault) {
    self.index = index
    self.buffers = buffers
    queue = DispatchQueue(label: "bearerd.loop.\(index)", qos: .userInitiated, autoreleaseFrequency: .never)
    epollDescriptor = Descriptor(try checked(bearerd_epoll_create(), "epoll_create1"))
    timerDescriptor = Descriptor(try checked(bearerd_timerfd(), "timerfd_create"))
    wakeDescriptor = Descriptor(try checked(bearerd_eventfd(), "eventfd"))
    now = Instant(nanoseconds: bearerd_boottime())
    turnBegan = now
    events = .allocate(capacity: Int(BEARERD_READY_MAX))
    _ = try checked(
      bearerd_epoll_add(epollDescriptor.raw, timerDescriptor.raw, bearerd_EPOLLIN, Self.timerToken), "epoll_ctl")
    _ = try checked(
      bearerd_epoll_add(epollDescriptor.raw, wakeDescriptor.raw, bearerd_EPOLLIN, Self.wakeToken), "epoll_ctl")
    source = DispatchSource.makeReadSource(fileDescriptor: epollDescriptor.raw, queue: queue)
    source.setEventHandler { [unowned self] in turn() }
    source.activate()
  }

  /// A loop is ended by `stop` before its last reference goes.
  deinit { events.deallocate() }

  /// Ends the watching; no member is called after the queue's present work. Members are released.
  public func stop() {
    isStopped.store(true, ordering: .releasing)
    source.setCancelHandler { [self] in
      members.removeAll()
      freeIndices.removeAll()
    }
    source.cancel()
    // One that lingers must come back to its queue.
    announce()
    queue.async { [self] in postedCount.subtract(1, ordering: .sequentiallyConsistent) }
  }

  /// Runs `work` on the loop's queue, from anywhere.
  public func post(_ work: @escaping @Sendable () -> Void) {
    announce()
    queue.async { [self] in
      postedCount.subtract(1, ordering: .sequentiallyConsistent)
      now = Instant(nanoseconds: bearerd_boottime())
      work()
      armTimer()
      turn()
    }
  }

  /// Runs `work` on the loop's queue and waits for it; never from the queue itself.
  public func perform<Result>(_ work: () throws -> Result) rethrows -> Result {
    announce()
    return try queue.sync {
      postedCount.subtract(1, ordering: .sequentiallyConsistent)
      now = Instant(nanoseconds: bearerd_boottime())
      defer {
        armTimer()
        // The set may be silent while work is left over.
        if !postponed.isEmpty { queue.async { [self] in turn() } }
      }
      return try work()
    }
  }

  /// A loop that lingers does not see its queue.
  private func announce() {
    postedCount.add(1, ordering: .sequentiallyConsistent)
    if isLingering.load(ordering: .sequentiallyConsistent) {
      var one: UInt64 = 1
      _ = Glibc.write(wakeDescriptor.raw, &one, 8)
    }
  }

  // MARK: members

  /// A place for `member`, without a descriptor yet. Slots are reused; their generation tells old events apart.
  public func enroll(_ member: any LoopMember) -> MemberToken {
    if let index = freeIndices.popLast() {
      members[Int(index)].occupant = member
      members[Int(index)].deadline = .never
      return MemberToken(index: index, generation: members[Int(index)].generation)
    }
    members.append(Member(occupant: member))
    return MemberToken(index: UInt32(members.count - 1), generation: 0)
  }

  /// Watches `descriptor` for `token`'s member until the descriptor is closed.
  public func watch(_ descriptor: Int32, for token: MemberToken) throws(SocketFault) {
    try watch(descriptor, bearerd_EPOLLIN | bearerd_EPOLLOUT | bearerd_EPOLLRDHUP | bearerd_EPOLLET, token)
  }

  /// As `watch`, for a listening socket: its member is told in each turn, as long as a connection waits.
  ///
  /// Who is told once has to look until nothing is left, and accept(2) makes a socket before it looks: a look in vain
  /// for every second connection was 3 % of the CPU of a small request with its connection (measured by turns).
  public func watchListener(_ descriptor: Int32, for token: MemberToken) throws(SocketFault) {
    try watch(descriptor, bearerd_EPOLLIN, token)
  }

  private func watch(_ descriptor: Int32, _ interest: UInt32, _ token: MemberToken) throws(SocketFault) {
    _ = try checked(bearerd_epoll_add(epollDescriptor.raw, descriptor, interest, token.packed), "epoll_ctl")
  }

  /// Ends the watching of a descriptor that stays open, here or in another process that shares it.
  public func unwatch(_ descriptor: Int32) { _ = bearerd_epoll_remove(epollDescriptor.raw, descriptor) }

  /// The same place and descriptor for another member, as when a connector hands a connection over.
  public func transfer(_ token: MemberToken, to member: any LoopMember) {
    guard isCurrent(token) else { return }
    members[Int(token.index)].occupant = member
  }

  /// Forgets the member; events already fetched for it are dropped. Close its descriptor too.
  public func dismiss(_ token: MemberToken) {
    guard isCurrent(token) else { return }
    members[Int(token.index)].occupant = nil
    members[Int(token.index)].generation &+= 1
    members[Int(token.index)].announced = []
    members[Int(token.index)].isPostponed = false
    members[Int(token.index)].deadline = .never
    freeIndices.append(token.index)
  }

  /// Calls the member's `deadlinePassed` at or soon after `deadline`; each call replaces the one before, `never` ends it.
  ///
  /// Moving a deadline later costs nothing: a request that sets one for each of its phases makes no system call.
  public func setDeadline(_ deadline: Instant, for token: MemberToken) {
    guard isCurrent(token) else { return }
    let index = Int(token.index)
    members[index].deadline = deadline
    if deadline < members[index].entered {
      members[index].entered = deadline
      deadlines.insert(deadline, token)
    }
  }

  /// What has come for a member in this turn and its `ready` has yet to tell: for who makes use of it before.
  public func announced(to token: MemberToken) -> Readiness {
    isCurrent(token) ? members[Int(token.index)].announced : []
  }

  /// Calls the member's `ready` with nothing new once others have had their turn: for work cut off for fairness,
  /// because an edge that was not drained does not come again. However often it is asked for, it is one call.
  public func again(_ token: MemberToken) {
    guard isCurrent(token), !members[Int(token.index)].isPostponed else { return }
    members[Int(token.index)].isPostponed = true
    postponed.append(token)
  }

  /// Whether the member's `sendNow` will be called in this turn, when others that have an event have been served too;
  /// false: nothing else is at hand, so it sends now.
  ///
  /// What is sent in a row finds the kernel's code in the caches, and whoever it wakes does not run in between: small
  /// requests at 64 connections cost an eighth less CPU, and a third of the changes of context (measured by turns).
  public func sendsLater(_ token: MemberToken) -> Bool {
    guard isGathering else { return false }
    gathered.append(token)
    return true
  }

  /// Lets those send who wait for it, before work that takes long.
  public func sendGathered() {
    guard isGathering, !gathered.isEmpty else { return }
    // Who fails to send, and is served for it, puts nothing off: it might again, without end.
    isGathering = false
    for token in gathered where isCurrent(token) { members[Int(token.index)].occupant?.sendNow() }
    gathered.removeAll(keepingCapacity: true)
    isGathering = true
  }

  public var memberCount: Int { members.count - freeIndices.count }
  /// Deadlines remembered, those that nobody waits for any more among them.
  public var deadlineCount: Int { deadlines.count }

  private func isCurrent(_ token: MemberToken) -> Bool {
    token.index < members.count && members[Int(token.index)].generation == token.generation
      && members[Int(token.index)].occupant != nil
  }

  // MARK: a turn

  /// Serves events until somebody else wants the queue.
  private func turn() {
    while !isStopped.load(ordering: .acquiring) {
      // Who has work left over does not wait.
      let count = postponed.isEmpty ? linger() : bearerd_epoll_wait(epollDescriptor.raw, events, 0)
      now = Instant(nanoseconds: bearerd_boottime())
      turnInterval = now.since(turnBegan)
      turnBegan = now
      if count > 1 { for position in 0..<Int(count) { announce(events[position]) } }
      serve(events, count: max(0, Int(count)))
      resumePostponed()
      fireDeadlines()
      armTimer()
      if postedCount.load(ordering: .sequentiallyConsistent) > 0 { return }
    }
  }

  /// Waits for events; where somebody else wants the queue, only looks.
  ///
  /// The queue is handed back only to whom posts: at one connection a hand-over costs more than the request (measured:
  /// 44 → 27 µs of CPU), and a wait with an end arms and disarms a timer of the kernel's each time.
  private func linger() -> Int32 {
    isLingering.store(true, ordering: .sequentiallyConsistent)
    // Who still sees it raised wakes the loop for nothing, no more.
    defer { isLingering.store(false, ordering: .releasing) }
    let isWanted = postedCount.load(ordering: .sequentiallyConsistent) > 0
    return bearerd_epoll_wait(epollDescriptor.raw, events, isWanted ? 0 : -1)
  }

  private func serve(_ events: UnsafeMutablePointer<bearerd_ready>, count: Int) {
    isGathering = count > 1
    for position in 0..<count {
      deliver(events[position])
      if gathered.count >= Self.gatheredMax { sendGathered() }
    }
    sendGathered()
    isGathering = false
  }

  private func resumePostponed() {
    if postponed.isEmpty { return }
    swap(&postponed, &resumed)
    for token in resumed where isCurrent(token) {
      members[Int(token.index)].isPostponed = false
      members[Int(token.index)].occupant?.ready([])
    }
    resumed.removeAll(keepingCapacity: true)
  }

  private func announce(_ event: bearerd_ready) {
    let token = MemberToken(packed: event.data)
    if isCurrent(token) { members[Int(token.index)].announced = Readiness(rawValue: event.events) }
  }

  private func deliver(_ event: bearerd_ready) {
    if event.data == Self.timerToken {
      var expirations: UInt64 = 0
      _ = Glibc.read(timerDescriptor.raw, &expirations, 8)
      timerArmedFor = .never
      return
    }
    if event.data == Self.wakeToken {
      var count: UInt64 = 0
      _ = Glibc.read(wakeDescriptor.raw, &count, 8)
      return
    }
    let token = MemberToken(packed: event.data)
    guard isCurrent(token), let member = members[Int(token.index)].occupant else { return }
    members[Int(token.index)].announced = []
    member.ready(Readiness(rawValue: event.events))
  }

  private func fireDeadlines() {
    while let (instant, token) = deadlines.first, instant <= now {
      deadlines.removeFirst()
      let index = Int(token.index)
      guard members[index].entered == instant else { continue }
      members[index].entered = .never
      guard members[index].occupant != nil else { continue }
      let deadline = members[index].deadline
      if deadline > now {
        if deadline != .never {
          members[index].entered = deadline
          deadlines.insert(deadline, token)
        }
      } else {
        members[index].deadline = .never
        members[index].occupant?.deadlinePassed()
      }
    }
  }

  private func armTimer() {
    guard let (instant, _) = deadlines.first, instant < timerArmedFor else { return }
    timerArmedFor = instant
    // An instant already past must still fire: 0 would disarm.
    _ = bearerd_timerfd_arm(timerDescriptor.raw, max(1, instant.nanoseconds))
  }
}

/// A member's place in its loop.
public struct MemberToken: Hashable, Sendable {
  var index: UInt32
  var generation: UInt32

  /// Belongs to nobody: every call with it does nothing.
  public static let unassigned = MemberToken(index: .max, generation: .max)

  init(index: UInt32, generation: UInt32) {
    self.index = index
    self.generation = generation
  }

  init(packed: UInt64) {
    index = UInt32(truncatingIfNeeded: packed)
    generation = UInt32(truncatingIfNeeded: packed >> 32)
  }

  var packed: UInt64 { UInt64(index) | UInt64(generation) << 32 }
}

/// A value that belongs to a loop and may travel through closures, but is opened on that loop's queue only.
public struct LoopBound<Value>: @unchecked Sendable {
  private let value: Value
  private let loop: EventLoop

  public init(_ value: Value, on loop: EventLoop) {
    self.value = value
    self.loop = loop
  }

  /// Traps off the loop's queue: that would be a race.
  public var onLoop: Value {
    dispatchPrecondition(condition: .onQueue(loop.queue))
    return value
  }
}
