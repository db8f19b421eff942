internal import BearerPolicy
internal import Chronology
internal import HTTPSyntax

extension Configuration {
  mutating func readProviders(_ root: TableReader, readFile: (String) -> Result<[UInt8], FileProblem>) {
    for preset in Presets.all where preset.missingSettings.isEmpty {
      providers[preset.name] = preset
      providerConnections[preset.name] = ProviderConnection(preset: preset.name)
    }
    for (name, reader) in root.namedTables("provider") {
      Self.checkName(name, reader)
      guard let preset = Self.preset(for: name, reader) else { continue }
      var connection = ProviderConnection(preset: preset.name)
      var provider = preset
      provider.name = name
      Self.readSecrets(&provider, &connection, reader, readFile: readFile)
      Self.readRequest(&provider, reader)
      Self.readAnswer(&provider, reader)
      Self.readTiming(&provider, reader)
      connection.tls = reader.tls()
      reader.read("allow_plaintext", into: &connection.allowPlaintext, .boolean)
      Self.checkRequired(provider, reader)
      Self.checkTogether(provider, connection, reader)
      Self.checkCodes(provider, reader)
      providers[name] = provider
      providerConnections[name] = connection
    }
  }

  /// The named preset; without `preset` the one that has the entry's own name, else the plain RFC 6749 one.
  private static func preset(for name: String, _ reader: TableReader) -> Provider? {
    let names = Presets.all.map(\.name).sorted()
    let known = Reading<Provider>.text("one of the presets \(names.joined(separator: ", "))") { Presets.named($0) }
    if reader.has("preset") {
      if let preset = reader.value("preset", known) { return preset }
      // Its other keys are read against the general preset, so that their errors show too.
      return Presets.named("oauth2")
    }
    _ = reader.ask("preset")
    return Presets.named(name) ?? Presets.named("oauth2")
  }

  private static func readRequest(_ provider: inout Provider, _ reader: TableReader) {
    reader.read("endpoint", into: &provider.endpoint, .template(provider.parameterNames))
    reader.read("method", into: &provider.method, .oneOf(Provider.Method.self))
    reader.read("encoding", into: &provider.encoding, .oneOf(Provider.Encoding.self))
    reader.read("token_field", into: &provider.tokenField, .words("the name of a field"))
    reader.read("client_auth", into: &provider.clientAuthentication, .oneOf(Provider.ClientAuthentication.self))
    reader.read("client_id", into: &provider.oauthClientID, .words("the OAuth client's id"))
    reader.read("client_id_field", into: &provider.clientIDField, .words("the name of a field"))
    reader.read("client_secret_field", into: &provider.clientSecretField, .words("the name of a field"))
    reader.read("validate_url", into: &provider.validateURL, .url)
  }

  private static func readAnswer(_ provider: inout Provider, _ reader: TableReader) {
    let response = reader.table("response")
    response.read("bearer", into: &provider.response.bearer, .jsonPath(allowsEmpty: false))
    let path = Reading<String>.jsonPath(allowsEmpty: true)
    for (key, member) in [
      ("refresh", \Provider.ResponsePaths.refresh), ("expires_in", \.expiresIn), ("expires_at", \.expiresAt),
      ("token_type", \.tokenType),
    ] {
      if let value = response.value(key, path) { provider.response[keyPath: member] = value.isEmpty ? nil : value }
    }
    // `fallback` is what holds without a source, so it is none.
    reader.read(
      "expiry_sources", into: &provider.expirySources, listOf: .oneOf(ExpirySource.self, except: [.fallback]))
    reader.read("code_paths", into: &provider.codePaths, listOf: .jsonPath(allowsEmpty: false))
    let code = Reading<String>.words("an error code")
    reader.read("dead_codes", into: &provider.deadCodes, listOf: code)
    reader.read("config_codes", into: &provider.configCodes, listOf: code)
    reader.read("known_codes", into: &provider.knownCodes, listOf: code)
    reader.read("dead_statuses", into: &provider.deadStatuses, listOf: .integer(300...599))
    reader.read("known_statuses", into: &provider.knownStatuses, listOf: .integer(300...599))
    reader.read("every_other_status_is_known", into: &provider.everyOtherStatusIsKnown, .boolean)
    reader.read("rotation", into: &provider.rotation, .oneOf(Provider.Rotation.self))
    reader.read("on_unknown", into: &provider.onUnknown, .oneOf(Provider.OnUnknown.self))
    reader.read("grace", into: &provider.grace, .grace)
  }

  private static func readTiming(_ provider: inout Provider, _ reader: TableReader) {
    let day = Interval.seconds(86_400)
    reader.read("fallback_lifetime", into: &provider.fallbackLifetime, .duration(.seconds(1)...day))
    reader.read("leeway", into: &provider.leeway, .duration(.zero...day))
    reader.read("refreshes_per_second", into: &provider.refreshesPerSecond, .integer(1...10_000))
    reader.read("timeout", into: &provider.timeout, .duration(.milliseconds(100) ... .seconds(300)))
    let expected = "a duration with its unit (ms, s, min, h, d), or \"off\""
    let ahead = Reading<Interval?>.text(expected) { text in
      if text == "off" { return .some(nil) }
      return Quantity.interval(text).flatMap { $0 <= day ? .some($0) : nil }
    }
    if let value = reader.value("refresh_ahead", ahead) { provider.refreshAhead = value }
  }

