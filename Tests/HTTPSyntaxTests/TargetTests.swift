import HTTPSyntax
import Testing

@Suite("RFC 9112 §3.2 request-target")
struct TargetTests {
  static func parse(_ text: String, _ method: Method) -> String {
    let bytes = Array("GET \(text)".utf8)
    let range = ByteRange(4..<bytes.count)
    let target = bytes.withPrefix(bytes.count) { RequestTarget.parse($0, range, method: method) }
    func show(_ authority: Authority) -> String {
      let port = authority.port.map { "\($0)" } ?? "-"
      return "\(bytes.text(authority.host.offsets)) \(port)\(authority.isIPv6 ? " v6" : "")"
    }
    switch target {
    case .failure(let error): return "\(error)"
    case .success(.asterisk): return "asterisk"
    case .success(.origin(let path)): return "origin \(bytes.text(path.offsets))"
    case .success(.authority(let authority)): return "authority \(show(authority))"
    case .success(.absolute(let scheme, let authority, let path)):
      return "\(scheme.name) \(show(authority)) [\(bytes.text(path.offsets))]"
    }
  }

  static let table: [(Method, String, String)] = [
    (.get, "/", "origin /"),
    (.get, "/a/b?c=d&e", "origin /a/b?c=d&e"),
    (.get, "//evil.example/x", "origin //evil.example/x"),
    (.get, "/http://h/", "origin /http://h/"),
    (.get, "/a@b:c", "origin /a@b:c"),
    (.options, "*", "asterisk"),
    (.options, "/", "origin /"),
    (.get, "*", "invalidTarget"),
    (.options, "**", "invalidTarget"),
    (.get, "http://h", "http h - []"),
    (.get, "http://h/", "http h - [/]"),
    (.get, "http://h?q", "http h - [?q]"),
    (.get, "HTTPS://H.Example:8443/a?b", "https H.Example 8443 [/a?b]"),
    (.get, "http://h:/a", "http h - [/a]"),
    (.get, "http://[::1]:80/a", "http [::1] 80 v6 [/a]"),
    (.get, "http://[2001:db8::1]", "http [2001:db8::1] - v6 []"),
    (.get, "http://h/a@b", "http h - [/a@b]"),
    (.get, "http://h/http://i/", "http h - [/http://i/]"),
    (.options, "http://h:80", "http h 80 []"),
    (.connect, "h:443", "authority h 443"),
    (.connect, "[::1]:443", "authority [::1] 443 v6"),
    (.connect, "h", "invalidTarget"),
    (.connect, "h:", "invalidTarget"),
    (.connect, "/", "invalidAuthority"),
    (.connect, "http://h:443", "invalidAuthority"),
    (.connect, "u@h:443", "targetUserInfo"),
    (.connect, "h:0", "invalidAuthority"),
    (.connect, "h:65536", "invalidAuthority"),
    (.get, "h:443", "invalidTarget"),
    (.get, "h", "invalidTarget"),
    (.get, "http:/h", "invalidTarget"),
    (.get, "http:h", "invalidTarget"),
    (.get, "http://", "invalidAuthority"),
    (.get, "http:///a", "invalidAuthority"),
    (.get, "http://:80/", "invalidAuthority"),
    (.get, "ftp://h/", "unsupportedScheme"),
    (.get, "ws://h/", "unsupportedScheme"),
    (.get, "://h/", "invalidTarget"),
    (.get, "/a#b", "targetFragment"),
    (.get, "http://h#@evil/", "targetFragment"),
    (.get, "http://user@h/", "targetUserInfo"),
    (.get, "http://user:pw@h/", "targetUserInfo"),
    (.get, "http://h:80@evil/", "targetUserInfo"),
    (.get, "http://h\\@evil/", "targetUserInfo"),
    (.get, "http://h\\.evil/", "invalidAuthority"),
    (.get, "http://h%2eexample/", "invalidAuthority"),
    (.get, "http://h,i/", "invalidAuthority"),
    (.get, "http://h:8 0/", "invalidTarget"),
    (.get, "http://h:+80/", "invalidAuthority"),
    (.get, "http://h:080/", "http h 80 [/]"),
    (.get, "http://h:000080/", "invalidAuthority"),
    (.get, "http://h:99999/", "invalidAuthority"),
    (.get, "http://h:80:80/", "invalidAuthority"),
    (.get, "http://::1/", "invalidAuthority"),
  ]

