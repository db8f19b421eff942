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
  case bearerdSession, bearerdAuth, bearerdRetry, bearerdReplayable

  /// Concerns this connection alone, whether or not `Connection` names it (RFC 9110 §7.6.1), and the
  /// fields between a client and its next proxy (RFC 9110 §11.7). `Trailer` counts too: it announces what
  /// the sender of *this* framing will do, so whoever frames anew writes it anew.
  public var isHopByHop: Bool {
    switch self {
    case .connection, .proxyConnection, .keepAlive, .te, .trailer, .transferEncoding, .upgrade,
      .proxyAuthorization, .proxyAuthenticate, .proxyAuthenticationInfo:
      true
    case .other, .host, .contentLength, .authorization, .wwwAuthenticate, .via, .expect, .maxForwards,
      .idempotencyKey, .location, .contentLocation, .setCookie, .cookie, .date, .retryAfter, .origin,
      .secFetchSite, .secFetchMode, .accessControlRequestMethod, .accessControlRequestHeaders,
      .accessControlRequestPrivateNetwork, .contentType, .age, .server, .bearerdSession, .bearerdAuth,
      .bearerdRetry, .bearerdReplayable:
      false
    }
  }

  /// Of a name in any case; `other` for names without a special meaning here. No allocation.
  public static func named(_ bytes: RawSpan, _ name: ByteRange) -> KnownField {
    let count = Int(name.count)
    guard count < firstRows.count - 1 else { return .other }
    var row = Int(firstRows[count])
    let end = Int(firstRows[count + 1])
    while row < end {
      if matches(bytes, at: name.start, rows[row].name) { return rows[row].field }
      row += 1
    }
    return .other
  }

  /// The caller has matched the lengths.
  @inline(always)
  private static func matches(_ bytes: RawSpan, at offset: Int, _ name: StaticString) -> Bool {
    let count = name.utf8CodeUnitCount
    var index = 0
    while index < count {
      // Names are made of tchar, among which `| 0x20` joins only the two cases of a letter.
      let expected = unsafe name.utf8Start[index]
      if bytes.byte(at: offset + index) | 0x20 != expected { return false }
      index += 1
    }
    return true
  }

  private struct Row {
    let name: StaticString
    let field: KnownField
  }

  /// Lower-case names, by length: constant data, read without a lazy initialiser.
  private static let rows: [37 of Row] = [
    Row(name: "te", field: .te),
    Row(name: "age", field: .age),
    Row(name: "via", field: .via),
    Row(name: "date", field: .date),
    Row(name: "host", field: .host),
    Row(name: "cookie", field: .cookie),
    Row(name: "expect", field: .expect),
    Row(name: "origin", field: .origin),
    Row(name: "server", field: .server),
    Row(name: "trailer", field: .trailer),
    Row(name: "upgrade", field: .upgrade),
    Row(name: "location", field: .location),
    Row(name: "connection", field: .connection),
    Row(name: "keep-alive", field: .keepAlive),
    Row(name: "set-cookie", field: .setCookie),
    Row(name: "retry-after", field: .retryAfter),
    Row(name: "bearerd-auth", field: .bearerdAuth),
    Row(name: "content-type", field: .contentType),
    Row(name: "max-forwards", field: .maxForwards),
    Row(name: "authorization", field: .authorization),
    Row(name: "bearerd-retry", field: .bearerdRetry),
    Row(name: "content-length", field: .contentLength),
    Row(name: "sec-fetch-mode", field: .secFetchMode),
    Row(name: "sec-fetch-site", field: .secFetchSite),
    Row(name: "bearerd-session", field: .bearerdSession),
    Row(name: "idempotency-key", field: .idempotencyKey),
    Row(name: "content-location", field: .contentLocation),
    Row(name: "proxy-connection", field: .proxyConnection),
    Row(name: "www-authenticate", field: .wwwAuthenticate),
    Row(name: "transfer-encoding", field: .transferEncoding),
    Row(name: "bearerd-replayable", field: .bearerdReplayable),
    Row(name: "proxy-authenticate", field: .proxyAuthenticate),
    Row(name: "proxy-authorization", field: .proxyAuthorization),
    Row(name: "proxy-authentication-info", field: .proxyAuthenticationInfo),
    Row(name: "access-control-request-method", field: .accessControlRequestMethod),
    Row(name: "access-control-request-headers", field: .accessControlRequestHeaders),
    Row(name: "access-control-request-private-network", field: .accessControlRequestPrivateNetwork),
  ]

  /// By length: where its names begin in `rows`; the next element is where they end.
  private static let firstRows: [40 of UInt8] = [
    0, 0, 0, 1, 3, 5, 5, 9, 11, 12, 12, 15, 16, 19, 21, 24, 26, 29, 30, 32,
    33, 33, 33, 33, 33, 33, 34, 34, 34, 34, 35, 36, 36, 36, 36, 36, 36, 36, 36, 37,
  ]
}
