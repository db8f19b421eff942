import Chronology
import Configuration
import HTTP2Framing
import HTTPSyntax
import ProxyCore
import Transport

/// One client's HTTP/1.x connection: reads heads, gives each request to an exchange, and takes the answers in order.
///
/// Loop-owned; an idle one holds no buffer, no head table and no exchange.
final class ClientConnection: LoopMember {
  let wire: HTTP1Wire
  let worker: Worker
  /// The wire's and the worker's: objects two steps away are retained for each call.
  private let channel: Channel
  private let loop: EventLoop
  let isTCP: Bool
  /// From a listener beyond loopback: each request must say which client it comes from, whatever is configured now.
  let isRemote: Bool
  /// Beyond the limit of connections: its first request is answered 503.
  private let isSurplus: Bool
  private(set) var token = MemberToken.unassigned
  private var state = State.idle
  /// While a request is read or served.
  private var run: ExchangeRun?
  /// Where the head's bytes stand: a buffer of its own if a body follows, else the front of `wire.input`.
  private var detachedHead = ByteBuffer()
  private(set) var headBytes = 0
  /// The session a pool has picked for this connection; nil until it has.
  var pooledSlot: (upstream: Int, slot: Int)?

  private enum State {
    /// No byte of a request is here; ends by one, by the peer or by the idle time-out.
    case idle
    /// Part of a head is here.
    case readingHead
    case serving
    /// The last response is being written, as fast as the client takes it.
    case ending
    /// The last response has been written; what still comes is discarded, so that the client can read the response
    /// before a reset (RFC 9112 §9.6).
    case lingering(until: Instant)
    case closed
  }

  private static let requestsPerTurn = 32

  /// RFC 9112 §9.6 asks for some time; a client that still uploads must see the answer. Again and again, up to
  /// `write_stalled`, for one that has yet to take some of it from the kernel.
  private static let lingerTime = Interval.seconds(2)

  /// How long a connection beyond the limit may wait with its request.
  private static let surplusTime = Interval.seconds(1)

  init(_ channel: Channel, worker: Worker, isTCP: Bool, isRemote: Bool, isSurplus: Bool) {
    wire = HTTP1Wire(channel, buffers: worker.loop.buffers)
    self.worker = worker
    self.channel = channel
    loop = worker.loop
    self.isTCP = isTCP
    self.isRemote = isRemote
    self.isSurplus = isSurplus
  }

  func start() {
    token = loop.enroll(self)
    do throws(SocketFault) {
      try loop.watch(channel.descriptor, for: token)
      worker.clientOpened(self)
      setDeadline(after: isSurplus ? Self.surplusTime : worker.timeouts.clientIdle)
    } catch {
      close()
    }
  }

  var isIdle: Bool {
    if case .idle = state { return true }
    return false
  }

  /// The daemon drains: an idle connection closes now, a busy one after its response.
  func drain() {
    guard case .idle = state else { return }
    if wire.hasPendingOutput { beginLingering() } else { close() }
  }

  func prepareForEnd() {
    if case .serving = state { run?.prepareForEnd() }
  }

  // MARK: events

  func ready(_ readiness: Readiness) {
    channel.note(readiness)
    let isAborted = channel.sawError || readiness.contains(.hangup)
    switch state {
    case .idle, .readingHead: if isAborted || !flushed() { close() } else { readRequests() }
    case .serving: if isAborted { run?.clientAborted() } else { run?.clientReady(self) }
    case .ending, .lingering: if isAborted { close() } else { linger() }
    case .closed: break
    }
  }

  /// The response that `ExchangeRun` has put off.
  func sendNow() {
    guard wire.isFlushDue else { return }
    switch wire.flush() {
    case .done: break
    case .blocked: awaitClient()
    case .failed: close()
    }
  }

  /// What is left of the last response goes first; false where it cannot.
  private func flushed() -> Bool {
    guard wire.hasPendingOutput else { return true }
    if case .failed = wire.flush() { return false }
    awaitClient()
    return true
  }

