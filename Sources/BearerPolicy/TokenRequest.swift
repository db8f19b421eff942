public import Chronology

/// One presentation of a refresh token, ready to be framed: method, URL, header fields, content.
///
/// The URL may carry secrets in its query; the description leaves the query out.
public struct TokenRequest: Sendable {
  public var method: String
  /// Absolute.
  public var url: String
  /// In order. `Host` and `Content-Length` are the sender's to add.
  public var headers: [(name: String, value: Secret)]
  /// Empty for the `query` encoding.
  public var body: Secret
  /// From this moment on no byte of it may leave: a declared grace ends, and connecting may have taken long.
  public var sendBefore: WallTime?

  public init(method: String, url: String, headers: [(name: String, value: Secret)], body: Secret) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
  }

  /// Fails where the provider's settings do not make a request; nothing is sent then.
  public static func make(provider: Provider, refreshToken: Secret) -> Result<TokenRequest, TokenRequestFault> {
    let missing = provider.missingSettings
    guard missing.isEmpty else { return .failure(.missing(missing)) }
    guard var url = provider.resolvedEndpoint else { return .failure(.unusableEndpoint) }
    let fields = fields(of: provider, refreshToken: refreshToken)
    var body: [UInt8] = []
    body.reserveCapacity(fields.reduce(64) { $0 + 3 * ($1.name.utf8.count + $1.value.count) + 8 })
    switch provider.encoding {
    case .form:
      appendForm(fields, to: &body)
    case .json:
      appendJSON(fields, to: &body)
    case .query:
      var query: [UInt8] = []
      appendForm(fields, to: &query)
      url += (url.contains("?") ? "&" : "?") + String(decoding: query, as: UTF8.self)
    }
    let headers = headers(of: provider)
    for header in headers where !isFieldLine(header) {
      return .failure(.unusableHeader(name: header.name))
    }
    return .success(
      TokenRequest(method: provider.method.rawValue, url: url, headers: headers, body: Secret(taking: &body)))
  }

  private static func fields(of provider: Provider, refreshToken: Secret) -> [Provider.Field] {
    var fields = provider.staticFields
    fields.append(Provider.Field(name: provider.tokenField, value: refreshToken))
    // RFC 6749 §3.2.1: a client that does not authenticate still names itself, if it has a name.
    if provider.clientAuthentication != .basic, let id = provider.oauthClientID {
      fields.append(Provider.Field(name: provider.clientIDField, value: Secret(id)))
    }
    if provider.clientAuthentication == .body, let secret = provider.oauthClientSecret {
      fields.append(Provider.Field(name: provider.clientSecretField, value: secret))
    }
    return fields
  }

  /// The provider's own header fields replace ours of the same name.
  private static func headers(of provider: Provider) -> [(name: String, value: Secret)] {
    var ours: [(name: String, value: Secret)] = []
    switch provider.encoding {
    case .form: ours.append(("Content-Type", Secret("application/x-www-form-urlencoded")))
    case .json: ours.append(("Content-Type", Secret("application/json")))
    case .query: break
    }
    ours.append(("Accept", Secret("application/json")))
    if provider.clientAuthentication == .basic, let id = provider.oauthClientID,
      let secret = provider.oauthClientSecret
    {
      ours.append(("Authorization", basic(id: id, secret: secret)))
    }
    let theirs = provider.resolvedHeaders
    ours.removeAll { name, _ in theirs.contains { $0.name.lowercased() == name.lowercased() } }
    return ours + theirs.map { ($0.name, $0.value) }
  }

  /// RFC 6749 §2.3.1: both halves are form-encoded before RFC 7617 joins them.
  private static func basic(id: String, secret: Secret) -> Secret {
    var pair: [UInt8] = []
    pair.reserveCapacity(3 * (id.utf8.count + secret.count) + 1)
    FormEncoding.append(Secret(id), to: &pair)
    pair.append(UInt8(ascii: ":"))
    FormEncoding.append(secret, to: &pair)
    var value = Array("Basic ".utf8)
    value.reserveCapacity(8 + pair.count * 2)
    Base64.encode(pair, onto: &value)
    for index in pair.indices { pair[index] = 0 }
    return Secret(taking: &value)
  }

  private static func appendForm(_ fields: [Provider.Field], to output: inout [UInt8]) {
    for (index, field) in fields.enumerated() {
      if index > 0 { output.append(UInt8(ascii: "&")) }
      FormEncoding.append(Secret(field.name), to: &output)
      output.append(UInt8(ascii: "="))
      FormEncoding.append(field.value, to: &output)
    }
  }

  private static func appendJSON(_ fields: [Provider.Field], to output: inout [UInt8]) {
    output.append(UInt8(ascii: "{"))
    for (index, field) in fields.enumerated() {
      if index > 0 { output.append(UInt8(ascii: ",")) }
      appendJSONString(Secret(field.name), to: &output)
      output.append(UInt8(ascii: ":"))
      appendJSONString(field.value, to: &output)
    }
    output.append(UInt8(ascii: "}"))
  }

  /// RFC 8259 §7: the quotation mark, the backslash and control characters are escaped, the rest stands for itself.
  private static func appendJSONString(_ text: Secret, to output: inout [UInt8]) {
    let hexadecimal = Array("0123456789abcdef".utf8)
    var bytes: [UInt8] = []
    text.append(to: &bytes)
    output.append(UInt8(ascii: "\""))
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        output.append(UInt8(ascii: "\\"))
        output.append(byte)
      case 0..<0x20:
        output.append(contentsOf: "\\u00".utf8)
        output.append(hexadecimal[Int(byte >> 4)])
        output.append(hexadecimal[Int(byte & 0x0F)])
      default:
        output.append(byte)
      }
    }
    output.append(UInt8(ascii: "\""))
  }

  /// RFC 9110 §5.1 and §5.5: a name of tchar, a value without CR, LF and NUL.
  private static func isFieldLine(_ header: (name: String, value: Secret)) -> Bool {
    let punctuation = Array("!#$%&'*+-.^_`|~".utf8)
    var value: [UInt8] = []
    header.value.append(to: &value)
    return !header.name.isEmpty
      && header.name.utf8.allSatisfy { FormEncoding.isAlphanumeric($0) || punctuation.contains($0) }
      && value.allSatisfy { $0 != 0 && $0 != 10 && $0 != 13 }
  }
}

