extension MockBackend {
  /// The answer to an authorized request, and what the fault makes of it.
  mutating func answer(
    _ route: APIRoute, user: String, fault: Fault, _ head: BackendRequest, body: ReceivedBody
  ) -> BackendDecision {
    switch fault {
    case .status(let status, let retryAfterSeconds):
      var reply = APIRoute.json(status, .object([("error", .string("injected"))]))
      if let retryAfterSeconds { reply.headers.append(("retry-after", String(retryAfterSeconds))) }
      return BackendDecision(reply: reply)
    case .code(let code, let status):
      return BackendDecision(reply: APIRoute.json(status, .object([("error", .string(code))])))
    case .forbidden: return BackendDecision(reply: Self.forbiddenReply)
    case .transport(.hangBeforeCommit), .transport(.resetBeforeCommit):
      return BackendDecision(reply: .neverSent, transport: fault.transportFault)
    case .pass, .delay, .unparsableBody, .missingField, .statusAfterCommit, .earlyUnauthorized, .unauthorized,
      .transport(.none), .transport(.hangAfterCommit), .transport(.resetAfterCommit), .transport(.truncateBody),
      .transport(.junk):
      let decision = spoil(onceByKey(route, user: user, head, body: body), with: fault)
      if route == .truncated, decision.transport == .none {
        return BackendDecision(reply: decision.reply, transport: .truncateBody)
      }
      return decision
    }
  }

  /// The IETF draft on Idempotency-Key: the first answer is given again, the request is not executed again.
  /// The key belongs to a user and a path; safe methods take no part.
  private mutating func onceByKey(
    _ route: APIRoute, user: String, _ head: BackendRequest, body: ReceivedBody
  ) -> BackendReply {
    let isSafe = ["GET", "HEAD", "OPTIONS", "TRACE"].contains(head.method)
    guard let key = head.header("idempotency-key"), !isSafe else {
      return execute(route, user: user, head, body: body)
    }
    let request = NoteStore.KeyedRequest(user: user, path: head.path, key: key)
    if let earlier = notes.answer(to: request) {
      counters.idempotentRepeats += 1
      return earlier
    }
    let reply = execute(route, user: user, head, body: body)
    notes.remember(reply, for: request)
    return reply
  }

  /// 401 and 403 are refusals: nothing is executed then.
  private mutating func execute(
    _ route: APIRoute, user: String, _ head: BackendRequest, body: ReceivedBody
  ) -> BackendReply {
    switch route {
    case .alwaysUnauthorized: return Self.unauthorizedReply
    case .forbidden: return Self.forbiddenReply
    case .unknown: return APIRoute.json(404, .object([("error", .string("not_found"))]))
    case .notes: return answerNotes(user: user, head, body: body)
    case .echo, .me, .upload, .events, .status, .download, .chunked, .closeDelimited, .truncated, .slow, .trailers,
      .noContent, .notModified, .earlyHints, .upgrade:
      counters.executed(head)
      return Self.reply(to: route, user: user, head, body: body)
    }
  }

  private mutating func answerNotes(user: String, _ head: BackendRequest, body: ReceivedBody) -> BackendReply {
    func json(_ note: (id: Int, text: String)) -> JSONValue {
      .object([("id", .number(note.id)), ("text", .string(note.text))])
    }
    switch head.method {
    case "GET", "HEAD":
      counters.executed(head)
      return APIRoute.json(200, .object([("notes", .array(notes.list(user: user).map(json)))]))
    case "POST":
      guard !body.isCut else { return APIRoute.json(413, .object([("error", .string("too_large"))])) }
      counters.executed(head)
      let text = String(decoding: body.bytes, as: UTF8.self)
      let id = notes.create(text, user: user)
      var reply = APIRoute.json(201, json((id, text)))
      reply.headers.append(("location", "/notes/\(id)"))
      return reply
    default:
      var reply = APIRoute.json(405, .object([("error", .string("method_not_allowed"))]))
      reply.headers.append(("allow", "GET, HEAD, POST"))
      return reply
    }
  }

