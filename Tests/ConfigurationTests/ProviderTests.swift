import BearerPolicy
import Chronology
import Configuration
import Testing

@Suite("SPEC §3 providers are data that can be overridden") struct ProviderTests {
  @Test("every key overrides its field") func everyKey() throws {
    let text = """
      [provider.p]
      preset = "oauth2"
      endpoint = "https://login.example.com/token"
      method = "PUT"
      encoding = "json"
      token_field = "rt"
      client_auth = "body"
      client_id = "me"
      client_id_field = "cid"
      client_secret_field = "csecret"
      client_secret_file = "/secret"
      expiry_sources = ["jwt"]
      fallback_lifetime = "1min"
      code_paths = ["error.code"]
      dead_codes = ["gone"]
      dead_statuses = [410]
      config_codes = ["bad"]
      known_codes = ["busy"]
      known_statuses = [420]
      every_other_status_is_known = true
      rotation = "always"
      grace = "30s"
      on_unknown = "replay-in-grace"
      leeway = "1s"
      refresh_ahead = "2s"
      refreshes_per_second = 7
      timeout = "3s"
      validate_url = "https://login.example.com/me"
      [provider.p.response]
      bearer = "data.accessToken"
      refresh = "data.refreshToken"
      expires_in = ""
      expires_at = "data.at"
      token_type = ""
      [provider.p.static_fields]
      grant_type = "other"
      scope = "all"
      [provider.p.headers]
      x-key = { file = "/key" }
      accept = "application/json"
      """
    let read = try configuration(text, files: ["/secret": "s3cret\r\n", "/key": "k3y"])
    let provider = try #require(read.providers["p"])
    var expected = Provider(name: "p")
    expected.summary = provider.summary
    expected.required = provider.required
    expected.endpoint = "https://login.example.com/token"
    expected.method = .put
    expected.encoding = .json
    expected.tokenField = "rt"
    expected.staticFields = [
      .init(name: "grant_type", value: Secret("other")), .init(name: "scope", value: Secret("all")),
    ]
    expected.headers = [
      .init(name: "accept", value: Secret("application/json")), .init(name: "x-key", value: Secret("k3y")),
    ]
    expected.clientAuthentication = .body
    expected.oauthClientID = "me"
    expected.clientIDField = "cid"
    expected.clientSecretField = "csecret"
    expected.oauthClientSecret = Secret("s3cret")
    expected.response.bearer = "data.accessToken"
    expected.response.refresh = "data.refreshToken"
    expected.response.expiresIn = nil
    expected.response.expiresAt = "data.at"
    expected.response.tokenType = nil
    expected.expirySources = [.jwt]
    expected.fallbackLifetime = .seconds(60)
    expected.codePaths = ["error.code"]
    expected.deadCodes = ["gone"]
    expected.deadStatuses = [410]
    expected.configCodes = ["bad"]
    expected.knownCodes = ["busy"]
    expected.knownStatuses = [420]
    expected.everyOtherStatusIsKnown = true
    expected.rotation = .always
    expected.grace = .seconds(30)
    expected.onUnknown = .replayInGrace
    expected.leeway = .seconds(1)
    expected.refreshAhead = .seconds(2)
    expected.refreshesPerSecond = 7
    expected.timeout = .seconds(3)
    expected.validateURL = "https://login.example.com/me"
    #expect(provider == expected)
    #expect(read.providerConnections["p"]?.secretFiles == ["client_secret": "/secret", "headers.x-key": "/key"])
  }

  @Test("a preset that needs nothing is usable without an entry, the others are not") func presetsByName() throws {
    let read = try configuration("")
    for preset in Presets.all {
      #expect((read.providers[preset.name] != nil) == preset.missingSettings.isEmpty, "\(preset.name)")
    }
    #expect(read.providers["veloready"] == Presets.named("veloready"))
    #expect(Set(read.providers.keys) == Set(read.providerConnections.keys))
  }

  @Test("without `preset` an entry takes the preset of its name, else the one of RFC 6749") func defaultPreset()
    throws
  {
    let text =
      "[provider.veloready]\ntimeout = \"20s\"\n[provider.mine]\nendpoint = \"https://login.example.com/t\"\n"
    let read = try configuration(text)
    var velo = try #require(Presets.named("veloready"))
    velo.timeout = .seconds(20)
    #expect(read.providers["veloready"] == velo)
    #expect(read.providerConnections["mine"]?.preset == "oauth2")
    #expect(read.providers["mine"]?.staticFields == Presets.named("oauth2")?.staticFields)
  }

