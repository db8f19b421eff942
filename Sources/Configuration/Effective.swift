internal import BearerPolicy
internal import Chronology
internal import HTTPSyntax

extension Configuration {
  /// The merged result as TOML: every setting with its value, defaults and presets filled in, secrets redacted
  /// (I10).
  ///
  /// Reads back as the same configuration, apart from the redacted values.
  public var effective: String {
    var writer = TOMLWriter()
    writeProcess(&writer)
    writeLimits(&writer)
    for upstream in upstreams { write(upstream, &writer) }
    for (name, provider) in providers.sorted(by: { $0.key < $1.key }) {
      write(provider, providerConnections[name] ?? ProviderConnection(preset: name), &writer)
    }
    return writer.text
  }

  private func writeProcess(_ writer: inout TOMLWriter) {
    writer.set("loops", loops)
    writer.set("state_directory", stateDirectory)
    writer.set("pseudonym", pseudonym)
    for listener in listeners {
      writer.open("[listener]")
      switch listener {
      case .tcp(let address, let allowsRemote):
        writer.set("tcp", address.description)
        if allowsRemote { writer.set("allow_remote", true) }
      case .unix(let path, let mode, let allowedUIDs):
        writer.set("unix", path)
        writer.set("mode", raw: "0o" + String(mode, radix: 8))
        if let allowedUIDs {
          writer.set("allowed_uids", raw: "[\(allowedUIDs.map(String.init).joined(separator: ", "))]")
        }
      case .systemd(let name, let allowsRemote):
        if let name { writer.set("systemd", name) } else { writer.set("systemd", true) }
        if allowsRemote { writer.set("allow_remote", true) }
      }
    }
    for client in clients {
      writer.open("client.\(TOMLText.key(client.name))")
      writer.set("secret_file", client.secretFile)
      if let sessions = client.sessions { writer.set("sessions", sessions) }
    }
    writer.open("admin")
    writer.set("address", admin?.description ?? "off")
    writer.open("store")
    writer.set("key_file", store.keyFile)
    writer.open("log")
    writer.set("level", log.level.rawValue)
    writer.set("format", log.format.rawValue)
    writer.set("access", log.accessLog)
    writer.open("forward")
    writer.set("unmatched", forward.unmatched.rawValue)
    writer.set("pass_allow", forward.passAllow)
    writer.set("connect", forward.connect.rawValue)
    writer.set("connect_allow", forward.connectAllow)
    writer.open("browser_guard")
    writer.set("allowed_origins", browserGuard.allowedOrigins)
    writer.set("host_names", browserGuard.hostNames)
  }

  private func writeLimits(_ writer: inout TOMLWriter) {
    writer.open("limits")
    writer.set("request_line", Quantity.size(bytes: limits.requestLineBytes))
    writer.set("header_section", Quantity.size(bytes: limits.headerSectionBytes))
    writer.set("header_fields", limits.headerFields)
    writer.set("client_connections", limits.clientConnections)
    writer.set("upstream_connections", limits.upstreamConnections)
    writer.set("waiters_per_session", limits.waitersPerSession)
    writer.open("timeouts")
    writer.set("header", timeouts.header)
    writer.set("client_idle", timeouts.clientIdle)
    writer.set("connect", timeouts.connect)
    writer.set("tls_handshake", timeouts.tlsHandshake)
    writer.set("response_header", timeouts.responseHeader)
    writer.set("response_body_idle", timeouts.responseBodyIdle)
    writer.set("request_body_idle", timeouts.requestBodyIdle)
    writer.set("write_stalled", timeouts.writeStalled)
    writer.set("pool_idle", timeouts.poolIdle)
    writer.set("session_idle", timeouts.sessionIdle)
    writer.set("drain", timeouts.drain)
    writer.open("replay")
    writer.set("max_body", Quantity.size(bytes: replay.maxBodyBytes))
    writer.set("memory", Quantity.size(bytes: replay.memoryBytes))
    writer.open("uploads")
    writer.set("probe", uploads.probe.rawValue)
    writer.set("probe_wait", uploads.probeWait)
    writer.open("refresh")
    writer.set("ahead_window", refresh.aheadWindow)
    writer.set("cool_down", refresh.coolDown)
  }

