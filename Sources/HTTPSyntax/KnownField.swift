/// The field names that this program treats specially; every other name is `other`.
public enum KnownField: UInt8, CaseIterable, Sendable {
  case other
  case host, connection, proxyConnection, keepAlive, te, trailer, transferEncoding, upgrade, contentLength
  case authorization, proxyAuthorization, proxyAuthenticate, proxyAuthenticationInfo, wwwAuthenticate
  case via, expect, maxForwards, idempotencyKey
  case location, contentLocation, setCookie, cookie, date, retryAfter
  case origin, secFetchSite, secFetchMode
  case accessControlRequestMethod, accessControlRequestHeaders, accessControlRequestPrivateNetwork
  case contentType, age, server
  case bearerdSession, bearerdAuth, bearerdRetry, bearerdReplayable, bearerdClientSecret
  case http2Settings

  /// Concerns this connection alone, whether or not `Connection` names it (RFC 9110 §7.6.1), and the
  /// fields between a client and its next proxy (RFC 9110 §11.7). `Trailer` counts too: it announces what
  /// the sender of *this* framing will do, so whoever frames anew writes it anew.
  public var isHopByHop: Bool {
    switch self {
    case .connection, .proxyConnection, .keepAlive, .te, .trailer, .transferEncoding, .upgrade,
      .proxyAuthorization, .proxyAuthenticate, .proxyAuthenticationInfo, .http2Settings:
      true
    case .other, .host, .contentLength, .authorization, .wwwAuthenticate, .via, .expect, .maxForwards,
      .idempotencyKey, .location, .contentLocation, .setCookie, .cookie, .date, .retryAfter, .origin,
      .secFetchSite, .secFetchMode, .accessControlRequestMethod, .accessControlRequestHeaders,
      .accessControlRequestPrivateNetwork, .contentType, .age, .server, .bearerdSession, .bearerdAuth,
      .bearerdRetry, .bearerdReplayable, .bearerdClientSecret:
      false
    }
  }

  /// Authenticates whoever sends the request, as far as a name tells (RFC 9110 §11, RFC 6265).
  public var isCredential: Bool {
    switch self {
    case .authorization, .proxyAuthorization, .cookie, .bearerdClientSecret: true
    case .other, .host, .connection, .proxyConnection, .keepAlive, .te, .trailer, .transferEncoding, .upgrade,
      .contentLength, .proxyAuthenticate, .proxyAuthenticationInfo, .wwwAuthenticate, .via, .expect, .maxForwards,
      .idempotencyKey, .location, .contentLocation, .setCookie, .date, .retryAfter, .origin, .secFetchSite,
      .secFetchMode, .accessControlRequestMethod, .accessControlRequestHeaders, .accessControlRequestPrivateNetwork,
      .contentType, .age, .server, .bearerdSession, .bearerdAuth, .bearerdRetry, .bearerdReplayable, .http2Settings:
      false
    }
  }

  /// Of a name in any case; `other` for names without a special meaning here. No allocation.
  public static func named(_ bytes: RawSpan, _ name: ByteRange) -> KnownField {
    let count = Int(name.count)
    guard count > 0, count < firstRows.count - 1 else { return .other }
    let first = ByteClass.lowercased(bytes.byte(at: name.start))
    var row = Int(firstRows[count])
    let end = Int(firstRows[count + 1])
    while row < end {
      if rows[row].first == first, bytes.containsIgnoringCase(rows[row].name, at: name.start) {
        return rows[row].field
      }
      row += 1
    }
    return .other
  }

  private struct Row {
    /// Of `name`, so that most rows are passed by without a look at the text.
    let first: UInt8
    let name: StaticString
    let field: KnownField
  }

  /// Lower-case names, by length: constant data, read without a lazy initialiser.
  private static let rows: [39 of Row] = [
    Row(first: 0x74, name: "te", field: .te),
    Row(first: 0x61, name: "age", field: .age),
    Row(first: 0x76, name: "via", field: .via),
    Row(first: 0x64, name: "date", field: .date),
    Row(first: 0x68, name: "host", field: .host),
    Row(first: 0x63, name: "cookie", field: .cookie),
    Row(first: 0x65, name: "expect", field: .expect),
    Row(first: 0x6F, name: "origin", field: .origin),
    Row(first: 0x73, name: "server", field: .server),
    Row(first: 0x74, name: "trailer", field: .trailer),
    Row(first: 0x75, name: "upgrade", field: .upgrade),
    Row(first: 0x6C, name: "location", field: .location),
    Row(first: 0x63, name: "connection", field: .connection),
    Row(first: 0x6B, name: "keep-alive", field: .keepAlive),
    Row(first: 0x73, name: "set-cookie", field: .setCookie),
    Row(first: 0x72, name: "retry-after", field: .retryAfter),
    Row(first: 0x62, name: "bearerd-auth", field: .bearerdAuth),
    Row(first: 0x63, name: "content-type", field: .contentType),
    Row(first: 0x6D, name: "max-forwards", field: .maxForwards),
    Row(first: 0x61, name: "authorization", field: .authorization),
    Row(first: 0x62, name: "bearerd-retry", field: .bearerdRetry),
    Row(first: 0x63, name: "content-length", field: .contentLength),
    Row(first: 0x73, name: "sec-fetch-mode", field: .secFetchMode),
    Row(first: 0x73, name: "sec-fetch-site", field: .secFetchSite),
    Row(first: 0x68, name: "http2-settings", field: .http2Settings),
    Row(first: 0x62, name: "bearerd-session", field: .bearerdSession),
    Row(first: 0x69, name: "idempotency-key", field: .idempotencyKey),
    Row(first: 0x63, name: "content-location", field: .contentLocation),
    Row(first: 0x70, name: "proxy-connection", field: .proxyConnection),
    Row(first: 0x77, name: "www-authenticate", field: .wwwAuthenticate),
    Row(first: 0x74, name: "transfer-encoding", field: .transferEncoding),
    Row(first: 0x62, name: "bearerd-replayable", field: .bearerdReplayable),
    Row(first: 0x70, name: "proxy-authenticate", field: .proxyAuthenticate),
    Row(first: 0x70, name: "proxy-authorization", field: .proxyAuthorization),
    Row(first: 0x62, name: "bearerd-client-secret", field: .bearerdClientSecret),
    Row(first: 0x70, name: "proxy-authentication-info", field: .proxyAuthenticationInfo),
    Row(first: 0x61, name: "access-control-request-method", field: .accessControlRequestMethod),
    Row(first: 0x61, name: "access-control-request-headers", field: .accessControlRequestHeaders),
    Row(first: 0x61, name: "access-control-request-private-network", field: .accessControlRequestPrivateNetwork),
  ]

  /// By length: where its names begin in `rows`; the next element is where they end.
  private static let firstRows: [40 of UInt8] = [
    0, 0, 0, 1, 3, 5, 5, 9, 11, 12, 12, 15, 16, 19, 21, 25, 27, 30, 31, 33,
    34, 34, 35, 35, 35, 35, 36, 36, 36, 36, 37, 38, 38, 38, 38, 38, 38, 38, 38, 39,
  ]
}
