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

/// OpenSSL as a whole.
public enum TLSLibrary {
  /// Before anything else uses OpenSSL: a command that ends while a connection is still being closed by another thread
  /// must not crash (found by the thread sanitizer).
  public static func prepare() { bearerd_openssl_without_atexit() }
}

public struct TLSContextFault: Error, Sendable, CustomStringConvertible {
  public let description: String
}

/// OpenSSL's client side, shared by all loops: TLS 1.2 or later, the peer's name verified, sessions resumed with the
/// host they were made with.
public final class TLSClientContext: @unchecked Sendable {
  private let context: OpaquePointer
  private let resumable = ResumableSessions()

  /// What OpenSSL reads at once: the records of one read of ours, each with header, padding and tag (RFC 8446 §5.2, at most
  /// 261 bytes), and the bytes by which it aligns them. Without room for these every second read fetched a hundred bytes
  /// (counted).
  static let readAheadBytes = Channel.recordsMax * (Channel.recordBytes + 261) + alignmentBytes
  static let alignmentBytes = 8

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
    SSL_CTX_set_default_read_buffer_len(context, Self.readAheadBytes)
    try trust(settings.caFile)
    try present(settings.clientCertificateFile, settings.clientKeyFile)
    offer(settings.protocols)
    SSL_CTX_set_ex_data(context, ResumableSessions.index, Unmanaged.passRetained(resumable).toOpaque())
    _ = bearerd_SSL_CTX_set_session_cache_mode(
      context, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE))
    SSL_CTX_sess_set_new_cb(context) { connection, session in
      guard let connection, let session, let host = verifiedName(connection),
        let sessions = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), ResumableSessions.index)
      else { return 0 }
      Unmanaged<ResumableSessions>.fromOpaque(sessions).takeUnretainedValue().keep(session, of: host)
      return 1
    }
  }

  /// Connections that are still open keep OpenSSL's own context, and with it the sessions.
  deinit { SSL_CTX_free(context) }

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
    if resume, let host = verifiedName(connection), let session = resumable.take(of: host) {
      SSL_set_session(connection, session)
      SSL_SESSION_free(session)
    }
    return connection
  }

  private func trust(_ caFile: String?) throws(TLSContextFault) {
    if let caFile {
      guard SSL_CTX_load_verify_file(context, caFile) == 1 else {
        throw TLSContextFault(description: "\(caFile): \(TLSErrors.describe())")
      }
    } else if let store = SystemTrust.store() {
      SSL_CTX_set1_cert_store(context, store)
      X509_STORE_free(store)
    } else {
      throw TLSContextFault(description: TLSErrors.describe())
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

/// The system's certification authorities: reading them takes tens of milliseconds, so all contexts share them until
/// their file changes.
private enum SystemTrust {
  private struct Read: @unchecked Sendable {
    let store: OpaquePointer
    let file: FileState?
  }

  private struct FileState: Equatable {
    var inode: UInt
    var size: Int
    var seconds: Int
    var nanoseconds: Int
  }

  private static let latest = Mutex<Read?>(nil)

  /// A reference that the caller frees; nil where OpenSSL has no memory.
  static func store() -> OpaquePointer? {
    latest.withLock { latest in
      let path = place(X509_get_default_cert_file_env(), X509_get_default_cert_file())
      let file = path.flatMap(state)
      if let latest, let file, latest.file == file {
        X509_STORE_up_ref(latest.store)
        return latest.store
      }
      guard let store = X509_STORE_new() else { return nil }
      // By file and by names in the directory, as SSL_CTX_set_default_verify_paths(3); that would read every file of the
      // directory besides, which holds the same certificates once more.
      if let path, file != nil { X509_STORE_load_file(store, path) }
      if let directory = place(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()) {
        X509_STORE_load_path(store, directory)
      }
      ERR_clear_error()
      if let latest { X509_STORE_free(latest.store) }
      latest = Read(store: store, file: file)
      X509_STORE_up_ref(store)
      return store
    }
  }

  /// SSL_CERT_FILE and SSL_CERT_DIR stand above what OpenSSL was built with.
  private static func place(_ variable: UnsafePointer<CChar>?, _ builtIn: UnsafePointer<CChar>?) -> String? {
    (variable.flatMap { getenv($0) }.map { UnsafePointer($0) } ?? builtIn).map { String(cString: $0) }
  }

  /// nil: there is no such file, and nothing tells what a directory will hold.
  private static func state(_ path: String) -> FileState? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    return FileState(
      inode: status.st_ino, size: status.st_size, seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec)
  }
}

/// The name that the connection's certificate must carry, as given to `makeSession`; an IP address in OpenSSL's
/// spelling.
private func verifiedName(_ connection: OpaquePointer) -> String? {
  let parameters = SSL_get0_param(connection)
  if let host = X509_VERIFY_PARAM_get0_host(parameters, 0) { return String(cString: host) }
  guard let address = X509_VERIFY_PARAM_get1_ip_asc(parameters) else { return nil }
  defer { CRYPTO_free(address, nil, 0) }
  return String(cString: address)
}

/// Sessions that servers offered, newest last; those of TLS 1.3 are taken once (RFC 8446 §C.4).
///
/// A resumed handshake shows no certificate, so a session serves the host it was made with only: another host's
/// would let that host speak for this one. Owned by OpenSSL's context, because a ticket may arrive on a connection
/// that outlives `TLSClientContext`.
private final class ResumableSessions: Sendable {
  private let sessions = Mutex<[(host: String, session: UInt)]>([])

  /// Past this the oldest goes.
  private static let countMax = 8

  /// Where OpenSSL's context keeps its reference, and releases it with itself.
  static let index = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, nil, nil, nil) { _, sessions, _, _, _, _ in
    if let sessions { Unmanaged<ResumableSessions>.fromOpaque(sessions).release() }
  }

  deinit {
    sessions.withLock { sessions in
      for entry in sessions { SSL_SESSION_free(OpaquePointer(bitPattern: entry.session)) }
    }
  }

  /// Takes `session` over.
  func keep(_ session: OpaquePointer, of host: String) {
    let session = UInt(bitPattern: session)
    let dropped: UInt? = sessions.withLock { sessions in
      sessions.append((host, session))
      return sessions.count > Self.countMax ? sessions.removeFirst().session : nil
    }
    if let dropped { SSL_SESSION_free(OpaquePointer(bitPattern: dropped)) }
  }

  /// The caller frees it.
  func take(of host: String) -> OpaquePointer? {
    let session: UInt? = sessions.withLock { sessions in
      guard let index = sessions.lastIndex(where: { $0.host == host }) else { return nil }
      let session = OpaquePointer(bitPattern: sessions[index].session)
      // A resumed handshake of TLS 1.2 mostly brings no new session: the old one stays.
      if SSL_SESSION_get_protocol_version(session) == TLS1_3_VERSION || SSL_SESSION_up_ref(session) != 1 {
        return sessions.remove(at: index).session
      }
      return sessions[index].session
    }
    return session.flatMap { OpaquePointer(bitPattern: $0) }
  }
}
