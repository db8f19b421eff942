internal import HTTPSyntax

extension Configuration {
  mutating func readUpstreams(_ root: TableReader) {
    for (name, reader) in root.namedTables("upstream") {
      Self.checkName(name, reader)
      if let upstream = Self.readUpstream(name, reader) { upstreams.append(upstream) }
    }
  }

  /// Names appear in logs, metrics and key paths.
  static func checkName(_ name: String, _ reader: TableReader) {
    guard !TOMLText.isBare(name) || name.utf8.count > 64 else { return }
    reader.diagnostics.report(
      reader.path,
      .invalid(found: TOMLNode.string(name).shown, expected: "a name of at most 64 letters, digits, `-` and `_`"))
  }

  /// nil where there is no usable origin; every key is read all the same, for its errors.
  private static func readUpstream(_ name: String, _ reader: TableReader) -> Upstream? {
    let origin = reader.value("origin", .origin)
    if !reader.has("origin") {
      reader.report("origin", .missing(expected: "where the API is, such as \"https://api.example.com\""))
    }
    // A stand-in while the errors are collected: without an origin nothing is returned.
    var upstream = Upstream(name: name, origin: origin ?? Origin(scheme: .https, host: "localhost", port: 443))
    readRouting(&upstream, reader)
    readSessions(&upstream, reader)
    reader.read("auth", into: &upstream.auth, .oneOf(Upstream.Auth.self))
    reader.read("authorization", into: &upstream.authorization, .oneOf(Upstream.ClientAuthorization.self))
    reader.read("writes", into: &upstream.writes, .oneOf(Upstream.Writes.self))
    reader.table("idempotency").read("inject", into: &upstream.idempotencyInject, .boolean)
    reader.read("allow_plaintext", into: &upstream.allowPlaintext, .boolean)
    reader.read("expired_status", into: &upstream.expiredStatus, .integer(400...599))
    reader.read("login_url", into: &upstream.loginURL, .url)
    reader.read("login_paths", into: &upstream.loginPaths, listOf: .pathPrefix)
    upstream.tls = reader.tls()
    readPaths(&upstream, reader)
    checkNeedsSession(upstream, reader)
    guard let origin else { return nil }
    checkPlaintext(upstream, reader)
    if origin.scheme == .http, reader.has("tls") {
      reader.conflict("tls", "has no effect on a plain http origin")
    }
    return upstream
  }

  private static func readRouting(_ upstream: inout Upstream, _ reader: TableReader) {
    reader.read("address", into: &upstream.dial, .hostPort(allowsZero: false))
    reader.read("hosts", into: &upstream.hosts, listOf: .hostWithOptionalPort)
    reader.read("path_prefix", into: &upstream.pathPrefix, .pathPrefix)
    reader.read("strip_prefix", into: &upstream.stripPrefix, .boolean)
    reader.read("default", into: &upstream.isDefault, .boolean)
    if upstream.stripPrefix, !reader.has("path_prefix") {
      reader.conflict("strip_prefix", "needs a `path_prefix` to remove")
    }
  }

  private static func readSessions(_ upstream: inout Upstream, _ reader: TableReader) {
    reader.read("session", into: &upstream.session, .sessionName(isPattern: false))
    reader.read("sessions", into: &upstream.sessions, listOf: .sessionName(isPattern: true))
    reader.read("pool", into: &upstream.pool, .sessionName(isPattern: true))
    reader.read("pool_pick", into: &upstream.poolPick, .oneOf(Upstream.PoolPick.self))
    if reader.has("session"), reader.has("pool") {
      reader.conflict("pool", "cannot stand beside `session`: a request takes one or the other")
    }
    if reader.has("pool_pick"), !reader.has("pool") {
      reader.conflict("pool_pick", "has no effect without `pool`")
    }
  }

