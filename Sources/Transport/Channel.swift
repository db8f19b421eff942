import CLinux
import COpenSSL
import Glibc

/// What one read or write did. Expected outcomes are values; nothing here throws.
public enum IOResult: Equatable, Sendable {
  /// At least one byte.
  case bytes(Int)
  case wouldBlock
  /// The peer ended in order: FIN in plaintext, close_notify over TLS.
  case endOfStream
  case failed(IOFault)
}

public enum IOFault: Equatable, Sendable {
  /// errno.
  case socket(Int32)
  /// A TLS stream that ended without close_notify: it may have been cut by anybody (I9).
  case truncated
  case tls

  public var isReset: Bool { self == .socket(ECONNRESET) || self == .socket(EPIPE) }
}

/// A connected byte stream on a loop: plain, or TLS over the same descriptor.
///
/// Keeps account of edge-triggered readiness: `mayRead` and `mayWrite` are true until the kernel says otherwise.
/// Loop-owned; the descriptor is closed with the channel.
public final class Channel {
  public let descriptor: Int32
  private let owned: Descriptor
  private var tls: OpaquePointer?

  public private(set) var mayRead = false
  public private(set) var mayWrite = true
  /// The peer's FIN has arrived; unread data may precede it.
  public private(set) var sawPeerShutdown = false
  public private(set) var sawError = false
  /// What the first failed read or write said. The kernel says it once: the next read would look like an orderly end.
  private var fault: IOFault?
  /// TLS: how a read ended that had bytes to tell of first.
  private var deferred: IOResult?
  /// TLS: the last read may have left bytes in the kernel, whose edge does not come again.
  private var mayHaveLeft = false

