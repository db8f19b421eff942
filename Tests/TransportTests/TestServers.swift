import COpenSSL
import Dispatch
import Glibc
import Transport

/// Accepts on 127.0.0.1 and serves each connection on a queue of its own, until it is released.
final class TCPServer: @unchecked Sendable {
  let port: UInt16
  private let listener: Int32
  private let ended = DispatchSemaphore(value: 0)

  /// - Parameter serve: owns nothing; the connection is closed when it returns.
  init(backlog: Int32 = 128, serve: @escaping @Sendable (Int32) -> Void) throws {
    signal(SIGPIPE, SIG_IGN)
    let (listener, port) = try listeningSocket(backlog: backlog)
    self.listener = listener
    self.port = port
    let ended = ended
    DispatchQueue(label: "test.accept").async {
      while true {
        let connection = accept(listener, nil, nil)
        if connection < 0 {
          if errno == EINTR || errno == ECONNABORTED { continue }
          break
        }
        DispatchQueue(label: "test.serve").async {
          serve(connection)
          close(connection)
        }
      }
      ended.signal()
    }
  }

  deinit {
    shutdown(listener, Int32(SHUT_RDWR))
    ended.wait()
    close(listener)
  }
}

/// One TLS connection on the server's side, blocking. Used by its own queue only.
struct TLSPeer {
  let descriptor: Int32
  let session: OpaquePointer

  @discardableResult
  func write(_ bytes: [UInt8]) -> Bool {
    bytes.isEmpty || SSL_write(session, bytes, Int32(bytes.count)) == Int32(bytes.count)
  }

  /// The next bytes; empty at the end.
  func read() -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = SSL_read(session, &bytes, Int32(bytes.count))
    return Array(bytes.prefix(Int(max(0, count))))
  }

  func closeNotify() { SSL_shutdown(session) }
}

/// A TLS server: hands every connection whose handshake succeeds to `serve`.
func tlsServer(_ context: TestServerContext, serve: @escaping @Sendable (TLSPeer) -> Void) throws -> TCPServer
{
  try TCPServer { descriptor in
    guard let session = SSL_new(context.context) else { return }
    defer { SSL_free(session) }
    SSL_set_fd(session, descriptor)
    if SSL_accept(session) == 1 { serve(TLSPeer(descriptor: descriptor, session: session)) }
    ERR_clear_error()
  }
}

/// Reads everything from a channel on its loop, and says how it ended.
final class Drain: LoopMember, @unchecked Sendable {
  struct End: Equatable, Sendable {
    var bytes: [UInt8]
    var how: IOResult
    var isResumed = false
    var negotiated: String?
  }

  let channel: Channel
  let ended = Inbox<End>()
  private let loop: EventLoop
  private let token: MemberToken
  private var bytes: [UInt8] = []
  private var piece: [UInt8]
  private var pending: [UInt8] = []

  /// Call on the loop's queue. `sending` goes out first.
  init(
    _ channel: Channel, _ token: MemberToken, on loop: EventLoop, sending: [UInt8] = [],
    pieceBytes: Int = 65_536
  ) {
    self.channel = channel
    self.loop = loop
    self.token = token
    pending = sending
    piece = [UInt8](repeating: 0, count: pieceBytes)
    loop.transfer(token, to: self)
    advance()
  }

  func ready(_ readiness: Readiness) {
    channel.note(readiness)
    advance()
  }

  func deadlinePassed() {}

  private func advance() {
    while channel.mayWrite && !pending.isEmpty {
      guard case .bytes(let count) = pending.withUnsafeBytes({ channel.write($0) }) else { break }
      pending.removeFirst(count)
    }
    while channel.mayRead {
      let result = piece.withUnsafeMutableBytes { channel.read(into: $0) }
      switch result {
      case .bytes(let count): bytes += piece[..<count]
      case .wouldBlock: return
      case .endOfStream, .failed:
        loop.dismiss(token)
        let name = channel.negotiatedProtocol
        ended.put(End(bytes: bytes, how: result, isResumed: channel.isResumed, negotiated: name))
        return
      }
    }
  }
}

extension RunningLoop {
  /// Dials, sends, reads to the end, and lets the connection go.
  func exchange(_ target: DialTarget, sending: [UInt8] = [], pieceBytes: Int = 65_536) throws -> Result<
    Drain.End, ConnectFault
  > {
    let dialled = Inbox<Result<Drain, ConnectFault>>()
    let resolver = Resolver()
    try run { loop in
      _ = Connector.start(target, resolver: resolver, on: loop) { result in
        dialled.put(result.map { Drain($0.0, $0.1, on: loop, sending: sending, pieceBytes: pieceBytes) })
      }
    }
    switch try dialled.next() {
    case .failure(let fault): return .failure(fault)
    case .success(let drain): return .success(try drain.ended.next())
    }
  }
}
