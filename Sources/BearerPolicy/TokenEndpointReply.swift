public import Chronology

/// What came of asking a token endpoint, as the client that asked saw it. How far the request got is the proof
/// that `RefreshOutcome.classify` works with.
public enum TokenEndpointReply: Equatable, Sendable {
  /// Provably no byte of the request was processed.
  case notSent(NotSent)
  /// The request may have been processed, and no complete answer came.
  case noAnswer(NoAnswer)
  /// A complete answer. `serverDate` is its `Date`, `retryAfter` its `Retry-After` from now; `body` is what it says
  /// without transfer and content coding.
  case answer(status: Int, serverDate: WallTime?, retryAfter: Interval?, body: [UInt8])

  public enum NotSent: Equatable, Sendable {
    case nameResolution
    case connect
    /// The outbound proxy refused the tunnel or could not be reached.
    case outboundProxy
    /// The handshake failed; the text is OpenSSL's reason, for people.
    case tls(String)
    /// REFUSED_STREAM (RFC 9113 §8.7).
    case h2Refused
    /// GOAWAY with a last stream identifier below ours (RFC 9113 §6.8).
    case h2GoneAway
    /// Connecting took until `TokenRequest.sendBefore`.
    case tooLate

    /// A stable word for logs and metrics.
    public var reason: String {
      switch self {
      case .nameResolution: "name_resolution"
      case .connect: "connect"
      case .outboundProxy: "outbound_proxy"
      case .tls: "tls"
      case .h2Refused: "h2_refused_stream"
      case .h2GoneAway: "h2_goaway"
      case .tooLate: "too_late"
      }
    }
  }

  public enum NoAnswer: String, Sendable, CaseIterable {
    case timedOut = "timed_out"
    case connectionReset = "connection_reset"
    /// Shorter than its framing says, or a TLS end without close_notify.
    case truncated
    /// Past the limit of 1 MiB.
    case tooLarge = "too_large"
    /// Bytes that are no HTTP response.
    case malformed
  }
}
