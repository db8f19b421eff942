import Configuration
import Testing

@Suite("SPEC §1, §2, §4 upstreams") struct UpstreamTests {
  @Test("every key reaches its value") func everyKey() throws {
    let text = """
      [upstream.api]
      origin = "HTTPS://API.Example.com:8443/"
      address = "192.0.2.1:9"
      hosts = ["API.test", "api.test:8180"]
      path_prefix = "/api"
      strip_prefix = true
      default = true
      auth = "optional"
      authorization = "keep"
      pool = "load-*"
      pool_pick = "request"
      sessions = ["x"]
      writes = "always"
      idempotency.inject = true
      expired_status = 440
      login_url = "https://app.example.com/login?from=bearerd"
      login_paths = ["/login"]
      [upstream.api.tls]
      ca_file = "$CREDENTIALS_DIRECTORY/ca.pem"
      client_certificate_file = "/c.pem"
      client_key_file = "/k.pem"
      server_name = "other.example.com"
      """
    let read = try #require(
      try configuration(text, environment: ["CREDENTIALS_DIRECTORY": "/run/credentials/b"]).upstreams.first)
    #expect("\(read.origin)" == "https://api.example.com:8443")
    #expect(read.dial == Configuration.HostPort(host: "192.0.2.1", port: 9))
    #expect(read.hosts == ["api.test", "api.test:8180"])
    #expect(read.pathPrefix == "/api")
    #expect(read.stripPrefix && read.isDefault && read.idempotencyInject && !read.allowPlaintext)
    #expect(read.auth == .optional)
    #expect(read.authorization == .keep)
    #expect(read.pool == "load-*")
    #expect(read.poolPick == .request)
    #expect(read.session == nil)
    #expect(read.writes == .always)
    #expect(read.expiredStatus == 440)
    #expect(read.loginURL == "https://app.example.com/login?from=bearerd")
    #expect(read.loginPaths == ["/login"])
    #expect(read.tls.caFile == "/run/credentials/b/ca.pem")
    #expect(read.tls.clientCertificateFile == "/c.pem")
    #expect(read.tls.clientKeyFile == "/k.pem")
    #expect(read.tls.serverName == "other.example.com")
  }

  @Test("path rules come longest prefix first") func pathOrder() throws {
    let rules = ["/a", "/a/b/c", "/a/b", "/z"].map {
      "[[upstream.api.path]]\nprefix = \"\($0)\"\nretry = \"never\""
    }
    let read = try #require(try configuration(upstream(rules.joined(separator: "\n"))).upstreams.first)
    #expect(read.paths.map(\.prefix) == ["/a/b/c", "/a/b", "/a", "/z"])
    #expect(read.paths.allSatisfy { $0.retry == .never && $0.auth == nil && $0.session == nil })
  }

  @Test(
    "keys that cannot hold are refused",
    arguments: [
      Refusal(
        "[upstream.api]\nsession = \"s\"",
        "`upstream.api.origin` is missing: expected where the API is, such as \"https://api.example.com\""),
      Refusal(
        upstream("", origin: "https://api.example.com/v1"),
        "`upstream.api.origin`: found \"https://api.example.com/v1\", expected an origin such as "
          + "\"https://api.example.com\" or \"https://api.example.com:8443\", without a path"),
      Refusal(
        upstream("", origin: "https://user:hunter2@api.example.com"),
        "`upstream.api.origin`: found a URL with user information or a query, expected an origin such as "
          + "\"https://api.example.com\" or \"https://api.example.com:8443\", without a path"),
      Refusal(
        "[upstream.\"a b\"]\norigin = \"https://a.example\"\nsession = \"s\"",
        "`upstream.\"a b\"`: found \"a b\", expected a name of at most 64 letters, digits, `-` and `_`"),
      Refusal(
        "[upstream.api]\norigin = \"https://a.example\"",
        "`upstream.api.session` is missing: expected `session`, `sessions` or `pool`, because `auth` is \"required\" "
          + "(`auth = \"none\"` sends no token)"),
      Refusal(
        "[upstream.api]\norigin = \"https://a.example\"\nauth = \"none\"\n[[upstream.api.path]]\nprefix = \"/x\"\n"
          + "auth = \"required\"",
        "`upstream.api.session` is missing: expected a session for the path rule \"/x\", which wants a token"),
      Refusal(
        upstream("pool = \"*\""),
        "`upstream.api.pool`: cannot stand beside `session`: a request takes one or the other"),
      Refusal(upstream("pool_pick = \"request\""), "`upstream.api.pool_pick`: has no effect without `pool`"),
      Refusal(upstream("strip_prefix = true"), "`upstream.api.strip_prefix`: needs a `path_prefix` to remove"),
      Refusal(
        upstream("[[upstream.api.path]]\nprefix = \"v1\""),
        "`upstream.api.path[0].prefix`: found \"v1\", expected a path prefix that starts with `/`, without query, "
          + "fragment, dot segments, `//` and encoded slashes"),
      Refusal(
        upstream("login_paths = [\"/a/../b\"]"),
        "`upstream.api.login_paths[0]`: found \"/a/../b\", expected a path prefix that starts with `/`, without "
          + "query, fragment, dot segments, `//` and encoded slashes"),
      Refusal(
        upstream("[[upstream.api.path]]\nauth = \"none\""),
        "`upstream.api.path[0].prefix` is missing: expected a path prefix such as \"/v1/\""),
      Refusal(
        upstream("[[upstream.api.path]]\nprefix = \"/a\"\n[[upstream.api.path]]\nprefix = \"/a\""),
        "`upstream.api.path[1].prefix`: \"/a\" has a rule already"),
      Refusal(
        upstream("tls.client_key_file = \"/k\""),
        "`upstream.api.tls.client_certificate_file` is missing: expected a path, because `client_key_file` is given"
      ),
      Refusal(
        upstream("tls.ca_file = \"/c\"", origin: "http://localhost:1"),
        "`upstream.api.tls`: has no effect on a plain http origin"),
      Refusal(
        upstream("tls.ca_file = \"$CREDENTIALS_DIRECTORY/c\""),
        "`upstream.api.tls.ca_file`: found \"$CREDENTIALS_DIRECTORY/c\", expected a path; `CREDENTIALS_DIRECTORY` is "
          + "not set"),
      Refusal(
        "[upstream.api]\norigin = \"https://a.example\"\nsession = \"a*\"",
        "`upstream.api.session`: found \"a*\", expected a session name without `*`, at most 200 bytes"),
      Refusal(
        upstream("expired_status = 200"),
        "`upstream.api.expired_status`: found 200, expected an integer from 400 to 599"),
    ])
  func refused(_ refusal: Refusal) { #expect(errors(refusal.text) == [refusal.error]) }

  @Test(
    "I6 a plain http origin is loopback as dialled, or allowed by name",
    arguments: [
      ("http://localhost:8080", "", true), ("http://127.0.0.1", "", true), ("http://[::1]:1", "", true),
      ("http://api.example.com", "", false), ("http://10.0.0.1", "", false),
      ("http://api.example.com", "allow_plaintext = true", true),
      ("http://api.example.com", "address = \"127.0.0.1:80\"", true),
      ("http://localhost", "address = \"10.0.0.1:80\"", false),
      ("http://localhost.example.com", "", false), ("http://api.localhost", "", false),
      ("http://2130706433", "", false), ("http://127.1", "", false), ("https://api.example.com", "", true),
    ])
  func plaintext(_ origin: String, _ more: String, _ isAccepted: Bool) {
    let found = errors(upstream(more, origin: origin))
    if isAccepted {
      #expect(found == [])
    } else {
      #expect(
        found == [
          "`upstream.api.origin`: found \"\(origin)\", expected https beyond loopback "
            + "(`allow_plaintext = true` sends tokens unencrypted)"
        ])
    }
  }

  private func two(_ first: String, _ second: String) -> String {
    "[upstream.a]\nsession = \"a\"\n\(first)\n[upstream.b]\nsession = \"b\"\n\(second)\n"
  }

  @Test("two upstreams may share an origin when their path prefixes differ") func sharedOrigin() throws {
    let text = two(
      "origin = \"https://x.example\"\npath_prefix = \"/1\"",
      "origin = \"https://x.example:443\"\npath_prefix = \"/2\"")
    #expect(try configuration(text).upstreams.map(\.name) == ["a", "b"])
    let other = two("origin = \"https://x.example\"", "origin = \"http://x.example\"\nallow_plaintext = true")
    #expect(errors(other) == [])
  }

  @Test("two upstreams that claim the same request are refused") func clashes() {
    #expect(
      errors(two("origin = \"https://x.example\"", "origin = \"https://X.example:443\"")) == [
        "`upstream.b.origin`: upstream `a` has the same origin https://x.example and path prefix "
          + "(a request could not tell them apart)"
      ])
    #expect(
      errors(
        two("origin = \"https://x.example\"\ndefault = true", "origin = \"https://y.example\"\ndefault = true"))
        == [
          "`upstream.b.default`: upstream `a` is the default already"
        ])
    #expect(
      errors(
        two("origin = \"https://x.example\"\nhosts = [\"h\"]", "origin = \"https://y.example\"\nhosts = [\"H\"]"))
        == ["`upstream.b.hosts`: upstream `a` claims h with the same path prefix"])
    let prefixes = (
      "origin = \"https://x.example\"\npath_prefix = \"/p\"", "origin = \"https://y.example\"\npath_prefix = \"/p\""
    )
    #expect(errors(two(prefixes.0, prefixes.1)) == ["`upstream.b.path_prefix`: upstream `a` claims \"/p\" already"])
  }
}

