import COpenSSL
import Foundation

/// A TLS connection that tells an orderly end (close_notify) from a bare FIN, which curl does not. It verifies
/// nothing.
final class TLSClient {
  private let raw: RawClient
  private let context: OpaquePointer
  private let ssl: OpaquePointer

  struct Failed: Error {}

  init(port: UInt16) throws {
    raw = try RawClient(port: port)
    guard let context = SSL_CTX_new(TLS_client_method()) else { throw Failed() }
    guard let ssl = SSL_new(context) else {
      SSL_CTX_free(context)
      throw Failed()
    }
    (self.context, self.ssl) = (context, ssl)
    guard SSL_set_fd(ssl, raw.descriptor) == 1, SSL_connect(ssl) == 1 else { throw Failed() }
  }

  deinit {
    SSL_free(ssl)
    SSL_CTX_free(context)
  }

  /// Sends `text` and reads to the end of the connection.
  func exchange(_ text: String) -> (text: String, isClosedInOrder: Bool) {
    let request = Array(text.utf8)
    ERR_clear_error()
    guard SSL_write(ssl, request, Int32(request.count)) == Int32(request.count) else { return ("", false) }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = SSL_read(ssl, &piece, Int32(piece.count))
      if count > 0 {
        bytes += piece[..<Int(count)]
        continue
      }
      return (String(decoding: bytes, as: UTF8.self), SSL_get_error(ssl, count) == SSL_ERROR_ZERO_RETURN)
    }
  }
}
