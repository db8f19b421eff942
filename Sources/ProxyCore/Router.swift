public import HTTPSyntax

/// Where a request goes, or why it does not.
public enum Route: Equatable, Sendable {
  /// `path` is the path and query to send; empty stands for `/`. `isGateway`: the client asked us as the origin.
  case upstream(index: Int, path: ByteRange, isGateway: Bool)
  /// An absolute-form target that no upstream claims, passed on without any token.
  case passThrough(scheme: Scheme, authority: Authority, path: ByteRange)
  /// CONNECT to a listed host: bytes in both directions, without any token.
  case tunnel(Authority)
  case denied(RouteDenial)
}

public enum RouteDenial: Equatable, Sendable {
  case malformedTarget(HeadError)
  case noUpstream
  case connect
  /// CONNECT to a host that is not listed.
  case connectHost
  case foreignHost
  case foreignOrigin
  case loop
  /// The prefixes choose one upstream or another, by how an origin reads the path.
  case ambiguousPath
}

/// Chooses by bytes, without allocation (SPEC §1). Only the target decides, and `Host` where there is no authority
/// in it: an absolute-form target overrides `Host` (RFC 9112 §3.2.2).
public enum Router {
  /// - Parameter isTCP: the client came over TCP, where a browser could be behind it.
  public static func route(_ head: RequestHead, _ bytes: RawSpan, table: RouteTable, isTCP: Bool) -> Route {
    if cameThroughHere(head, bytes, table.ownName) { return .denied(.loop) }
    switch RequestTarget.parse(bytes, head.target, method: head.method) {
    case .failure(let error): return .denied(.malformedTarget(error))
    case .success(let target):
      switch target {
      case .authority(let authority): return tunnel(authority, bytes, table)
      case .absolute(let scheme, let authority, let path):
        return forward(scheme, authority, path, bytes, table)
      case .origin(let path): return gateway(path, head, bytes, table, isTCP: isTCP)
      case .asterisk: return gateway(head.target, head, bytes, table, isTCP: isTCP)
      }
    }
  }

  // MARK: forward mode

  private static func forward(
    _ scheme: Scheme, _ authority: Authority, _ path: ByteRange, _ bytes: RawSpan, _ table: RouteTable
  ) -> Route {
    let host = bytes.extracting(authority.host.offsets)
    let port = authority.port ?? scheme.defaultPort
    let candidate = longest(table, path, bytes) { upstream in
      upstream.pathPrefix == nil || !upstream.stripsPrefix
        ? matches(upstream, host, port, scheme) : false
    }
    switch candidate {
    case .one(let index): return .upstream(index: index, path: path, isGateway: false)
    case .ambiguous: return .denied(.ambiguousPath)
    case .none: break
    }
    if let index = table.upstreams.firstIndex(where: { $0.pathPrefix == nil && matches($0, host, port, scheme) }) {
      return .upstream(index: index, path: path, isGateway: false)
    }
    // A prefix chooses among an origin's upstreams; alone it does not turn a request to that very origin away.
    if let index = table.upstreams.firstIndex(where: { matches($0, host, port, scheme) }) {
      return .upstream(index: index, path: path, isGateway: false)
    }
    switch table.unmatched {
    case .deny: return .denied(.noUpstream)
    case .pass: return .passThrough(scheme: scheme, authority: authority, path: path)
    }
  }

  private static func tunnel(_ authority: Authority, _ bytes: RawSpan, _ table: RouteTable) -> Route {
    switch table.connect {
    case .deny: return .denied(.connect)
    case .tunnel(let hosts):
      let host = bytes.extracting(authority.host.offsets)
      let isListed = hosts.contains { host.equalsIgnoringCase($0.host) && authority.port == $0.port ?? 443 }
      return isListed ? .tunnel(authority) : .denied(.connectHost)
    }
  }

  /// Host and port select; plain `http` on port 80 also means an upstream on the default `https` port, because
  /// programs that can only speak plain HTTP are whom bearerd is for.
  private static func matches(_ upstream: RouteTable.Upstream, _ host: RawSpan, _ port: UInt16, _ scheme: Scheme)
    -> Bool
  {
    guard host.equalsIgnoringCase(upstream.host) else { return false }
    if port == upstream.port { return scheme == .http || upstream.scheme == .https }
    return scheme == .http && port == 80 && upstream.scheme == .https && upstream.port == 443
  }

  // MARK: gateway mode

