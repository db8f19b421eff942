public import HTTPSyntax

/// Keeps web pages of other sites from using bearerd through the user's browser (SPEC §1): DNS rebinding is
/// recognised by the name that was asked for, a cross-site request by what the browser says of itself.
public struct BrowserGuard: Sendable {
  /// Serialised origins, lower case.
  public var allowedOrigins: [[UInt8]]
  /// Names that belong to bearerd besides loopback ones, lower case.
  public var hostNames: [[UInt8]]

  public init(allowedOrigins: [[UInt8]], hostNames: [[UInt8]]) {
    self.allowedOrigins = allowedOrigins
    self.hostNames = hostNames
  }

  public enum Verdict: Sendable {
    case allowed
    case foreignHost
    case foreignOrigin
  }

  /// Judges a request that came over TCP, with its target in origin-form.
  ///
  /// - Parameter isConfigured: the host asked for is one of an upstream's.
  public func judge(_ head: RequestHead, _ bytes: RawSpan, isConfigured: Bool = false) -> Verdict {
    if let authority = head.hostAuthority {
      if !isConfigured, !owns(bytes.extracting(authority.host.offsets)) { return .foreignHost }
    } else if head.firstIndex(of: .host) != nil {
      // Empty, where only HTTP/1.0 may leave it out: no name of ours.
      return .foreignHost
    }
    // A browser sends one. Of several the one that is judged might not be the one that is true.
    if head.count(of: .origin) > 1 { return .foreignOrigin }
    if let index = head.firstIndex(of: .origin) {
      return allows(bytes.extracting(head.lines[index].value.offsets)) ? .allowed : .foreignOrigin
    }
    // Without Origin a cross-site request is a navigation, an image, a script: nothing an API should answer.
    if let index = head.firstIndex(of: .secFetchSite),
      bytes.equalsIgnoringCase(head.lines[index].value, "cross-site") {
      return .foreignOrigin
    }
    return .allowed
  }

  private func owns(_ host: RawSpan) -> Bool {
    if Self.isLoopback(host) { return true }
    for name in hostNames where host.equalsIgnoringCase(name) { return true }
    return false
  }

  private func allows(_ origin: RawSpan) -> Bool {
    for allowed in allowedOrigins where origin.equalsIgnoringCase(allowed) { return true }
    let schemeBytes = origin.hasPrefix("http://") ? 7 : origin.hasPrefix("https://") ? 8 : 0
    if schemeBytes == 0 { return false }
    let authority = origin.extracting(droppingFirst: schemeBytes)
    return owns(authority.extracting(first: Self.bytesBeforePort(authority)))
  }

  private static func bytesBeforePort(_ authority: RawSpan) -> Int {
    var index = authority.byteCount
    while index > 0 {
      index -= 1
      let byte = authority.byte(at: index)
      if byte == UInt8(ascii: ":") { return index }
      if byte < 0x30 || byte > 0x39 { break }
    }
    return authority.byteCount
  }

  /// `localhost` and names under it (RFC 6761 §6.3), 127.0.0.0/8, `[::1]`.
  public static func isLoopback(_ host: RawSpan) -> Bool {
    if host.equalsIgnoringCase("localhost") || host.equalsIgnoringCase("[::1]") { return true }
    let suffix: StaticString = ".localhost"
    if host.byteCount > suffix.utf8CodeUnitCount,
      host.extracting(last: suffix.utf8CodeUnitCount).equalsIgnoringCase(suffix) {
      return true
    }
    return isLoopbackIPv4(host)
  }

  /// Four decimal parts of which the first is 127: `127.evil.example` is a name.
  private static func isLoopbackIPv4(_ host: RawSpan) -> Bool {
    guard host.byteCount <= 15, host.hasPrefix("127.") else { return false }
    var parts = 1
    var digits = 0
    for index in 0..<host.byteCount {
      switch host.byte(at: index) {
      case UInt8(ascii: "."):
        if digits == 0 { return false }
        parts += 1
        digits = 0
      case 0x30...0x39:
        digits += 1
        if digits > 3 { return false }
      case _: return false
      }
    }
    return parts == 4 && digits > 0
  }
}