  private func write(_ upstream: Upstream, _ writer: inout TOMLWriter) {
    let table = "upstream.\(TOMLText.key(upstream.name))"
    writer.open(table)
    writer.set("origin", upstream.origin.description)
    writer.set("address", upstream.dial?.description)
    writer.set("hosts", upstream.hosts)
    writer.set("path_prefix", upstream.pathPrefix)
    writer.set("strip_prefix", upstream.stripPrefix)
    writer.set("default", upstream.isDefault)
    writer.set("auth", upstream.auth.rawValue)
    writer.set("authorization", upstream.authorization.rawValue)
    writer.set("session", upstream.session)
    if !upstream.sessions.isEmpty { writer.set("sessions", upstream.sessions) }
    if let pool = upstream.pool {
      writer.set("pool", pool)
      writer.set("pool_pick", upstream.poolPick.rawValue)
    }
    writer.set("writes", upstream.writes.rawValue)
    writer.set("idempotency.inject", upstream.idempotencyInject)
    writer.set("allow_plaintext", upstream.allowPlaintext)
    writer.set("expired_status", upstream.expiredStatus)
    writer.set("login_url", upstream.loginURL.map(Self.redactedURL))
    writer.set("login_paths", upstream.loginPaths)
    write(upstream.tls, &writer)
    for rule in upstream.paths {
      writer.open("[\(table).path]")
      writer.set("prefix", rule.prefix)
      writer.set("auth", rule.auth?.rawValue)
      writer.set("session", rule.session)
      writer.set("retry", rule.retry.rawValue)
    }
  }

  private func write(_ tls: TLS, _ writer: inout TOMLWriter) {
    writer.set("tls.ca_file", tls.caFile)
    writer.set("tls.client_certificate_file", tls.clientCertificateFile)
    writer.set("tls.client_key_file", tls.clientKeyFile)
    writer.set("tls.server_name", tls.serverName)
  }

  private func write(_ provider: Provider, _ connection: ProviderConnection, _ writer: inout TOMLWriter) {
    let table = "provider.\(TOMLText.key(provider.name))"
    writer.open(table)
    writer.set("preset", connection.preset)
    writer.set("endpoint", provider.endpoint.map(Self.redactedURL))
    writer.set("method", provider.method.rawValue)
    writer.set("encoding", provider.encoding.rawValue)
    writer.set("token_field", provider.tokenField)
    writer.set("client_auth", provider.clientAuthentication.rawValue)
    writer.set("client_id", provider.oauthClientID)
    writer.set("client_id_field", provider.clientIDField)
    writer.set("client_secret_field", provider.clientSecretField)
    for (name, value) in provider.parameters.sorted(by: { $0.key < $1.key }) {
      let shown = Self.publicParameters.contains(name) ? value.reveal() : "\(value)"
      write(name, shown, connection.secretFiles[name], &writer)
    }
    writer.set("client_secret_file", connection.secretFiles["client_secret"])
    writer.set("response.bearer", provider.response.bearer)
    writer.set("response.refresh", provider.response.refresh ?? "")
    writer.set("response.expires_in", provider.response.expiresIn ?? "")
    writer.set("response.expires_at", provider.response.expiresAt ?? "")
    writer.set("response.token_type", provider.response.tokenType ?? "")
    writer.set("expiry_sources", provider.expirySources.map(\.rawValue))
    writer.set("fallback_lifetime", provider.fallbackLifetime)
    writer.set("code_paths", provider.codePaths)
    writer.set("dead_codes", provider.deadCodes)
    writer.set("config_codes", provider.configCodes)
    writer.set("known_codes", provider.knownCodes)
    writer.set("dead_statuses", raw: "[\(provider.deadStatuses.map(String.init).joined(separator: ", "))]")
    writer.set("known_statuses", raw: "[\(provider.knownStatuses.map(String.init).joined(separator: ", "))]")
    writer.set("every_other_status_is_known", provider.everyOtherStatusIsKnown)
    writer.set("rotation", provider.rotation.rawValue)
    writer.set("grace", Self.spelled(provider.grace))
    writer.set("on_unknown", provider.onUnknown.rawValue)
    writer.set("leeway", provider.leeway)
    writer.set("refresh_ahead", provider.refreshAhead.map(Quantity.duration) ?? "off")
    writer.set("refreshes_per_second", provider.refreshesPerSecond)
    writer.set("timeout", provider.timeout)
    writer.set("validate_url", provider.validateURL.map(Self.redactedURL))
    writer.set("allow_plaintext", connection.allowPlaintext)
    write(connection.tls, &writer)
    write("static_fields", provider.staticFields, provider, connection, &writer)
    write("headers", provider.headers, provider, connection, &writer)
  }

