import COpenSSL

/// The server's half of TLS: certificate, ALPN, tickets. Configured in `init` and then only read; SSL_CTX counts its
/// own references, so threads may share it.
final class TLSContext: @unchecked Sendable {
  private let context: OpaquePointer

  init(_ settings: MockServerSettings, authority: CertificateAuthority) throws(MockServerError) {
    guard let context = SSL_CTX_new(TLS_server_method()) else { throw .certificate(step: "TLS context") }
    self.context = context
    let leaf = try authority.issueServerCertificate(names: settings.certificateNames)
    guard SSL_CTX_use_certificate(context, leaf.certificate) == 1, SSL_CTX_use_PrivateKey(context, leaf.key) == 1,
      bearerd_SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1
    else { throw .certificate(step: "TLS context") }
    let identifier = Array("mock".utf8)
    SSL_CTX_set_session_id_context(context, identifier, UInt32(identifier.count))
    if !settings.issuesSessionTickets {
      SSL_CTX_set_num_tickets(context, 0)
      SSL_CTX_set_options(context, Self.noTicket)
      _ = bearerd_SSL_CTX_set_session_cache_mode(context, Int(SSL_SESS_CACHE_OFF))
    }
    if settings.requiresClientCertificate {
      guard X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.certificate.certificate) == 1 else {
        throw .certificate(step: "client authority")
      }
      SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
    }
    SSL_CTX_set_alpn_select_cb(context, selectHTTP11, nil)
  }

  deinit { SSL_CTX_free(context) }

  /// A connection over `descriptor`, which stays the caller's.
  func accept(_ descriptor: Int32) -> OpaquePointer? {
    guard let ssl = SSL_new(context) else { return nil }
    guard SSL_set_fd(ssl, descriptor) == 1, SSL_accept(ssl) == 1 else {
      SSL_free(ssl)
      ERR_clear_error()
      return nil
    }
    return ssl
  }

  /// SSL_OP_NO_TICKET, whose macro the importer cannot see (openssl/ssl.h: bit 14).
  private static let noTicket: UInt64 = 1 << 14
}

/// RFC 7301 §3.2: `http/1.1` wherever it is offered; an offer without it gets a handshake without ALPN.
private func selectHTTP11(
  _: OpaquePointer?, _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ outLength: UnsafeMutablePointer<UInt8>?,
  _ offer: UnsafePointer<UInt8>?, _ offerLength: UInt32, _: UnsafeMutableRawPointer?
) -> Int32 {
  let wanted = Array("http/1.1".utf8)
  var offset = 0
  while let offer, offset < Int(offerLength) {
    let length = Int(offer[offset])
    guard offset + 1 + length <= Int(offerLength) else { break }
    if (0..<length).map({ offer[offset + 1 + $0] }) == wanted {
      out?.pointee = offer + offset + 1
      outLength?.pointee = UInt8(length)
      return SSL_TLSEXT_ERR_OK
    }
    offset += 1 + length
  }
  return SSL_TLSEXT_ERR_NOACK
}
