import COpenSSL
import Glibc

struct CertificateFault: Error { var step: String }

/// A certification authority made for one test: EC P-256, in memory. Owns its OpenSSL objects, which are not changed
/// after `init`.
final class TestAuthority: @unchecked Sendable {
  fileprivate let pair: KeyPair

  init() throws {
    pair = try KeyPair.issue(
      name: "test authority", issuer: nil,
      extensions: [
        (NID_basic_constraints, "critical,CA:TRUE"), (NID_key_usage, "critical,keyCertSign"),
        (NID_subject_key_identifier, "hash"),
      ])
  }

  func pem() throws -> String { try pair.certificatePEM() }

  /// `names` are subjectAltName entries: `DNS:a.example`, `IP:127.0.0.1`.
  func server(_ names: String, validDays: Int = 7) throws -> KeyPair {
    try KeyPair.issue(
      name: "server", issuer: pair, validDays: validDays,
      extensions: [
        (NID_basic_constraints, "critical,CA:FALSE"), (NID_ext_key_usage, "serverAuth"),
        (NID_subject_alt_name, names),
      ])
  }

  func client() throws -> KeyPair {
    try KeyPair.issue(
      name: "client", issuer: pair,
      extensions: [(NID_basic_constraints, "critical,CA:FALSE"), (NID_ext_key_usage, "clientAuth")])
  }

  fileprivate var certificate: OpaquePointer { pair.certificate }
}

/// A certificate and its key; freed when released.
final class KeyPair: @unchecked Sendable {
  fileprivate let certificate: OpaquePointer
  fileprivate let key: OpaquePointer

  private init(certificate: OpaquePointer, key: OpaquePointer) {
    self.certificate = certificate
    self.key = key
  }

  deinit {
    X509_free(certificate)
    EVP_PKEY_free(key)
  }

  fileprivate static func issue(
    name: String, issuer: KeyPair?, validDays: Int = 7, extensions: [(Int32, String)]
  ) throws -> KeyPair {
    guard let key = bearerd_EVP_EC_gen("P-256"), let certificate = X509_new() else {
      throw CertificateFault(step: "key")
    }
    let pair = KeyPair(certificate: certificate, key: key)
    let begins = min(-1, validDays - 1) * 86_400
    guard X509_set_version(certificate, 2) == 1,
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), UInt64.random(in: 1...UInt64.max >> 1))
        == 1,
      X509_gmtime_adj(X509_getm_notBefore(certificate), begins) != nil,
      X509_gmtime_adj(X509_getm_notAfter(certificate), validDays * 86_400) != nil,
      X509_set_pubkey(certificate, key) == 1, let subject = X509_get_subject_name(certificate),
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, -1, -1, 0) == 1,
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer?.certificate ?? certificate)) == 1
    else { throw CertificateFault(step: "fields") }
    var context = X509V3_CTX()
    X509V3_set_ctx(&context, issuer?.certificate ?? certificate, certificate, nil, nil, 0)
    for (identifier, value) in extensions {
      guard let made = X509V3_EXT_nconf_nid(nil, &context, identifier, value) else {
        throw CertificateFault(step: value)
      }
      defer { X509_EXTENSION_free(made) }
      guard X509_add_ext(certificate, made, -1) == 1 else { throw CertificateFault(step: value) }
    }
    guard X509_sign(certificate, issuer?.key ?? key, EVP_sha256()) > 0 else {
      throw CertificateFault(step: "signature")
    }
    return pair
  }

  func certificatePEM() throws -> String { try Self.pem { PEM_write_bio_X509($0, certificate) } }
  func keyPEM() throws -> String {
    try Self.pem { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
  }

  private static func pem(_ write: (OpaquePointer) -> Int32) throws -> String {
    guard let memory = BIO_new(BIO_s_mem()) else { throw CertificateFault(step: "memory") }
    defer { BIO_free(memory) }
    guard write(memory) == 1 else { throw CertificateFault(step: "encoding") }
    var text = [UInt8](repeating: 0, count: 8192)
    let count = BIO_read(memory, &text, Int32(text.count))
    return String(decoding: text.prefix(Int(max(0, count))), as: UTF8.self)
  }
}

/// The server's side of TLS for one test.
final class TestServerContext: @unchecked Sendable {
  let context: OpaquePointer

  /// - Parameters:
  ///   - versions: the lowest and the highest protocol version, of OpenSSL's numbers.
  ///   - clients: whose certificates clients must show; nil asks for none.
  init(
    _ pair: KeyPair, versions: ClosedRange<Int32> = TLS1_2_VERSION...TLS1_3_VERSION,
    clients: TestAuthority? = nil
  ) throws {
    guard let context = SSL_CTX_new(TLS_server_method()) else { throw CertificateFault(step: "context") }
    self.context = context
    // Versions before 1.2 need signatures that only the lowest level allows.
    if versions.lowerBound < TLS1_2_VERSION { SSL_CTX_set_cipher_list(context, "DEFAULT:@SECLEVEL=0") }
    let session = Array("test".utf8)
    guard SSL_CTX_use_certificate(context, pair.certificate) == 1,
      SSL_CTX_use_PrivateKey(context, pair.key) == 1,
      SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(versions.lowerBound), nil) == 1,
      SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(versions.upperBound), nil) == 1,
      SSL_CTX_set_session_id_context(context, session, UInt32(session.count)) == 1
    else { throw CertificateFault(step: "server context") }
    if let clients {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context), clients.certificate)
      SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
    }
    SSL_CTX_set_alpn_select_cb(context, selectFirst, nil)
  }

  deinit { SSL_CTX_free(context) }
}

/// The client's first choice, so that a test sees what it offered.
private func selectFirst(
  _: OpaquePointer?, _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
  _ outLength: UnsafeMutablePointer<UInt8>?,
  _ offer: UnsafePointer<UInt8>?, _ offerLength: UInt32, _: UnsafeMutableRawPointer?
) -> Int32 {
  guard let offer, offerLength > 1 else { return SSL_TLSEXT_ERR_NOACK }
  out?.pointee = offer + 1
  outLength?.pointee = offer[0]
  return SSL_TLSEXT_ERR_OK
}
