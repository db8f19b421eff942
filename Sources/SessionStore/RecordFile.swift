package import BearerPolicy
internal import Chronology
internal import FoundationEssentials

/// The content of a session's file, format version 1: JSON with keys a person can read.
///
/// Members that are absent are the state's absence (no back-off, no intent). Unknown members are ignored.
private struct RecordFile: Codable {
  var version: Int
  var name: String
  var provider: String
  var generation: UInt64
  var accessToken: String?
  var refreshToken: String?
  var obtainedAt: StoredTime
  var expiresAt: StoredTime
  var expirySource: String
  var isImported: Bool
  var standing: StandingPart
  var backoff: BackoffPart?
  var configurationFault: ConfigurationFaultPart?
  var intent: IntentPart?
  var spent: [String]
  var graceUsed: Bool
  var graceUntil: StoredTime?
  var unknownCause: String?

  enum CodingKeys: String, CodingKey {
    case version, name, provider, generation, standing, backoff, intent, spent
    case accessToken = "access_token"
    case refreshToken = "refresh_token"
    case obtainedAt = "obtained_at"
    case expiresAt = "expires_at"
    case expirySource = "expiry_source"
    case isImported = "imported"
    case configurationFault = "configuration_fault"
    case graceUsed = "grace_used"
    case graceUntil = "grace_until"
    case unknownCause = "unknown_cause"
  }

  struct StandingPart: Codable {
    var state: String
    var reason: String?
    var since: StoredTime?
  }

  struct BackoffPart: Codable {
    var failures: UInt32
    /// Files of the first releases lack it.
    var since: StoredTime?
    var until: StoredTime
    var reason: String
  }

  struct ConfigurationFaultPart: Codable {
    var code: String
    var since: StoredTime
    var settings: String
  }

  struct IntentPart: Codable {
    var fingerprint: String
    var startedAt: StoredTime
    var trigger: String

    enum CodingKeys: String, CodingKey {
      case fingerprint, trigger
      case startedAt = "started_at"
    }
  }
}

/// Why a file's bytes are not a session; holds the names of members only.
package enum RecordFault: Error, Equatable {
  case notJSON
  case member(String, problem: String)
  case futureVersion(Int)
}

extension SessionRecord {
  /// The version written; older ones are read and leave as this one with the next write.
  static let fileVersion = 1

  /// The file's bytes. They hold tokens: the caller wipes them.
  package func fileBytes() -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    guard var data = try? encoder.encode(RecordFile(self)) else {
      preconditionFailure("a record of strings and whole numbers always has a JSON form")
    }
    defer { data.resetBytes(in: data.startIndex..<data.endIndex) }
    return Array(data) + [UInt8(ascii: "\n")]
  }

  package init(fileBytes: [UInt8]) throws(RecordFault) {
    struct Head: Decodable { var version: Int }
    var data = Data(fileBytes)
    defer { data.resetBytes(in: data.startIndex..<data.endIndex) }
    let version = try Self.decode(Head.self, from: data).version
    switch version {
    case 1: self = try Self.decode(RecordFile.self, from: data).record()
    case ...0: throw .member("version", problem: "is below 1")
    default: throw .futureVersion(version)
    }
  }

  static func decode<Part: Decodable>(_ type: Part.Type, from data: Data) throws(RecordFault) -> Part {
    do {
      return try JSONDecoder().decode(type, from: data)
    } catch let error as DecodingError {
      throw RecordFault(error)
    } catch {
      throw .notJSON
    }
  }
}

extension RecordFault {
  /// The decoder's own descriptions may quote values, so only the path and the kind of its complaint are kept.
  fileprivate init(_ error: DecodingError) {
    func member(_ path: [any CodingKey]) -> String { path.map(\.stringValue).joined(separator: ".") }
    switch error {
    case .keyNotFound(let key, let context):
      self = .member(member(context.codingPath + [key]), problem: "is missing")
    case .typeMismatch(_, let context) where !context.codingPath.isEmpty:
      self = .member(member(context.codingPath), problem: "has the wrong type")
    case .valueNotFound(_, let context) where !context.codingPath.isEmpty:
      self = .member(member(context.codingPath), problem: "is null")
    case .dataCorrupted(let context) where !context.codingPath.isEmpty:
      self = .member(member(context.codingPath), problem: "is malformed")
    default:
      self = .notJSON
    }
  }

