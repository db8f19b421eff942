import BearerPolicy
import Chronology
import Configuration
import Testing

/// The files under `config/` are part of the product: each one is parsed as it is shipped.
private enum Shipped {
  static func text(_ name: String, file: String = #filePath) throws -> String {
    let root = file.split(separator: "/").dropLast(3).joined(separator: "/")
    switch Configuration.readFile("/\(root)/config/\(name)") {
    case .success(let bytes): return String(decoding: bytes, as: UTF8.self)
    case .failure(let problem):
      Issue.record("\(name): \(problem.reason)")
      throw problem
    }
  }

  /// A line that begins with `#` and no space is a setting.
  static func uncommented(_ text: String) -> String {
    text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      line.hasPrefix("#") && !line.hasPrefix("# ") && line != "#" ? line.dropFirst() : line
    }.joined(separator: "\n")
  }

  static let environment = [
    "CREDENTIALS_DIRECTORY": "/run/credentials/bearerd.service", "OAUTH_CLIENT_SECRET_FILE": "/s",
  ]

  static func parse(_ text: String) throws -> Configuration {
    let result = Configuration.parse(text, environment: environment) { _ in .success(Array("a-secret-for-all".utf8)) }
    switch result {
    case .success(let configuration): return configuration
    case .failure(let errors):
      Issue.record("\(errors)")
      throw errors
    }
  }
}

@Suite("SPEC §11 config/bearerd.toml is the commented default") struct DefaultFileTests {
  @Test("as shipped it changes nothing") func asShipped() throws {
    #expect(try Shipped.parse(try Shipped.text("bearerd.toml")) == (try Shipped.parse("")))
  }

  @Test("with every line uncommented it is valid and uses no key twice") func uncommented() throws {
    let read = try Shipped.parse(Shipped.uncommented(try Shipped.text("bearerd.toml")))
    #expect(read.upstreams.map(\.name) == ["api", "load"])
    #expect(read.listeners.count == 3)
  }

  @Test("it has every key that exists") func everyKey() throws {
    let text = Shipped.uncommented(try Shipped.text("bearerd.toml"))
    // Free names stand for the keys below them; a parameter's name is checked below.
    let keys = Configuration.knownKeys(exercisedBy: text).filter { !$0.hasSuffix(".*") }
    #expect(keys.count > 90, "\(keys.count)")
    let lines = text.split(separator: "\n")
    for key in keys {
      let name = key.split(separator: ".").last ?? ""
      let isThere = lines.contains { line in
        let words = line.drop { $0 == "[" }.prefix { $0 != "=" && $0 != "]" && $0 != " " }.split(separator: ".")
        return words.contains(name)
      }
      #expect(isThere, "\(key)")
    }
    for name in Presets.all.flatMap(\.parameterNames) {
      #expect(lines.contains { $0.hasPrefix("\(name) = ") }, "\(name)")
    }
  }

  @Test("the defaults it states are the defaults") func statedDefaults() throws {
    let stated = try Shipped.parse(Shipped.uncommented(try Shipped.text("bearerd.toml")))
    let actual = try Shipped.parse("")
    #expect(stated.loops == actual.loops)
    #expect(stated.pseudonym == actual.pseudonym)
    #expect(stated.stateDirectory == actual.stateDirectory)
    #expect(stated.listeners.first == actual.listeners.first)
    #expect(stated.admin == actual.admin)
    #expect(stated.log == actual.log)
    #expect(stated.limits == actual.limits)
    #expect(stated.timeouts == actual.timeouts)
    #expect(stated.replay == actual.replay)
    #expect(stated.refresh == actual.refresh)
    let api = try #require(stated.upstreams.first)
    let plain = Configuration.Upstream(name: "api", origin: api.origin)
    #expect(api.auth == plain.auth)
    #expect(api.authorization == plain.authorization)
    #expect(api.writes == plain.writes)
    #expect(api.idempotencyInject == plain.idempotencyInject)
    #expect(api.expiredStatus == plain.expiredStatus)
    #expect(stated.upstreams.last?.poolPick == plain.poolPick)
    let corporate = try #require(stated.providers["corporate"])
    let oauth2 = try #require(Presets.named("oauth2"))
    #expect(corporate.method == oauth2.method)
    #expect(corporate.encoding == oauth2.encoding)
    #expect(corporate.tokenField == oauth2.tokenField)
    #expect(corporate.clientIDField == oauth2.clientIDField)
    #expect(corporate.clientSecretField == oauth2.clientSecretField)
    #expect(corporate.expirySources == oauth2.expirySources)
    #expect(corporate.fallbackLifetime == oauth2.fallbackLifetime)
    #expect(corporate.codePaths == oauth2.codePaths)
    #expect(corporate.deadCodes == oauth2.deadCodes)
    #expect(corporate.configCodes == oauth2.configCodes)
    #expect(corporate.knownCodes == oauth2.knownCodes)
    #expect(corporate.knownStatuses == oauth2.knownStatuses)
    #expect(corporate.everyOtherStatusIsKnown == oauth2.everyOtherStatusIsKnown)
    #expect(corporate.rotation == oauth2.rotation)
    #expect(corporate.leeway == oauth2.leeway)
    #expect(corporate.refreshAhead == oauth2.refreshAhead)
    #expect(corporate.timeout == oauth2.timeout)
    #expect(corporate.response == oauth2.response)
  }
}

