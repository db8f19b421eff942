/// The field lines of a trailer section (RFC 9112 §7.1.2): a reusable table, like a head's.
public final class TrailerLines {
  private var section: FieldSection

  /// In the order they came. `isConnectionOption` of a line is its name's alone.
  public var lines: [FieldLine] { section.lines }

  /// A section longer than `limits.sectionBytes` or with more than `limits.fields` lines is refused.
  public init(limits: HeadLimits) { section = FieldSection(limits: limits) }

  public func reset() { section.reset(start: 0) }

  /// Parses the whole section anew, with a head's rules. `bytes` are the `trailers` bytes of
  /// `BodyDecoder.Step.finished`, with the final empty line or without. nil: all of it is valid.
  public func parse(_ bytes: RawSpan) -> HeadError? {
    section.reset(start: 0)
    switch section.scan(bytes, toleratesSpaceBeforeColon: false) {
    case .complete: return nil
    case .failed(let error): return error
    case .incomplete: return section.isAtLineStart ? nil : .lineUnterminated
    }
  }

  /// Whether an intermediary may pass the line on as a trailer (RFC 9110 §6.5.1): not what frames or routes a
  /// message, authenticates, modifies the request, controls the response or says how to read its content.
  public static func isForwardable(_ line: FieldLine, in bytes: RawSpan) -> Bool {
    switch line.field {
    case .other:
      for index in forbidden.indices where bytes.equalsIgnoringCase(line.name, forbidden[index]) { return false }
      return true
    case .secFetchSite, .secFetchMode, .server, .via: return true
    case .host, .connection, .proxyConnection, .keepAlive, .te, .trailer, .transferEncoding, .upgrade,
      .contentLength, .authorization, .proxyAuthorization, .proxyAuthenticate, .proxyAuthenticationInfo,
      .wwwAuthenticate, .expect, .maxForwards, .idempotencyKey, .location, .contentLocation, .setCookie, .cookie,
      .date, .retryAfter, .origin, .accessControlRequestMethod, .accessControlRequestHeaders,
      .accessControlRequestPrivateNetwork, .contentType, .age, .bearerdSession, .bearerdAuth, .bearerdRetry,
      .bearerdReplayable, .bearerdClientSecret, .http2Settings:
      return false
    }
  }

  /// Names without a case of their own.
  private static let forbidden: [18 of StaticString] = [
    "authentication-info", "cache-control", "content-encoding", "content-range", "expires", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "pragma", "range", "vary", "warning",
    "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
  ]
}
