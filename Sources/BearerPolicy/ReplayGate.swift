/// Whether a request that was answered 401 is sent again with a newer token: the table of SPEC §4, in its order.
public enum ReplayGate {
  public static func verdict(_ facts: ReplayFacts) -> ReplayVerdict {
    if facts.alreadyReplayed { return .pass(.alreadyReplayed) }
    if facts.clientRetry == .deny { return .pass(.clientDenies) }
    if facts.pathRetry == .never { return .pass(.pathDenies) }
    if !facts.isBodyReplayable, facts.hasBodyLeft { return .pass(.bodyHasLeft) }
    if facts.clientRetry == .allow || facts.pathRetry == .always { return .replay }
    if facts.method == .getHeadOptions || facts.hasIdempotencyKey { return .replay }
    switch facts.writes {
    case .always: return .replay
    case .idempotencyKey: return .pass(.noIdempotencyKey)
    }
  }
}

/// What the gate judges by.
public struct ReplayFacts: Equatable, Sendable {
  public var alreadyReplayed: Bool
  /// The request's `Bearerd-Retry`.
  public var clientRetry: ClientRetry?
  /// The path's `retry`.
  public var pathRetry: PathRetry
  /// A whole copy of what has been sent is at hand; true for a request without a body.
  public var isBodyReplayable: Bool
  /// At least one byte of the body has been written to an upstream.
  public var hasBodyLeft: Bool
  public var method: MethodKind
  public var hasIdempotencyKey: Bool
  public var writes: Writes

  public init(
    alreadyReplayed: Bool, clientRetry: ClientRetry?, pathRetry: PathRetry, isBodyReplayable: Bool,
    hasBodyLeft: Bool, method: MethodKind, hasIdempotencyKey: Bool, writes: Writes
  ) {
    self.alreadyReplayed = alreadyReplayed
    self.clientRetry = clientRetry
    self.pathRetry = pathRetry
    self.isBodyReplayable = isBodyReplayable
    self.hasBodyLeft = hasBodyLeft
    self.method = method
    self.hasIdempotencyKey = hasIdempotencyKey
    self.writes = writes
  }

  public enum ClientRetry: String, Sendable, CaseIterable { case allow, deny }
  public enum PathRetry: String, Sendable, CaseIterable { case `default`, never, always }
  public enum MethodKind: Sendable, CaseIterable { case getHeadOptions, other }
  /// `always` is for backends that guarantee a 401 without side effects.
  public enum Writes: String, Sendable, CaseIterable {
    case idempotencyKey = "idempotency-key"
    case always
  }
}

public enum ReplayVerdict: Equatable, Sendable {
  /// Send it again, once.
  case replay
  /// The upstream's 401 goes to the client.
  case pass(PassReason)
}

public enum PassReason: Equatable, Sendable, CaseIterable {
  case alreadyReplayed, clientDenies, pathDenies, bodyHasLeft, noIdempotencyKey

  /// For the `details` parameter of `Proxy-Status` (RFC 9209 §2.1.3): ASCII without quotation marks.
  public var detail: StaticString {
    switch self {
    case .alreadyReplayed: "not replayed: already replayed once"
    case .clientDenies: "not replayed: Bearerd-Retry is deny"
    case .pathDenies: "not replayed: retry is never for this path"
    case .bodyHasLeft: "not replayed: body sent and not kept"
    case .noIdempotencyKey: "not replayed: no Idempotency-Key"
    }
  }
}
