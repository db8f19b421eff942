public import BearerPolicy
public import Chronology
import HTTPSyntax
import ProxyCore
public import Transport

/// Presents a refresh token to its token endpoint: once, over a connection of its own, without early data, without
/// following redirects, within one deadline (SPEC §3).
///
/// Loop-owned. The completion is called once, on the loop.
public final class TokenEndpointClient: LoopMember {
  public typealias Completion = (TokenEndpointReply) -> Void

  private let loop: EventLoop
  private let request: TokenRequest
  private let endpoint: URLParts
  private let clock: @Sendable () -> WallTime
  private let deadline: Instant
  private var completion: Completion?
  private var wire: HTTP1Wire?
  private var token = MemberToken.unassigned
  private var connector: Connector?
  private let head = ResponseHead(limits: HeadLimits())
  private var hasHead = false
  private var body: [UInt8] = []

  /// An answer of tokens is a few KiB; more is not one.
  static let bodyBytesMax = 1 << 20

  private init(
    _ request: TokenRequest, endpoint: URLParts, deadline: Instant, on loop: EventLoop,
    clock: @escaping @Sendable () -> WallTime, completion: @escaping Completion
  ) {
    self.request = request
    self.endpoint = endpoint
    self.deadline = deadline
    self.loop = loop
    self.clock = clock
    self.completion = completion
  }

  /// Call on the loop's queue.
  ///
  /// - Parameter tls: nil for a plaintext endpoint, which the configuration has allowed (I6).
  public static func present(
    _ request: TokenRequest, tls: TLSClientContext?, serverName: String?, timeout: Interval, resolver: Resolver,
    on loop: EventLoop, clock: @escaping @Sendable () -> WallTime, completion: @escaping Completion
  ) {
    guard let endpoint = URLParts(request.url), (endpoint.origin.scheme == .https) == (tls != nil) else {
      return completion(.notSent(.connect))
    }
    let client = TokenEndpointClient(
      request, endpoint: endpoint, deadline: loop.now + timeout, on: loop, clock: clock, completion: completion)
    let target = DialTarget(
      host: endpoint.origin.host, port: endpoint.origin.port, tls: tls, serverName: serverName,
      connectTimeout: min(timeout, .seconds(5)), handshakeTimeout: min(timeout, .seconds(5)), resumesTLS: false)
    client.connector = Connector.start(target, resolver: resolver, on: loop) { result in
      client.connector = nil
      switch result {
      case .failure(let fault): client.end(.notSent(TokenEndpointReply.NotSent(fault)))
      case .success(let (channel, token)): client.send(over: channel, token)
      }
    }
  }

  private func send(over channel: Channel, _ token: MemberToken) {
    self.token = token
    loop.transfer(token, to: self)
    loop.setDeadline(deadline, for: token)
    let wire = HTTP1Wire(channel, buffers: loop.buffers)
    self.wire = wire
    if let sendBefore = request.sendBefore, clock() >= sendBefore { return end(.notSent(.tooLate)) }
    write(into: wire)
    advance()
  }

  private func write(into wire: HTTP1Wire) {
    var text = "\(request.method) \(endpoint.pathAndQuery) HTTP/1.1\r\nHost: \(endpoint.origin.hostFieldValue)\r\n"
    for header in request.headers { text += "\(header.name): \(header.value.reveal())\r\n" }
    text += "User-Agent: bearerd\r\nConnection: close\r\n"
    if request.method != "GET" || !request.body.isEmpty { text += "Content-Length: \(request.body.count)\r\n" }
    text += "\r\n"
    wire.makeRoom(text.utf8.count + request.body.count)
    wire.output.append(utf8: text)
    request.body.withBytes { wire.output.append($0) }
  }

  public func ready(_ readiness: Readiness) {
    wire?.channel.note(readiness)
    advance()
  }

  public func deadlinePassed() { end(.noAnswer(.timedOut)) }

  private func advance() {
    guard let wire else { return }
    // From the first byte on the endpoint may have acted: every failure is an unknown outcome.
    if case .failed = wire.flush() { wire.channel.note(.readable) }
    while completion != nil {
      switch hasHead ? readBody(wire) : readHead(wire) {
      case .goOn: continue
      case .wait: return
      case .ended(let reply): return end(reply)
      }
    }
  }

  private enum Step {
    case goOn
    case wait
    case ended(TokenEndpointReply)
  }

  private func fill(_ wire: HTTP1Wire) -> Step {
    switch wire.fill() {
    case .bytes: .goOn
    case .blocked: .wait
    case .full: wire.enlargeInput() ? .goOn : .ended(.noAnswer(.tooLarge))
    case .ended: .ended(.noAnswer(hasHead || !wire.input.isEmpty ? .truncated : .connectionReset))
    case .failed(let fault): .ended(.noAnswer(fault.isReset ? .connectionReset : .truncated))
    }
  }

  private func readHead(_ wire: HTTP1Wire) -> Step {
    if wire.input.isEmpty { return fill(wire) }
    switch wire.input.withReadable({ head.parse($0, requestMethod: request.method == "GET" ? .get : .post) }) {
    case .incomplete: return fill(wire)
    case .failed: return .ended(.noAnswer(.malformed))
    case .complete(let bytes):
      if head.isInterim {
        if head.status == 101 { return .ended(.noAnswer(.malformed)) }
        wire.consume(bytes)
        head.reset()
        return .goOn
      }
      hasHead = true
      readFields(wire)
      wire.beginReceiving(head.framing)
      wire.consume(bytes)
      return .goOn
    }
  }

  private var serverDate: WallTime?
  private var retryAfter: Interval?

  private func readFields(_ wire: HTTP1Wire) {
    let now = clock()
    wire.input.withReadable { bytes in
      if let index = head.firstIndex(of: .date) {
        serverDate = HTTPDate.parse(bytes.extracting(head.lines[index].value.offsets))
      }
      if let index = head.firstIndex(of: .retryAfter) {
        retryAfter = RetryAfter.parse(bytes.extracting(head.lines[index].value.offsets), now: serverDate ?? now)
      }
    }
  }

  private func readBody(_ wire: HTTP1Wire) -> Step {
    switch wire.nextContent() {
    case .bytes(let content):
      if body.count + content.count > Self.bodyBytesMax { return .ended(.noAnswer(.tooLarge)) }
      body.append(contentsOf: content)
      wire.took(content.count)
      return .goOn
    case .finished: return .ended(answer)
    case .failed: return .ended(.noAnswer(.malformed))
    case .starved:
      let step = fill(wire)
      if case .ended(.noAnswer(let cause)) = step, cause == .truncated {
        // A body that ends with its connection is whole only if that ended in order.
        return wire.endReceiving(inOrder: wire.endedInOrder) ? .ended(answer) : step
      }
      return step
    }
  }

  private var answer: TokenEndpointReply {
    .answer(status: head.status, serverDate: serverDate, retryAfter: retryAfter, body: body)
  }

  private func end(_ reply: TokenEndpointReply) {
    guard let completion else { return }
    self.completion = nil
    if let wire {
      loop.dismiss(token)
      wire.release()
    }
    wire = nil
    completion(reply)
  }
}

extension TokenEndpointReply.NotSent {
  init(_ fault: ConnectFault) {
    switch fault {
    case .nameResolution: self = .nameResolution
    case .addressNotAllowed, .refused, .connectTimedOut, .cancelled: self = .connect
    case .tls(let reason): self = .tls(reason)
    case .handshakeTimedOut: self = .tls("no answer in time")
    }
  }
}
