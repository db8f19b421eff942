import BearerPolicy
import Configuration
import Testing

@Suite("SPEC §11 check --effective") struct EffectiveTests {
  private let text = """
    loops = 3
    [[listener]]
    unix = "/run/a \\"b\\".sock"
    mode = 0o600
    allowed_uids = [1, 2]
    [[listener]]
    systemd = true
    [[listener]]
    systemd = "http"
    [admin]
    address = "off"
    [timeouts]
    header = "250ms"
    drain = "0s"
    [upstream.api]
    origin = "https://[2001:db8::1]:8443"
    pool = "x-*"
    login_paths = ["/in"]
    idempotency.inject = true
    [[upstream.api.path]]
    prefix = "/a"
    auth = "none"
    [[upstream.api.path]]
    prefix = "/a/b"
    session = "q"
    retry = "always"
    [upstream.api.tls]
    ca_file = "/ca.pem"
    [provider.p]
    endpoint = "https://login.example.com/token?tenant=t&grant_type=refresh_token&key=hunter2"
    client_auth = "body"
    client_id = "me"
    client_secret_file = "/secret"
    grace = "90s"
    on_unknown = "replay-in-grace"
    [provider.p.headers]
    x-key = "hunter2"
    x-file = { file = "/key" }
    accept = "application/json"
    [provider.firebase]
    api_key = "hunter2"
    [provider.corp]
    preset = "okta"
    domain = "corp.okta.com"
    client_id = "me"
    """
  private let files = ["/secret": "hunter2", "/key": "hunter2"]

  @Test("no secret is shown (I10)") func redacted() throws {
    let effective = try configuration(text, files: files).effective
    #expect(!effective.contains("hunter2"))
    #expect(effective.contains("headers.x-key = \"[redacted]\""))
    #expect(effective.contains("headers.x-file = { file = \"/key\" }"))
    #expect(effective.contains("client_secret_file = \"/secret\""))
    #expect(effective.contains("?tenant=redacted&grant_type=refresh_token&key=redacted"))
    #expect(effective.contains("api_key = \"[redacted]\""))
  }

  @Test("it reads back as the same configuration, apart from what is redacted") func readsBack() throws {
    var original = try configuration(text, files: files)
    var again = try configuration(original.effective, files: files)
    #expect(again.effective == original.effective)
    original.providers["p"]?.endpoint = again.providers["p"]?.endpoint
    let index = try #require(original.providers["p"]?.headers.firstIndex { $0.name == "x-key" })
    original.providers["p"]?.headers[index].value = Secret("[redacted]")
    original.providers["firebase"]?.parameters = ["api_key": Secret("[redacted]")]
    // Fields of a table have no order in TOML.
    original.sortFields()
    again.sortFields()
    #expect(again.providers == original.providers)
    #expect(again == original)
  }

  @Test("the defaults read back, with every preset") func defaultsReadBack() throws {
    var original = try configuration("")
    var again = try configuration(original.effective)
    original.sortFields()
    again.sortFields()
    #expect(again == original)
  }
}

extension Configuration {
  fileprivate mutating func sortFields() {
    for name in providers.keys {
      providers[name]?.headers.sort { $0.name < $1.name }
      providers[name]?.staticFields.sort { $0.name < $1.name }
    }
  }
}