  private static func readPaths(_ upstream: inout Upstream, _ reader: TableReader) {
    var rules: [Upstream.PathRule] = []
    for rule in reader.tables("path") ?? [] {
      let prefix = rule.value("prefix", .pathPrefix)
      let auth = rule.value("auth", .oneOf(Upstream.Auth.self))
      let session = rule.value("session", .sessionName(isPattern: false))
      let retry = rule.value("retry", .oneOf(Upstream.Retry.self))
      if !rule.has("prefix") { rule.report("prefix", .missing(expected: "a path prefix such as \"/v1/\"")) }
      guard let prefix else { continue }
      if rules.contains(where: { reading($0.prefix) == reading(prefix) }) {
        rule.conflict("prefix", "\(TOMLText.quoted(prefix)) has a rule already")
      }
      rules.append(Upstream.PathRule(prefix: prefix, auth: auth, session: session, retry: retry ?? .default))
    }
    upstream.paths = rules.sorted { left, right in
      let (l, r) = (reading(left.prefix).count, reading(right.prefix).count)
      return l == r ? left.prefix < right.prefix : l > r
    }
  }

  /// In this form prefixes are compared with paths.
  private static func reading(_ prefix: String) -> [UInt8] { PathReadings.standard(Array(prefix.utf8)) }

  /// A token is wanted, so some session must be able to give it.
  private static func checkNeedsSession(_ upstream: Upstream, _ reader: TableReader) {
    let hasSession = ["session", "sessions", "pool"].contains { reader.has($0) }
    guard !hasSession else { return }
    switch upstream.auth {
    case .required, .optional:
      reader.report(
        "session",
        .missing(expected: "`session`, `sessions` or `pool`, because `auth` is \"\(upstream.auth.rawValue)\""),
        hint: "`auth = \"none\"` sends no token")
    case .none:
      for rule in upstream.paths where rule.session == nil && (rule.auth ?? .none) != .none {
        reader.report(
          "session",
          .missing(expected: "a session for the path rule \(TOMLText.quoted(rule.prefix)), which wants a token"))
      }
    }
  }

  /// I6 asks where the connection goes, so `address` decides when it is given.
  private static func checkPlaintext(_ upstream: Upstream, _ reader: TableReader) {
    let dialled = upstream.dial?.host ?? upstream.origin.host
    guard upstream.origin.scheme == .http, !Host.isLoopback(dialled), !upstream.allowPlaintext else { return }
    reader.report(
      "origin", .invalid(found: TOMLText.quoted(upstream.origin.description), expected: "https beyond loopback"),
      hint: "`allow_plaintext = true` sends tokens unencrypted")
  }

  /// What only all upstreams together can violate: two that claim the same request.
  func checkUpstreamsTogether(_ diagnostics: Diagnostics) {
    for (index, upstream) in upstreams.enumerated() {
      let key = "upstream.\(TOMLText.key(upstream.name))"
      for earlier in upstreams[..<index] {
        let samePrefix = earlier.pathPrefix == upstream.pathPrefix
        if earlier.origin == upstream.origin, samePrefix {
          diagnostics.report(
            "\(key).origin",
            .conflict("upstream `\(earlier.name)` has the same origin \(upstream.origin) and path prefix"),
            hint: "a request could not tell them apart")
        }
        if samePrefix, let host = upstream.hosts.first(where: { earlier.hosts.contains($0) }) {
          diagnostics.report(
            "\(key).hosts", .conflict("upstream `\(earlier.name)` claims \(host) with the same path prefix"))
        }
        if samePrefix, let prefix = upstream.pathPrefix, earlier.hosts.isEmpty || upstream.hosts.isEmpty,
          earlier.origin != upstream.origin
        {
          diagnostics.report(
            "\(key).path_prefix", .conflict("upstream `\(earlier.name)` claims \(TOMLText.quoted(prefix)) already"))
        }
        if earlier.isDefault, upstream.isDefault {
          diagnostics.report("\(key).default", .conflict("upstream `\(earlier.name)` is the default already"))
        }
      }
    }
  }
}
