import BearerPolicy
import Configuration
import Testing

@Suite("SPEC §1 listeners") struct ListenerTests {
  @Test(
    "loopback addresses are accepted",
    arguments: [
      ("127.0.0.1:8180", "127.0.0.1"), ("127.9.9.9:1", "127.9.9.9"), ("[::1]:8180", "::1"),
      ("localhost:8180", "localhost"), ("LocalHost:8180", "localhost"),
      ("[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1"),
      ("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"),
    ])
  func loopback(_ address: String, _ host: String) throws {
    guard case .tcp(let read, allowsRemote: false)? = try configuration("[[listener]]\ntcp = \"\(address)\"").listeners.first else {
      Issue.record("no TCP listener")
      return
    }
    #expect(read.host == host)
    #expect(address.hasSuffix(":\(read.port)"))
  }

  @Test(
    "other addresses are refused, with what to do",
    arguments: ["0.0.0.0:80", "[::]:80", "192.168.1.1:80", "api.example.com:80", "128.0.0.1:80", "[::2]:80"])
  func notLoopback(_ address: String) {
    let found = errors("[[listener]]\ntcp = \"\(address)\"")
    #expect(
      found == [
        "`listener[0].tcp`: found \"\(address)\", expected a loopback address "
          + "(`allow_remote = true` and a [client.NAME] open it to programs that authenticate)"
      ])
  }

  @Test(
    "malformed addresses are refused",
    arguments: [
      "127.0.0.1", "127.0.0.1:", ":80", "", "::1:80", "[::1]", "127.0.0.1:65536", "127.0.0.1:+1", "127.0.0.1: 80",
      "[fe80::1%25lo]:80", "a b:80", "ⓛocalhost:80",
    ])
  func malformed(_ address: String) {
    let found = errors("[[listener]]\ntcp = \"\(address)\"")
    #expect(
      found == [
        "`listener[0].tcp`: found \"\(address)\", expected a host and port such as \"127.0.0.1:8180\" or "
          + "\"[::1]:8180\""
      ])
  }

  @Test("Unix sockets have a mode and may name user ids") func unix() throws {
    let text = """
      [[listener]]
      unix = "/run/a.sock"
      [[listener]]
      unix = "/run/b.sock"
      mode = 0o600
      allowed_uids = [0, 4294967295]
      [[listener]]
      systemd = true
      [[listener]]
      systemd = "http"
      """
    #expect(
      try configuration(text).listeners == [
        .unix(path: "/run/a.sock", mode: 0o660, allowedUIDs: nil),
        .unix(path: "/run/b.sock", mode: 0o600, allowedUIDs: [0, 4_294_967_295]),
        .systemd(name: nil, allowsRemote: false), .systemd(name: "http", allowsRemote: false),
      ])
  }

  @Test(
    "listeners that make no sense are refused",
    arguments: [
      Refusal("listener = []", "`listener`: found no listener, expected at least one, or no `listener` at all"),
      Refusal("[[listener]]", "`listener[0]`: found none of them, expected one of `tcp`, `unix`, `systemd`"),
      Refusal(
        "[[listener]]\ntcp = \"127.0.0.1:1\"\nunix = \"/a\"",
        "`listener[0]`: found tcp and unix, expected one of `tcp`, `unix`, `systemd`"),
      Refusal("[[listener]]\nunix = \"a.sock\"", "`listener[0].unix`: found \"a.sock\", expected an absolute path"),
      Refusal(
        "[[listener]]\nunix = \"/a\"\nmode = \"660\"",
        "`listener[0].mode`: found \"660\", expected file permissions such as 0o660"),
      Refusal(
        "[[listener]]\nunix = \"/a\"\nmode = 0o1777",
        "`listener[0].mode`: found 1023, expected file permissions such as 0o660"),
      Refusal(
        "[[listener]]\nunix = \"/a\"\nallowed_uids = [-1]",
        "`listener[0].allowed_uids[0]`: found -1, expected a numeric user id"),
      Refusal(
        "[[listener]]\ntcp = \"127.0.0.1:1\"\nmode = 0o600", "`listener[0].mode`: belongs to a `unix` listener"),
      Refusal(
        "[[listener]]\nsystemd = false",
        "`listener[0].systemd`: found false, expected true for every inherited socket, or a `FileDescriptorName`"),
      Refusal(
        "[[listener]]\ntcp = \"127.0.0.1:1\"\n[[listener]]\ntcp = \"127.0.0.1:1\"",
        "`listener`: \"127.0.0.1:1\" is listed twice"),
      Refusal(
        "[[listener]]\nunix = \"/\(String(repeating: "x", count: 107))\"",
        "`listener[0].unix`: found 108 bytes, expected a path of at most 107 bytes"),
    ])
  func refused(_ refusal: Refusal) { #expect(errors(refusal.text) == [refusal.error]) }

  @Test("beyond loopback with allow_remote, and only with clients that authenticate") func remote() throws {
    let listener = "[[listener]]\ntcp = \"0.0.0.0:8180\"\nallow_remote = true\n[[listener]]\nsystemd = true\nallow_remote = true\n"
    #expect(
      errors(listener) == [
        "`listener[0].allow_remote`: needs a [client.NAME], so that not everybody may use the tokens",
        "`listener[1].allow_remote`: needs a [client.NAME], so that not everybody may use the tokens",
      ])
    let client = "[client.ci]\nsecret_file = \"/s\"\n"
    let files = ["/s": "0123456789abcdef\n"]
    #expect(
      try configuration(listener + client, files: files).listeners == [
        .tcp(Configuration.HostPort(host: "0.0.0.0", port: 8180), allowsRemote: true),
        .systemd(name: nil, allowsRemote: true),
      ])
    #expect(
      errors("[[listener]]\ntcp = \"gateway.test:80\"\nallow_remote = true\n" + client, files: files) == [
        "`listener[0].tcp`: found \"gateway.test:80\", expected an IP address to listen on, not a name"
      ])
    #expect(
      errors("[[listener]]\nunix = \"/a\"\nallow_remote = true\n" + client, files: files) == [
        "`listener[0].allow_remote`: has no effect on a Unix socket, which is always local"
      ])
  }

  @Test("clients: secrets from files, long enough, each its own") func clients() throws {
    let text = """
      [client.ci]
      secret_file = "/ci"
      sessions = ["ci-*"]
      [client.dev]
      secret_file = "/dev"
      """
    let read = try configuration(text, files: ["/ci": "0123456789abcdef\n", "/dev": "fedcba9876543210"]).clients
    #expect(read.map(\.name) == ["ci", "dev"])
    #expect(read.map(\.secret) == [Secret("0123456789abcdef"), Secret("fedcba9876543210")])
    #expect(read.map(\.sessions) == [["ci-*"], nil])
    #expect(
      errors(text, files: ["/ci": "short", "/dev": "short"]) == [
        "`client.ci.secret_file`: /ci: holds less than 16 bytes",
        "`client.dev.secret_file`: /dev: holds less than 16 bytes",
        "`client.dev.secret_file`: holds the same secret as that of `client.ci`",
      ])
    #expect(
      errors("[client.ci]\nsecret = \"x\"") == [
        "`client.ci.secret_file` is missing: expected the file that holds the client's secret",
        "unknown key `client.ci.secret`",
      ])
  }

  @Test(
    "CONNECT: tunnels need their list",
    arguments: [
      Refusal(
        "[forward]\nconnect = \"tunnel\"",
        "`forward.connect_allow` is missing: expected the hosts that tunnels may lead to, such as [\"example.com\"]"),
      Refusal(
        "[forward]\nconnect_allow = [\"a.test\"]",
        "`forward.connect_allow`: has no effect unless `forward.connect` is \"tunnel\""),
      Refusal("[forward]\nconnect = \"on\"", "`forward.connect`: found \"on\", expected one of \"deny\", \"tunnel\""),
      Refusal("[uploads]\nprobe = \"on\"", "`uploads.probe`: found \"on\", expected one of \"off\", \"expect\""),
    ])
  func connect(_ refusal: Refusal) { #expect(errors(refusal.text) == [refusal.error]) }

  @Test("the admin listener is loopback, or off") func admin() throws {
    #expect(try configuration("").admin == Configuration.HostPort(host: "127.0.0.1", port: 8181))
    #expect(try configuration("admin.address = \"off\"").admin == nil)
    #expect(try configuration("admin.address = \"127.0.0.1:0\"").admin?.port == 0)
    #expect(
      try configuration("admin.address = \"[::1]:99\"").admin == Configuration.HostPort(host: "::1", port: 99))
    #expect(
      errors("admin.address = \"0.0.0.0:99\"") == [
        "`admin.address`: found \"0.0.0.0:99\", expected a loopback address and port such as \"127.0.0.1:8181\", "
          + "or \"off\""
      ])
  }
}

