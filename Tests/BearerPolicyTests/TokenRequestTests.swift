import BearerPolicy
import FoundationEssentials
import Testing

@Suite("RFC 6749 §6 the request for a refresh") struct TokenRequestTests {
  private let token = Secret("r t/+=&\"é")

  private func make(_ change: (inout Provider) -> Void = { _ in }) throws -> TokenRequest {
    try TokenRequest.make(provider: provider(change), refreshToken: token).get()
  }

  private func header(_ name: String, in request: TokenRequest) -> String? {
    let found = request.headers.filter { $0.name.lowercased() == name.lowercased() }
    return found.count == 1 ? found[0].value.reveal() : nil
  }

  @Test("form: fields in order, form-encoded")
  func form() throws {
    let request = try make {
      $0.staticFields = [
        Provider.Field(name: "grant_type", value: Secret("refresh_token")),
        Provider.Field(name: "scope", value: Secret("a b")),
      ]
    }
    #expect(request.method == "POST")
    #expect(request.url == "https://id.example.com/token")
    #expect(
      request.body.reveal() == "grant_type=refresh_token&scope=a+b&refresh_token=r+t%2F%2B%3D%26%22%C3%A9")
    #expect(header("content-type", in: request) == "application/x-www-form-urlencoded")
    #expect(header("accept", in: request) == "application/json")
    #expect(header("authorization", in: request) == nil)
  }

  @Test("json: one object that a decoder reads back byte for byte")
  func json() throws {
    let token = Secret("a\"b\\c\u{01}\n\té")
    let used = provider {
      $0.encoding = .json
      $0.tokenField = "refreshToken"
      $0.staticFields = [Provider.Field(name: "device \"x\"", value: Secret("1"))]
    }
    let request = try TokenRequest.make(provider: used, refreshToken: token).get()
    let decoded = try JSONDecoder().decode([String: String].self, from: Data(request.body.reveal().utf8))
    #expect(decoded == ["refreshToken": token.reveal(), "device \"x\"": "1"])
    #expect(header("content-type", in: request) == "application/json")
  }

  @Test("query: the fields join the URL's own, and the content is empty")
  func query() throws {
    let plain = try make { $0.encoding = .query }
    #expect(plain.url == "https://id.example.com/token?refresh_token=r+t%2F%2B%3D%26%22%C3%A9")
    #expect(plain.body.isEmpty)
    #expect(header("content-type", in: plain) == nil)
    let joined = try make {
      $0.encoding = .query
      $0.method = .get
      $0.endpoint = "https://id.example.com/token?a=1"
    }
    #expect(joined.method == "GET")
    #expect(joined.url.hasPrefix("https://id.example.com/token?a=1&refresh_token="))
    #expect("\(joined)" == "GET https://id.example.com/token")
  }

  @Test("Basic: identifier and secret are form-encoded before they are joined (RFC 6749 §2.3.1)")
  func basic() throws {
    let request = try make {
      $0.clientAuthentication = .basic
      $0.oauthClientID = "my app:1"
      $0.oauthClientSecret = Secret("p@ss%/ü")
    }
    let expected = Data("my+app%3A1:p%40ss%25%2F%C3%BC".utf8).base64EncodedString()
    #expect(header("authorization", in: request) == "Basic \(expected)")
    #expect(!request.body.reveal().contains("client_id"))
    #expect(!request.body.reveal().contains("client_secret"))
  }

  @Test("Basic: every length of credentials pads as RFC 7617 wants", arguments: 1...9)
  func basicPadding(_ count: Int) throws {
    let secret = String(repeating: "s", count: count)
    let request = try make {
      $0.clientAuthentication = .basic
      $0.oauthClientID = "id"
      $0.oauthClientSecret = Secret(secret)
    }
    #expect(header("authorization", in: request) == "Basic " + Data("id:\(secret)".utf8).base64EncodedString())
  }

  @Test(
    "who sends what in the body",
    arguments: [
      (Provider.ClientAuthentication.none, true, false), (.body, true, true), (.mtls, true, false),
      (.basic, false, false),
    ])
  func clientInBody(_ kind: Provider.ClientAuthentication, _ sendsID: Bool, _ sendsSecret: Bool) throws {
    let body = try make {
      $0.clientAuthentication = kind
      $0.oauthClientID = "id1"
      $0.oauthClientSecret = Secret("sec1")
      $0.clientIDField = "ClientId"
      $0.clientSecretField = "ClientSecret"
    }.body.reveal()
    #expect(body.contains("&ClientId=id1") == sendsID)
    #expect(body.contains("&ClientSecret=sec1") == sendsSecret)
  }

  @Test("the provider's header fields are added, and replace ours of the same name in any case")
  func headers() throws {
    let request = try make {
      $0.headers = [
        Provider.Field(name: "accept", value: Secret("*/*")), Provider.Field(name: "X-Key", value: Secret("k")),
      ]
    }
    #expect(header("Accept", in: request) == "*/*")
    #expect(header("X-Key", in: request) == "k")
  }

  @Test(
    "a header field that is none is refused",
    arguments: [("X Y", "v"), ("", "v"), ("X:", "v"), ("X", "a\r\nB: c"), ("X", "a\u{0}")])
  func badHeader(_ name: String, _ value: String) {
    let used = provider { $0.headers = [Provider.Field(name: name, value: Secret(value))] }
    #expect(TokenRequest.make(provider: used, refreshToken: token) == .failure(.unusableHeader(name: name)))
  }

  @Test("parameters fill the endpoint and the header fields")
  func parameters() throws {
    let request = try make {
      $0.endpoint = "https://{domain}/r/{realm}?k={api_key}"
      $0.headers = [Provider.Field(name: "apikey", value: Secret("Key {api_key}"))]
      $0.parameterNames = ["domain", "realm", "api_key"]
      $0.parameters = ["domain": Secret("id.example.com"), "realm": Secret("my realm?#"), "api_key": Secret("k1")]
    }
    #expect(request.url == "https://id.example.com/r/my%20realm%3F%23?k=k1")
    #expect(header("apikey", in: request) == "Key k1")
  }

  @Test("what is missing is named by its key, each once")
  func missing() {
    func keys(_ change: (inout Provider) -> Void) -> [String] { provider(change).missingSettings }
    #expect(keys { $0.endpoint = nil } == ["endpoint"])
    #expect(keys { $0.endpoint = "" } == ["endpoint"])
    #expect(keys { $0.clientAuthentication = .basic } == ["client_id", "client_secret"])
    #expect(keys { $0.clientAuthentication = .body } == ["client_id"])
    #expect(keys { $0.clientAuthentication = .mtls } == ["client_id"])
    #expect(
      keys {
        $0.clientAuthentication = .body
        $0.required = ["client_id", "client_secret"]
        $0.oauthClientID = "a"
      } == ["client_secret"])
    let realm: (inout Provider) -> Void = {
      $0.endpoint = "https://a/{realm}"
      $0.parameterNames = ["realm"]
      $0.required = ["realm"]
    }
    #expect(keys(realm) == ["realm"])
    // An endpoint without the parameter needs no value for it.
    #expect(
      keys {
        realm(&$0)
        $0.endpoint = "https://a/b"
      } == [])
    let used = provider { $0.endpoint = nil }
    #expect(TokenRequest.make(provider: used, refreshToken: token) == .failure(.missing(["endpoint"])))
  }

  @Test(
    "the endpoint is an absolute http or https URL with a host",
    arguments: [
      ("https://a", true), ("http://127.0.0.1:8080/x?y=1", true), ("HTTPS://a.b/c", true),
      ("https://[::1]:443/", true),
      ("https://a:0", false), ("https://a:65536", false), ("https://a:", false), ("https://a:b", false),
      ("https://", false), ("https:///x", false), ("ftp://a", false), ("//a/b", false), ("a/b", false),
      ("https://u:p@a/", false), ("https://https://a/", false), ("https://a/{realm}", false),
      ("https://a/#f", false),
      ("https://a /", false), ("https://a/\r\nX: y", false), ("https://[::1", false), ("https://[]/", false),
      ("https://ä/", false),
    ])
  func endpoints(_ url: String, _ isUsable: Bool) {
    let used = provider { $0.endpoint = url }
    #expect((used.resolvedEndpoint == url) == isUsable)
    if !isUsable {
      #expect(TokenRequest.make(provider: used, refreshToken: token) == .failure(.unusableEndpoint))
    }
  }

  @Test("faults say what is missing")
  func faultDetail() {
    #expect(TokenRequestFault.missing(["a", "b"]).detail == "a, b")
    #expect(TokenRequestFault.unusableEndpoint.detail.contains("endpoint"))
    #expect(TokenRequestFault.unusableHeader(name: "X Y").detail.contains("headers.X Y"))
  }
}

