import COpenSSL
import Glibc

/// A certificate authority made at start, with what it issues: EC P-256, valid for a week, in memory only.
///
/// Owns OpenSSL objects that are not changed after `init`, which is why threads may share it.
final class CertificateAuthority: @unchecked Sendable {
  let certificate: CertifiedKey
  let certificatePEM: String

  init() throws(MockServerError) {
    certificate = try CertifiedKey.issue(
      commonName: "mock authority", issuer: nil,
      extensions: [
        (NID_basic_constraints, "critical,CA:TRUE"), (NID_key_usage, "critical,keyCertSign,cRLSign"),
        (NID_subject_key_identifier, "hash"),
      ])
    certificatePEM = try certificate.certificatePEM()
  }

  /// RFC 6125: the names stand in subjectAltName, addresses as iPAddress.
  func issueServerCertificate(names: [String]) throws(MockServerError) -> CertifiedKey {
    let alternatives = names.map { Self.isIPv4($0) ? "IP:\($0)" : "DNS:\($0)" }.joined(separator: ",")
    return try CertifiedKey.issue(
      commonName: names.first ?? "mock", issuer: certificate,
      extensions: [
        (NID_basic_constraints, "critical,CA:FALSE"), (NID_key_usage, "critical,digitalSignature"),
        (NID_ext_key_usage, "serverAuth"), (NID_subject_alt_name, alternatives),
      ])
  }

  func issueClientCertificate(commonName: String) throws(MockServerError) -> CertifiedKey {
    try CertifiedKey.issue(
      commonName: commonName, issuer: certificate,
      extensions: [
        (NID_basic_constraints, "critical,CA:FALSE"), (NID_key_usage, "critical,digitalSignature"),
        (NID_ext_key_usage, "clientAuth"),
      ])
  }

  private static func isIPv4(_ name: String) -> Bool {
    var address = in_addr()
    return inet_pton(AF_INET, name, &address) == 1
  }
}

/// A certificate and its private key. Owns both; frees them when released.
final class CertifiedKey: @unchecked Sendable {
  let certificate: OpaquePointer
  let key: OpaquePointer

  private init(certificate: OpaquePointer, key: OpaquePointer) {
    self.certificate = certificate
    self.key = key
  }

  deinit {
    X509_free(certificate)
    EVP_PKEY_free(key)
  }

  /// nil issuer: self-signed.
  static func issue(
    commonName: String, issuer: CertifiedKey?, extensions: [(Int32, String)]
  ) throws(MockServerError) -> CertifiedKey {
    guard let key = bearerd_EVP_EC_gen("P-256") else { throw .certificate(step: "key") }
    guard let certificate = X509_new() else {
      EVP_PKEY_free(key)
      throw .certificate(step: "allocation")
    }
    let pair = CertifiedKey(certificate: certificate, key: key)
    var serial: UInt64 = 0
    let isSerialDrawn = withUnsafeMutableBytes(of: &serial) { bytes in
      RAND_bytes(bytes.bindMemory(to: UInt8.self).baseAddress, Int32(bytes.count))
    }
    // An hour back, so that a peer whose clock is a little behind accepts it; version 2 means X.509 v3.
    guard isSerialDrawn == 1, X509_set_version(certificate, 2) == 1,
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1) == 1,
      X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) != nil,
      X509_gmtime_adj(X509_getm_notAfter(certificate), 7 * 86_400) != nil,
      X509_set_pubkey(certificate, key) == 1,
      let name = X509_get_subject_name(certificate),
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, commonName, -1, -1, 0) == 1,
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer?.certificate ?? certificate)) == 1
    else { throw .certificate(step: "fields") }
    for (identifier, value) in extensions { try pair.add(identifier, value, issuer: issuer) }
    guard X509_sign(certificate, issuer?.key ?? key, EVP_sha256()) > 0 else { throw .certificate(step: "signature") }
    return pair
  }

  func certificatePEM() throws(MockServerError) -> String {
    try Self.pem { PEM_write_bio_X509($0, certificate) }
  }

  func keyPEM() throws(MockServerError) -> String {
    try Self.pem { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
  }

  private func add(_ identifier: Int32, _ value: String, issuer: CertifiedKey?) throws(MockServerError) {
    var context = X509V3_CTX()
    X509V3_set_ctx(&context, issuer?.certificate ?? certificate, certificate, nil, nil, 0)
    guard let made = X509V3_EXT_nconf_nid(nil, &context, identifier, value) else {
      throw .certificate(step: "extension \(identifier)")
    }
    defer { X509_EXTENSION_free(made) }
    guard X509_add_ext(certificate, made, -1) == 1 else { throw .certificate(step: "extension \(identifier)") }
  }

  private static func pem(_ write: (OpaquePointer) -> Int32) throws(MockServerError) -> String {
    guard let memory = BIO_new(BIO_s_mem()) else { throw .certificate(step: "allocation") }
    defer { BIO_free(memory) }
    guard write(memory) == 1 else { throw .certificate(step: "encoding") }
    var text: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = BIO_read(memory, &piece, Int32(piece.count))
      if count <= 0 { return String(decoding: text, as: UTF8.self) }
      text += piece[..<Int(count)]
    }
  }
}