  /// Between requests: it takes the rest of the response, or sends the next request.
  private func awaitClient() {
    let timeouts = worker.timeouts
    setDeadline(after: wire.isBlockedSending ? timeouts.writeStalled : timeouts.clientIdle)
  }

  func deadlinePassed() {
    switch state {
    case .idle: close()
    case .readingHead:
      answer(
        Problem(
          .requestTimeout, detail: "The request's header section did not arrive in time.",
          remedy: "Send the whole header section at once, or raise timeouts.header."))
    case .serving: run?.clientDeadlinePassed()
    // Without a length the client could take what it has for the whole (I9).
    case .ending: abort(byReset: true)
    case .lingering(let end):
      if channel.unsentBytes > 0, loop.now < end { setDeadline(after: Self.lingerTime) } else { close() }
    case .closed: close()
    }
  }

  // MARK: reading heads

  /// Serves what is at hand until a request is being served or nothing whole is here.
  func readRequests() {
    for served in 0... {
      // Answers of our own need no turn of anybody else: the others have theirs first.
      if served == Self.requestsPerTurn { return loop.again(token) }
      switch state {
      case .idle, .readingHead: break
      case .serving, .ending, .lingering, .closed: return
      }
      // Responses that the client does not take bound the requests that are taken from it (I12).
      if wire.hasPendingOutput { return }
      if wire.input.isEmpty || isHeadIncomplete {
        switch wire.fill() {
        case .bytes: break
        case .blocked: return
        case .full:
          if !wire.enlargeInput() { return refuse(.sectionTooLong) }
          continue
        case .ended, .failed: return close()
        }
      }
      parseHead()
    }
  }

  private var isHeadIncomplete = false

  private func parseHead() {
    if !wire.input.hasMemory { return }
    if run == nil {
      // Empty lines between requests begin none (RFC 9112 §2.2).
      while wire.input.count >= 2, wire.input.withReadable({ $0.byte(at: 0) == 13 && $0.byte(at: 1) == 10 }) {
        wire.input.consume(2)
      }
      if wire.input.isEmpty { return wire.releaseEmptyInput() }
      if let verdict = prefaceVerdict {
        if verdict { return refuseHTTP2() }
        isHeadIncomplete = true
        beginReadingHead()
        return
      }
    }
    let run = readingRun()
    switch wire.input.withReadable({ run.requestHead.parse($0) }) {
    case .incomplete:
      isHeadIncomplete = true
      beginReadingHead()
    case .failed(let error): refuse(error)
    case .complete(let bytes):
      isHeadIncomplete = false
      headBytes = bytes
      serve(run)
    }
  }

  private func readingRun() -> ExchangeRun {
    // One from before a reload goes by another plan; what is here is read again.
    if let run, run.reloads == worker.reloads { return run }
    let run = worker.borrowRun()
    self.run = run
    return run
  }

  /// The header deadline runs from the first byte on, however slowly the rest drips in.
  private func beginReadingHead() {
    if case .idle = state {
      state = .readingHead
      setDeadline(after: isSurplus ? Self.surplusTime : worker.timeouts.header)
    }
  }

  // MARK: serving

  private func serve(_ run: ExchangeRun) {
    let head = run.requestHead
    if isSurplus {
      worker.counters.problems += 1
      return answer(ProblemTexts.tooManyClients)
    }
    wire.beginReceiving(head.framing)
    // What follows a head that asks for a tunnel may become the tunnel's.
    if head.framing != .none || head.connectionHasUpgrade || head.method == .connect {
      detachedHead = wire.detachHead(bytes: headBytes)
    }
    state = .serving
    run.begin(for: self)
  }

  /// The bytes that the run's head was parsed from: valid until the next read from the client, or the request's end.
  var headMemory: UnsafeRawBufferPointer {
    let memory = detachedHead.hasMemory ? detachedHead.readable : wire.input.readable
    return UnsafeRawBufferPointer(rebasing: memory[..<headBytes])
  }

