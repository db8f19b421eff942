import Chronology
import MockBackend

/// A backend with one signed-in user, at an instant that tests count from.
struct SignedIn {
  static let start = WallTime(milliseconds: 1_700_000_000_000)

  var backend: MockBackend
  var accessToken: String
  var refreshToken: String

  init(user: String = "ada", configure: (inout BackendSettings) -> Void = { _ in }) {
    var settings = BackendSettings()
    configure(&settings)
    backend = MockBackend(settings: settings, seed: 7)
    (accessToken, refreshToken) = backend.login(user: user, now: Self.start)
  }

  static func at(milliseconds: Int64) -> WallTime { start + .milliseconds(milliseconds) }

  mutating func call(
    _ method: String = "GET", _ path: String, query: String = "", token: String? = nil,
    headers: [(String, String)] = [], body: String = "", at milliseconds: Int64 = 0
  ) -> BackendDecision {
    let request = BackendRequest(
      method: method, path: path, query: query,
      headers: [("authorization", "Bearer \(token ?? accessToken)")] + headers, body: Array(body.utf8))
    return backend.handle(request, now: Self.at(milliseconds: milliseconds))
  }

  /// Presents `token` (the newest by default) at an endpoint in its own encoding.
  @discardableResult
  mutating func refresh(
    _ token: String? = nil, at endpoint: TokenEndpoint = .oauth, milliseconds: Int64 = 0,
    headers: [(String, String)] = []
  ) -> BackendDecision {
    let body = endpoint.requestBody(token ?? refreshToken)
    let request = BackendRequest(
      method: "POST", path: endpoint.rawValue, headers: headers, body: Array(body.utf8))
    return backend.handle(request, now: Self.at(milliseconds: milliseconds))
  }

  /// Refreshes and keeps what came back, as a client does.
  mutating func refreshAndAdopt(milliseconds: Int64 = 0) {
    let text = refresh(milliseconds: milliseconds).reply.text
    accessToken = text.member("access_token") ?? accessToken
    refreshToken = text.member("refresh_token") ?? refreshToken
  }
}

extension TokenEndpoint {
  func requestBody(_ token: String) -> String {
    switch self {
    case .oauth: "grant_type=refresh_token&refresh_token=\(token)"
    case .authenticate: "refreshToken=\(token)"
    case .mobile: "{\"refreshToken\":\"\(token)\"}"
    case .enveloped, .function: "{\"refresh_token\":\"\(token)\"}"
    }
  }
}

extension BackendReply {
  var text: String { String(decoding: body.rendered, as: UTF8.self) }
}

extension String {
  /// The text of a string member, wherever it stands: enough for bodies whose members have distinct names.
  func member(_ name: String) -> String? {
    guard let found = firstRange(of: "\"\(name)\":\"") else { return nil }
    return String(self[found.upperBound...].prefix { $0 != "\"" })
  }

  private func firstRange(of needle: String) -> Range<String.Index>? {
    var start = startIndex
    while start < endIndex {
      if self[start...].hasPrefix(needle) { return start..<index(start, offsetBy: needle.count) }
      start = index(after: start)
    }
    return nil
  }

  func holds(_ needle: String) -> Bool { firstRange(of: needle) != nil }
}
