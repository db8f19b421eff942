import ArgumentParser
import BearerPolicy
import Chronology
import Configuration
import SessionStore

struct SessionShowCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "show", abstract: "Tell everything about one login but its tokens.",
    discussion: """
      Example:
        bearerd session show ci
      """)

  @OptionGroup var name: SessionName
  @OptionGroup var options: StoreOptions

  @Flag(help: "Print JSON for scripts.")
  var json = false

  func run() throws {
    let configuration = try options.load()
    let store = try StoreOwner.open(configuration)
    let found: (record: SessionRecord, intent: IntentHolder)
    do {
      found = try store.look(name.text)
    } catch {
      throw CommandFailure(error)
    }
    let report = SessionReport(
      found.record, provider: configuration.provider(named: found.record.provider), intent: found.intent,
      now: .now)
    if json {
      try JSONOutput.write(SessionJSON(report))
    } else {
      try Output.write(report.text)
    }
  }
}

extension SessionReport {
  /// All of it in words.
  var text: String {
    var text = "session “\(printable(record.name))”\n"
    let why = reason.map { "\(state.rawValue) (\($0))" } ?? state.rawValue
    text += field("state", why)
    text += field("", explanation)
    if let remedy { text += field("what to do", remedy) }
    text += field("provider", providerLine)
    text += field("generation", "\(record.generation)")
    text += field("access token", accessToken)
    text += field(
      "obtained", "\(record.obtainedAt.described(at: now))\(record.isImported ? ", by `session add`" : "")")
    text += field("refreshing", refreshing)
    for (label, value) in troubles { text += field(label, value) }
    if !record.spent.isEmpty {
      text += field("spent", "\(record.spent.count) refresh tokens are known to be used up")
    }
    return text
  }

  private var providerLine: String {
    let shown = printable(record.provider)
    return provider.map { $0.summary.isEmpty ? shown : "\(shown), \($0.summary)" } ?? "\(shown), unknown here"
  }

  private var troubles: [(String, String)] {
    var lines: [(String, String)] = []
    switch record.standing {
    case .active: break
    case .fenced(_, let since), .dead(_, let since): lines.append(("since", since.described(at: now)))
    }
    if let fault = record.configurationFault {
      lines.append(("refused", "\(printable(fault.code)) at \(fault.since.described(at: now))"))
    }
    if let backoff = record.backoff {
      lines.append(
        (
          "back-off",
          "until \(backoff.until.described(at: now)), failure \(backoff.failures): \(printable(backoff.reason))"
        ))
    }
    if let started = record.intent {
      lines.append(
        ("intent", "since \(started.startedAt.described(at: now)), asked by \(started.trigger.words)"))
    }
    if let graceUntil = record.graceUntil {
      lines.append(("grace", "the refresh token may be sent once more until \(graceUntil.described(at: now))"))
    }
    return lines
  }
}

extension RefreshTrigger {
  fileprivate var words: String {
    switch self {
    case .preflight: "a request that found the token near its end"
    case .ahead: "the timer"
    case .unauthorized: "a 401"
    case .command: "`session refresh`"
    }
  }
}