  public init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor.raw
    owned = descriptor
  }

  deinit {
    guard let tls else { return }
    // Since TLS 1.1 an end without close_notify leaves the session good (RFC 5246 §7.2.1); OpenSSL would bar it from
    // resumption.
    SSL_set_shutdown(tls, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
    SSL_free(tls)
  }

  public var isTLS: Bool { tls != nil }

  /// What has been read may not be all that is here.
  public var mayHaveMore: Bool { tls.map { deferred != nil || mayHaveLeft || SSL_has_pending($0) == 1 } ?? mayRead }

  public func note(_ readiness: Readiness) {
    if !readiness.isDisjoint(with: [.readable, .peerShutdown, .hangup, .error]) { mayRead = true }
    if !readiness.isDisjoint(with: [.writable, .hangup, .error]) { mayWrite = true }
    if !readiness.isDisjoint(with: [.peerShutdown, .hangup]) { sawPeerShutdown = true }
    if readiness.contains(.error) { sawError = true }
  }

  /// Reads once into `buffer` (not empty).
  public func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult { noted(readOnce(into: buffer)) }

  private func noted(_ result: IOResult) -> IOResult {
    switch result {
    case .bytes, .wouldBlock: return result
    case .endOfStream:
      if let fault { return .failed(fault) }
      return sawError ? .failed(.socket(ECONNRESET)) : result
    case .failed(let found):
      if fault == nil { fault = found }
      return result
    }
  }

  private func readOnce(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    if let tls { return readTLS(tls, buffer) }
    while true {
      let count = bearerd_recv(descriptor, buffer.baseAddress, buffer.count, 0)
      let result = outcome(ofReading: count)
      // A short read means drained, unless a FIN waits behind the data: edge-triggered, both came as one event.
      if count > 0 && count < buffer.count && !sawPeerShutdown { mayRead = false }
      if let result { return result }
    }
  }

  /// What one read came to, `count` being its answer; nil: interrupted, so once more.
  private func outcome(ofReading count: Int) -> IOResult? {
    if count > 0 { return .bytes(count) }
    if count == 0 { return .endOfStream }
    switch errno {
    case EINTR: return nil
    case EAGAIN:
      mayRead = false
      return .wouldBlock
    case let code: return .failed(.socket(code))
    }
  }

  /// Writes once from `buffer` (not empty); fewer bytes than asked may leave.
  ///
  /// - Parameter isLast: `shutdownWriting` follows as soon as all has been taken: over plain TCP the end then leaves in one
  ///   packet with the bytes before it.
  public func write(_ buffer: UnsafeRawBufferPointer, isLast: Bool = false) -> IOResult {
    noted(writeOnce(buffer, isLast: isLast))
  }

  private func writeOnce(_ buffer: UnsafeRawBufferPointer, isLast: Bool) -> IOResult {
    if let tls { return writeTLS(tls, buffer) }
    let flags = Int32(MSG_NOSIGNAL) | (isLast ? Int32(MSG_MORE) : 0)
    while true {
      let count = bearerd_send(descriptor, buffer.baseAddress, buffer.count, flags)
      if let result = outcome(ofSending: buffer.count, count) { return result }
    }
  }

  /// Writes `first` and then `second` with one system call in plaintext.
  public func write(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer) -> IOResult {
    if tls != nil || first.isEmpty { return write(first.isEmpty ? second : first) }
    var parts = (
      iovec(iov_base: UnsafeMutableRawPointer(mutating: first.baseAddress), iov_len: first.count),
      iovec(iov_base: UnsafeMutableRawPointer(mutating: second.baseAddress), iov_len: second.count)
    )
    while true {
      let count = withUnsafeMutableBytes(of: &parts) { bytes in
        var message = msghdr()
        message.msg_iov = bytes.baseAddress!.assumingMemoryBound(to: iovec.self)
        message.msg_iovlen = 2
        return sendmsg(descriptor, &message, Int32(MSG_NOSIGNAL))
      }
      if let result = outcome(ofSending: first.count + second.count, count) { return noted(result) }
    }
  }

  /// Takes at most `max` bytes into `pipe`, which is empty. Plaintext only.
  public func take(into pipe: SplicePipe, max: Int) -> IOResult {
    while true {
      if let result = outcome(ofReading: pipe.take(from: descriptor, max: max)) { return noted(result) }
    }
  }

  /// Sends what is in `pipe`; some may stay. Plaintext only.
  public func send(_ pipe: SplicePipe) -> IOResult {
    while true {
      let asked = pipe.count
      if let result = outcome(ofSending: asked, pipe.give(to: descriptor)) { return noted(result) }
    }
  }

  /// What one send of `asked` bytes came to, `count` being its answer; nil: interrupted, so once more.
  private func outcome(ofSending asked: Int, _ count: Int) -> IOResult? {
    if count >= 0 {
      if count < asked { mayWrite = false }
      return .bytes(count)
    }
    switch errno {
    case EINTR: return nil
    case EAGAIN:
      mayWrite = false
      return .wouldBlock
    case let code: return .failed(.socket(code))
    }
  }

  /// Whether the kernel holds nothing for us, neither bytes nor an end; true where only OpenSSL could tell.
  public var isQuiet: Bool {
    if tls != nil { return !mayHaveMore }
    var byte: UInt8 = 0
    return bearerd_recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) < 0 && errno == EAGAIN
  }

  /// Ends our side in order: close_notify over TLS, then FIN. Reading goes on.
  public func shutdownWriting() {
    if let tls, bearerd_SSL_in_init(tls) == 0 { _ = SSL_shutdown(tls) }
    ERR_clear_error()
    _ = Glibc.shutdown(descriptor, Int32(SHUT_WR))
  }

  /// Bytes that were written and have not been sent, because the peer takes no more for now: a reset would drop them.
  public var unsentBytes: Int { Int(bearerd_unsent(descriptor)) }

  /// As `SocketOptions.widenReceiveWindow`.
  public func widenReceiveWindow() { SocketOptions.widenReceiveWindow(descriptor) }

  /// From here on closing sends RST.
  public func resetOnClose() { SocketOptions.resetOnClose(descriptor) }

  // MARK: TLS

  /// Takes `session` over (freed with the channel); the handshake is still to be made.
  public func startTLS(_ session: OpaquePointer) {
    SSL_set_fd(session, descriptor)
    SSL_set_connect_state(session)
    tls = session
  }

  public enum HandshakeResult: Equatable, Sendable {
    case done
    case wouldBlock
    /// One line for people.
    case failed(String)
  }

  public func continueHandshake() -> HandshakeResult {
    guard let tls else { return .done }
    ERR_clear_error()
    let result = SSL_do_handshake(tls)
    if result == 1 {
      mayRead = true
      return .done
    }
    switch SSL_get_error(tls, result) {
    case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
      mayRead = false
      return .wouldBlock
    case SSL_ERROR_SYSCALL where ERR_peek_error() == 0:
      return .failed("the peer closed the connection during the TLS handshake")
    case _:
      let verified = SSL_get_verify_result(tls)
      if verified != Int(X509_V_OK) {
        return .failed("certificate verification failed: \(String(cString: X509_verify_cert_error_string(verified)))")
      }
      return .failed(TLSErrors.describe())
    }
  }

  /// The protocol chosen by ALPN, or nil.
  public var negotiatedProtocol: String? {
    guard let tls else { return nil }
    var name: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    SSL_get0_alpn_selected(tls, &name, &count)
    guard let name, count > 0 else { return nil }
    return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
  }

  public var isResumed: Bool { tls.map { SSL_session_reused($0) == 1 } ?? false }

  /// A whole record's content (RFC 8446 §5.1).
  static let recordBytes = 16_384

  /// One read brings at most what so many full records carry, and OpenSSL reads as many ahead: what is deciphered goes on
  /// before it has left the near caches. Two took 1.06 of the CPU of three, four 1.09 (1 GiB, by turns), more took more.
  static let recordsMax = 3

  /// Reads records as long as there is room and OpenSSL, which reads ahead, holds some: what they carry goes on in one
  /// write. Where much has come the socket is asked for more, too, which saves a third of the writes (counted).
  private func readTLS(_ tls: OpaquePointer, _ buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    if let found = deferred {
      deferred = nil
      return found
    }
    // OpenSSL asks for as much as its buffer holds where nothing is in it, and for no more than a record's rest otherwise.
    let beganEmpty = SSL_has_pending(tls) == 0
    let before = BIO_number_read(SSL_get_rbio(tls))
    let room = min(buffer.count, Self.recordsMax * Self.recordBytes)
    defer {
      let asked = UInt64(TLSClientContext.readAheadBytes - TLSClientContext.alignmentBytes)
      mayHaveLeft = mayRead && !(beganEmpty && BIO_number_read(SSL_get_rbio(tls)) - before < asked)
    }
    var filled = 0
    repeat {
      switch readRecord(tls, UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<room])) {
      case .bytes(let count): filled += count
      case .wouldBlock: return filled > 0 ? .bytes(filled) : .wouldBlock
      case .endOfStream where filled == 0: return .endOfStream
      case .failed(let fault) where filled == 0: return .failed(fault)
      case let found:
        deferred = found
        return .bytes(filled)
      }
    } while filled < room && (filled >= Self.recordBytes || SSL_has_pending(tls) == 1)
    return .bytes(filled)
  }

  private func readRecord(_ tls: OpaquePointer, _ buffer: UnsafeMutableRawBufferPointer) -> IOResult {
    ERR_clear_error()
    let count = SSL_read(tls, buffer.baseAddress, Int32(clamping: buffer.count))
    if count > 0 { return .bytes(Int(count)) }
    switch SSL_get_error(tls, count) {
    case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
      mayRead = false
      return .wouldBlock
    case SSL_ERROR_ZERO_RETURN: return .endOfStream
    case SSL_ERROR_SYSCALL:
      let code = errno
      return .failed(code == 0 ? .truncated : .socket(code))
    case _:
      // OpenSSL 3 reports a FIN without close_notify here, as SSL_R_UNEXPECTED_EOF_WHILE_READING.
      let reason = Int32(truncatingIfNeeded: ERR_peek_error() & 0x7f_ffff)
      return .failed(reason == SSL_R_UNEXPECTED_EOF_WHILE_READING ? .truncated : .tls)
    }
  }

  private func writeTLS(_ tls: OpaquePointer, _ buffer: UnsafeRawBufferPointer) -> IOResult {
    ERR_clear_error()
    let count = SSL_write(tls, buffer.baseAddress, Int32(clamping: buffer.count))
    if count > 0 { return .bytes(Int(count)) }
    switch SSL_get_error(tls, count) {
    case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
      mayWrite = false
      return .wouldBlock
    case SSL_ERROR_SYSCALL:
      let code = errno
      return .failed(.socket(code == 0 ? EPIPE : code))
    case _: return .failed(.tls)
    }
  }
}

enum TLSErrors {
  /// The oldest queued OpenSSL error as one line; the queue is emptied.
  static func describe() -> String {
    let code = ERR_get_error()
    ERR_clear_error()
    guard code != 0 else { return "TLS failed without a reason" }
    if let reason = ERR_reason_error_string(code) { return "TLS: \(String(cString: reason))" }
    return "TLS error \(code)"
  }
}
