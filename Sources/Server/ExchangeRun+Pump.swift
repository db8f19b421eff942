import Chronology
import Configuration
import HTTPSyntax
import ProxyCore
import Transport

/// Moving bytes: the client's content to the upstream, the response to the client, each no faster than the other
/// side takes it.
extension ExchangeRun {
  /// One call moves at most this often, and not much more than this, before others are served. An event of either side and
  /// what was left over make three calls in a turn of the loop at most.
  private static let roundsMax = 32
  private static let bytesMovedMax: UInt64 = 2 << 20

  /// Does all that can be done now, and sets the deadlines for what cannot.
  ///
  /// Client and upstream are handed on from here: each look at them counts references.
  func advance() { if let client { advance(client) } }

  func advance(_ client: ClientConnection) {
    guard exchange != nil else { return }
    let serial = serial
    let before = client.wire.bytesMoved
    for round in 1...Self.roundsMax {
      // More than a small exchange: others need not wait for it with what they have to send.
      if round == 3 { loop.sendGathered() }
      if round > 3, client.wire.bytesMoved - before >= Self.bytesMovedMax { break }
      guard self.serial == serial else { return }
      if let upstream {
        if !pump(client, upstream) { return }
      } else if !pumpRequest(client, nil) {
        guard self.serial == serial else { return }
        flush(client)
        return armDeadline(client, waitsForContent: false)
      }
    }
    guard self.serial == serial else { return }
    loop.again(client.token)
    if let upstream { settle(client, upstream) }
  }

  /// Both ways once; returns whether anything moved. Where nothing did, the rest is for later.
  private func pump(_ client: ClientConnection, _ upstream: UpstreamConnection) -> Bool {
    if isRequestHeadDue { writeRequestHead(client, upstream) }
    // An early answer ends the upload: it is not kept waiting for more of that.
    if !isRequestSent { upstream.takeNote() }
    let serial = serial
    let hasMoved = pumpRequest(client, upstream)
    guard self.serial == serial else { return false }
    flush(upstream)
    if pumpResponse(upstream, client) || hasMoved { return true }
    if self.serial == serial { settle(client, upstream) }
    return false
  }

  private func settle(_ client: ClientConnection, _ upstream: UpstreamConnection) {
    flush(client)
    if isHalfCloseDue { passHalfCloseOn(upstream) }
    armDeadlines(client, upstream)
  }

  // MARK: request

  /// Returns whether anything moved.
  private func pumpRequest(_ client: ClientConnection, _ upstream: UpstreamConnection?) -> Bool {
    // Nothing is left to come, or it waits for the answer to our own expectation.
    if isRequestSent && isRequestReceived || probeDeadline != .never { return false }
    var hasMoved = false
    if !isUploadStopped, let upstream, responsePhase != .none { hasMoved = sendCopy(upstream) }
    let mayTake = isUploadStopped ? mayTakeForReplay : upstream != nil && responsePhase != .none && isCopySent
    if mayTake, !isRequestReceived { hasMoved = takeContent(client) || hasMoved }
    guard exchange != nil else { return false }
    if isRequestReceived, isCopySent, !isRequestSent, !isUploadStopped, let upstream, responsePhase != .none {
      upstream.wire.endSending(trailers: worker.forwardable(client.wire.trailers))
      isRequestSent = true
      isHalfCloseDue = isTunnel
      headDeadline = loop.now + worker.timeouts.responseHeader
      hasMoved = true
    }
    return hasMoved
  }

  /// What an earlier attempt took from the client has been sent in this one too.
  private var isCopySent: Bool { UInt64(copySent) == contentTaken || copy?.isComplete == false }

  /// After an early answer the body is read on only into a copy that a replay may want (SPEC §4).
  ///
  /// What has not begun to leave stays with the client: a copy that overflows would end the replay.
  private var mayTakeForReplay: Bool {
    contentTaken > 0 && (exchange?.isJudging ?? false) && copy?.isComplete ?? false
  }