  private static func gateway(
    _ path: ByteRange, _ head: RequestHead, _ bytes: RawSpan, _ table: RouteTable, isTCP: Bool
  ) -> Route {
    let named = head.hostAuthority.map { byHost($0, path, bytes, table) } ?? .none
    if isTCP {
      switch table.browserGuard.judge(head, bytes, isConfigured: named != .none) {
      case .allowed: break
      case .foreignHost: return .denied(.foreignHost)
      case .foreignOrigin: return .denied(.foreignOrigin)
      }
    }
    let choice = named == .none ? longest(table, path, bytes, { _ in true }) : named
    switch choice {
    case .one(let index): return upstream(index, path, bytes, table)
    case .ambiguous: return .denied(.ambiguousPath)
    case .none:
      if let index = table.upstreams.firstIndex(where: \.isDefault) { return upstream(index, path, bytes, table) }
    }
    return .denied(.noUpstream)
  }

  private static func upstream(_ index: Int, _ path: ByteRange, _ bytes: RawSpan, _ table: RouteTable) -> Route {
    .upstream(index: index, path: stripped(path, table.upstreams[index], bytes), isGateway: true)
  }

  private static func byHost(
    _ authority: Authority, _ path: ByteRange, _ bytes: RawSpan, _ table: RouteTable
  ) -> Choice {
    let host = bytes.extracting(authority.host.offsets)
    func names(_ upstream: RouteTable.Upstream) -> Bool {
      for name in upstream.hosts where host.equalsIgnoringCase(name.host) {
        if name.port == nil || name.port == authority.port { return true }
      }
      return host.equalsIgnoringCase(upstream.host)
        && (authority.port == nil || authority.port == upstream.port)
        && !BrowserGuard.isLoopback(host)
    }
    let choice = longest(table, path, bytes, names)
    guard choice == .none else { return choice }
    return Choice(table.upstreams.firstIndex { $0.pathPrefix == nil && names($0) })
  }

  // MARK: prefixes

  private enum Choice: Equatable {
    case none
    case one(Int)
    /// Origins may read the path in ways that lead to different upstreams.
    case ambiguous

    init(_ index: Int?) { self = index.map { .one($0) } ?? .none }
  }

  /// The upstream with the longest prefix that the path has, among those that qualify.
  private static func longest(
    _ table: RouteTable, _ path: ByteRange, _ bytes: RawSpan, _ qualifies: (RouteTable.Upstream) -> Bool
  ) -> Choice {
    guard table.hasPrefixes else { return .none }
    let path = bytes.extracting(path.offsets)
    let best = longest(table, qualifies) { $0.pathPrefix.map { PathPrefix.matches($0, path) } ?? false }
    for reading in PathReadings.of(path) ?? [] {
      let read = longest(table, qualifies) { upstream in
        upstream.standardPrefix.map { unsafe PathPrefix.matches($0, reading.span.bytes, endsAtQuery: false) } ?? false
      }
      if read != best { return .ambiguous }
    }
    return Choice(best)
  }

  private static func longest(
    _ table: RouteTable, _ qualifies: (RouteTable.Upstream) -> Bool, isBefore: (RouteTable.Upstream) -> Bool
  ) -> Int? {
    var best: Int?
    var bestBytes = -1
    for index in table.upstreams.indices {
      let upstream = table.upstreams[index]
      guard let count = upstream.standardPrefix?.count, count > bestBytes, isBefore(upstream), qualifies(upstream)
      else { continue }
      best = index
      bestBytes = count
    }
    return best
  }

  private static func stripped(_ path: ByteRange, _ upstream: RouteTable.Upstream, _ bytes: RawSpan) -> ByteRange {
    guard upstream.stripsPrefix, let prefix = upstream.pathPrefix,
      PathPrefix.matches(prefix, bytes.extracting(path.offsets))
    else { return path }
    // What remains must start with a slash, so one at the prefix's end stays.
    let dropped = prefix.last == UInt8(ascii: "/") ? prefix.count - 1 : prefix.count
    return ByteRange((path.start + dropped)..<path.end)
  }

  // MARK: loops

  /// A `Via` member whose received-by is our pseudonym (RFC 9110 §7.6.3).
  private static func cameThroughHere(_ head: RequestHead, _ bytes: RawSpan, _ pseudonym: [UInt8]) -> Bool {
    guard head.firstIndex(of: .via) != nil else { return false }
    for line in head.lines where line.field == .via {
      var found = false
      FieldValues.forEachElement(of: bytes.extracting(line.value.offsets)) { element in
        found = element.extracting(receivedBy(element)).equalsIgnoringCase(pseudonym)
        return !found
      }
      if found { return true }
    }
    return false
  }

  /// `1.1 name (comment)` → `name`.
  private static func receivedBy(_ element: RawSpan) -> Range<Int> {
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    var start = 0
    while start < element.byteCount, !isSpace(element.byte(at: start)) { start += 1 }
    while start < element.byteCount, isSpace(element.byte(at: start)) { start += 1 }
    var end = start
    while end < element.byteCount, !isSpace(element.byte(at: end)) { end += 1 }
    return start..<end
  }
}
