public import Chronology
public import Logging
import ProxyCore
public import Server

/// How a line of the log looks.
public enum LogForm: Sendable {
  case logfmt, json
}

/// swift-log's handler: one line per event, with the time, the level and the metadata as fields (SPEC §12).
public struct EventLog: LogHandler {
  private let log: LineLog
  private let form: LogForm
  private let clock: @Sendable () -> WallTime
  public var logLevel: Logger.Level
  public var metadata: Logger.Metadata = [:]

  public init(_ log: LineLog, form: LogForm, level: Logger.Level, clock: @escaping @Sendable () -> WallTime) {
    self.log = log
    self.form = form
    self.clock = clock
    logLevel = level
  }

  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  public func log(event: LogEvent) {
    var fields: [(String, LogLine.Value)] = [
      ("time", .text(LogLine.time(clock()))), ("level", .text("\(event.level)")), ("msg", .text("\(event.message)")),
    ]
    let all = metadata.merging(event.metadata ?? [:]) { $1 }
    for key in all.keys.sorted() { fields.append((key, .text("\(all[key] ?? "")"))) }
    log.write(LogLine.make(fields, form: form))
  }
}

/// One line for each finished request.
public enum AccessLog {
  public static func line(_ record: AccessRecord, form: LogForm, now: WallTime) -> String {
    var fields: [(String, LogLine.Value)] = [
      ("time", .text(LogLine.time(now))), ("level", .text("info")), ("msg", .text("request")),
      ("id", .text("\(record.loop)-\(record.id)")), ("method", .text(record.method)), ("path", .text(record.path)),
      ("status", .number(Int64(record.status))),
      ("ms", .text(LogLine.milliseconds(record.duration))), ("received", .number(Int64(record.bytesReceived))),
    ]
    if !record.upstream.isEmpty { fields.append(("upstream", .text(record.upstream))) }
    if !record.session.isEmpty {
      fields.append(("session", .text(record.session)))
      fields.append(("generation", .number(Int64(record.generation))))
    }
    if record.isReplay { fields.append(("replay", .text("yes"))) }
    if record.waitedForBearer { fields.append(("refresh", .text("waited"))) }
    if let note = record.note { fields.append(("note", .text(note))) }
    return LogLine.make(fields, form: form)
  }
}

enum LogLine {
  enum Value {
    case text(String)
    case number(Int64)
  }

  static func make(_ fields: [(String, Value)], form: LogForm) -> String {
    switch form {
    case .json:
      return "{" + fields.map { "\(JSONText.quoted($0.0)):\(json($0.1))" }.joined(separator: ",") + "}"
    case .logfmt: return fields.map { "\($0.0)=\(logfmt($0.1))" }.joined(separator: " ")
    }
  }

  private static func json(_ value: Value) -> String {
    switch value {
    case .text(let text): JSONText.quoted(text)
    case .number(let number): String(number)
    }
  }

  private static func logfmt(_ value: Value) -> String {
    switch value {
    case .text(let text):
      let isPlain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x22 && $0 != 0x3d && $0 < 0x7f }
      return isPlain ? text : JSONText.quoted(text)
    case .number(let number): return String(number)
    }
  }

  /// RFC 3339 with milliseconds.
  static func time(_ time: WallTime) -> String {
    let millisecond = time.civil.millisecond
    let digits = String(millisecond)
    let padded = String(repeating: "0", count: 3 - digits.count) + digits
    return "\(time.rfc3339.dropLast()).\(padded)Z"
  }

  static func milliseconds(_ interval: Interval) -> String {
    let microseconds = interval.nanoseconds / 1000
    let rest = String(microseconds % 1000)
    return "\(microseconds / 1000)." + String(repeating: "0", count: max(0, 3 - rest.count)) + rest
  }
}