  private func sendCopy(_ upstream: UpstreamConnection) -> Bool {
    guard let copy, copy.isComplete, copySent < copy.count else { return false }
    var hasMoved = false
    while copySent < copy.count, !isUploadStopped {
      switch copy.withBytes(from: copySent, { upstream.wire.offer($0) }) {
      case .accepted(0): return hasMoved
      case .accepted(let count):
        copySent += count
        hasMoved = true
      case .failed: stopUpload(upstream)
      }
    }
    return hasMoved
  }

  private func takeContent(_ client: ClientConnection) -> Bool {
    if requestSplice.isUnderway { return spliceRequest(client) ?? false }
    switch client.wire.nextContent() {
    case .bytes(let content): return forward(content, from: client)
    case .finished:
      isRequestReceived = true
      return true
    case .failed:
      handle(.clientBodyFailed(.badRequest))
      return false
    case .starved:
      if let hasMoved = spliceRequest(client) { return hasMoved }
      switch client.wire.fill() {
      case .bytes: return true
      case .blocked: return false
      case .full:
        // Framing that does not fit the buffer: the decoder's own limits come first.
        handle(.clientBodyFailed(.badRequest))
        return false
      case .ended where isTunnel:
        isRequestReceived = true
        return true
      // A FIN inside a request is an abort (SPEC §7).
      case .ended, .failed:
        handle(.clientAborted)
        return false
      }
    }
  }

  /// Where nobody wants a copy of the body; nil where it does not go that way.
  private func spliceRequest(_ client: ClientConnection) -> Bool? {
    guard copy?.isComplete != true, !isUploadStopped, let upstream else { return nil }
    let received = client.wire.bytesReceived
    let step = requestSplice.step(from: client.wire, to: upstream.wire)
    contentTaken += client.wire.bytesReceived - received
    switch step {
    case nil: return nil
    case .moved: return true
    case .blocked: return false
    case .sinkFailed:
      stopUpload(upstream)
      return true
    // A FIN inside a request is an abort (SPEC §7).
    case .sourceEnded:
      handle(.clientAborted)
      return false
    }
  }

  private func forward(_ content: UnsafeRawBufferPointer, from client: ClientConnection) -> Bool {
    var count = content.count
    if !isUploadStopped, let upstream {
      switch upstream.wire.offer(content) {
      case .accepted(let accepted): count = accepted
      case .failed:
        stopUpload(upstream)
        return true
      }
    }
    if count == 0 { return false }
    copy?.tee(UnsafeRawBufferPointer(rebasing: content[..<count]))
    client.wire.took(count)
    contentTaken += UInt64(count)
    copySent += isUploadStopped ? 0 : count
    return true
  }

  /// A failed write: the answer may be there all the same, so it is read (SPEC §4).
  private func stopUpload(_ upstream: UpstreamConnection) {
    isUploadStopped = true
    upstream.wire.channel.note(.readable)
  }

  private func flush(_ upstream: UpstreamConnection) {
    guard upstream.wire.hasPendingOutput, !isUploadStopped || responsePhase == .head else { return }
    // A whole request that nothing waits behind.
    if isRequestSent, !isTunnel, responsePhase == .head, loop.sendsLater(upstream.token) {
      return upstream.wire.flushLater()
    }
    if case .failed = upstream.wire.flush() { stopUpload(upstream) }
  }

  /// What `flush` has put off could not leave, or not all of it.
  func sendingStopped(on upstream: UpstreamConnection, hasFailed: Bool) {
    if hasFailed {
      stopUpload(upstream)
      advance()
    } else if let client {
      armDeadlines(client, upstream)
    }
  }

  /// The client of a tunnel has ended its side: when all of it has left, so does ours.
  private func passHalfCloseOn(_ upstream: UpstreamConnection) {
    if upstream.wire.hasPendingOutput { return }
    isHalfCloseDue = false
    upstream.wire.channel.shutdownWriting()
  }

  // MARK: response

  private func pumpResponse(_ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    switch responsePhase {
    case .none: return false
    case .head: return readResponseHead(upstream, client)
    case .held: return readHeld(upstream)
    case .passing: return passResponse(upstream, client)
    case .body: return relayContent(upstream, client)
    }
  }

