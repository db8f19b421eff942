import HTTPSyntax
import Transport

/// The bytes of one HTTP/1.1 connection, on either side: what came and is not yet used, what is to go and has not
/// left. Buffers are borrowed while there is something in them; an idle connection holds none.
///
/// Loop-owned.
final class HTTP1Wire {
  let channel: Channel
  private let buffers: BufferPool
  /// Without memory while nothing is in it, as the output.
  var input = ByteBuffer()
  var output = ByteBuffer()

  /// Over the body that is being received.
  private var decoder = BodyDecoder(.none)
  /// Field lines of the received body's trailer section.
  private(set) var trailers: [UInt8] = []
  /// How the body that is being sent is framed.
  private var sending = MessageFraming.none
  /// Content bytes left of the chunk whose header has been staged.
  private var announced = 0
  /// The last read filled its buffer, or would have filled an ordinary one: the next one may take a large one.
  private var isBulk = false

  private var hasWideWindow = false

  /// The peer has ended its side: by FIN, over TLS by close_notify.
  private(set) var endedInOrder = false

  private(set) var bytesSent: UInt64 = 0
  private(set) var bytesReceived: UInt64 = 0
  var bytesMoved: UInt64 { bytesSent + bytesReceived }
  /// The channel took nothing of the content last offered.
  private var isOfferRefused = false

  /// Less content than this is not worth the two descriptors of a pipe.
  private static let splicedMin: UInt64 = 256 * 1024

  /// What a connection has brought before it may have a wide receive window: large content only comes this far.
  private static let widenedAfter: UInt64 = 4 << 20

  /// Content up to this joins what is staged, so that a head and a small body leave in one write.
  private static let joinedMax = 4096
  /// Room kept in the output for framing around content: two chunk headers, ends, last chunk.
  private static let framingRoom = 64

  init(_ channel: Channel, buffers: BufferPool) {
    self.channel = channel
    self.buffers = buffers
  }

  /// Gives the buffers back. The channel closes with the wire.
  func release() {
    giveBackInput()
    giveBackOutput()
    if hasWideWindow { buffers.giveBackWindow() }
    hasWideWindow = false
  }

  // MARK: receiving

  /// Content of a length that is known and worth a pipe comes next, and nothing of it is in our memory.
  var givesLargeContent: Bool {
    !channel.isTLS && input.isEmpty && (decoder.remainingContentLength ?? 0) >= Self.splicedMin
  }

  /// Takes content past our memory, into an empty pipe.
  func fill(_ pipe: SplicePipe) -> Fill {
    guard channel.mayRead else { return .blocked }
    switch channel.take(into: pipe, max: Int(clamping: decoder.remainingContentLength ?? 0)) {
    case .bytes(let count):
      decoder.took(count)
      bytesReceived += UInt64(count)
      return .bytes
    case .wouldBlock: return .blocked
    case .endOfStream:
      endedInOrder = true
      return .ended
    case .failed(let fault): return .failed(fault)
    }
  }

  enum Fill: Equatable {
    case bytes
    case blocked
    /// Nothing can be read until something is used.
    case full
    case ended
    case failed(IOFault)
  }

  /// Reads once.
  func fill() -> Fill {
    guard channel.mayRead else { return .blocked }
    prepareInput()
    if input.room == 0 { input.compact() }
    let room = input.room
    if room == 0 { return .full }
    switch channel.read(into: input.writable) {
    case .bytes(let count):
      input.produced(count)
      bytesReceived += UInt64(count)
      isBulk = count == room || count >= BufferPool.ordinaryBytes
      if isBulk { widenWindow() }
      return .bytes
    case .wouldBlock:
      releaseEmptyInput()
      return .blocked
    case .endOfStream:
      endedInOrder = true
      releaseEmptyInput()
      return .ended
    case .failed(let fault):
      releaseEmptyInput()
      return .failed(fault)
    }
  }

  /// A sender whose bytes all fit the window pushes them by itself. Otherwise each acknowledgement of ours lets it send,
  /// and over loopback in our own time: over TLS, where bytes wait to be deciphered, that was 0.15 of a download's CPU
  /// (by turns); in plaintext nothing.
  private func widenWindow() {
    guard channel.isTLS, !hasWideWindow, bytesReceived >= Self.widenedAfter, buffers.lendWindow() else { return }
    hasWideWindow = true
    channel.widenReceiveWindow()
  }

