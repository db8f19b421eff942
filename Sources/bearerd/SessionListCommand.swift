import ArgumentParser
import BearerPolicy
import Chronology
import Configuration
import SessionStore

struct SessionListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List the stored logins in the order of their names.",
    discussion: """
      Example:
        bearerd session list --json | jq '.sessions[] | select(.state=="dead")'
      """)

  @OptionGroup var options: StoreOptions

  @Flag(help: "Print JSON for scripts; `next_after` is the name to go on from, or null.")
  var json = false

  @Option(help: ArgumentHelp("Begin after this name, which need not exist.", valueName: "name"))
  var after: String?

  @Option(help: ArgumentHelp("List at most this many.", valueName: "count"))
  var limit = 1000

  func validate() throws {
    guard (1...1_000_000).contains(limit) else { throw ValidationError("`--limit` must be from 1 to 1000000") }
  }

  func run() throws {
    let configuration = try options.load()
    let store = try StoreOwner.open(configuration)
    var names: [String]
    do {
      // One more shows whether the list goes on.
      names = try store.names(after: after, limit: limit + 1)
    } catch {
      throw CommandFailure(error)
    }
    let hasMore = names.count > limit
    if hasMore { names.removeLast() }
    let entries = names.compactMap { Self.entry($0, in: store, configuration) }
    if json {
      try JSONOutput.write(
        Listing(sessions: entries.map(\.json), nextAfter: Nullable(hasMore ? names.last : nil)))
      return
    }
    try Output.write(Self.table(of: entries))
    if entries.isEmpty, after == nil {
      Output.complain("no sessions in \(configuration.stateDirectory): add one with `bearerd session add`")
    }
    if hasMore, let last = names.last {
      Output.complain("there are more: bearerd session list --after \(SessionReport.quoted(last))")
    }
  }

  private struct Listing: Encodable {
    var sessions: [SessionJSON]
    var nextAfter: Nullable<String>
    enum CodingKeys: String, CodingKey {
      case sessions
      case nextAfter = "next_after"
    }
  }

  private enum Entry {
    case readable(SessionReport)
    case unreadable(name: String, StoreFault)

    var json: SessionJSON {
      switch self {
      case .readable(let report): SessionJSON(report)
      case .unreadable(let name, let fault): SessionJSON(unreadable: name, fault)
      }
    }
  }

  /// nil where it was removed meanwhile.
  private static func entry(_ name: String, in store: FileSessionStore, _ configuration: Configuration)
    -> Entry?
  {
    do throws(StoreFault) {
      let (record, intent) = try store.look(name)
      return .readable(
        SessionReport(
          record, provider: configuration.provider(named: record.provider), intent: intent, now: .now))
    } catch {
      if case .missing = error { return nil }
      return .unreadable(name: name, error)
    }
  }

  private static func table(of entries: [Entry]) -> String {
    var table = TextTable("NAME", "PROVIDER", "STATE", "GENERATION", "EXPIRES", "REASON")
    for entry in entries {
      switch entry {
      case .readable(let report):
        table.add(
          printable(report.record.name), printable(report.record.provider), report.state.rawValue,
          "\(report.record.generation)", expiry(report), report.reason ?? "-")
      case .unreadable(let name, let fault):
        table.add(
          printable(name), "-", SessionReport.State.unreadable.rawValue, "-", "-", fault.trouble.kind.rawValue)
      }
    }
    return table.text
  }

  /// Relative for people; a file or a pipe may be read later.
  private static func expiry(_ report: SessionReport) -> String {
    guard report.record.accessToken != nil else { return "-" }
    let moment = report.record.expiresAt
    return Output.isTerminal ? moment.relative(to: report.now) : moment.rfc3339
  }
}