  private func readResponseHead(_ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    let head = responseHead
    if upstream.wire.input.isEmpty || needsMoreHead {
      switch upstream.wire.fill() {
      case .bytes: break
      case .blocked: return false
      case .full:
        if !upstream.wire.enlargeInput() {
          handle(failed(.malformedResponse("the header section is too large")))
          return true
        }
        return true
      case .ended, .failed:
        let isEmpty = upstream.wire.input.isEmpty
        let failure =
          isEmpty
          ? UpstreamFailure.closedBeforeResponse(reused: upstream.isReused)
          : .malformedResponse("the connection ended inside the header section")
        handle(failed(failure))
        return true
      }
    }
    switch upstream.wire.input.withReadable({ head.parse($0, requestMethod: plan.method) }) {
    case .incomplete:
      needsMoreHead = true
      return true
    case .failed(let error):
      needsMoreHead = false
      handle(failed(.malformedResponse("\(error.explanation)")))
      return true
    case .complete(let bytes):
      needsMoreHead = false
      responseHeadBytes = bytes
      return head.isInterim ? relayInterim(head, upstream, client) : judgeHead(head, upstream, client)
    }
  }

  private func judgeHead(_ head: ResponseHead, _ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    upstream.wire.beginReceiving(head.framing)
    probeDeadline = .never
    handle(.responseHead(status: head.status))
    return responsePhase == .passing ? passResponse(upstream, client) : true
  }

  /// The head, and what is here of the content: of a small response all.
  private func passResponse(_ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    writeResponseHead(upstream, client)
    _ = relayContent(upstream, client)
    return true
  }

  /// Every unsolicited 1xx goes on, but none to HTTP/1.0 (RFC 9110 §15.2); 101 was not asked for.
  private func relayInterim(_ head: ResponseHead, _ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    if head.status == 101 {
      if plan.forwarded.asksForUpgrade, isGranted(head, upstream, client) { return judgeHead(head, upstream, client) }
      handle(failed(.malformedResponse("it switched to a protocol that it was not asked for")))
      return true
    }
    // RFC 9110 §15.2: an answer to our own expectation is not the client's.
    let isOurs = head.status == 100 && probeDeadline != .never
    if isOurs { probeDeadline = .never }
    if !plan.isHTTP10, !isOurs {
      // No faster than the client takes them: an upstream can send any number (I12).
      if client.wire.hasPendingOutput { flush(client) }
      if exchange == nil || client.wire.hasPendingOutput { return false }
      let interim = ForwardedResponse.interim(via: worker.current.via)
      client.wire.makeRoom(interim.bytesMax(headBytes: responseHeadBytes))
      upstream.wire.input.withReadable {
        interim.write(head, $0.extracting(first: responseHeadBytes), into: &client.wire.output)
      }
      flush(client)
    }
    upstream.wire.consume(responseHeadBytes)
    responseHeadBytes = 0
    head.reset()
    return true
  }

  private func isGranted(_ head: ResponseHead, _ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    upstream.wire.input.withReadable {
      UpgradeOffer.grants(head, $0.extracting(first: responseHeadBytes), requestHead, client.headMemory.bytes)
    }
  }

  /// While a 401 is decided its body is read as far as the buffer goes; beyond that reading pauses.
  private func readHeld(_ upstream: UpstreamConnection) -> Bool {
    switch upstream.wire.fill() {
    case .bytes: return true
    case .full: return upstream.wire.enlargeInput()
    case .blocked, .ended, .failed: return false
    }
  }

  private func relayContent(_ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    if responseSplice.isUnderway { return spliceResponse(upstream, client) ?? false }
    var hasMoved = false
    while true {
      switch upstream.wire.nextContent() {
      case .bytes(let content):
        switch client.wire.offer(content) {
        case .accepted(0): return hasMoved
        case .accepted(let count):
          upstream.wire.took(count)
          hasMoved = true
        case .failed:
          handle(.clientAborted)
          return false
        }
      case .finished:
        client.wire.endSending(trailers: requestHead.teTrailers ? worker.forwardable(upstream.wire.trailers) : [])
        handle(.responseEnded)
        return false
      case .failed:
        handle(.responseBroke)
        return false
      case .starved: return hasMoved || spliceResponse(upstream, client) ?? fillResponse(upstream, client)
      }
    }
  }

