import ArgumentParser
import BearerPolicy
import Chronology
import Configuration
import Daemon
import Glibc
import SessionStore

struct SessionAddCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "add", abstract: "Store a login: its access token, its refresh token, or both.",
    discussion: """
      Tokens come from files, standard input (`-`) or a question on the
      terminal; never from arguments, which other users can read. An existing
      session of that name is replaced.

      Examples:
        bearerd session add ci --provider github --from-json answer.json
        pass api | bearerd session add ci --provider okta --refresh-token-file -
        bearerd session add ci --provider okta --from-json - --if-absent < login
      """)

  @OptionGroup var name: SessionName
  @OptionGroup var options: StoreOptions

  @Option(
    help: ArgumentHelp(
      "Who issued the tokens: a provider of the configuration, or a preset.", valueName: "name"))
  var provider: String

  @Option(help: ArgumentHelp("The file that holds the access token.", valueName: "file"))
  var accessTokenFile: String?

  @Option(help: ArgumentHelp("The file that holds the refresh token.", valueName: "file"))
  var refreshTokenFile: String?

  @Option(
    name: .customLong("from-json"),
    help: ArgumentHelp(
      "The file that holds the provider's whole answer to a sign-in, a JSON object.", valueName: "file"))
  var answer: String?

  @Option(help: ArgumentHelp("Seconds from now until the access token ends.", valueName: "seconds"))
  var expiresIn: String?

  @Option(
    help: ArgumentHelp("When the access token ends: RFC 3339, or seconds since the epoch.", valueName: "time"))
  var expiresAt: String?

  @Flag(
    help:
      "Keep a session that is there, unless it is over and this is a new login: for containers that import at every start."
  )
  var ifAbsent = false

  @Flag(help: "Add a refresh token that was used before, or that another session holds.")
  var force = false

  @Flag(help: "Try the access token at the provider's validate_url afterwards.")
  var verify = false

  func run() throws {
    let configuration = try options.load()
    guard let settings = configuration.provider(named: provider) else { throw unknownProvider(configuration) }
    var draft = TokenDraft(provider: settings)
    take(into: &draft)
    let isAsking =
      answer == nil && accessTokenFile == nil && refreshTokenFile == nil && isatty(STDIN_FILENO) == 1
    if !isAsking { try finish(&draft) }
    let store = try StoreOwner.open(configuration)
    if isAsking {
      try checkName(in: store)
      if !draft.problems.isEmpty { throw CommandFailure(Sysexit.usage, draft.problems) }
      try draft.ask()
      try finish(&draft)
    }
    try add(draft, to: store)
    guard verify else { return }
    try SessionVerification.run(name.text, configuration.admitting(provider: provider), store)
  }

  private func unknownProvider(_ configuration: Configuration) -> CommandFailure {
    let known = Set(configuration.providers.keys).union(Presets.all.map(\.name)).sorted()
    return CommandFailure(
      Sysexit.usage,
      "no provider is named “\(printable(provider))”: there are \(known.joined(separator: ", ")); another one is an "
        + "entry `[provider.NAME]` of the configuration")
  }

  private func take(into draft: inout TokenDraft) {
    if answer != nil, accessTokenFile != nil || refreshTokenFile != nil {
      return draft.note(
        "`--from-json` holds both tokens: leave out `--access-token-file` and `--refresh-token-file`")
    }
    if accessTokenFile == "-", refreshTokenFile == "-" {
      return draft.note("standard input can hold one token: put the other one into a file")
    }
    if let answer { draft.takeAnswer(answer) }
    if let accessTokenFile { draft.takeAccessToken(accessTokenFile) }
    if let refreshTokenFile { draft.takeRefreshToken(refreshTokenFile) }
    draft.takeLifetime(expiresIn: expiresIn, expiresAt: expiresAt)
    if verify, draft.provider.validateURL == nil {
      draft.note(
        "provider “\(provider)” has no `validate_url`: set it in the configuration, or leave out `--verify`")
    }
  }

  private func finish(_ draft: inout TokenDraft) throws(CommandFailure) {
    draft.checkComplete()
    if !draft.problems.isEmpty { throw CommandFailure(Sysexit.usage, draft.problems) }
  }

  /// Before a person types two tokens.
  private func checkName(in store: FileSessionStore) throws(CommandFailure) {
    do {
      _ = try store.load(name.text)
    } catch {
      if case .badName = error { throw CommandFailure(error) }
    }
  }

  private func add(_ draft: TokenDraft, to store: FileSessionStore) throws(CommandFailure) {
    let now = WallTime.now
    let result: AddResult
    do {
      result = try store.add(
        draft.record(name: name.text, now: now),
        refreshTokenFingerprint: draft.refreshToken.map(FileSessionStore.fingerprint(of:)), ifAbsent: ifAbsent,
        force: force)
    } catch {
      throw CommandFailure(error)
    }
    let stored: SessionRecord
    do {
      stored = try store.load(name.text)
    } catch {
      throw CommandFailure(error)
    }
    let report = SessionReport(stored, provider: draft.provider, intent: .none, now: now)
    switch result {
    case .added: try Output.write("session “\(name.text)” is stored\n" + report.abstract)
    case .keptExisting:
      try Output.write("session “\(name.text)” was there already and is kept as it is\n" + report.abstract)
    }
    warn(stored, draft.provider)
  }

  private func warn(_ stored: SessionRecord, _ provider: Provider) {
    let missing = provider.missingSettings
    if !missing.isEmpty, stored.refreshToken != nil {
      Output.complain(
        "warning: refreshing is impossible until `[provider.\(provider.name)]` in the configuration gives "
          + missing.map { "`\($0)`" }.joined(separator: ", "))
    }
    if stored.refreshToken == nil, stored.standing == .active {
      Output.complain("warning: no refresh token is stored: when the access token ends, sign in again")
    }
  }
}