  private func prepareInput() {
    if isBulk && input.isEmpty && input.capacity < BufferPool.largeBytes { giveBackInput() }
    if !input.hasMemory { input = isBulk ? buffers.borrowLarge() : buffers.borrowOrdinary() }
  }

  /// Moves what came into a larger buffer, for a head that does not fit; false where it is the largest already.
  func enlargeInput() -> Bool {
    guard input.hasMemory, input.capacity < BufferPool.largeBytes else { return false }
    buffers.replace(&input, holding: BufferPool.largeBytes)
    return true
  }

  /// Takes the buffer whose front `headBytes` are a head, so that it stays in place; what follows moves to a new one.
  func detachHead(bytes headBytes: Int) -> ByteBuffer {
    let head = input.take()
    let rest = UnsafeRawBufferPointer(rebasing: head.readable[headBytes...])
    if !rest.isEmpty {
      input = buffers.borrow(rest.count)
      input.append(rest)
    }
    return head
  }

  func giveBack(_ buffer: consuming ByteBuffer) { buffers.giveBack(buffer) }

  /// Drops bytes from the front of what came.
  func consume(_ count: Int) {
    if count == 0 || !input.hasMemory { return }
    input.consume(count)
    releaseEmptyInput()
  }

  func releaseEmptyInput() {
    if input.isEmpty { giveBackInput() }
  }

  private func giveBackInput() {
    if input.hasMemory { buffers.giveBack(input.take()) }
  }

  func beginReceiving(_ framing: MessageFraming) {
    decoder = BodyDecoder(framing)
    if !trailers.isEmpty { trailers = [] }
  }

  enum Content {
    /// At least one byte; valid until the next call.
    case bytes(UnsafeRawBufferPointer)
    case starved
    case finished
    case failed(BodyError)
  }

  /// The next content of the body that is at hand.
  func nextContent() -> Content {
    if decoder.isFinished { return .finished }
    if input.isEmpty { return .starved }
    let step = input.withReadable { decoder.next(in: $0) }
    switch step {
    case .content(let skip, let count):
      input.consume(skip)
      return .bytes(UnsafeRawBufferPointer(rebasing: input.readable[..<count]))
    case .needsMore(let skip):
      consume(skip)
      return .starved
    case .finished(let skip, let trailerBytes, let tail):
      input.consume(skip)
      if trailerBytes > 0 { trailers = Array(input.readable[..<trailerBytes]) }
      consume(trailerBytes + tail)
      return .finished
    case .failed(let error): return .failed(error)
    }
  }

  /// Reports that `count` bytes of the content have been used.
  func took(_ count: Int) {
    decoder.took(count)
    input.consume(count)
  }

  /// The peer has ended: is the body whole, or was it cut (RFC 9112 §8)?
  func endReceiving(inOrder: Bool) -> Bool {
    guard inOrder else { return decoder.isFinished }
    switch decoder.endOfInput() {
    case .complete: return true
    case .truncated: return false
    }
  }

  // MARK: sending

  /// Makes room for `count` bytes behind what is staged in the output.
  func makeRoom(_ count: Int) {
    let needed = count + Self.framingRoom
    if !output.hasMemory {
      output = buffers.borrow(needed)
    } else if !output.ensureRoom(needed) {
      // Rare: a head behind unsent bytes, or a very long one.
      let count = output.count + needed
      buffers.replace(&output, holding: count)
    }
  }

  var hasPendingOutput: Bool { output.hasMemory }

  /// What is staged leaves later in the loop's turn: it waits for others, not for the peer.
  private(set) var isFlushDue = false

  func flushLater() { isFlushDue = true }

  /// The peer has to take something before anything more can be sent to it.
  var isBlockedSending: Bool { hasPendingOutput && !isFlushDue || isOfferRefused }

  func beginSending(_ framing: MessageFraming) {
    sending = framing
    isOfferRefused = false
    announced = 0
  }

  enum Offer {
    case accepted(Int)
    case failed(IOFault)
  }

  /// Sends or stages content (not empty), framed; 0 accepted means: wait until the channel can be written.
  func offer(_ content: UnsafeRawBufferPointer) -> Offer {
    noted(takeOffer(content))
  }

  private func noted(_ offer: Offer) -> Offer {
    if case .accepted(let count) = offer { isOfferRefused = count == 0 }
    return offer
  }

