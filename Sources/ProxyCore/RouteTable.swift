public import BearerPolicy
public import HTTPSyntax

/// Where requests may go, as bytes, ready for comparison: made once from the configuration.
///
/// Immutable, and by reference like its upstreams: as a value each look at one of its arrays would count references to
/// all of them (measured: a hundred for each request).
public final class RouteTable: Sendable {
  public let upstreams: [Upstream]
  /// What becomes of an absolute-form target that no upstream claims.
  public let unmatched: Unmatched
  public let connect: Connect
  public let browserGuard: BrowserGuard
  /// Our name in `Via`.
  public let pseudonym: [UInt8]
  /// The same in lower case, for comparison.
  let ownName: [UInt8]
  /// Whether paths have a say in the choice of the upstream.
  let hasPrefixes: Bool

  public init(
    upstreams: [Upstream], unmatched: Unmatched, connect: Connect = .deny, browserGuard: BrowserGuard,
    pseudonym: [UInt8]
  ) {
    self.upstreams = upstreams
    self.unmatched = unmatched
    self.connect = connect
    self.browserGuard = browserGuard
    self.pseudonym = pseudonym
    hasPrefixes = upstreams.contains { $0.pathPrefix != nil }
    ownName = pseudonym.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 }
  }

  public enum Unmatched: Sendable { case deny, pass }

  public enum Connect: Sendable {
    case deny
    /// Blind tunnels, without any token, to these hosts. A name without a port means port 443.
    case tunnel([HostName])
  }

  public final class Upstream: Sendable {
    public let scheme: Scheme
    /// Lower case, IPv6 literals with brackets.
    public let host: [UInt8]
    public let port: UInt16
    /// Further `Host` values in gateway mode.
    public let hosts: [HostName]
    /// Starts with `/`.
    public let pathPrefix: [UInt8]?
    /// The same by RFC 3986 (`PathReadings`).
    let standardPrefix: [UInt8]?
    public let stripsPrefix: Bool
    public let isDefault: Bool
    public let auth: AuthMode
    /// Token endpoint and login paths: never a token.
    public let tokenlessPaths: [[UInt8]]
    /// Longest prefix first.
    public let rules: [PathRule]
    public let writes: ReplayFacts.Writes

    public init(
      scheme: Scheme, host: [UInt8], port: UInt16, hosts: [HostName] = [], pathPrefix: [UInt8]? = nil,
      stripsPrefix: Bool = false, isDefault: Bool = false, auth: AuthMode = .required,
      tokenlessPaths: [[UInt8]] = [], rules: [PathRule] = [], writes: ReplayFacts.Writes = .idempotencyKey
    ) {
      self.scheme = scheme
      self.host = host
      self.port = port
      self.hosts = hosts
      self.pathPrefix = pathPrefix
      standardPrefix = pathPrefix.map(PathReadings.standard)
      self.stripsPrefix = stripsPrefix
      self.isDefault = isDefault
      self.auth = auth
      self.tokenlessPaths = tokenlessPaths.map(PathReadings.standard)
      self.rules = rules.map { rule in
        var rule = rule
        rule.prefix = PathReadings.standard(rule.prefix)
        return rule
      }
      self.writes = writes
    }

    /// The rule that applies to a path.
    public struct Applied: Sendable {
      public var auth: AuthMode
      public var retry: ReplayFacts.PathRetry
      /// The provider's token endpoint or a login path: no field of a request can have a token attached here.
      public var isTokenless = false
      /// Index into `rules`, or nil.
      public var ruleIndex: Int?
    }

    /// Where an origin may read the path in several ways, the rule of the standard one, and whatever of the others
    /// forbids a token or a replay: none is shown to what may be a token endpoint.
    public func rule(for path: RawSpan) -> Applied {
      guard !rules.isEmpty || !tokenlessPaths.isEmpty, let readings = PathReadings.of(path) else {
        return rule(forReading: path)
      }
      let standard = readings[0]
      var applied = unsafe rule(forReading: standard.span.bytes, endsAtQuery: false)
      for reading in readings.dropFirst() {
        let other = unsafe rule(forReading: reading.span.bytes, endsAtQuery: false)
        if other.auth == .none, applied.auth != .none {
          applied.auth = .none
          applied.isTokenless = true
        }
        if other.isTokenless { applied.isTokenless = true }
        if other.retry == .never { applied.retry = .never }
      }
      return applied
    }

    private func rule(forReading path: RawSpan, endsAtQuery: Bool = true) -> Applied {
      var applied = Applied(auth: auth, retry: .default, ruleIndex: nil)
      for index in rules.indices where PathPrefix.matches(rules[index].prefix, path, endsAtQuery: endsAtQuery) {
        applied.auth = rules[index].auth ?? auth
        applied.retry = rules[index].retry
        applied.ruleIndex = index
        break
      }
      for prefix in tokenlessPaths where PathPrefix.matches(prefix, path, endsAtQuery: endsAtQuery) {
        applied.auth = .none
        applied.isTokenless = true
      }
      return applied
    }
  }

  public struct HostName: Sendable, Equatable {
    /// Lower case.
    public var host: [UInt8]
    /// nil: any port.
    public var port: UInt16?
    public init(host: [UInt8], port: UInt16?) {
      self.host = host
      self.port = port
    }
  }

  public struct PathRule: Sendable {
    public var prefix: [UInt8]
    public var auth: AuthMode?
    public var retry: ReplayFacts.PathRetry
    public init(prefix: [UInt8], auth: AuthMode?, retry: ReplayFacts.PathRetry) {
      self.prefix = prefix
      self.auth = auth
      self.retry = retry
    }
  }
}

/// Path prefixes match whole segments: `/api` is not a prefix of `/apiary`.
enum PathPrefix {
  /// - Parameter endsAtQuery: false for a reading, which has no query: a `?` in it was encoded.
  static func matches(_ prefix: [UInt8], _ path: RawSpan, endsAtQuery: Bool = true) -> Bool {
    guard path.byteCount >= prefix.count else { return false }
    for index in prefix.indices where path.byte(at: index) != prefix[index] { return false }
    if path.byteCount == prefix.count || prefix.last == UInt8(ascii: "/") { return true }
    let next = path.byte(at: prefix.count)
    return next == UInt8(ascii: "/") || endsAtQuery && next == UInt8(ascii: "?")
  }
}

extension RawSpan {
  /// ASCII letters count as equal in either case; `lower` is lower case already.
  func equalsIgnoringCase(_ lower: [UInt8]) -> Bool {
    guard byteCount == lower.count else { return false }
    for index in lower.indices {
      var byte = byte(at: index)
      if byte >= 0x41 && byte <= 0x5a { byte |= 0x20 }
      if byte != lower[index] { return false }
    }
    return true
  }

  /// ASCII letters count as equal in either case.
  func equalsIgnoringCase(_ other: RawSpan) -> Bool {
    guard byteCount == other.byteCount else { return false }
    for index in 0..<byteCount where byte(at: index) != other.byte(at: index) {
      let (left, right) = (byte(at: index) | 0x20, other.byte(at: index) | 0x20)
      if left != right || left < 0x61 || left > 0x7a { return false }
    }
    return true
  }

  /// `text` is in lower case, here and below.
  func hasPrefix(_ text: StaticString) -> Bool {
    guard byteCount >= text.utf8CodeUnitCount else { return false }
    return extracting(first: text.utf8CodeUnitCount).equalsIgnoringCase(text)
  }

  /// ASCII letters count as equal in either case.
  func equalsIgnoringCase(_ text: StaticString) -> Bool { FieldValues.equalsIgnoringCase(self, text) }
}
