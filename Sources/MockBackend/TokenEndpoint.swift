import Chronology
import FoundationEssentials

/// One shape of token endpoint: where it is, how it is asked, how it answers and how it refuses.
public enum TokenEndpoint: String, Sendable, CaseIterable {
  /// RFC 6749 §6: a form with `grant_type=refresh_token`; errors as in §5.2.
  case oauth = "/oauth/token"
  /// Seeds 000 and 001: JSON `refreshToken`; 401 with an `AUTH_…` code.
  case mobile = "/auth/refresh"
  /// Seed 002: JSON `refresh_token`; tokens under `data`, no lifetime told; 401 with text only.
  case enveloped = "/api/v1/auth/refresh"
  /// Seed 003: JSON `refresh_token`, answered with RFC 6749's names; errors as GoTrue words them.
  case function = "/.netlify/functions/auth-refresh-token"
  /// Seed 004: a form with `refreshToken`; `token` and `refreshToken` come back; 401 invalid, 403 revoked.
  case authenticate = "/api/authenticate"

  /// Why the identity provider refuses.
  enum Refusal {
    case malformed
    case grantUnsupported
    case clientUnknown
    case tokenUnknown
    case tokenExpired
    case tokenReused
    case sessionRevoked
  }

  private struct JSONRequest: Decodable {
    var refresh_token: String?
    var refreshToken: String?
  }

  /// The refresh token that the body carries.
  func refreshToken(in body: [UInt8]) -> Result<String, Refused> {
    let found: String?
    switch self {
    case .oauth:
      let fields = FormFields(String(decoding: body, as: UTF8.self))
      guard let grant = fields.value("grant_type") else { return .failure(Refused(.malformed)) }
      guard grant == "refresh_token" else { return .failure(Refused(.grantUnsupported)) }
      found = fields.value("refresh_token")
    case .authenticate:
      found = FormFields(String(decoding: body, as: UTF8.self)).value("refreshToken")
    case .mobile:
      found = (try? JSONDecoder().decode(JSONRequest.self, from: Data(body)))?.refreshToken
    case .enveloped, .function:
      found = (try? JSONDecoder().decode(JSONRequest.self, from: Data(body)))?.refresh_token
    }
    guard let found, !found.isEmpty else { return .failure(Refused(.malformed)) }
    return .success(found)
  }

  struct Refused: Error {
    var reason: Refusal
    init(_ reason: Refusal) { self.reason = reason }
  }

  /// The body of a 200.
  func success(_ issued: TokenAuthority.Issued, settings: BackendSettings, now: WallTime) -> JSONValue {
    let lifetime = issued.accessExpiresAt.since(now).milliseconds
    let refreshToken: [JSONValue] = settings.rotates ? [.string(issued.refreshToken)] : []
    let access = JSONValue.string(issued.accessToken)
    switch self {
    case .oauth, .function:
      return .object(
        [("access_token", access), ("token_type", .string("Bearer"))]
          + lifetimeMember("expires_in", lifetime, issued, settings)
          + refreshToken.map { ("refresh_token", $0) })
    case .mobile:
      return .object(
        [("accessToken", access)] + lifetimeMember("expiresIn", lifetime, issued, settings)
          + refreshToken.map { ("refreshToken", $0) })
    case .enveloped:
      let tokens: [(String, JSONValue)] = [("accessToken", access)] + refreshToken.map { ("refreshToken", $0) }
      return .object([("data", .object(tokens))])
    case .authenticate:
      return .object([("token", access)] + refreshToken.map { ("refreshToken", $0) })
    }
  }

  private func lifetimeMember(
    _ name: String, _ milliseconds: Int64, _ issued: TokenAuthority.Issued, _ settings: BackendSettings
  ) -> [(String, JSONValue)] {
    switch settings.lifetimeField {
    case .number: [(name, .milliseconds(milliseconds))]
    case .string: [(name, .string(JSONValue.decimal(milliseconds)))]
    case .absolute:
      [(self == .mobile ? "expiresAt" : "expires_at", .milliseconds(issued.accessExpiresAt.milliseconds))]
    case .absent: []
    }
  }

