import CLinux
import COpenSSL
import Glibc

/// A blocking byte stream over one connection, plain or TLS. Used by the connection's own thread only. The
/// descriptor belongs to the registry, which closes it when that thread is done.
final class Channel {
  enum ReadResult: Equatable {
    case bytes(Int)
    /// FIN over plain TCP, close_notify over TLS.
    case end
    /// Reset, time-out, or a TLS end without close_notify.
    case failed
  }

  private let descriptor: Int32
  private let ssl: OpaquePointer?

  init(descriptor: Int32, ssl: OpaquePointer?) {
    self.descriptor = descriptor
    self.ssl = ssl
  }

  deinit {
    if let ssl { SSL_free(ssl) }
  }

  /// Waits for bytes.
  func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
    if let ssl {
      ERR_clear_error()
      let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
      if count > 0 { return .bytes(Int(count)) }
      return SSL_get_error(ssl, count) == SSL_ERROR_ZERO_RETURN ? .end : .failed
    }
    while true {
      let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
      if count > 0 { return .bytes(count) }
      if count == 0 { return .end }
      if errno != EINTR { return .failed }
    }
  }

  /// Writes everything; false once the peer is gone.
  func write(_ bytes: some Collection<UInt8>) -> Bool {
    bytes.withContiguousStorageIfAvailable { writeAll(UnsafeRawBufferPointer($0)) }
      ?? Array(bytes).withUnsafeBytes { writeAll($0) }
  }

  private func writeAll(_ bytes: UnsafeRawBufferPointer) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = UnsafeRawBufferPointer(rebasing: rest)
      let count: Int
      if let ssl {
        ERR_clear_error()
        count = Int(SSL_write(ssl, piece.baseAddress, Int32(clamping: piece.count)))
      } else {
        count = send(descriptor, piece.baseAddress, piece.count, Int32(MSG_NOSIGNAL))
        if count < 0, errno == EINTR { continue }
      }
      if count <= 0 { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Lets that much time pass; false when the connection was reset or shut down meanwhile.
  func wait(milliseconds: Int) -> Bool {
    var entry = pollfd(fd: descriptor, events: 0, revents: 0)
    return poll(&entry, 1, Int32(clamping: max(0, milliseconds))) == 0
  }

  /// Waits until the peer gives up, whatever it sends meanwhile. Over TLS the records are not decrypted.
  func waitForPeerToLeave() {
    var scratch = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = recv(descriptor, &scratch, scratch.count, 0)
      if count == 0 || (count < 0 && errno != EINTR) { return }
    }
  }

  /// Ends the sending side in order: close_notify first over TLS, then FIN.
  func finishSending() {
    if let ssl {
      ERR_clear_error()
      SSL_shutdown(ssl)
    }
    shutdown(descriptor, Int32(SHUT_WR))
  }

  /// Ends the sending side with FIN alone: over TLS a truncation.
  func cutSending() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Makes the close to come a reset.
  func resetAtClose() {
    var choice = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &choice, socklen_t(MemoryLayout<linger>.size))
  }

  /// Bounds each later read, so that a peer which neither sends nor closes does not hold the thread.
  func limitReads(milliseconds: Int) {
    var time = timeval(tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
  }
}