@Suite("SPEC §2 an upstream accepts only its own sessions") struct SessionPatternTests {
  @Test(
    "a star stands for any run of bytes",
    arguments: [
      ("a", "a", true), ("a", "b", false), ("a", "aa", false), ("*", "", true), ("*", "x", true), ("a*", "a", true),
      ("a*", "ab", true), ("a*", "ba", false), ("*a", "ba", true), ("a*b*c", "aXbYc", true),
      ("a*b*c", "acb", false),
      ("**", "x", true), ("*ab", "aab", true), ("a*a", "a", false), ("?", "x", false), ("", "", true),
      ("", "x", false),
      ("load-*", "load-1", true), ("load-*", "Load-1", false),
    ])
  func patterns(_ pattern: String, _ name: String, _ isMatch: Bool) {
    #expect(SessionPattern.matches(pattern, name) == isMatch)
  }

  @Test("by default only the upstream's own sessions are accepted") func accepted() throws {
    let rule = "[[upstream.api.path]]\nprefix = \"/r\"\nsession = \"reports\""
    let own = try #require(try configuration(upstream(rule)).upstreams.first)
    #expect(own.acceptedSessions == ["s", "reports"])
    #expect(own.accepts(session: "s") && own.accepts(session: "reports") && !own.accepts(session: "t"))
    let more = try #require(try configuration(upstream("sessions = [\"s\", \"t-*\"]")).upstreams.first)
    #expect(more.acceptedSessions == ["s", "t-*"])
    #expect(more.accepts(session: "t-1") && !more.accepts(session: "u"))
  }
}