  /// An error answer of this endpoint's shape with a code that is not one of its own.
  func failure(code: String, status: Int) -> BackendReply {
    let member: String
    switch self {
    case .oauth: member = "error"
    case .mobile, .function: member = "code"
    case .enveloped, .authenticate: member = "message"
    }
    return reply(status, .object([(member, .string(code))]))
  }

  func refusal(_ reason: Refusal) -> BackendReply {
    switch self {
    case .oauth: oauthRefusal(reason)
    case .mobile: mobileRefusal(reason)
    case .enveloped, .authenticate: messageRefusal(reason)
    case .function: gotrueRefusal(reason)
    }
  }

  /// RFC 6749 §5.2. A client that failed to authenticate gets 401 with a challenge.
  private func oauthRefusal(_ reason: Refusal) -> BackendReply {
    let code: String
    let text: String
    switch reason {
    case .malformed: (code, text) = ("invalid_request", "A parameter is missing or repeated.")
    case .grantUnsupported: (code, text) = ("unsupported_grant_type", "Only refresh_token is supported.")
    case .clientUnknown: (code, text) = ("invalid_client", "Client authentication failed.")
    case .tokenUnknown: (code, text) = ("invalid_grant", "Unknown refresh token.")
    case .tokenExpired: (code, text) = ("invalid_grant", "The refresh token has expired.")
    case .tokenReused: (code, text) = ("invalid_grant", "The refresh token was used before; the session is revoked.")
    case .sessionRevoked: (code, text) = ("invalid_grant", "The session is revoked.")
    }
    var answer = reply(400, .object([("error", .string(code)), ("error_description", .string(text))]))
    if code == "invalid_client" {
      answer.status = 401
      answer.headers.append(("www-authenticate", "Basic realm=\"token endpoint\""))
    }
    return answer
  }

  private func mobileRefusal(_ reason: Refusal) -> BackendReply {
    switch reason {
    case .malformed, .grantUnsupported: failure(code: "VALIDATION_FAILED", status: 400)
    case .clientUnknown: failure(code: "AUTH_CLIENT_INVALID", status: 401)
    case .tokenUnknown: failure(code: "AUTH_REFRESH_TOKEN_INVALID", status: 401)
    case .tokenExpired: failure(code: "AUTH_REFRESH_TOKEN_EXPIRED", status: 401)
    case .tokenReused: failure(code: "AUTH_REFRESH_TOKEN_REUSED", status: 401)
    case .sessionRevoked: failure(code: "AUTH_SESSION_REVOKED", status: 401)
    }
  }

  private func messageRefusal(_ reason: Refusal) -> BackendReply {
    let revoked = self == .authenticate ? 403 : 401
    return switch reason {
    case .malformed, .grantUnsupported: failure(code: "Refresh token required", status: 400)
    case .clientUnknown: failure(code: "Client unknown", status: 401)
    case .tokenUnknown: failure(code: "Invalid refresh token", status: 401)
    case .tokenExpired: failure(code: "Refresh token expired", status: 401)
    case .tokenReused, .sessionRevoked: failure(code: "Refresh token revoked", status: revoked)
    }
  }

  private func gotrueRefusal(_ reason: Refusal) -> BackendReply {
    switch reason {
    case .malformed, .grantUnsupported: failure(code: "validation_failed", status: 400)
    case .clientUnknown: failure(code: "bad_api_key", status: 401)
    case .tokenUnknown: failure(code: "refresh_token_not_found", status: 400)
    case .tokenExpired: failure(code: "session_expired", status: 400)
    case .tokenReused: failure(code: "refresh_token_already_used", status: 400)
    case .sessionRevoked: failure(code: "session_not_found", status: 400)
    }
  }

  /// RFC 6749 §5.1: answers with tokens must not be cached; errors are treated alike.
  func reply(_ status: Int, _ body: JSONValue) -> BackendReply {
    BackendReply(
      status: status,
      headers: [("content-type", "application/json"), ("cache-control", "no-store")], body: .bytes(body.bytes))
  }
}
