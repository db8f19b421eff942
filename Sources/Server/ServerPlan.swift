import BearerPolicy
public import Configuration
import HTTPSyntax
import ProxyCore
public import Transport

/// The configuration made ready for serving: bytes to compare and to send, TLS contexts, session slots. Immutable;
/// a reload makes a new one. By reference, its upstreams too: a request holds one of them, and counts one reference.
public final class ServerPlan: Sendable {
  public let configuration: Configuration
  let routes: RouteTable
  let upstreams: [UpstreamPlan]
  let clients: ClientTable
  /// The pools' sessions when the plan was made; later ones come to the loops by the same epoch.
  let pools: SessionPools.Snapshot

  final class UpstreamPlan: Sendable {
    let settings: Configuration.Upstream
    let route: RouteTable.Upstream
    let tls: TLSClientContext?
    let sessionSlot: Int?
    /// One for each path rule, in the same order.
    let ruleSlots: [Int?]
    /// How responses name the origin, lower case.
    let originText: [UInt8]
    /// Without a slash at its end; empty where nothing is stripped.
    let strippedPrefix: [UInt8]

    init(
      settings: Configuration.Upstream, route: RouteTable.Upstream, tls: TLSClientContext?, sessionSlot: Int?,
      ruleSlots: [Int?], originText: [UInt8], strippedPrefix: [UInt8]
    ) {
      self.settings = settings
      self.route = route
      self.tls = tls
      self.sessionSlot = sessionSlot
      self.ruleSlots = ruleSlots
      self.originText = originText
      self.strippedPrefix = strippedPrefix
    }

    var dialTarget: (host: String, port: UInt16) {
      settings.dial.map { ($0.host, $0.port) } ?? (settings.origin.host, settings.origin.port)
    }
  }

  /// Throws where a certificate or key file cannot be used; says which.
  ///
  /// - Parameters:
  ///   - pseudonym: our name in `Via`, different for each process unless the configuration names one.
  ///   - slot: gives a session's slot by name.
  public init(
    _ configuration: Configuration, pseudonym: String, slot: (String) -> Int, pools: SessionPools.Snapshot
  ) throws(TLSContextFault) {
    self.configuration = configuration
    self.pools = pools
    routes = Self.routes(configuration, pseudonym: pseudonym)
    var plans: [UpstreamPlan] = []
    for (settings, route) in zip(configuration.upstreams, routes.upstreams) {
      let origin = settings.origin
      plans.append(
        UpstreamPlan(
          settings: settings, route: route,
          tls: origin.scheme == .https ? try TLSClientContext(TLSClientSettings(settings.tls)) : nil,
          sessionSlot: settings.session.map(slot), ruleSlots: settings.paths.map { $0.session.map(slot) },
          originText: Array(origin.description.utf8),
          strippedPrefix: settings.stripPrefix
            ? settings.pathPrefix.map { Array($0.hasSuffix("/") ? $0.dropLast().utf8 : $0.utf8[...]) } ?? [] : []))
    }
    upstreams = plans
    clients = ClientTable(
      configuration.clients.map { ClientTable.Client(name: Array($0.name.utf8), secret: $0.secret) })
  }

  private static func routes(_ configuration: Configuration, pseudonym: String) -> RouteTable {
    let endpoints = configuration.providers.values.compactMap { $0.resolvedEndpoint.flatMap(URLParts.init) }
    let upstreams = configuration.upstreams.map { settings in
      let logins = configuration.upstreams.filter { $0.origin == settings.origin }.flatMap(\.loginPaths)
      let own = endpoints.filter { $0.origin == settings.origin }.map { $0.pathAndQuery.prefix { $0 != "?" } }
      return RouteTable.Upstream(
        scheme: settings.origin.scheme, host: Array(settings.origin.bracketedHost.utf8), port: settings.origin.port,
        hosts: settings.hosts.map(RouteTable.HostName.init), pathPrefix: settings.pathPrefix.map { Array($0.utf8) },
        stripsPrefix: settings.stripPrefix, isDefault: settings.isDefault, auth: AuthMode(settings.auth),
        // Whichever upstream of an origin a request came by, its login stays one.
        tokenlessPaths: (logins + own.map(String.init)).map { Array($0.utf8) },
        rules: settings.paths.map {
          RouteTable.PathRule(
            prefix: Array($0.prefix.utf8), auth: $0.auth.map(AuthMode.init), retry: ReplayFacts.PathRetry($0.retry))
        },
        writes: settings.writes == .always ? .always : .idempotencyKey)
    }
    let names =
      configuration.browserGuard.hostNames + configuration.upstreams.flatMap { $0.hosts.map { hostOnly($0) } }
    return RouteTable(
      upstreams: upstreams, unmatched: configuration.forward.unmatched == .pass ? .pass : .deny,
      connect: configuration.forward.connect == .tunnel
        ? .tunnel(configuration.forward.connectAllow.map(RouteTable.HostName.init)) : .deny,
      browserGuard: BrowserGuard(
        allowedOrigins: configuration.browserGuard.allowedOrigins.map { Array($0.utf8) },
        hostNames: names.map { Array($0.utf8) }),
      pseudonym: Array(pseudonym.utf8))
  }

  private static func hostOnly(_ text: String) -> String {
    String(decoding: RouteTable.HostName(text).host, as: UTF8.self)
  }
}

extension RouteTable.HostName {
  /// `host` or `host:port`, IPv6 literals in brackets.
  init(_ text: String) {
    if let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
      !text[..<colon].contains(":") || text[..<colon].hasSuffix("]") {
      self.init(host: Array(text[..<colon].utf8), port: port)
    } else {
      self.init(host: Array(text.utf8), port: nil)
    }
  }
}

extension TLSClientSettings {
  public init(_ tls: Configuration.TLS) {
    self.init(
      caFile: tls.caFile, clientCertificateFile: tls.clientCertificateFile, clientKeyFile: tls.clientKeyFile)
  }
}

extension AuthMode {
  init(_ auth: Configuration.Upstream.Auth) {
    switch auth {
    case .required: self = .required
    case .optional: self = .optional
    case .none: self = .none
    }
  }
}

extension ReplayFacts.PathRetry {
  init(_ retry: Configuration.Upstream.Retry) {
    switch retry {
    case .default: self = .default
    case .never: self = .never
    case .always: self = .always
    }
  }
}
