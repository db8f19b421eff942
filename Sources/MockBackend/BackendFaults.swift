/// One thing that goes wrong with one request.
public enum Fault: Equatable, Sendable {
  /// Nothing: takes a turn in a schedule.
  case pass
  case transport(TransportFault)
  /// Answered with that status, nothing executed or rotated.
  case status(Int, retryAfterSeconds: Int? = nil)
  /// Executed or rotated, and then answered with that status (a gateway that lost the answer).
  case statusAfterCommit(Int)
  /// Answered with an error body of the endpoint's own shape that carries `code`; nothing rotated.
  case code(String, status: Int)
  /// Executed or rotated; a complete answer of status 200 whose body is not JSON.
  case unparsableBody
  /// Executed or rotated; the answer lacks that member, at whatever depth it stands.
  case missingField(String)
  /// 401 at the head, before any byte of the body was read, whatever the token.
  case earlyUnauthorized
  /// 401 after the body was read, whatever the token.
  case unauthorized
  /// 403, whatever the token.
  case forbidden
  /// Answered as usual, that much later.
  case delay(milliseconds: Int)

  public static let hangBeforeCommit = Fault.transport(.hangBeforeCommit)
  public static let hangAfterCommit = Fault.transport(.hangAfterCommit)
  public static let resetBeforeCommit = Fault.transport(.resetBeforeCommit)
  public static let resetAfterCommit = Fault.transport(.resetAfterCommit)
  public static let truncateBody = Fault.transport(.truncateBody)
  public static let junk = Fault.transport(.junk)

  /// 429 (RFC 6585 §4).
  public static func tooManyRequests(retryAfterSeconds: Int?) -> Fault {
    .status(429, retryAfterSeconds: retryAfterSeconds)
  }
}

/// The faults of one endpoint: a list that is used up in order, then `always`.
public struct FaultSchedule: Equatable, Sendable, ExpressibleByArrayLiteral {
  public var upcoming: [Fault]
  /// What happens once the list is used up; nil: nothing.
  public var always: Fault?
  /// How many faults other than `pass` were handed out.
  public private(set) var applied = 0

  public init(arrayLiteral faults: Fault...) { upcoming = faults }

  public init(_ faults: [Fault], always: Fault? = nil) {
    upcoming = faults
    self.always = always
  }

  /// That fault for ever.
  public static func always(_ fault: Fault) -> FaultSchedule { FaultSchedule([], always: fault) }

  /// That fault for the next `count` requests.
  public static func times(_ count: Int, _ fault: Fault) -> FaultSchedule {
    FaultSchedule(Array(repeating: fault, count: max(0, count)))
  }

  mutating func next() -> Fault {
    let fault = upcoming.isEmpty ? always ?? .pass : upcoming.removeFirst()
    if fault != .pass { applied += 1 }
    return fault
  }
}

/// What goes wrong where. A path with its own schedule does not draw from `api`.
public struct BackendFaults: Equatable, Sendable {
  /// Every token endpoint. Drawn from when a refresh token was presented.
  public var refresh: FaultSchedule = []
  /// Every API path that has no schedule of its own.
  public var api: FaultSchedule = []
  /// By exact path (`/notes`).
  public var paths: [String: FaultSchedule] = [:]

  public init() {}

  mutating func next(path: String) -> Fault { paths[path]?.next() ?? api.next() }
}
