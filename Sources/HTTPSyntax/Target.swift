/// `http` or `https`, the two schemes this program speaks.
public enum Scheme: UInt8, Hashable, Sendable {
  case http, https

  public var name: StaticString { self == .http ? "http" : "https" }
  /// RFC 9110 §4.2.
  public var defaultPort: UInt16 { self == .http ? 80 : 443 }
}

/// The four forms of a request-target (RFC 9112 §3.2), as ranges of the request line.
public enum RequestTarget: Equatable, Sendable {
  /// Begins with `/`.
  case origin(pathAndQuery: ByteRange)
  /// `pathAndQuery` is empty (send `/`, or `*` for OPTIONS), or begins with `/`, or with `?` (send `/` before it).
  case absolute(scheme: Scheme, authority: Authority, pathAndQuery: ByteRange)
  /// CONNECT only; the port is always given.
  case authority(Authority)
  /// OPTIONS only.
  case asterisk

  /// `range` is `RequestHead.target`. User information and a fragment are refused, where the RFC has them
  /// ignored or leaves them undefined: neither belongs in a request, and both mislead about the host.
  public static func parse(_ bytes: RawSpan, _ range: ByteRange, method: Method) -> Result<RequestTarget, HeadError> {
    guard !range.isEmpty else { return .failure(.invalidTarget) }
    for offset in range.offsets {
      let byte = bytes.byte(at: offset)
      guard ByteClass.isTarget(byte) else { return .failure(.invalidTarget) }
      if byte == 0x23 { return .failure(.targetFragment) }
    }
    if method == .connect { return authorityForm(bytes, range) }
    let first = bytes.byte(at: range.start)
    if first == ByteClass.slash { return .success(.origin(pathAndQuery: range)) }
    if first == 0x2A, range.count == 1 {
      return method == .options ? .success(.asterisk) : .failure(.invalidTarget)
    }
    return absoluteForm(bytes, range)
  }

  private static func authorityForm(_ bytes: RawSpan, _ range: ByteRange) -> Result<RequestTarget, HeadError> {
    switch Authority.parse(bytes, range) {
    case .failure(let error): .failure(error)
    case .success(let authority): authority.port == nil ? .failure(.invalidTarget) : .success(.authority(authority))
    }
  }

  private static func absoluteForm(_ bytes: RawSpan, _ range: ByteRange) -> Result<RequestTarget, HeadError> {
    let scheme: Scheme
    let authorityStart: Int
    let text = bytes.extracting(0..<range.end)
    if text.containsIgnoringCase("http://", at: range.start) {
      scheme = .http
      authorityStart = range.start + 7
    } else if text.containsIgnoringCase("https://", at: range.start) {
      scheme = .https
      authorityStart = range.start + 8
    } else {
      return .failure(looksLikeURI(text, range) ? .unsupportedScheme : .invalidTarget)
    }
    var authorityEnd = authorityStart
    while authorityEnd < range.end, !endsAuthority(bytes.byte(at: authorityEnd)) { authorityEnd += 1 }
    return Authority.parse(bytes, ByteRange(authorityStart..<authorityEnd)).map { authority in
      .absolute(scheme: scheme, authority: authority, pathAndQuery: ByteRange(authorityEnd..<range.end))
    }
  }

  private static func endsAuthority(_ byte: UInt8) -> Bool { byte == ByteClass.slash || byte == 0x3F }

  private static func looksLikeURI(_ text: RawSpan, _ range: ByteRange) -> Bool {
    var offset = range.start
    while offset < range.end, ByteClass.isTokenCharacter(text.byte(at: offset)) { offset += 1 }
    return offset > range.start && text.contains("://", at: offset)
  }
}