  /// The routes that keep no state.
  private static func reply(
    to route: APIRoute, user: String, _ head: BackendRequest, body: ReceivedBody
  ) -> BackendReply {
    switch route {
    case .me: return APIRoute.json(200, .object([("user", .string(user))]))
    case .echo: return APIRoute.json(200, echo(head, body: body))
    case .upload: return APIRoute.json(200, .object([("bytes", .number(body.byteCount))]))
    case .status(let status):
      if [204, 205, 304].contains(status) { return BackendReply(status: status, framing: .bodiless) }
      return APIRoute.json(status, .object([("status", .number(status))]))
    case .noContent: return BackendReply(status: 204, framing: .bodiless)
    case .notModified: return BackendReply(status: 304, headers: [("etag", "\"v1\"")], framing: .bodiless)
    case .download: return bulk(head, .length)
    case .chunked: return bulk(head, .chunked)
    case .closeDelimited: return bulk(head, .close)
    case .truncated: return bulk(head, truncatedFraming(head))
    case .events: return events(head)
    case .slow:
      var reply = APIRoute.json(200, .object([("slow", .string("yes"))]))
      reply.delayMilliseconds = head.number("ms", in: 0...600_000, absent: 1000)
      return reply
    case .trailers:
      // The checksum is taken over the body in memory, hence the small limit.
      var reply = bulk(head, .chunked, countMax: 1 << 20)
      reply.headers.append(("trailer", "x-checksum"))
      reply.trailers = [("x-checksum", ReceivedBody.digest(of: reply.body.rendered))]
      return reply
    case .earlyHints:
      var reply = APIRoute.json(200, .object([("hints", .string("sent"))]))
      reply.interim = [(103, [("link", "</style.css>; rel=preload")])]
      return reply
    case .upgrade:
      guard let wanted = head.header("upgrade") else {
        return APIRoute.json(426, .object([("error", .string("upgrade_required"))]))
      }
      return BackendReply(
        status: 101, headers: [("connection", "Upgrade"), ("upgrade", wanted)], framing: .echoTunnel)
    case .notes, .forbidden, .alwaysUnauthorized, .unknown: preconditionFailure("answered by execute")
    }
  }

  private static func echo(_ head: BackendRequest, body: ReceivedBody) -> JSONValue {
    func pairs(_ lines: [(String, String)]) -> JSONValue {
      .array(lines.map { .array([.string($0.0), .string($0.1)]) })
    }
    return .object([
      ("method", .string(head.method)), ("path", .string(head.path)), ("query", .string(head.query)),
      ("headers", pairs(head.headers)), ("bodyBytes", .number(body.byteCount)),
      ("bodyDigest", .string(hexadecimal(body.digest))), ("trailers", pairs(body.trailers)),
    ])
  }

  private static func bulk(_ head: BackendRequest, _ framing: ReplyFraming, countMax: Int = 1 << 40) -> BackendReply {
    let count = head.number("bytes", in: 0...countMax, absent: 1024)
    return BackendReply(
      status: 200, headers: [("content-type", "application/octet-stream")], body: .pattern(count: count),
      framing: framing)
  }

  private static func truncatedFraming(_ head: BackendRequest) -> ReplyFraming {
    switch FormFields(head.query).value("framing") {
    case "chunked": .chunked
    case "close": .close
    default: .length
    }
  }

  private static func events(_ head: BackendRequest) -> BackendReply {
    let body = ReplyBody.events(
      count: head.number("events", in: 0...1_000_000, absent: 5),
      intervalMilliseconds: head.number("interval", in: 0...600_000, absent: 100))
    return BackendReply(
      status: 200, headers: [("content-type", "text/event-stream"), ("cache-control", "no-cache")], body: body,
      framing: .chunked)
  }

  static var forbiddenReply: BackendReply {
    var reply = APIRoute.json(403, .object([("error", .string("insufficient_scope"))]))
    reply.headers.append(("www-authenticate", "Bearer realm=\"mock\", error=\"insufficient_scope\""))
    return reply
  }

  /// RFC 6750 §3.1.
  static var unauthorizedReply: BackendReply {
    var reply = APIRoute.json(401, .object([("error", .string("invalid_token"))]))
    reply.headers.append(("www-authenticate", "Bearer realm=\"mock\", error=\"invalid_token\""))
    return reply
  }
}
