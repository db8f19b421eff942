import Chronology
import HTTPSyntax
import MockBackend

/// One connection from its first request to its end; runs on a thread of its own.
struct ServedConnection {
  private let core: ServerCore
  private let channel: Channel
  private let reader: RequestReader
  private let writer: ReplyWriter

  init(core: ServerCore, channel: Channel, isTLS: Bool) {
    self.core = core
    self.channel = channel
    reader = RequestReader(channel: channel)
    writer = ReplyWriter(channel: channel, isTLS: isTLS)
  }

  func run() {
    while true {
      switch reader.readHead() {
      case .ended:
        channel.finishSending()
        return
      case .malformed(let status):
        refuse(status)
        return
      case .request(let request):
        guard end(serve(request)) else { return }
      }
    }
  }

  private func serve(_ request: IncomingRequest) -> ReplyWriter.Ending {
    let decision = core.backend.withLock { backend in
      backend.exchangeBegan()
      return backend.handleHead(request.head, now: core.now)
    }
    defer { core.backend.withLock { $0.exchangeEnded() } }
    switch decision {
    case .reply(let early): return answerEarly(early, request)
    case .readBody(let admission):
      if request.hasUnknownExpectation {
        return answerEarly(BackendDecision(reply: BackendReply(status: 417)), request)
      }
      if request.expectsContinue, request.hasBody, admission.mayContinue {
        guard channel.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) else { return .lost }
      }
      return answerAfterBody(request, admission)
    }
  }

  /// The body, if there is one, is still to come: the reply goes out first, then what the peer goes on sending is
  /// read and counted, because closing on unread bytes would reset the connection under the reply.
  private func answerEarly(_ decision: BackendDecision, _ request: IncomingRequest) -> ReplyWriter.Ending {
    let mayGoOn = request.isPersistent && !request.hasBody
    let ending = writer.send(decision, to: request, mayGoOn: mayGoOn, now: core.now)
    guard request.hasBody, ending == .finished else { return ending }
    channel.finishSending()
    channel.limitReads(milliseconds: Self.lingerMilliseconds)
    _ = readBody(request) { _ in }
    return .lost
  }

  private func answerAfterBody(_ request: IncomingRequest, _ admission: Admission) -> ReplyWriter.Ending {
    var body = ReceivedBody(admission.bodyUse)
    switch readBody(request, each: { body.append($0) }) {
    case .aborted: return .lost
    case .malformed:
      refuse(400)
      return .lost
    case .complete(let trailers):
      body.trailers = trailers
      let decision = core.backend.withLock {
        $0.handleBody(request.head, admission: admission, body: body, now: core.now)
      }
      return writer.send(decision, to: request, mayGoOn: request.isPersistent, now: core.now)
    }
  }

  private func readBody(_ request: IncomingRequest, each: (RawSpan) -> Void) -> RequestReader.BodyResult {
    guard request.hasBody else { return .complete(trailers: []) }
    return reader.readBody(request.framing) { piece in
      core.bodyArrived(bytes: piece.byteCount, of: request.head)
      each(piece)
    }
  }

  /// Whether another request may follow.
  private func end(_ ending: ReplyWriter.Ending) -> Bool {
    switch ending {
    case .goesOn: return true
    case .finished:
      channel.finishSending()
      channel.limitReads(milliseconds: Self.lingerMilliseconds)
      channel.waitForPeerToLeave()
    case .cut: channel.cutSending()
    case .reset: channel.resetAtClose()
    case .lost: break
    case .tunnel:
      while let bytes = reader.nextTunnelBytes() {
        guard channel.write(bytes) else { return false }
      }
      channel.finishSending()
    }
    return false
  }

  private func refuse(_ status: Int) {
    core.count { $0.malformedRequests += 1 }
    let text = "HTTP/1.1 \(status) Refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    guard channel.write(Array(text.utf8)) else { return }
    channel.finishSending()
    channel.limitReads(milliseconds: Self.lingerMilliseconds)
    channel.waitForPeerToLeave()
  }

  /// RFC 9112 §9.6 asks for a lingering close; a peer silent that long is left.
  private static let lingerMilliseconds = 2000
}