  @Test("Each form, and nothing that resembles one", arguments: table)
  func targets(_ method: Method, _ text: String, _ expected: String) {
    #expect(Self.parse(text, method) == expected)
  }

  static let literals: [(String, Bool)] = [
    ("::", true), ("::1", true), ("1::", true), ("1:2:3:4:5:6:7:8", true), ("1:2:3:4:5:6:7::", true),
    ("::2:3:4:5:6:7:8", true), ("fe80::ABCD", true), ("::ffff:127.0.0.1", true), ("1:2:3:4:5:6:1.2.3.4", true),
    ("", false), (":", false), (":::", false), ("1::2::3", false), ("1:2:3:4:5:6:7", false),
    ("1:2:3:4:5:6:7:8:9", false), ("1:2:3:4:5:6:7:8::", false), ("12345::", false), ("g::", false), ("1:", false),
    (":1", false), ("1:2:3:4:5:6:7:", false), ("::1.2.3", false), ("::1.2.3.256", false), ("::1.2.3.4.5", false),
    ("::1.2.3.4:5", false), ("1.2.3.4", false), ("1:2:3:4:5:6:7:1.2.3.4", false), ("fe80::1%25eth0", false),
    ("v1.x", false), ("::1.2.3.", false), ("::a.2.3.4", false),
  ]

  @Test("An IPv6 literal is an address (RFC 3986 §3.2.2)", arguments: literals)
  func literal(_ address: String, _ isValid: Bool) {
    let expected = isValid ? "http [\(address)] - v6 [/]" : "invalidAuthority"
    #expect(Self.parse("http://[\(address)]/", .get) == expected)
  }
}

@Suite("RFC 6454 §4 origins of configured URLs")
struct OriginTests {
  static let urls: [(String, String?, String?)] = [
    ("https://api.example.com", "https://api.example.com", "/"),
    ("HTTPS://API.Example.com:443/", "https://api.example.com", "/"),
    ("http://h:80", "http://h", "/"),
    ("http://h:443", "http://h:443", "/"),
    ("https://h:8443/a/b?c", "https://h:8443", "/a/b?c"),
    ("https://h?c", "https://h", "/?c"),
    ("http://[::1]:8080/x", "http://[::1]:8080", "/x"),
    ("https://u:p@h/", nil, nil),
    ("https://h/#f", nil, nil),
    ("h.example", nil, nil),
    ("/path", nil, nil),
    ("ftp://h/", nil, nil),
    ("https://", nil, nil),
    ("", nil, nil),
    ("null", nil, nil),
    ("https://h/ü", nil, nil),
    ("https://h/" + String(repeating: "a", count: 70_000), nil, nil),
  ]

  @Test("A URL is taken apart", arguments: urls)
  func parts(_ text: String, _ origin: String?, _ pathAndQuery: String?) {
    let parts = URLParts(text)
    #expect(parts?.origin.description == origin)
    #expect(parts?.pathAndQuery == pathAndQuery)
    #expect(Origin(url: text)?.description == (pathAndQuery == "/" ? origin : nil))
  }

  @Test("Origins are equal by scheme, host and port")
  func equality() {
    #expect(Origin(url: "https://H:443") == Origin(scheme: .https, host: "h", port: 443))
    #expect(Origin(url: "https://h") != Origin(url: "http://h"))
    #expect(Origin(url: "https://h") != Origin(url: "https://h:444"))
    #expect(Origin(scheme: .http, host: "[::1]", port: 80).host == "::1")
  }

  @Test("The Host field's value has the port unless it is the default (RFC 9110 §7.2)")
  func hostField() {
    #expect(Origin(url: "https://h")?.hostFieldValue == "h")
    #expect(Origin(url: "http://h:443")?.hostFieldValue == "h:443")
    #expect(Origin(url: "http://[::1]:81")?.hostFieldValue == "[::1]:81")
  }
}