  @Test("names in braces in a preset's endpoint are settings") func parameters() throws {
    let text = "[provider.o]\npreset = \"okta\"\ndomain = \"corp.okta.com\"\nclient_id = \"me\"\n"
    let okta = try #require(try configuration(text).providers["o"])
    #expect(okta.resolvedEndpoint == "https://corp.okta.com/oauth2/default/v1/token")
    #expect(okta.missingSettings == [])
    let key = "[provider.firebase]\napi_key = { file = \"/key\" }\n"
    #expect(
      try configuration(key, files: ["/key": "AIza"]).providers["firebase"]?.resolvedEndpoint
        == "https://securetoken.googleapis.com/v1/token?key=AIza")
  }

  @Test("refresh_ahead and grace have words besides durations") func words() throws {
    let read = try configuration(provider("refresh_ahead = \"off\"\ngrace = \"unlimited\"\nleeway = \"0s\""))
    #expect(read.providers["p"]?.refreshAhead == nil)
    #expect(read.providers["p"]?.grace == .unlimited)
    #expect(read.providers["p"]?.leeway == .zero)
    #expect(try configuration(provider("grace = \"none\"")).providers["p"]?.grace == Provider.Grace.none)
  }

  @Test(
    "keys that cannot hold are refused",
    arguments: [
      Refusal(
        "[provider.p]", "`provider.p.endpoint` is missing: expected the URL of the token endpoint"),
      Refusal(
        "[provider.o]\npreset = \"okta\"\nclient_id = \"me\"",
        "`provider.o.domain` is missing: expected a value for {domain}, which the preset needs"),
      Refusal(
        "[provider.o]\npreset = \"okta\"\ndomain = \"a b/c?\"\nclient_id = \"me\"",
        "`provider.o.domain`: found a value that makes no URL of https://{domain}/oauth2/{authorization_server}/v1/token, "
          + "expected one with which it is an absolute http or https URL"),
      Refusal(
        provider("method = \"GET\""),
        "`provider.p.encoding`: a GET carries its fields in the query: set `encoding = \"query\"`"),
      Refusal(
        provider("on_unknown = \"replay-in-grace\""), "`provider.p.on_unknown`: \"replay-in-grace\" needs a `grace`"
      ),
      Refusal(
        provider("grace = \"250ms\""),
        "`provider.p.grace`: found \"250ms\", expected a duration in whole seconds up to 1d, \"none\" or \"unlimited\""
      ),
      Refusal(
        provider("dead_codes = [\"invalid_client\"]"),
        "`provider.p.dead_codes`: invalid_client stands in `dead_codes` and in `config_codes`"),
      Refusal(
        provider("dead_statuses = [429]"),
        "`provider.p.dead_statuses`: 429 stands in `dead_statuses` and in `known_statuses`"),
      Refusal(
        provider("dead_statuses = [200]"),
        "`provider.p.dead_statuses[0]`: found 200, expected an integer from 300 to 599"),
      Refusal(
        provider("expiry_sources = [\"fallback\"]"),
        "`provider.p.expiry_sources[0]`: found \"fallback\", expected one of \"expires_at\", \"expires_in\", \"jwt\""
      ),
      Refusal(
        provider("response.bearer = \"\""),
        "`provider.p.response.bearer`: found \"\", expected a dotted path such as \"data.accessToken\""),
      Refusal(
        provider("client_auth = \"body\""), "`provider.p.client_id` is missing: expected the OAuth client's id"),
      Refusal(
        provider("client_auth = \"basic\"\nclient_id = \"me\""),
        "`provider.p.client_secret_file` is missing: expected the path of the file that holds the client secret"),
      Refusal(
        provider("client_auth = \"mtls\"\nclient_id = \"me\""),
        "`provider.p.tls.client_certificate_file` is missing: expected a path, because `client_auth` is \"mtls\""),
      Refusal(
        provider("headers.Authorization = \"Basic x\""),
        "`provider.p.headers.Authorization`: found \"Authorization\", expected a field name that bearerd does not set "
          + "itself"),
      Refusal(
        provider("headers.x = \"hunter2\\n\""),
        "`provider.p.headers.x`: found a string, expected a text without control characters, or `{ file = \"/path\" }`"
      ),
      Refusal(
        provider("endpoint_url = 1"), "unknown key `provider.p.endpoint_url`"),
    ])
  func refused(_ refusal: Refusal) { #expect(errors(refusal.text) == [refusal.error]) }

  @Test("an unknown preset is refused with those that exist") func unknownPreset() {
    let found = errors("[provider.p]\npreset = \"oauth3\"\nendpoint = \"https://login.example.com/t\"")
    #expect(found.count == 1)
    #expect(
      found.first?.hasPrefix("`provider.p.preset`: found \"oauth3\", expected one of the presets auth0, ") == true)
    #expect(found.first?.contains("mobile-core-kit") == true)
  }

  @Test(
    "I6 endpoint and validate_url are https, loopback, or allowed by name",
    arguments: [
      ("endpoint", "http://login.example.com/t", "", false), ("endpoint", "http://127.0.0.1:1/t", "", true),
      ("endpoint", "http://login.example.com/t", "allow_plaintext = true", true),
      ("validate_url", "http://login.example.com/me", "", false), ("validate_url", "http://localhost/me", "", true),
    ])
  func plaintext(_ key: String, _ url: String, _ more: String, _ isAccepted: Bool) {
    let endpoint = key == "endpoint" ? "" : "endpoint = \"https://login.example.com/t\"\n"
    let found = errors("[provider.p]\n\(endpoint)\(key) = \"\(url)\"\n\(more)\n")
    let refusal =
      "`provider.p.\(key)`: found \"http://login.example.com\", expected https beyond loopback "
      + "(`allow_plaintext = true` sends tokens unencrypted)"
    #expect(found == (isAccepted ? [] : [refusal]))
  }

  @Test("I6 a parameter that makes the endpoint plain http is refused") func plaintextParameter() {
    let found = errors("[provider.s]\npreset = \"supabase\"\nbase_url = \"http://db.example.com\"\napi_key = \"x\"")
    #expect(found.count == 1)
    #expect(
      found.first?.hasPrefix("`provider.s.endpoint`: found \"http://db.example.com\", expected https") == true)
  }
}

