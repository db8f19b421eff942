public import MockBackend

/// What the mock server serves and how it is reached. Everything listens on 127.0.0.1, on ports the kernel picks.
public struct MockServerSettings: Sendable {
  public var backend = BackendSettings()
  /// Seeds the tokens, so that a run can be repeated.
  public var seed: UInt64 = 1
  /// Names and IPv4 addresses that the certificate carries.
  public var certificateNames = ["api.test", "idp.test", "localhost", "127.0.0.1"]
  /// A handshake without a certificate from `issueClientCertificate` fails.
  public var requiresClientCertificate = false
  /// Sessions can be resumed by ticket (RFC 8446 §2.2, RFC 5077).
  public var issuesSessionTickets = true
  /// Added to the wall clock: a server whose clock is wrong, in `Date` and in its tokens.
  public var clockOffsetMilliseconds: Int64 = 0

  public init() {}
}

/// Why the server could not be set up. All are this machine's fault; trying again helps only where a resource was
/// short.
public enum MockServerError: Error, Equatable, Sendable {
  case systemCall(name: String, errno: Int32)
  case certificate(step: String)
  case thread(errno: Int32)
}

/// What happened on the sockets, beside `BackendCounters`.
public struct ConnectionCounters: Equatable, Sendable {
  public var plainAccepted = 0
  public var tlsAccepted = 0
  public var handshakesCompleted = 0
  /// Of these, the ones that resumed an earlier session.
  public var handshakesResumed = 0
  public var handshakesFailed = 0
  public var live = 0
  /// Requests that were not HTTP, or not framed as RFC 9112 demands.
  public var malformedRequests = 0
  public init() {}
}