  /// What the preset leaves open must be given. A key that is there with a wrong value was reported already.
  private static func checkRequired(_ provider: Provider, _ reader: TableReader) {
    for key in provider.missingSettings {
      if key == "client_secret" {
        guard !secretKeys.contains(where: { reader.has($0) }) else { continue }
        reader.report("client_secret_file", .missing(expected: "the path of the file that holds the client secret"))
      } else if !reader.has(key) {
        reader.report(key, .missing(expected: expectation(of: key)))
      }
    }
    guard provider.missingSettings.isEmpty, provider.resolvedEndpoint.flatMap({ URLParts($0) }) == nil else {
      return
    }
    let keys = provider.parameterNames.filter { reader.has($0) }
    reader.report(
      keys.first ?? "endpoint",
      .invalid(
        found: "a value that makes no URL of \(provider.endpoint ?? "the endpoint")",
        expected: "one with which it is an absolute http or https URL"))
  }

  private static func expectation(of key: String) -> String {
    switch key {
    case "endpoint": "the URL of the token endpoint"
    case "client_id": "the OAuth client's id"
    default: "a value for {\(key)}, which the preset needs"
    }
  }

  private static func checkTogether(_ provider: Provider, _ connection: ProviderConnection, _ reader: TableReader) {
    for (key, url) in [("endpoint", provider.resolvedEndpoint), ("validate_url", provider.validateURL)] {
      guard let url = url.flatMap({ URLParts($0) }), url.origin.scheme == .http, !Host.isLoopback(url.origin.host),
        !connection.allowPlaintext
      else { continue }
      reader.report(
        key, .invalid(found: TOMLText.quoted(url.origin.description), expected: "https beyond loopback"),
        hint: "`allow_plaintext = true` sends tokens unencrypted")
    }
    if provider.clientAuthentication == .mtls, connection.tls.clientCertificateFile == nil {
      reader.diagnostics.report(
        "\(reader.path).tls.client_certificate_file",
        .missing(expected: "a path, because `client_auth` is \"mtls\""))
    }
    switch provider.clientAuthentication {
    case .basic, .body: break
    case .none, .mtls:
      for key in secretKeys where reader.has(key) {
        reader.conflict(key, "is not used while `client_auth` is \"\(provider.clientAuthentication.rawValue)\"")
      }
    }
    if provider.method == .get, provider.encoding != .query {
      reader.conflict("encoding", "a GET carries its fields in the query: set `encoding = \"query\"`")
    }
    if provider.onUnknown == .replayInGrace, provider.grace == .none {
      reader.conflict("on_unknown", "\"replay-in-grace\" needs a `grace`")
    }
  }

  /// A code or status in two lists would have two outcomes. The presets are not judged, only what is changed.
  private static func checkCodes(_ provider: Provider, _ reader: TableReader) {
    let lists = [
      ("dead_codes", provider.deadCodes), ("config_codes", provider.configCodes),
      ("known_codes", provider.knownCodes),
      ("dead_statuses", provider.deadStatuses.map(String.init)),
      ("known_statuses", provider.knownStatuses.map(String.init)),
    ]
    for (index, (key, codes)) in lists.enumerated() {
      for (earlierKey, earlier) in lists[..<index] where reader.has(key) || reader.has(earlierKey) {
        for code in codes where earlier.contains(code) {
          reader.conflict(reader.has(key) ? key : earlierKey, "\(code) stands in `\(earlierKey)` and in `\(key)`")
        }
      }
    }
  }
}

extension Reading where Value == String {
  /// A URL in which `{name}` may stand for one of the parameters.
  fileprivate static func template(_ parameters: [String]) -> Reading {
    text("an absolute http or https URL without user information and fragment") { text in
      // A parameter at the beginning holds the scheme, too.
      var filled = text.hasPrefix("{") ? "https://\(text)" : text
      for name in parameters { filled = filled.replacing("{\(name)}", with: "x") }
      return filled.contains("{") || URLParts(filled) == nil ? nil : text
    }
  }
}

extension Reading where Value == Provider.Grace {
  fileprivate static var grace: Reading {
    text("a duration in whole seconds up to 1d, \"none\" or \"unlimited\"") { text in
      switch text {
      case "none": return Provider.Grace.none
      case "unlimited": return .unlimited
      default:
        guard let interval = Quantity.interval(text), interval > .zero, interval <= .seconds(86_400),
          interval.nanoseconds % 1_000_000_000 == 0
        else { return nil }
        return .seconds(Int(interval.secondsRoundedUp))
      }
    }
  }
}