@Suite("SPEC §10 secrets come only from files") struct SecretTests {
  private let basic = "client_auth = \"basic\"\nclient_id = \"me\"\n"

  @Test("the environment names the file, never the secret") func environmentVariable() throws {
    let text = provider(basic + "client_secret_env = \"OAUTH_SECRET_FILE\"")
    let read = try configuration(text, environment: ["OAUTH_SECRET_FILE": "/s"], files: ["/s": "x"])
    #expect(read.providers["p"]?.oauthClientSecret == Secret("x"))
    #expect(
      errors(text) == [
        "`provider.p.client_secret_env`: found \"OAUTH_SECRET_FILE\", expected a variable that is set to the path of "
          + "a file"
      ])
    #expect(
      errors(provider(basic + "client_secret_env = \"OAUTH_SECRET\""), environment: ["OAUTH_SECRET": "hunter2"])
        == [
          "`provider.p.client_secret_env`: found \"OAUTH_SECRET\", expected the name of an environment variable that "
            + "ends in _FILE and holds a path"
        ])
  }

  @Test("both sources at once are refused") func both() {
    let text = provider(basic + "client_secret_env = \"A_FILE\"\nclient_secret_file = \"/s\"")
    #expect(
      errors(text, environment: ["A_FILE": "/s"], files: ["/s": "x"]) == [
        "`provider.p.client_secret_env`: cannot stand beside `client_secret_file`"
      ])
  }

  @Test("a secret that the client authentication does not use is refused") func unused() {
    #expect(
      errors(provider("client_secret_file = \"/s\""), files: ["/s": "x"]) == [
        "`provider.p.client_secret_file`: is not used while `client_auth` is \"none\""
      ])
  }

  @Test("the credentials directory is filled in") func credentials() throws {
    let text = provider(basic + "client_secret_file = \"$CREDENTIALS_DIRECTORY/s\"")
    let read = try configuration(text, environment: ["CREDENTIALS_DIRECTORY": "/run/c"], files: ["/run/c/s": "x"])
    #expect(read.providers["p"]?.oauthClientSecret == Secret("x"))
  }

  @Test(
    "a file without a usable secret is an error that does not show it",
    arguments: [
      (nil, "No such file or directory"), ("", "is empty"), ("\n\n", "is empty"),
      ("hunter2\nhunter3", "holds control characters or several lines"),
      (String(repeating: "h", count: 65_537), "is larger than 64KiB"),
    ] as [(String?, String)])
  func badFiles(_ content: String?, _ reason: String) {
    let text = provider(basic + "client_secret_file = \"/s\"")
    let found = errors(text, files: content.map { ["/s": $0] } ?? [:])
    #expect(found == ["`provider.p.client_secret_file`: /s: \(reason)"])
  }
}
