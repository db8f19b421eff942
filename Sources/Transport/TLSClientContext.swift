import COpenSSL
import CLinux
import Glibc
import Synchronization

/// What a TLS connection to one origin needs (SPEC §10). Paths are read when the context is made.
public struct TLSClientSettings: Equatable, Sendable {
  /// PEM file of trusted certification authorities; nil: the system's.
  public var caFile: String?
  public var clientCertificateFile: String?
  public var clientKeyFile: String?
  /// Offered by ALPN (RFC 7301), most wanted first.
  public var protocols: [String]

  public init(
    caFile: String? = nil, clientCertificateFile: String? = nil, clientKeyFile: String? = nil,
    protocols: [String] = ["http/1.1"]
  ) {
    self.caFile = caFile
    self.clientCertificateFile = clientCertificateFile
    self.clientKeyFile = clientKeyFile
    self.protocols = protocols
  }
}

public struct TLSContextFault: Error, Sendable, CustomStringConvertible {
  public let description: String
}

/// OpenSSL's client side for one origin, shared by all loops: TLS 1.2 or later, the peer's name verified,
/// sessions resumed.
public final class TLSClientContext: @unchecked Sendable {
  private let context: OpaquePointer
  /// Sessions offered by the server, newest last: a TLS 1.3 ticket is used once (RFC 8446 §C.4).
  private let resumable = Mutex<[UInt]>([])

  private static let resumableMax = 8

  public init(_ settings: TLSClientSettings) throws(TLSContextFault) {
    guard let context = SSL_CTX_new(TLS_client_method()) else {
      throw TLSContextFault(description: TLSErrors.describe())
    }
    self.context = context
    _ = bearerd_SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
    let mode = SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS
    _ = bearerd_SSL_CTX_set_mode(context, Int(mode))
    bearerd_SSL_CTX_set_read_ahead(context, 1)
    try trust(settings.caFile)
    try present(settings.clientCertificateFile, settings.clientKeyFile)
    offer(settings.protocols)
    SSL_CTX_set_ex_data(context, 0, Unmanaged.passUnretained(self).toOpaque())
    _ = bearerd_SSL_CTX_set_session_cache_mode(
      context, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE))
    SSL_CTX_sess_set_new_cb(context) { connection, session in
      guard let connection, let session, let owner = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), 0) else {
        return 0
      }
      Unmanaged<TLSClientContext>.fromOpaque(owner).takeUnretainedValue().keep(session)
      return 1
    }
  }

  deinit {
    resumable.withLock { sessions in
      for session in sessions { SSL_SESSION_free(OpaquePointer(bitPattern: session)) }
    }
    SSL_CTX_free(context)
  }

  /// A new connection's TLS state that will accept only a certificate for `host` (a DNS name or an IP literal without brackets).
  ///
  /// - Parameter resume: false for the token endpoint's calls, which carry nothing early and share nothing.
  public func makeSession(host: String, resume: Bool = true) throws(TLSContextFault) -> OpaquePointer {
    guard let connection = SSL_new(context) else { throw TLSContextFault(description: TLSErrors.describe()) }
    if SocketAddress(literal: host, port: 0) != nil {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host)
    } else {
      SSL_set_hostflags(connection, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
      SSL_set1_host(connection, host)
      _ = bearerd_SSL_set_tlsext_host_name(connection, host)
    }
    if resume, let session = resumable.withLock({ $0.popLast() }).flatMap({ OpaquePointer(bitPattern: $0) }) {
      SSL_set_session(connection, session)
      SSL_SESSION_free(session)
    }
    return connection
  }

  private func keep(_ session: OpaquePointer) {
    let dropped: UInt? = resumable.withLock { sessions in
      sessions.append(UInt(bitPattern: session))
      return sessions.count > Self.resumableMax ? sessions.removeFirst() : nil
    }
    if let dropped { SSL_SESSION_free(OpaquePointer(bitPattern: dropped)) }
  }

  private func trust(_ caFile: String?) throws(TLSContextFault) {
    if let caFile {
      guard SSL_CTX_load_verify_file(context, caFile) == 1 else {
        throw TLSContextFault(description: "\(caFile): \(TLSErrors.describe())")
      }
    } else {
      SSL_CTX_set_default_verify_paths(context)
    }
  }

  private func present(_ certificate: String?, _ key: String?) throws(TLSContextFault) {
    guard let certificate else { return }
    guard SSL_CTX_use_certificate_chain_file(context, certificate) == 1 else {
      throw TLSContextFault(description: "\(certificate): \(TLSErrors.describe())")
    }
    let keyFile = key ?? certificate
    guard SSL_CTX_use_PrivateKey_file(context, keyFile, SSL_FILETYPE_PEM) == 1 else {
      throw TLSContextFault(description: "\(keyFile): \(TLSErrors.describe())")
    }
  }

  private func offer(_ protocols: [String]) {
    var wire: [UInt8] = []
    for name in protocols {
      wire.append(UInt8(clamping: name.utf8.count))
      wire.append(contentsOf: name.utf8)
    }
    SSL_CTX_set_alpn_protos(context, wire, UInt32(wire.count))
  }
}
