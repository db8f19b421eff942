internal import CNghttp2

/// Answers a client that begins HTTP/2 where only HTTP/1.1 is spoken: SETTINGS, then GOAWAY with
/// `HTTP_1_1_REQUIRED` (RFC 9113 §7), so that the client can tell its user what is wrong.
///
/// Driven through memory: feed what the client sent with `received`, send what `pendingOutput` hands out, and
/// close the connection when `isFinished`. It belongs to one connection and, like it, to one loop.
@safe
public final class HTTP2Refusal {
  private let session: OpaquePointer
  private var hasFailed = false

  /// nil when memory is short.
  public init?() {
    var callbacks: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
    defer { unsafe nghttp2_session_callbacks_del(callbacks) }
    var created: OpaquePointer?
    guard unsafe nghttp2_session_server_new(&created, callbacks, nil) == 0, let created = unsafe created else {
      return nil
    }
    unsafe session = created
    // No stream is ever opened: the GOAWAY below names stream 0 as the last one processed.
    guard unsafe nghttp2_submit_settings(created, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil, 0) == 0,
      unsafe nghttp2_session_terminate_session(created, NGHTTP2_HTTP_1_1_REQUIRED.rawValue) == 0
    else { return nil }
  }

  deinit { unsafe nghttp2_session_del(session) }

  /// Takes all of the bytes, the client's connection preface first. After the GOAWAY has been handed out, and
  /// after bytes that are not HTTP/2, what comes is ignored.
  public func received(_ bytes: RawSpan) {
    guard !hasFailed, !bytes.isEmpty, unsafe nghttp2_session_want_read(session) != 0 else { return }
    let taken = unsafe bytes.withUnsafeBytes { pointer in
      unsafe nghttp2_session_mem_recv(session, pointer.bindMemory(to: UInt8.self).baseAddress, pointer.count)
    }
    hasFailed = taken < 0
  }

  /// Calls `send` with each piece of output (below 100 bytes in all), valid during that call only; `send` takes
  /// the whole piece.
  public func pendingOutput(_ send: (RawSpan) -> Void) {
    while true {
      var piece: UnsafePointer<UInt8>?
      let count = unsafe nghttp2_session_mem_send(session, &piece)
      if count < 0 { hasFailed = true }
      guard count > 0, let start = unsafe piece else { return }
      send(unsafe RawSpan(_unsafeStart: UnsafeRawPointer(start), byteCount: count))
    }
  }

  /// Everything was handed out, or nothing can be: send what is buffered and close.
  public var isFinished: Bool {
    let wantsWrite = unsafe nghttp2_session_want_write(session) != 0
    let wantsRead = unsafe nghttp2_session_want_read(session) != 0
    return !wantsWrite && (hasFailed || !wantsRead)
  }
}