  /// nil where the content does not go that way.
  private func spliceResponse(_ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool? {
    switch responseSplice.step(from: upstream.wire, to: client.wire) {
    case nil: return nil
    case .moved: return true
    case .blocked: return false
    case .sinkFailed:
      handle(.clientAborted)
      return false
    case .sourceEnded(let inOrder): return endResponse(upstream, client, inOrder: inOrder)
    }
  }

  private func fillResponse(_ upstream: UpstreamConnection, _ client: ClientConnection) -> Bool {
    switch upstream.wire.fill() {
    case .bytes: return true
    case .blocked: return false
    case .full:
      handle(.responseBroke)
      return false
    case .ended: return endResponse(upstream, client, inOrder: true)
    case .failed: return endResponse(upstream, client, inOrder: false)
    }
  }

  private func endResponse(_ upstream: UpstreamConnection, _ client: ClientConnection, inOrder: Bool) -> Bool {
    if upstream.wire.endReceiving(inOrder: inOrder) {
      client.wire.endSending()
      handle(.responseEnded)
    } else {
      handle(.responseBroke)
    }
    return false
  }

  private func flush(_ client: ClientConnection) {
    guard client.wire.hasPendingOutput else { return }
    if case .failed = client.wire.flush() { handle(.clientAborted) }
  }

  // MARK: deadlines

  private func armDeadline(_ client: ClientConnection, waitsForContent: Bool) {
    guard exchange != nil else { return }
    let deadline: Instant
    if client.wire.isBlockedSending {
      clientReads.end()
      deadline = clientWrites.after(client.wire.bytesSent, loop.now, worker.timeouts.writeStalled)
    } else if waitsForContent {
      clientWrites.end()
      deadline = clientReads.after(client.wire.bytesReceived, loop.now, worker.timeouts.requestBodyIdle)
    } else {
      clientWrites.end()
      clientReads.end()
      deadline = .never
    }
    loop.setDeadline(min(deadline, poolDeadline), for: client.token)
  }

  private func armDeadlines(_ client: ClientConnection, _ upstream: UpstreamConnection) {
    guard exchange != nil else { return }
    let isUpstreamSlow = upstream.wire.isBlockedSending
    let isWaitingForContent = !isRequestReceived && !isUploadStopped && !isTunnel && probeDeadline == .never
      && !isUpstreamSlow && isCopySent
    armDeadline(client, waitsForContent: isWaitingForContent)
    let now = loop.now
    let deadline: Instant
    if isUpstreamSlow, !isUploadStopped {
      deadline = upstreamWrites.after(upstream.wire.bytesSent, now, worker.timeouts.writeStalled)
    } else {
      upstreamWrites.end()
      switch responsePhase {
      case .none, .held, .passing: deadline = .never
      case .head: deadline = isRequestSent || isUploadStopped ? headDeadline : probeDeadline
      case .body where client.wire.isBlockedSending:
        upstreamReads.end()
        deadline = .never
      case .body:
        // In a tunnel either side's bytes show that it lives.
        let progress = upstream.wire.bytesReceived &+ (isTunnel ? client.wire.bytesReceived : 0)
        deadline = upstreamReads.after(progress, now, worker.timeouts.responseBodyIdle)
      }
    }
    loop.setDeadline(deadline, for: upstream.token)
  }
}

/// A deadline that begins when something is first waited for, and begins again only when that has made progress: what
/// else happens to the exchange meanwhile does not prolong it (I11).
struct ProgressDeadline {
  private var progress: UInt64 = 0
  private var deadline = Instant.never

  /// Nothing is waited for.
  mutating func end() { deadline = .never }

  /// - Parameter progress: a count that grows with each byte.
  mutating func after(_ progress: UInt64, _ now: Instant, _ limit: Interval) -> Instant {
    if deadline == .never || progress != self.progress {
      self.progress = progress
      deadline = now + limit
    }
    return deadline
  }
}
