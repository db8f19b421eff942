import Chronology
import HTTPSyntax
import MockBackend

/// Puts one reply on the wire as HTTP/1.1, or spoils it as its transport fault says.
struct ReplyWriter {
  /// What becomes of the connection.
  enum Ending: Equatable {
    case goesOn
    /// Ends in order, over TLS with close_notify.
    case finished
    /// Ends with FIN alone.
    case cut
    case reset
    /// The peer is gone, or the server is stopping.
    case lost
    /// From here on it echoes.
    case tunnel
  }

  let channel: Channel
  let isTLS: Bool

  /// `mayGoOn` is whether the connection could carry another request after a whole reply.
  func send(_ decision: BackendDecision, to request: IncomingRequest, mayGoOn: Bool, now: WallTime) -> Ending {
    if decision.reply.delayMilliseconds > 0, !channel.wait(milliseconds: decision.reply.delayMilliseconds) {
      return .lost
    }
    switch decision.transport {
    case .none: return send(decision.reply, to: request, mayGoOn: mayGoOn, now: now)
    case .hangBeforeCommit, .hangAfterCommit:
      channel.waitForPeerToLeave()
      return .lost
    case .resetBeforeCommit, .resetAfterCommit: return .reset
    case .truncateBody: return sendHalf(decision.reply, to: request, now: now)
    case .junk: return channel.write(Array("\u{1}\u{2} this is not HTTP\r\n\r\n".utf8)) ? .finished : .lost
    }
  }

  private func send(_ reply: BackendReply, to request: IncomingRequest, mayGoOn: Bool, now: WallTime) -> Ending {
    let framing = framing(of: reply, to: request)
    let goesOn = mayGoOn && framing != .close
    var start: [UInt8] = []
    if !request.isHTTP10 {
      for interim in reply.interim { start += Self.head(interim.status, interim.headers) }
    }
    start += head(of: reply, framing, goesOn: goesOn, now: now)
    if framing == .echoTunnel { return channel.write(start) ? .tunnel : .lost }
    let isSent = request.head.method == "HEAD" ? channel.write(start) : sendBody(reply, framing, after: start)
    guard isSent else { return .lost }
    return goesOn ? .goesOn : .finished
  }

  /// RFC 9112 §6.1: chunked is not for HTTP/1.0, whose bodies then end with the connection.
  private func framing(of reply: BackendReply, to request: IncomingRequest) -> ReplyFraming {
    reply.framing == .chunked && request.isHTTP10 ? .close : reply.framing
  }

  private func head(of reply: BackendReply, _ framing: ReplyFraming, goesOn: Bool, now: WallTime) -> [UInt8] {
    var lines = [("date", HTTPDate.format(now))] + reply.headers
    switch framing {
    case .length: lines.append(("content-length", String(reply.body.byteCount)))
    case .chunked: lines.append(("transfer-encoding", "chunked"))
    case .close, .bodiless, .echoTunnel: break
    }
    if !goesOn, framing != .echoTunnel { lines.append(("connection", "close")) }
    return Self.head(reply.status, lines)
  }

  private static func head(_ status: Int, _ lines: [(String, String)]) -> [UInt8] {
    let fields = lines.map { "\($0.0): \($0.1)\r\n" }.joined()
    return Array("HTTP/1.1 \(status) \(reason(status))\r\n\(fields)\r\n".utf8)
  }

  /// The head leaves with the first bytes of the body. False once the peer is gone.
  private func sendBody(_ reply: BackendReply, _ framing: ReplyFraming, after head: [UInt8]) -> Bool {
    switch reply.body {
    case .bytes(let bytes):
      guard framing == .chunked else { return channel.write(framing == .bodiless ? head : head + bytes) }
      return channel.write(head + Self.chunk(bytes[...]) + Self.lastChunk(reply.trailers))
    case .pattern(let count):
      return sendPattern(count, isChunked: framing == .chunked, after: head)
        && (framing != .chunked || channel.write(Self.lastChunk(reply.trailers)))
    case .events(let count, let interval):
      return sendEvents(count, interval, isChunked: framing == .chunked, after: head)
        && (framing != .chunked || channel.write(Self.lastChunk(reply.trailers)))
    }
  }

  private func sendPattern(_ count: Int, isChunked: Bool, after head: [UInt8]) -> Bool {
    var rest = count
    var pending = head
    while rest > 0 {
      let piece = Self.pattern[..<min(rest, Self.pattern.count)]
      if isChunked {
        pending += Self.chunk(piece)
      } else if !pending.isEmpty || piece.count < Self.pattern.count {
        pending += piece
      }
      guard pending.isEmpty ? channel.write(piece) : channel.write(pending) else { return false }
      pending = []
      rest -= piece.count
    }
    return pending.isEmpty || channel.write(pending)
  }

  private func sendEvents(_ count: Int, _ interval: Int, isChunked: Bool, after head: [UInt8]) -> Bool {
    guard channel.write(head) else { return false }
    var number = 0
    while number < count {
      number += 1
      if number > 1, !channel.wait(milliseconds: interval) { return false }
      let event = Array(ReplyBody.event(number).utf8)
      guard channel.write(isChunked ? Self.chunk(event[...]) : event) else { return false }
    }
    return true
  }

  /// The head and half of the body; where there is no body, half of the head. A body that ends with its connection
  /// would look whole after FIN over plain TCP, so that one is reset.
  private func sendHalf(_ reply: BackendReply, to request: IncomingRequest, now: WallTime) -> Ending {
    let framing = framing(of: reply, to: request)
    let head = head(of: reply, framing, goesOn: false, now: now)
    let half = reply.body.byteCount / 2
    let isSent: Bool
    if half == 0 || framing == .bodiless || framing == .echoTunnel || request.head.method == "HEAD" {
      isSent = channel.write(head.prefix(head.count / 2))
    } else if case .pattern = reply.body {
      isSent = sendPattern(half, isChunked: framing == .chunked, after: head)
    } else {
      let bytes = reply.body.rendered.prefix(half)
      isSent = channel.write(head + (framing == .chunked ? Self.chunk(bytes) : Array(bytes)))
    }
    guard isSent else { return .lost }
    return framing == .close && !isTLS ? .reset : .cut
  }

  private static func chunk(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    guard !bytes.isEmpty else { return [] }
    return Array((String(bytes.count, radix: 16) + "\r\n").utf8) + bytes + [13, 10]
  }

  private static func lastChunk(_ trailers: [(String, String)]) -> [UInt8] {
    Array(("0\r\n" + trailers.map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n").utf8)
  }

  /// A whole number of alphabets, so that pieces of it join without a seam.
  private static let pattern = ReplyBody.pattern(count: 26 * 2520).rendered

  private static func reason(_ status: Int) -> String { reasons[status] ?? "Status" }

  private static let reasons = [
    101: "Switching Protocols", 103: "Early Hints", 200: "OK", 201: "Created", 204: "No Content",
    304: "Not Modified", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 413: "Content Too Large", 417: "Expectation Failed", 426: "Upgrade Required",
    429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
  ]
}
