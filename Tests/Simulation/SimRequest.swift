import BearerPolicy
import Chronology
import ProxyCore

/// One request of a client: what it asks, and what has become of it.
final class SimRequest {
  struct Send {
    var generation: UInt64?
    /// Sent again on another connection because a pooled one had died (RFC 9110 §9.2.2).
    var isPooledRetry: Bool
  }

  let label: String
  let session: Int
  let method: String
  let path: String
  let facts: ExchangeFacts
  let idempotencyKey: String?
  /// The body comes from the client in so many pieces.
  let pieceCount: Int
  /// A copy is kept until a piece does not fit.
  let keepsCopy: Bool
  /// The first piece comes only after so long.
  let bodyDelay: Interval
  /// When the client goes away, or its body fails; nil: never.
  let goneAfter: Interval?
  let bodyFails: Bool

  var startedAt = Instant(nanoseconds: 0)
  var endings = 0
  var sends: [Send] = []
  var lastStatus: Int?
  var mayBodyLeaveTwice = false

  var bodyBytes: Int { pieceCount * Scenario.bodyPieceBytes }
  /// Where the 401 was, for the cool-down.
  var route: Int { path == "/always-401" ? 1 : 0 }

  init(number: Int, session: Int, _ chance: inout Chance) {
    label = "request \(number)"
    self.session = session
    let isSafe = chance.happens(0.5)
    let hasBody = !isSafe && chance.happens(0.7)
    method = isSafe ? "GET" : "POST"
    pieceCount = hasBody ? chance.number(1...6) : 0
    let auth: AuthMode = chance.happens(0.85) ? .required : chance.pick([.optional, .none])
    path = Self.path(&chance, hasBody: hasBody, auth: auth)
    idempotencyKey = !isSafe && chance.happens(0.4) ? "key-\(number)" : nil
    let isLengthKnown = chance.happens(0.6)
    keepsCopy = hasBody && !chance.happens(0.1) && !(isLengthKnown && pieceCount > Scenario.keptPiecesMax)
    bodyDelay = chance.happens(0.3) ? chance.milliseconds(500...3000) : .zero
    goneAfter = chance.happens(0.08) ? chance.milliseconds(0...6000) : nil
    bodyFails = chance.happens(0.3)
    facts = ExchangeFacts(
      auth: auth, method: isSafe ? .getHeadOptions : .other, hasIdempotencyKey: idempotencyKey != nil,
      clientRetry: chance.happens(0.2) ? chance.pick(ReplayFacts.ClientRetry.allCases) : nil,
      pathRetry: chance.happens(0.2) ? chance.pick(ReplayFacts.PathRetry.allCases) : .default,
      writes: chance.happens(0.2) ? .always : .idempotencyKey, hasBody: hasBody, isSafe: isSafe)
  }

  private static func path(_ chance: inout Chance, hasBody: Bool, auth: AuthMode) -> String {
    if auth == .none { return "/open/me" }
    switch chance.number(0...19) {
    case 0: return "/always-401"
    case 1: return "/forbidden"
    case 2: return "/slow"
    default: return hasBody ? "/upload" : "/me"
    }
  }
}
