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
    guard case .tcp(let read)? = try configuration("[[listener]]\ntcp = \"\(address)\"").listeners.first else {
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
          + "(clients cannot be authenticated over TCP: listen on loopback or on a Unix socket)"
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
        .systemd(name: nil), .systemd(name: "http"),
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
