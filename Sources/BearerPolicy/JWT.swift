public import Chronology

/// Reads the times in a JSON Web Token (RFC 7519). Nothing is verified: the claims say when to refresh, never
/// whom to trust.
public enum JWT {
  public struct Claims: Equatable, Sendable {
    /// `exp` (§4.1.4), on the issuer's clock.
    public var expiresAt: WallTime?
    /// `iat` (§4.1.6), on the issuer's clock.
    public var issuedAt: WallTime?
    public init(expiresAt: WallTime?, issuedAt: WallTime?) {
      self.expiresAt = expiresAt
      self.issuedAt = issuedAt
    }
  }

  /// Longer tokens are taken as opaque.
  public static let bytesMax = 16 * 1024

  /// nil where the token is not in the JWS compact form (RFC 7515 §7.1) with a JSON object as its payload.
  public static func claims(of token: Secret) -> Claims? {
    guard token.count <= bytesMax else { return nil }
    var bytes: [UInt8] = []
    token.append(to: &bytes)
    let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3, !parts[0].isEmpty, let payload = Base64.decodeURL(parts[1]),
      let claims = JSONValue.parse(payload), case .object = claims
    else { return nil }
    return Claims(expiresAt: numericDate(claims["exp"]), issuedAt: numericDate(claims["iat"]))
  }

  /// §2, NumericDate: seconds since the epoch, with a fraction if the issuer likes. Saturates.
  private static func numericDate(_ value: JSONValue?) -> WallTime? {
    guard let value else { return nil }
    if case .integer(let seconds) = value { return WallTime(seconds: seconds) }
    guard let seconds = value.doubleValue else { return nil }
    return WallTime(milliseconds: Int64(saturating: seconds * 1000))
  }
}
