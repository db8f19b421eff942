import CNghttp2
import HTTP2Framing
import Testing

/// A client of HTTP/2 in memory that notes the GOAWAY it receives.
final class MemoryClient {
  private var session: OpaquePointer?
  private(set) var goAwayCode: UInt32?
  private(set) var goAwayLastStream: Int32?
  private(set) var settingsCount = 0

  init() throws {
    var callbacks: OpaquePointer?
    try #require(nghttp2_session_callbacks_new(&callbacks) == 0)
    defer { nghttp2_session_callbacks_del(callbacks) }
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, context in
      guard let frame, let context else { return 0 }
      Unmanaged<MemoryClient>.fromOpaque(context).takeUnretainedValue().received(frame.pointee)
      return 0
    }
    try #require(nghttp2_session_client_new(&session, callbacks, Unmanaged.passUnretained(self).toOpaque()) == 0)
    try #require(nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil, 0) == 0)
  }

  deinit { nghttp2_session_del(session) }

  /// Preface, SETTINGS, and one request.
  func request() throws -> [UInt8] {
    var name = Array(":method".utf8)
    var value = Array("GET".utf8)
    let stream = name.withUnsafeMutableBufferPointer { name in
      value.withUnsafeMutableBufferPointer { value in
        var field = nghttp2_nv(
          name: name.baseAddress, value: value.baseAddress, namelen: name.count, valuelen: value.count,
          flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue))
        return nghttp2_submit_request(session, nil, &field, 1, nil, nil)
      }
    }
    try #require(stream == 1)
    return output()
  }

  func output() -> [UInt8] {
    var bytes: [UInt8] = []
    var piece: UnsafePointer<UInt8>?
    while true {
      let count = nghttp2_session_mem_send(session, &piece)
      guard count > 0 else { return bytes }
      bytes += UnsafeBufferPointer(start: piece, count: count)
    }
  }

  func receive(_ bytes: [UInt8]) -> Bool { nghttp2_session_mem_recv(session, bytes, bytes.count) == bytes.count }

  private func received(_ frame: nghttp2_frame) {
    switch Int(frame.hd.type) {
    case Int(NGHTTP2_GOAWAY.rawValue):
      goAwayCode = frame.goaway.error_code
      goAwayLastStream = frame.goaway.last_stream_id
    case Int(NGHTTP2_SETTINGS.rawValue): settingsCount += 1
    default: break
    }
  }
}

@Suite("RFC 9113 §3.4 client connection preface")
struct ClientPrefaceTests {
  static let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

  static func match(_ text: String) -> ClientPreface.Match {
    let bytes = Array(text.utf8)
    return ClientPreface.match(bytes.span.bytes)
  }

  @Test("Every part of it is partial, the whole is a match", arguments: 0...24)
  func prefixes(_ count: Int) {
    #expect(
      Self.match(String(decoding: Array(Self.preface.utf8)[..<count], as: UTF8.self))
        == (count == 24 ? .yes : .partial))
  }

  @Test("Frames may follow")
  func followed() {
    #expect(Self.match(Self.preface + "\0\0\0") == .yes)
  }

  @Test("One byte changed anywhere is no match", arguments: 0..<24)
  func changed(_ index: Int) {
    var bytes = Array(Self.preface.utf8)
    bytes[index] ^= 1
    #expect(ClientPreface.match(bytes.span.bytes) == .no)
    #expect(ClientPreface.match(bytes.span.bytes.extracting(0..<index + 1)) == .no)
  }

  @Test(
    "HTTP/1 requests are no match", arguments: ["GET / HTTP/1.1\r\n", "PRI * HTTP/1.1\r\n", "PUT / HTTP/1.1\r\n"])
  func http1(_ text: String) {
    #expect(Self.match(text) == .no)
  }
}

@Suite("RFC 9113 §7 HTTP_1_1_REQUIRED")
struct HTTP2RefusalTests {
  static func pending(_ refusal: HTTP2Refusal) -> [UInt8] {
    var bytes: [UInt8] = []
    refusal.pendingOutput { piece in
      bytes += piece.byteOffsets.map { piece.unsafeLoad(fromByteOffset: $0, as: UInt8.self) }
    }
    return bytes
  }

  @Test("A client learns that it must speak HTTP/1.1, however its bytes arrive", arguments: [1, 7, 24, 1000])
  func tells(_ pieceBytes: Int) throws {
    let client = try MemoryClient()
    let refusal = try #require(HTTP2Refusal())
    let request = try client.request()
    var answer: [UInt8] = []
    var offset = 0
    while offset < request.count {
      let end = min(offset + pieceBytes, request.count)
      refusal.received(request.span.bytes.extracting(offset..<end))
      answer += Self.pending(refusal)
      offset = end
    }
    #expect(client.receive(answer))
    #expect(client.settingsCount >= 1)
    #expect(client.goAwayCode == NGHTTP2_HTTP_1_1_REQUIRED.rawValue)
    #expect(client.goAwayLastStream == 0)
    #expect(refusal.isFinished)
    #expect(answer.count < 100)
    #expect(Self.pending(refusal).isEmpty)
  }

  @Test("It is not finished before its answer is handed out")
  func unfinished() throws {
    let refusal = try #require(HTTP2Refusal())
    #expect(!refusal.isFinished)
    #expect(!Self.pending(refusal).isEmpty)
    #expect(refusal.isFinished)
  }

  @Test(
    "Bytes that are no HTTP/2 end it too",
    arguments: ["GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxxxxxxxxxxxxxxxx"])
  func junk(_ text: String) throws {
    let refusal = try #require(HTTP2Refusal())
    let bytes = Array(text.utf8)
    refusal.received(bytes.span.bytes)
    _ = Self.pending(refusal)
    #expect(refusal.isFinished)
    refusal.received(bytes.span.bytes)
    #expect(refusal.isFinished)
  }
}