  /// The exchange has ended with its response staged or sent.
  ///
  /// - Parameters:
  ///   - closes: the connection cannot go on.
  ///   - isWhole: all of the request was received.
  func exchangeEnded(closes: Bool, isWhole: Bool) {
    // A client that said that this request was its last has little to send that a reset could overtake. (One of
    // HTTP/1.0 that said nothing may.)
    let isLast = isWhole && run?.requestHead.isPersistent == false && run?.requestHead.minorVersion == 1
    releaseRequest()
    if closes, isLast, !isRemote, !wire.hasPendingOutput, wire.input.isEmpty {
      // All the same some old clients send an empty line behind their content (RFC 9112 §2.2), which makes a reset of
      // closing. One on this machine has what has been sent; to others it may be on its way.
      channel.shutdownWriting()
      if channel.unsentBytes == 0 { return close() }
    }
    if closes || worker.isDraining {
      beginLingering()
    } else {
      state = .idle
      awaitClient()
      // A pipelined request may be here already.
      if channel.mayRead || !wire.input.isEmpty { loop.again(token) }
    }
  }

  private func releaseRequest() {
    if detachedHead.hasMemory {
      wire.giveBack(detachedHead.take())
    } else {
      wire.consume(headBytes)
    }
    headBytes = 0
    isHeadIncomplete = false
    if let done = run.take() { worker.giveBack(done) }
    wire.releaseEmptyInput()
  }

  /// The exchange cannot end in a response: the client must be able to tell (I9, I11).
  func abort(byReset: Bool) {
    if byReset { channel.resetOnClose() }
    close()
  }

  // MARK: answers of our own

  private func refuse(_ error: HeadError) {
    worker.counters.refusedHeads += 1
    answer(ProblemTexts.refusedHead(error))
  }

  /// Answers outside an exchange, and closes: what follows in the stream cannot be trusted.
  private func answer(_ problem: Problem) {
    loop.setDeadline(.never, for: token)
    ProblemWriter.write(problem, to: wire, isHead: false, closes: true, now: WallClock.now)
    releaseRequest()
    beginLingering()
  }

  private func beginLingering() {
    state = .ending
    setDeadline(after: worker.timeouts.writeStalled)
    linger()
  }

  private func linger() {
    if case .ending = state, !endSending() { return close() }
    while true {
      switch wire.fill() {
      case .bytes, .full: wire.consume(wire.input.count)
      case .blocked: return
      case .ended, .failed:
        // A half-close ends nothing while the response is still leaving.
        if case .ending = state { return }
        return close()
      }
    }
  }

  /// Writes what is left of the last response; false where it cannot.
  private func endSending() -> Bool {
    let sent = wire.bytesSent
    switch wire.flush(isLast: true) {
    case .failed: return false
    case .blocked:
      if wire.bytesSent > sent { setDeadline(after: worker.timeouts.writeStalled) }
    case .done:
      channel.shutdownWriting()
      state = .lingering(until: loop.now + worker.timeouts.writeStalled)
      setDeadline(after: Self.lingerTime)
    }
    return true
  }

  // MARK: HTTP/2

  /// true: an HTTP/2 client; false: perhaps, more bytes are needed; nil: not.
  private var prefaceVerdict: Bool? {
    switch wire.input.withReadable({ ClientPreface.match($0) }) {
    case .no: nil
    case .partial: false
    case .yes: true
    }
  }

  /// HTTP/2 is not served to clients: GOAWAY(HTTP_1_1_REQUIRED) says so in its own language (RFC 9113 §7).
  private func refuseHTTP2() {
    guard let refusal = HTTP2Refusal() else { return close() }
    wire.input.withReadable { refusal.received($0) }
    wire.consume(wire.input.count)
    refusal.pendingOutput {
      wire.makeRoom($0.byteCount)
      wire.output.append($0)
    }
    beginLingering()
  }

  // MARK: closing

  private func setDeadline(after interval: Interval) {
    loop.setDeadline(loop.now + interval, for: token)
  }

  private func close() {
    if case .closed = state { return }
    releaseRequest()
    state = .closed
    loop.dismiss(token)
    wire.release()
    worker.clientClosed(self)
  }
}