/// Why no request can be made; the configuration's to mend.
public enum TokenRequestFault: Error, Equatable, Sendable {
  /// Settings that must be given, by key (`endpoint`, `client_id`, `domain`).
  case missing([String])
  /// Not an absolute `http` or `https` URL with a host.
  case unusableEndpoint
  case unusableHeader(name: String)

  /// What is missing, for people.
  public var detail: String {
    switch self {
    case .missing(let keys): keys.joined(separator: ", ")
    case .unusableEndpoint: "endpoint (not an http or https URL)"
    case .unusableHeader(let name): "headers.\(name) (not a header field)"
    }
  }
}

extension TokenRequest: Equatable, CustomStringConvertible, CustomReflectable {
  public static func == (left: TokenRequest, right: TokenRequest) -> Bool {
    left.method == right.method && left.url == right.url && left.body == right.body
      && left.headers.elementsEqual(right.headers) { $0.name == $1.name && $0.value == $1.value }
  }

  public var description: String { "\(method) \(url.prefix { $0 != "?" })" }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

/// `application/x-www-form-urlencoded` (RFC 6749 appendix B): a space is `+`, all but a few bytes are `%XX`.
enum FormEncoding {
  static func append(_ text: Secret, to output: inout [UInt8]) {
    var bytes: [UInt8] = []
    text.append(to: &bytes)
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): output.append(byte)
      case UInt8(ascii: " "): output.append(UInt8(ascii: "+"))
      default: if isAlphanumeric(byte) { output.append(byte) } else { appendPercent(byte, to: &output) }
      }
    }
  }

  static func appendPercent(_ byte: UInt8, to output: inout [UInt8]) {
    let hexadecimal = Array("0123456789ABCDEF".utf8)
    output.append(UInt8(ascii: "%"))
    output.append(hexadecimal[Int(byte >> 4)])
    output.append(hexadecimal[Int(byte & 0x0F)])
  }

  static func isAlphanumeric(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: false
    }
  }
}