@Suite("SPEC §11 config/examples has one file per use") struct ExampleTests {
  @Test("sidecar: one program, one API, a client secret from the credentials directory") func sidecar() throws {
    let read = try Shipped.parse(try Shipped.text("examples/sidecar.toml"))
    #expect(read.listeners.first == .unix(path: "/run/bearerd/sidecar.sock", mode: 0o600, allowedUIDs: [1001]))
    let partner = try #require(read.upstreams.first)
    #expect("\(partner.origin)" == "https://api.partner.example")
    #expect(partner.acceptedSessions == ["partner"])
    #expect(partner.paths.first?.auth == Configuration.Upstream.Auth.none)
    #expect(read.providers["partner"]?.clientAuthentication == .basic)
    #expect(read.providers["partner"]?.oauthClientSecret == Secret("a-secret-for-all"))
    #expect(
      read.providerConnections["partner"]?.secretFiles["client_secret"]
        == "/run/credentials/bearerd.service/partner-secret")
  }

  @Test("development gateway: prefixes, a default without a token, loopback in plain http") func gateway() throws {
    let read = try Shipped.parse(try Shipped.text("examples/dev-gateway.toml"))
    let named = Dictionary(uniqueKeysWithValues: read.upstreams.map { ($0.name, $0) })
    #expect(named["api"]?.pathPrefix == "/api")
    #expect(named["api"]?.stripPrefix == true)
    #expect(named["api"]?.accepts(session: "me-admin") == true)
    #expect(named["search"]?.auth == .optional)
    #expect(named["frontend"]?.isDefault == true)
    #expect(named["frontend"]?.auth == Configuration.Upstream.Auth.none)
    #expect(read.browserGuard.hostNames == ["gateway.test"])
  }

  @Test("load front: a pool by connection, dialled past the edge") func loadFront() throws {
    let read = try Shipped.parse(try Shipped.text("examples/load-front.toml"))
    let target = try #require(read.upstreams.first)
    #expect(target.pool == "load-*")
    #expect(target.poolPick == .connection)
    #expect(target.dial == Configuration.HostPort(host: "10.20.0.5", port: 8443))
    #expect(target.accepts(session: "load-4999") && !target.accepts(session: "other"))
    #expect(read.log.accessLog == false)
    #expect(read.limits.clientConnections == 65_536)
    #expect(read.replay.memoryBytes == 256 << 20)
  }

  @Test(
    "each backend's file uses that backend's preset",
    arguments: [
      ("mobile-core-kit", "phone", "https://core.example.com/v1/auth/refresh"),
      ("remote-auth-service", "me", "https://backend.example.com/api/v1/auth/refresh"),
      ("veloready", "rider", "https://api.veloready.app/.netlify/functions/auth-refresh-token"),
      ("network-service", "app", "https://service.example.com/api/authenticate"),
    ])
  func backends(_ name: String, _ session: String, _ endpoint: String) throws {
    let read = try Shipped.parse(try Shipped.text("examples/\(name).toml"))
    #expect(read.upstreams.map(\.session) == [session])
    #expect(read.upstreams.first?.isDefault == true)
    #expect(read.providerConnections[name]?.preset == name)
    var provider = try #require(read.providers[name])
    #expect(provider.resolvedEndpoint == endpoint)
    let preset = try #require(Presets.named(name))
    provider.endpoint = preset.endpoint
    provider.parameters = preset.parameters
    #expect(provider == preset)
  }

  @Test("the app's own status for a session that is over") func expiredStatus() throws {
    #expect(
      try Shipped.parse(try Shipped.text("examples/network-service.toml")).upstreams.first?.expiredStatus == 440)
  }

  @Test("telemetry is sent again, signing in carries no token") func mobileCoreKitPaths() throws {
    let read = try Shipped.parse(try Shipped.text("examples/mobile-core-kit.toml"))
    let paths = try #require(read.upstreams.first?.paths)
    #expect(paths.map(\.prefix) == ["/v1/telemetry", "/v1/auth"])
    #expect(paths.first?.retry == .always)
    #expect(paths.last?.auth == Configuration.Upstream.Auth.none)
  }
}

@Suite("SPEC §11 files that the TLS settings name") struct FileCheckTests {
  @Test("each file that cannot be read is one error, apart from parsing") func checkFiles() throws {
    let here = #filePath
    let text =
      upstream("tls.ca_file = \"/nonexistent/ca.pem\"\n")
      + provider(
        "tls.ca_file = \"\(here)\"\ntls.client_certificate_file = \"/\"\ntls.client_key_file = \"/nonexistent/k\"")
    #expect(
      try configuration(text).checkFiles().map(\.description) == [
        "`upstream.api.tls.ca_file`: /nonexistent/ca.pem: No such file or directory",
        "`provider.p.tls.client_certificate_file`: /: is not a regular file",
        "`provider.p.tls.client_key_file`: /nonexistent/k: No such file or directory",
      ])
  }

  @Test("readFile reads whole files and refuses what is no regular file") func readFile() throws {
    let bytes = try Configuration.readFile(#filePath).get()
    #expect(bytes.count > 4096)
    #expect(String(decoding: bytes.suffix(2), as: UTF8.self) == "}\n")
    #expect(Configuration.readFile("/dev/null") == .failure(FileProblem(reason: "is not a regular file")))
  }
}