  private func takeOffer(_ content: UnsafeRawBufferPointer) -> Offer {
    if sending == .chunked && announced == 0 {
      guard openChunk(content.count) else { return .accepted(0) }
    }
    let part =
      sending == .chunked && announced < content.count
      ? UnsafeRawBufferPointer(rebasing: content[..<announced]) : content
    let result = channel.isTLS ? offerByCopy(part) : part.count <= Self.joinedMax ? join(part) : offerDirectly(part)
    if case .accepted(let count) = result, sending == .chunked, count > 0 {
      announced -= count
      if announced == 0 {
        makeRoom(2)
        output.appendChunkEnd()
      }
    }
    return result
  }

  /// Content can come from a pipe: it needs no framing of ours, and nothing is staged before it.
  var takesSplicedContent: Bool {
    if case .contentLength = sending { return !channel.isTLS && !hasPendingOutput }
    return false
  }

  /// Sends what is in the pipe; 0 accepted means: wait until the channel can be written.
  func offer(_ pipe: SplicePipe) -> Offer {
    noted(channel.mayWrite ? taken(channel.send(pipe)) : .accepted(0))
  }

  private func openChunk(_ count: Int) -> Bool {
    if output.hasMemory, !output.ensureRoom(Self.framingRoom) { return false }
    makeRoom(0)
    output.appendChunkHeader(size: count)
    announced = count
    return true
  }

  private func join(_ part: UnsafeRawBufferPointer) -> Offer {
    if output.hasMemory, !output.ensureRoom(part.count + Self.framingRoom) {
      switch flush() {
      case .failed(let fault): return .failed(fault)
      case .blocked: return .accepted(0)
      case .done: break
      }
    }
    makeRoom(part.count)
    output.append(part)
    return .accepted(part.count)
  }

  private func offerDirectly(_ part: UnsafeRawBufferPointer) -> Offer {
    guard channel.mayWrite else { return .accepted(0) }
    let staged = output.count
    return taken(staged > 0 ? channel.write(output.readable, part) : channel.write(part), staged: staged)
  }

  /// What the channel took of content, before which `staged` bytes of ours were to leave.
  private func taken(_ result: IOResult, staged: Int = 0) -> Offer {
    switch result {
    case .bytes(let count):
      bytesSent += UInt64(count)
      consumeOutput(min(count, staged))
      return .accepted(max(0, count - staged))
    case .wouldBlock: return .accepted(0)
    case .endOfStream: return .failed(.truncated)
    case .failed(let fault): return .failed(fault)
    }
  }

  /// Over TLS a record is made of a copy anyway; a full buffer makes a full record (RFC 8446 §5.1: 2^14 bytes).
  private func offerByCopy(_ part: UnsafeRawBufferPointer) -> Offer {
    if !hasPendingOutput && part.count >= BufferPool.ordinaryBytes { return offerDirectly(part) }
    makeRoom(0)
    let room = max(0, output.room - Self.framingRoom)
    if room == 0 {
      switch flush() {
      case .failed(let fault): return .failed(fault)
      case .blocked: return .accepted(0)
      case .done: return offerByCopy(part)
      }
    }
    let count = min(room, part.count)
    output.append(UnsafeRawBufferPointer(rebasing: part[..<count]))
    return .accepted(count)
  }

  /// Stages the end of the body.
  func endSending(trailers: [UInt8] = []) {
    guard sending == .chunked else { return }
    makeRoom(trailers.count + 8)
    if trailers.isEmpty {
      output.appendLastChunk()
    } else {
      output.append(ChunkedEncoding.lastChunkBeforeTrailers)
      trailers.withUnsafeBytes { output.append($0) }
      output.append("\r\n")
    }
    sending = .none
  }

  enum Flush: Equatable {
    case done
    case blocked
    case failed(IOFault)
  }

  /// Writes what is staged.
  ///
  /// - Parameter isLast: as `Channel.write`.
  func flush(isLast: Bool = false) -> Flush {
    isFlushDue = false
    while !output.isEmpty {
      guard channel.mayWrite else { return .blocked }
      switch channel.write(output.readable, isLast: isLast) {
      case .bytes(let count):
        bytesSent += UInt64(count)
        output.consume(count)
      case .wouldBlock: return .blocked
      case .endOfStream: return .failed(.truncated)
      case .failed(let fault): return .failed(fault)
      }
    }
    giveBackOutput()
    return .done
  }

  private func consumeOutput(_ count: Int) {
    output.consume(count)
    if output.isEmpty { giveBackOutput() }
  }

  private func giveBackOutput() {
    if output.hasMemory { buffers.giveBack(output.take()) }
  }
}