  /// Half a line for people; no value out of the file but the version.
  var detail: String {
    switch self {
    case .notJSON: "it is not a JSON object, or one of its numbers is out of range"
    case .member(let name, let problem): "“\(name)” \(problem)"
    case .futureVersion(let version): "format version \(version)"
    }
  }
}

extension RecordFile {
  init(_ record: SessionRecord) {
    version = SessionRecord.fileVersion
    name = record.name
    provider = record.provider
    generation = record.generation
    accessToken = record.accessToken?.reveal()
    refreshToken = record.refreshToken?.reveal()
    obtainedAt = StoredTime(record.obtainedAt)
    expiresAt = StoredTime(record.expiresAt)
    expirySource = record.expirySource.rawValue
    isImported = record.isImported
    switch record.standing {
    case .active:
      standing = StandingPart(state: "active")
    case .fenced(let reason, let since):
      standing = StandingPart(state: "fenced", reason: reason, since: StoredTime(since))
    case .dead(let reason, let since):
      standing = StandingPart(state: "dead", reason: reason, since: StoredTime(since))
    }
    backoff = record.backoff.map {
      BackoffPart(
        failures: $0.failures, since: StoredTime($0.since), until: StoredTime($0.until), reason: $0.reason)
    }
    configurationFault = record.configurationFault.map {
      ConfigurationFaultPart(code: $0.code, since: StoredTime($0.since), settings: $0.settings)
    }
    intent = record.intent.map {
      IntentPart(
        fingerprint: $0.fingerprint.hexadecimal, startedAt: StoredTime($0.startedAt),
        trigger: $0.trigger.rawValue
      )
    }
    spent = record.spent.map(\.hexadecimal)
    graceUsed = record.graceUsed
    graceUntil = record.graceUntil.map { StoredTime($0) }
    unknownCause = record.unknownCause
  }

  func record() throws(RecordFault) -> SessionRecord {
    guard let source = ExpirySource(rawValue: expirySource) else {
      throw .member("expiry_source", problem: "is none of those known")
    }
    var fingerprints = [Fingerprint]()
    for text in spent { fingerprints.append(try Self.fingerprint(text, member: "spent")) }
    return SessionRecord(
      name: name, provider: provider, generation: generation, accessToken: accessToken.map { Secret($0) },
      refreshToken: refreshToken.map { Secret($0) }, obtainedAt: obtainedAt.time, expiresAt: expiresAt.time,
      expirySource: source, isImported: isImported, standing: try recordStanding(),
      backoff: backoff.map {
        // Without a beginning: as long as a wait without `Retry-After` can be.
        let since = $0.since?.time ?? $0.until.time + .seconds(-600)
        return SessionRecord.Backoff(failures: $0.failures, since: since, until: $0.until.time, reason: $0.reason)
      },
      configurationFault: configurationFault.map {
        SessionRecord.ConfigurationFault(code: $0.code, since: $0.since.time, settings: $0.settings)
      },
      intent: try recordIntent(), spent: fingerprints, graceUsed: graceUsed,
      graceUntil: graceUntil?.time, unknownCause: unknownCause)
  }

  private func recordStanding() throws(RecordFault) -> SessionRecord.Standing {
    if standing.state == "active" { return .active }
    guard let reason = standing.reason else { throw .member("standing.reason", problem: "is missing") }
    guard let since = standing.since?.time else { throw .member("standing.since", problem: "is missing") }
    switch standing.state {
    case "fenced": return .fenced(reason: reason, since: since)
    case "dead": return .dead(reason: reason, since: since)
    default: throw .member("standing.state", problem: "is none of active, fenced, dead")
    }
  }

  private func recordIntent() throws(RecordFault) -> SessionRecord.Intent? {
    guard let intent else { return nil }
    guard let trigger = RefreshTrigger(rawValue: intent.trigger) else {
      throw .member("intent.trigger", problem: "is none of those known")
    }
    return SessionRecord.Intent(
      fingerprint: try Self.fingerprint(intent.fingerprint, member: "intent.fingerprint"),
      startedAt: intent.startedAt.time, trigger: trigger)
  }

  private static func fingerprint(_ text: String, member: String) throws(RecordFault) -> Fingerprint {
    let fingerprint = Fingerprint(hexadecimal: text)
    guard fingerprint.isWellFormed else {
      throw .member(member, problem: "is not 64 lower-case hexadecimal digits")
    }
    return fingerprint
  }
}
