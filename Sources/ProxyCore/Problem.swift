/// The stable codes of the answers that bearerd makes itself (SPEC §6).
public enum ProblemCode: String, Sendable, CaseIterable {
  case sessionExpired = "SESSION_EXPIRED"
  case sessionMissing = "SESSION_MISSING"
  case refreshUnavailable = "REFRESH_UNAVAILABLE"
  case refreshMisconfigured = "REFRESH_MISCONFIGURED"
  case storeUnwritable = "STORE_UNWRITABLE"
  case upstreamUnreachable = "UPSTREAM_UNREACHABLE"
  case upstreamTLS = "UPSTREAM_TLS"
  case upstreamTimeout = "UPSTREAM_TIMEOUT"
  case upstreamProtocol = "UPSTREAM_PROTOCOL"
  case routeDenied = "ROUTE_DENIED"
  case connectDenied = "CONNECT_DENIED"
  case crossSiteDenied = "CROSS_SITE_DENIED"
  case clientUnauthenticated = "CLIENT_UNAUTHENTICATED"
  case misdirected = "MISDIRECTED"
  case loopDetected = "LOOP_DETECTED"
  case badRequest = "BAD_REQUEST"
  case expectationFailed = "EXPECTATION_FAILED"
  case headerTooLarge = "HEADER_TOO_LARGE"
  case targetTooLong = "TARGET_TOO_LONG"
  case bodyTooLarge = "BODY_TOO_LARGE"
  case requestTimeout = "REQUEST_TIMEOUT"
  case overloaded = "OVERLOADED"

  public var status: Int {
    switch self {
    case .sessionExpired, .sessionMissing: 401
    case .refreshUnavailable, .storeUnwritable, .overloaded: 503
    case .refreshMisconfigured, .upstreamUnreachable, .upstreamTLS, .upstreamProtocol: 502
    case .upstreamTimeout: 504
    case .routeDenied, .connectDenied, .crossSiteDenied: 403
    case .clientUnauthenticated: 407
    case .misdirected: 421
    case .loopDetected: 508
    case .badRequest: 400
    case .expectationFailed: 417
    case .headerTooLarge: 431
    case .targetTooLong: 414
    case .bodyTooLarge: 413
    case .requestTimeout: 408
    }
  }

  public var title: String {
    switch self {
    case .sessionExpired: "The session is over: sign in again"
    case .sessionMissing: "There is no such session"
    case .refreshUnavailable: "The access token could not be refreshed now"
    case .refreshMisconfigured: "The provider rejected the client or the request"
    case .storeUnwritable: "The session store cannot be written"
    case .upstreamUnreachable: "The upstream cannot be reached"
    case .upstreamTLS: "TLS with the upstream failed"
    case .upstreamTimeout: "The upstream did not answer in time"
    case .upstreamProtocol: "The upstream's answer is not valid HTTP"
    case .routeDenied: "No upstream is configured for this host"
    case .connectDenied: "CONNECT is not available"
    case .crossSiteDenied: "A foreign web page sent this request"
    case .clientUnauthenticated: "The proxy does not know the client"
    case .misdirected: "This name does not belong to this proxy"
    case .loopDetected: "The request came through this proxy already"
    case .badRequest: "The request is not valid HTTP/1.1"
    case .expectationFailed: "The expectation is unknown"
    case .headerTooLarge: "The request's header section is too large"
    case .targetTooLong: "The request-target is too long"
    case .bodyTooLarge: "The request's content is too large"
    case .requestTimeout: "The request did not arrive in time"
    case .overloaded: "The proxy is at its limits"
    }
  }