  /// A value is shown only where its name says that it is none of a secret kind, or where it is another setting's.
  private func write(
    _ key: String, _ fields: [Provider.Field], _ provider: Provider, _ connection: ProviderConnection,
    _ writer: inout TOMLWriter
  ) {
    for field in fields {
      let value = field.value.reveal()
      let isReference = provider.parameterNames.contains { value == "{\($0)}" }
      let isPublic = isReference || Self.publicFields.contains(field.name.lowercased())
      let shown = isPublic ? value : "\(field.value)"
      write("\(key).\(TOMLText.key(field.name))", shown, connection.secretFiles["\(key).\(field.name)"], &writer)
    }
  }

  private func write(_ key: String, _ shown: String, _ file: String?, _ writer: inout TOMLWriter) {
    if let file {
      writer.set(key, raw: "{ file = \(TOMLText.quoted(file)) }")
    } else {
      writer.set(key, shown)
    }
  }

  private static let publicFields: Set<String> = [
    "accept", "audience", "content-type", "grant_type", "resource", "scope", "user-agent", "x-amz-target",
  ]

  private static let publicParameters: Set<String> = [
    "authorization_server", "base_url", "domain", "realm", "region", "tenant",
  ]

  private static func spelled(_ grace: Provider.Grace) -> String {
    switch grace {
    case .none: "none"
    case .seconds(let count): Quantity.duration(.seconds(Int64(count)))
    case .unlimited: "unlimited"
    }
  }

  /// Values in a query may be keys (`?key=` of Firebase): only `grant_type` is shown.
  private static func redactedURL(_ url: String) -> String {
    guard let mark = url.firstIndex(of: "?") else { return url }
    let pairs = url[url.index(after: mark)...].split(separator: "&", omittingEmptySubsequences: false)
    let shown = pairs.map { pair -> String in
      guard let equals = pair.firstIndex(of: "="), pair[..<equals] != "grant_type", !pair.hasSuffix("}") else {
        return String(pair)
      }
      return "\(pair[...equals])redacted"
    }
    return url[...mark] + shown.joined(separator: "&")
  }
}

/// Writes TOML in one pass: first the root's keys, then a table at a time.
private struct TOMLWriter {
  private(set) var text = ""

  /// `name` as it stands between brackets; with its own brackets an element of an array of tables.
  mutating func open(_ name: String) { text += "\n[\(name)]\n" }

  mutating func set(_ key: String, raw value: String) { text += "\(key) = \(value)\n" }

  mutating func set(_ key: String, _ value: Int) { set(key, raw: String(value)) }

  mutating func set(_ key: String, _ value: Bool) { set(key, raw: String(value)) }

  mutating func set(_ key: String, _ value: Interval) { set(key, Quantity.duration(value)) }

  mutating func set(_ key: String, _ value: [String]) {
    set(key, raw: "[\(value.map { TOMLText.quoted($0) }.joined(separator: ", "))]")
  }

  /// nil has no spelling: the key is left out.
  mutating func set(_ key: String, _ value: String?) {
    if let value { set(key, raw: TOMLText.quoted(value)) }
  }
}
