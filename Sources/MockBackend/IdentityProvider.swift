import Chronology

extension MockBackend {
  /// A refresh: counted, judged, committed, and then perhaps spoilt by a fault.
  mutating func refresh(
    at endpoint: TokenEndpoint, _ head: BackendRequest, body: ReceivedBody, now: WallTime
  ) -> BackendDecision {
    guard head.method == "POST" else {
      var reply = endpoint.failure(code: "method_not_allowed", status: 405)
      reply.headers.append(("allow", "POST"))
      return BackendDecision(reply: reply)
    }
    guard !body.isCut, isOAuthClientAccepted(head, body: body.bytes) else {
      counters.refreshesRefused += 1
      return BackendDecision(reply: endpoint.refusal(body.isCut ? .malformed : .clientUnknown))
    }
    switch endpoint.refreshToken(in: body.bytes) {
    case .failure(let refused):
      counters.refreshesRefused += 1
      return BackendDecision(reply: endpoint.refusal(refused.reason))
    case .success(let token):
      let fault = faults.refresh.next()
      recordPresentation(of: token)
      let decision = refresh(token, at: endpoint, fault: fault, now: now)
      if decision.transport.isUnanswered { unanswered.insert(token) }
      return decision
    }
  }

  private mutating func refresh(
    _ token: String, at endpoint: TokenEndpoint, fault: Fault, now: WallTime
  ) -> BackendDecision {
    switch fault {
    case .status(let status, let retryAfterSeconds):
      var reply = endpoint.failure(code: "temporarily_unavailable", status: status)
      if let retryAfterSeconds { reply.headers.append(("retry-after", String(retryAfterSeconds))) }
      return BackendDecision(reply: reply)
    case .code(let code, let status): return BackendDecision(reply: endpoint.failure(code: code, status: status))
    case .unauthorized, .earlyUnauthorized:
      return BackendDecision(reply: endpoint.failure(code: "unauthorized", status: 401))
    case .forbidden: return BackendDecision(reply: endpoint.failure(code: "forbidden", status: 403))
    case .transport(.hangBeforeCommit), .transport(.resetBeforeCommit):
      return BackendDecision(reply: .neverSent, transport: fault.transportFault)
    case .pass, .delay, .unparsableBody, .missingField, .statusAfterCommit, .transport(.none),
      .transport(.hangAfterCommit), .transport(.resetAfterCommit), .transport(.truncateBody), .transport(.junk):
      return spoil(commit(token, at: endpoint, fault: fault, now: now), with: fault)
    }
  }

  /// A refusal changes nothing but what reuse revokes; success rotates (only this answer is a 200).
  private mutating func commit(
    _ token: String, at endpoint: TokenEndpoint, fault: Fault, now: WallTime
  ) -> BackendReply {
    let verdict = authority.present(token, settings: settings, now: now)
    guard case .issued(let issued) = verdict else {
      counters.refreshesRefused += 1
      return refuse(verdict, at: endpoint)
    }
    counters.refreshesCommitted += 1
    let body = endpoint.success(issued, settings: settings, now: now)
    if case .missingField(let name) = fault { return endpoint.reply(200, body.without(name)) }
    return endpoint.reply(200, body)
  }

  private mutating func refuse(_ verdict: TokenAuthority.Verdict, at endpoint: TokenEndpoint) -> BackendReply {
    switch verdict {
    case .issued: preconditionFailure("an issued token is not a refusal")
    case .unknown: return endpoint.refusal(.tokenUnknown)
    case .expired: return endpoint.refusal(.tokenExpired)
    case .revoked: return endpoint.refusal(.sessionRevoked)
    case .reused(let familyRevokedNow):
      if familyRevokedNow { counters.familiesRevoked += 1 }
      return endpoint.refusal(.tokenReused)
    }
  }

  private mutating func recordPresentation(of token: String) {
    var record = counters.refreshTokens[token] ?? BackendCounters.Presentations()
    record.presented += 1
    if authority.isSpent(token) {
      record.afterCommit += 1
      counters.presentedAfterCommit += 1
    }
    if unanswered.contains(token) {
      record.afterUnanswered += 1
      counters.presentedAfterUnanswered += 1
    }
    counters.refreshTokens[token] = record
  }

  /// RFC 6749 §2.3.1: Basic with both halves form-encoded, or both in the body; never the other way than agreed.
  private func isOAuthClientAccepted(_ head: BackendRequest, body: [UInt8]) -> Bool {
    guard let client = settings.oauthClient else { return true }
    switch client.placement {
    case .basic:
      let pair = FormFields.encoded(client.id) + ":" + FormFields.encoded(client.secret)
      return head.header("authorization") == "Basic " + Base64.standard(Array(pair.utf8))
    case .body:
      let fields = FormFields(String(decoding: body, as: UTF8.self))
      return fields.value("client_id") == client.id && fields.value("client_secret") == client.secret
    }
  }
}

extension MockBackend {
  /// What a fault does to an answer that was earned: the commit has happened.
  func spoil(_ reply: BackendReply, with fault: Fault) -> BackendDecision {
    var reply = reply
    switch fault {
    case .delay(let milliseconds):
      reply.delayMilliseconds += milliseconds
      return BackendDecision(reply: reply)
    case .unparsableBody:
      let page = Array("<!doctype html><title>Welcome to the captive portal</title>".utf8)
      return BackendDecision(
        reply: BackendReply(status: 200, headers: [("content-type", "text/html")], body: .bytes(page)))
    case .statusAfterCommit(let status):
      return BackendDecision(reply: APIRoute.json(status, .object([("error", .string("lost on the way"))])))
    case .transport(let transport): return BackendDecision(reply: reply, transport: transport)
    case .pass, .missingField, .status, .code, .unauthorized, .earlyUnauthorized, .forbidden:
      return BackendDecision(reply: reply)
    }
  }
}

extension Fault {
  var transportFault: TransportFault {
    switch self {
    case .transport(let transport): transport
    case .pass, .status, .statusAfterCommit, .code, .unparsableBody, .missingField, .earlyUnauthorized, .unauthorized,
      .forbidden, .delay:
      .none
    }
  }
}

extension BackendReply {
  /// Stands where the transport fault sends nothing at all.
  static var neverSent: BackendReply { BackendReply(status: 503) }
}