  /// The error type of RFC 9209 §2.3 that says the same to an intermediary; nil where none fits.
  public var proxyStatusError: String? {
    switch self {
    case .upstreamUnreachable: "destination_unavailable"
    case .upstreamTLS: "tls_protocol_error"
    case .upstreamTimeout: "http_response_timeout"
    case .upstreamProtocol: "http_protocol_error"
    case .routeDenied, .connectDenied, .crossSiteDenied: "http_request_denied"
    case .misdirected, .clientUnauthenticated: "http_request_denied"
    case .loopDetected: "proxy_loop_detected"
    case .badRequest, .expectationFailed, .headerTooLarge, .targetTooLong, .bodyTooLarge, .requestTimeout:
      "http_request_error"
    case .overloaded: "proxy_internal_response"
    case .storeUnwritable: "proxy_internal_error"
    case .refreshMisconfigured: "proxy_configuration_error"
    case .sessionExpired, .sessionMissing, .refreshUnavailable: "proxy_internal_response"
    }
  }
}

/// An answer of bearerd's own: what happened, and what to do (RFC 9457, RFC 9209).
public struct Problem: Sendable {
  public var code: ProblemCode
  public var status: Int
  /// What happened, one line.
  public var detail: String
  /// What to do, one line.
  public var remedy: String
  public var retryAfterSeconds: Int64?
  /// Where to sign in again, if the configuration says.
  public var loginURL: String?
  /// A more exact RFC 9209 error than the code's own (`dns_error`).
  public var proxyStatusError: String?

  public init(
    _ code: ProblemCode, detail: String, remedy: String, retryAfterSeconds: Int64? = nil, loginURL: String? = nil,
    status: Int? = nil, proxyStatusError: String? = nil
  ) {
    self.code = code
    self.status = status ?? code.status
    self.detail = detail
    self.remedy = remedy
    self.retryAfterSeconds = retryAfterSeconds
    self.loginURL = loginURL
    self.proxyStatusError = proxyStatusError ?? code.proxyStatusError
  }

  /// The `application/problem+json` content. `type` is a URN, because bearerd has no site to point to.
  public var content: String {
    var members = [
      ("type", JSONText.quoted("urn:bearerd:problem:\(code.rawValue)")),
      ("title", JSONText.quoted(code.title)),
      ("status", String(status)),
      ("detail", JSONText.quoted("\(detail) \(remedy)")),
      ("code", JSONText.quoted(code.rawValue)),
    ]
    if let loginURL { members.append(("login_url", JSONText.quoted(loginURL))) }
    return "{\n" + members.map { "  \"\($0)\": \($1)" }.joined(separator: ",\n") + "\n}\n"
  }

  /// The value of `Proxy-Status` (RFC 9209 §2): a structured field, so its string holds visible ASCII only.
  public var proxyStatus: String {
    var value = "bearerd"
    if let proxyStatusError { value += "; error=\(proxyStatusError)" }
    return value + "; details=\"\(StructuredField.string(detail))\""
  }

  /// The field that says how to authenticate, present where the status demands one (RFC 9110 §11.6.1, §11.7.1): for the
  /// token RFC 6750 §3, for the client itself RFC 7617 or the name of the field that carries the secret.
  public var challenge: (field: String, value: String)? {
    switch (code, status) {
    case (.clientUnauthenticated, 407): ("Proxy-Authenticate", "Basic realm=\"bearerd\", charset=\"UTF-8\"")
    case (.clientUnauthenticated, 401): ("WWW-Authenticate", "Bearerd-Client-Secret realm=\"bearerd\"")
    case (_, 401):
      (
        "WWW-Authenticate",
        "Bearer realm=\"bearerd\", error=\"invalid_token\", error_description=\"\(StructuredField.string(detail))\""
      )
    case _: nil
    }
  }
}

/// Text as a JSON string (RFC 8259 §7).
public enum JSONText {
  public static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\r": result += "\\r"
      case "\t": result += "\\t"
      case _ where scalar.value < 0x20 || scalar.value == 0x7f:
        let hexadecimal = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - hexadecimal.count) + hexadecimal
      case _: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}

/// Strings inside header fields that bearerd writes.
public enum StructuredField {
  /// The inside of an sf-string (RFC 8941 §3.3.3): other than visible ASCII becomes `?`, so that nothing a peer said can split a header.
  public static func string(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case _ where scalar.value >= 0x20 && scalar.value < 0x7f: result.unicodeScalars.append(scalar)
      case _: result += "?"
      }
    }
    return result
  }
}