@Suite("SPEC §9 limits are bounded themselves") struct LimitTests {
  @Test(
    "values that cannot hold are refused",
    arguments: [
      Refusal(
        "[limits]\nrequest_line = \"40KiB\"",
        "`limits.header_section`: found 73728 bytes with `limits.request_line`, expected at most 65000 bytes together"
      ),
      Refusal(
        "[limits]\nheader_fields = 256", "`limits.header_fields`: found 256, expected an integer from 8 to 255"),
      Refusal(
        "[limits]\nclient_connections = 0",
        "`limits.client_connections`: found 0, expected an integer from 1 to 1000000"),
      Refusal(
        "[replay]\nmax_body = \"65MiB\"", "`replay.max_body`: is more than `replay.memory`, which holds all bodies"),
      Refusal(
        "[forward]\npass_allow = [\"localhost\"]",
        "`forward.pass_allow`: has no effect unless `forward.unmatched` is \"pass\""),
      Refusal(
        "pseudonym = \"two words\"",
        "`pseudonym`: found \"two words\", expected a token of letters, digits and !#$%&'*+-.^_`|~"),
      Refusal("state_directory = \"var\"", "`state_directory`: found \"var\", expected an absolute path"),
    ])
  func refused(_ refusal: Refusal) { #expect(errors(refusal.text) == [refusal.error]) }

  @Test("the state directory is the key's, else the environment's, else the default") func stateDirectory() throws {
    let environment = ["STATE_DIRECTORY": "/var/lib/bearerd/a:/var/lib/b"]
    #expect(try configuration("", environment: environment).stateDirectory == "/var/lib/bearerd/a")
    #expect(try configuration("state_directory = \"/x\"", environment: environment).stateDirectory == "/x")
    #expect(try configuration("", environment: ["STATE_DIRECTORY": ""]).stateDirectory == "/var/lib/bearerd")
  }
}
