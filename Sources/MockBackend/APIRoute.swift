/// What an API path asks for.
enum APIRoute: Equatable, Sendable {
  case notes
  case echo
  case me
  case upload
  case events
  case status(Int)
  case forbidden
  case alwaysUnauthorized
  case download
  case chunked
  case closeDelimited
  case truncated
  case slow
  case trailers
  case noContent
  case notModified
  case earlyHints
  case upgrade
  case unknown

  init(path: String) {
    switch path {
    case "/notes": self = .notes
    case "/echo": self = .echo
    case "/me": self = .me
    case "/upload": self = .upload
    case "/sse": self = .events
    case "/forbidden": self = .forbidden
    case "/always-401": self = .alwaysUnauthorized
    case "/download": self = .download
    case "/chunked": self = .chunked
    case "/close": self = .closeDelimited
    case "/truncated": self = .truncated
    case "/slow": self = .slow
    case "/trailers": self = .trailers
    case "/204": self = .noContent
    case "/304": self = .notModified
    case "/early-hints": self = .earlyHints
    case "/upgrade": self = .upgrade
    default:
      guard path.hasPrefix("/status/"), let status = Int(path.dropFirst(8)), (200...599).contains(status) else {
        self = .unknown
        return
      }
      self = .status(status)
    }
  }

  func bodyUse(method: String) -> ReceivedBody.Use {
    switch self {
    case .notes: method == "POST" ? .keep(bytesMax: MockBackend.keptBytesMax) : .count
    case .echo: .digest
    case .me, .upload, .events, .status, .forbidden, .alwaysUnauthorized, .download, .chunked, .closeDelimited,
      .truncated, .slow, .trailers, .noContent, .notModified, .earlyHints, .upgrade, .unknown:
      .count
    }
  }

  static func json(_ status: Int, _ body: JSONValue) -> BackendReply {
    BackendReply(status: status, headers: [("content-type", "application/json")], body: .bytes(body.bytes))
  }
}

/// The notes of all users, and the first answers given under each Idempotency-Key.
struct NoteStore: Sendable {
  struct KeyedRequest: Hashable, Sendable {
    var user: String
    var path: String
    var key: String
  }

  private var byUser: [String: [(id: Int, text: String)]] = [:]
  private var lastID = 0
  private var answers: [KeyedRequest: BackendReply] = [:]

  mutating func create(_ text: String, user: String) -> Int {
    lastID += 1
    byUser[user, default: []].append((lastID, text))
    if byUser[user, default: []].count > Self.keptMax { byUser[user]?.removeFirst() }
    return lastID
  }

  func list(user: String) -> [(id: Int, text: String)] { byUser[user] ?? [] }

  func answer(to request: KeyedRequest) -> BackendReply? { answers[request] }
  mutating func remember(_ reply: BackendReply, for request: KeyedRequest) { answers[request] = reply }

  /// The oldest note of a user is dropped past this many, so that a load test does not fill the memory.
  private static let keptMax = 100
}
