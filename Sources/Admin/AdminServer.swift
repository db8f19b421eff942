import Chronology
import Dispatch
import HTTPSyntax
import ProxyCore
public import Transport

/// Serves `/healthz` and `/metrics` on a listener of its own: loopback only, GET and HEAD only, one request per connection.
public final class AdminServer: @unchecked Sendable {
  private let loop: EventLoop
  private let snapshot: @Sendable () -> AdminSnapshot
  private let queue = DispatchQueue(label: "bearerd.admin")
  // Touched on the loop only.
  private var browserGuard: BrowserGuard
  /// By number, in the order in which they came.
  private var connections: [UInt64: AdminConnection] = [:]
  private var acceptedCount: UInt64 = 0
  /// Connections that have asked, and what; at most one is being answered.
  private var waiting: [(number: UInt64, path: String, isHead: Bool)] = []
  private var isRendering = false

  private static let connectionsMax = 64

  /// - Parameters:
  ///   - hostNames: names besides loopback ones by which the listener may be addressed, lower case.
  ///   - snapshot: called on a queue of the server's own; may wait for the loops.
  public init(on loop: EventLoop, hostNames: [String], snapshot: @escaping @Sendable () -> AdminSnapshot) {
    self.loop = loop
    self.snapshot = snapshot
    browserGuard = BrowserGuard(allowedOrigins: [], hostNames: hostNames.map { Array($0.utf8) })
  }

  /// The configuration has changed.
  public func adopt(hostNames: [String]) {
    loop.post { [self] in
      browserGuard = BrowserGuard(allowedOrigins: [], hostNames: hostNames.map { Array($0.utf8) })
    }
  }

  /// A connection handed over by the acceptor; call on the loop.
  public func accept(_ descriptor: consuming Descriptor) {
    if connections.count >= Self.connectionsMax { makeRoom() }
    acceptedCount += 1
    let connection = AdminConnection(acceptedCount, Channel(descriptor), server: self, loop: loop)
    connections[acceptedCount] = connection
    connection.start()
  }

  /// Who only holds connections keeps no supervisor from its answer: the one that has asked nothing for longest goes,
  /// and where all have asked, the one that has waited longest.
  private func makeRoom() {
    let silent = connections.filter { !$0.value.isAnswered }.keys.min()
    if let number = silent ?? connections.keys.min() { connections[number]?.close() }
  }

  fileprivate func closed(_ number: UInt64) { connections[number] = nil }

  /// Answers on the loop, one after the other; who has gone meanwhile is passed over.
  fileprivate func answer(_ path: String, isHead: Bool, to number: UInt64) {
    waiting.append((number, path, isHead))
    if !isRendering { renderNext() }
  }

  private func renderNext() {
    isRendering = false
    waiting.removeAll { connections[$0.number] == nil }
    guard !waiting.isEmpty else { return }
    let (number, path, isHead) = waiting.removeFirst()
    isRendering = true
    queue.async { [self] in
      let response = render(path, isHead: isHead)
      loop.post { [self] in
        connections[number]?.send(response)
        renderNext()
      }
    }
  }

  private func render(_ path: String, isHead: Bool) -> String {
    switch path {
    case "/healthz": Self.response(200, "text/plain; charset=utf-8", "ok\n", isHead: isHead)
    case "/metrics":
      Self.response(200, "text/plain; version=0.0.4; charset=utf-8", Metrics.render(snapshot()), isHead: isHead)
    case _: Self.response(404, "text/plain; charset=utf-8", "try /healthz or /metrics\n", isHead: isHead)
    }
  }

  fileprivate static func response(_ status: Int, _ type: String, _ content: String, isHead: Bool) -> String {
    let reason = [200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 421: "Misdirected Request"]
    let allow = status == 405 ? "Allow: GET, HEAD\r\n" : ""
    let head =
      "HTTP/1.1 \(status) \(reason[status] ?? "Error")\r\nContent-Type: \(type)\r\n\(allow)"
      + "Content-Length: \(content.utf8.count)\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    return isHead ? head : head + content
  }

  fileprivate func judge(_ head: RequestHead, _ bytes: RawSpan) -> String? {
    let isHead = head.method == .head
    switch browserGuard.judge(head, bytes) {
    case .allowed: break
    case .foreignHost: return Self.response(421, "text/plain", "not a name of this listener\n", isHead: isHead)
    case .foreignOrigin: return Self.response(403, "text/plain", "not for web pages\n", isHead: isHead)
    }
    guard head.method == .get || head.method == .head else {
      return Self.response(405, "text/plain", "GET or HEAD\n", isHead: false)
    }
    return nil
  }
}

private final class AdminConnection: LoopMember {
  private let number: UInt64
  private let channel: Channel
  private let server: AdminServer
  private let loop: EventLoop
  private var token = MemberToken.unassigned
  private var input = ByteBuffer(capacity: 8192)
  private let head = RequestHead(limits: HeadLimits(requestLineBytes: 2048, sectionBytes: 6000, fields: 64))
  /// Without memory until the answer is there.
  private var output = ByteBuffer()
  /// The request is whole, and answered or about to be.
  private(set) var isAnswered = false

  private static let lifetime = Interval.seconds(10)

  init(_ number: UInt64, _ channel: Channel, server: AdminServer, loop: EventLoop) {
    self.number = number
    self.channel = channel
    self.server = server
    self.loop = loop
  }

  func start() {
    token = loop.enroll(self)
    loop.setDeadline(loop.now + Self.lifetime, for: token)
    do throws(SocketFault) { try loop.watch(channel.descriptor, for: token) } catch { close() }
  }

  func ready(_ readiness: Readiness) {
    channel.note(readiness)
    if output.hasMemory { return flush() }
    if !isAnswered { read() }
  }

  func deadlinePassed() { close() }

  private func read() {
    while channel.mayRead, !isAnswered {
      guard input.room > 0 else { return refuse("the request is too large\n") }
      switch channel.read(into: input.writable) {
      case .bytes(let count): input.produced(count)
      case .wouldBlock: return
      case .endOfStream, .failed: return close()
      }
      parse()
    }
  }

  private func parse() {
    switch input.withReadable({ head.parse($0) }) {
    case .incomplete: break
    case .failed(let error): refuse("\(error.explanation)\n")
    case .complete:
      isAnswered = true
      if let refusal = input.withReadable({ server.judge(head, $0) }) { return send(refusal) }
      let path = input.withReadable { head.target.string(in: $0) }
      server.answer(String(path.prefix { $0 != "?" }), isHead: head.method == .head, to: number)
    }
  }

  private func refuse(_ text: String) {
    isAnswered = true
    send(AdminServer.response(400, "text/plain; charset=utf-8", text, isHead: false))
  }

  func send(_ response: String) {
    output = ByteBuffer(capacity: response.utf8.count)
    output.append(utf8: response)
    flush()
  }

  private func flush() {
    while !output.isEmpty {
      switch channel.write(output.readable) {
      case .bytes(let count): output.consume(count)
      case .wouldBlock: return
      case .endOfStream, .failed: return close()
      }
    }
    channel.shutdownWriting()
    close()
  }

  private var isClosed = false

  func close() {
    if isClosed { return }
    isClosed = true
    loop.dismiss(token)
    server.closed(number)
  }
}