@Suite("SPEC §3 other settings end a configuration fault") struct SettingsDigestTests {
  private func bytes(_ change: (inout Provider) -> Void = { _ in }) -> [UInt8] {
    var all: [UInt8] = []
    provider(change).feedSettings { all.append(contentsOf: $0) }
    return all
  }

  @Test("the same settings feed the same bytes, each change feeds others")
  func distinguishes() {
    #expect(bytes() == bytes())
    let changes: [(inout Provider) -> Void] = [
      { $0.endpoint = "https://other.example.com/" }, { $0.method = .put }, { $0.encoding = .json },
      { $0.tokenField = "rt" }, { $0.staticFields = [Provider.Field(name: "a", value: Secret("b"))] },
      { $0.headers = [Provider.Field(name: "a", value: Secret("b"))] }, { $0.oauthClientID = "" },
      { $0.oauthClientID = "x" }, { $0.oauthClientSecret = Secret("x") }, { $0.clientAuthentication = .body },
      { $0.clientIDField = "cid" }, { $0.clientSecretField = "cs" }, { $0.response.bearer = "id_token" },
      { $0.response.refresh = nil }, { $0.response.tokenType = nil }, { $0.codePaths = ["code"] },
      { $0.deadCodes = [] }, { $0.configCodes = [] }, { $0.knownCodes = [] }, { $0.deadStatuses = [401] },
      { $0.knownStatuses = [401] }, { $0.everyOtherStatusIsKnown = true }, { $0.rotation = .always },
    ]
    var seen: Set<[UInt8]> = [bytes()]
    for change in changes { seen.insert(bytes(change)) }
    #expect(seen.count == changes.count + 1)
  }

  @Test("a value cannot slide into its neighbour")
  func delimits() {
    let one = bytes { $0.deadCodes = ["a", "b"] }
    let other = bytes { $0.deadCodes = ["a1:b"] }
    #expect(one != other)
  }
}
