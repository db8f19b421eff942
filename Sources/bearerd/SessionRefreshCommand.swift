import ArgumentParser
import BearerPolicy
import Chronology
import Configuration
import Daemon
import SessionStore

struct SessionRefreshCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "refresh", abstract: "Refresh a login now and say what came of it.",
    discussion: """
      Also goes on after the provider refused the configuration. Ends with 0 when
      there are new tokens, 75 when the failure may pass, 77 when only a new login
      helps, 78 when the configuration must change.

      Example:
        bearerd session refresh ci
      """)

  @OptionGroup var name: SessionName
  @OptionGroup var options: StoreOptions

  func run() throws {
    let configuration = try options.load()
    let store = try StoreOwner.open(configuration)
    let provider: String
    do {
      provider = try store.load(name.text).provider
    } catch {
      throw CommandFailure(error)
    }
    let operations = try SessionOperations.quiet(configuration.admitting(provider: provider), store)
    switch operations.refresh(name.text) {
    case .refreshed(let record, let isDurable):
      try tell("refreshed “\(name.text)”", record)
      if !isDurable {
        throw CommandFailure(
          Sysexit.inputOutput,
          "the new tokens could not be written and are lost with this command: mend the disk, then sign in again"
        )
      }
    case .alreadyNewer(let record):
      try tell("another process had refreshed “\(name.text)” already", record)
    case .failed(let record, let failure):
      throw explanation(of: failure, record, provider)
    }
  }

  private func tell(_ headline: String, _ record: SessionRecord) throws {
    let now = WallTime.now
    try Output.write(
      "\(headline): generation \(record.generation), expires \(record.expiresAt.described(at: now))\n")
  }

  private func explanation(
    of failure: FlightFailure, _ record: SessionRecord?, _ provider: String
  ) -> CommandFailure {
    let now = WallTime.now
    let session = SessionReport.quoted(name.text)
    let signIn = "sign in again: bearerd session add \(session) --provider \(SessionReport.quoted(provider))"
    switch failure {
    case .dead(let reason):
      return CommandFailure(Sysexit.noPermission, "the session is over (\(printable(reason))): \(signIn)")
    case .fenced(let reason):
      return CommandFailure(
        Sysexit.noPermission,
        "the refresh token may have been used up (\(printable(reason))) and is never sent again: \(signIn)")
    case .backingOff(let until, let reason):
      return CommandFailure(
        Sysexit.temporaryFailure,
        "the last refresh failed (\(printable(reason))): the next one is allowed \(until.described(at: now))")
    case .misconfigured(let code):
      return CommandFailure(
        Sysexit.configuration,
        "the provider refused bearerd's settings (\(printable(code))), not the session: mend "
          + "`[provider.\(printable(provider))]`, then try again")
    case .notSent(let reason):
      return CommandFailure(
        Sysexit.temporaryFailure,
        "the token endpoint could not be reached (\(printable(reason))), nothing was sent: try again later")
    case .knownFailure(let reason, let retryAfter):
      let wait = retryAfter.map { "in \($0.secondsRoundedUp) s" } ?? "later"
      return CommandFailure(
        Sysexit.temporaryFailure,
        "the provider could not refresh now (\(printable(reason))), the session is as it was: try again \(wait)"
      )
    case .outcomeUnknown(let reason): return unknown(reason, record, now, signIn)
    case .storeUnwritable(let detail):
      return CommandFailure(Sysexit.inputOutput, "nothing was sent: \(detail)")
    case .lockHeld:
      return CommandFailure(
        Sysexit.temporaryFailure,
        "another process has been refreshing the session for longer than a refresh may take: try again later")
    case .storeUnreadable(let detail): return CommandFailure(Sysexit.inputOutput, detail)
    case .missing: return CommandFailure(.missing(session: name.text))
    case .noRefreshToken:
      return CommandFailure(Sysexit.noPermission, "the session has no refresh token: \(signIn)")
    case .noEndpoint(let missing):
      return CommandFailure(
        Sysexit.configuration,
        "refreshing needs `[provider.\(printable(provider))]` in the configuration: \(printable(missing)) is missing"
      )
    }
  }

  /// What an unknown outcome means is the provider's setting, so the record tells.
  private func unknown(
    _ reason: String, _ record: SessionRecord?, _ now: WallTime, _ signIn: String
  ) -> CommandFailure {
    let what = "the refresh was sent and its outcome is unknown (\(printable(reason)))"
    switch record?.standing {
    case nil, .active:
      return CommandFailure(
        Sysexit.temporaryFailure, "\(what); the provider allows it to be tried once more: try again")
    case .fenced:
      let expiry = record.map { " until \($0.expiresAt.described(at: now))" } ?? ""
      return CommandFailure(
        Sysexit.noPermission, "\(what): it is not sent again; the access token serves\(expiry), then \(signIn)")
    case .dead: return CommandFailure(Sysexit.noPermission, "\(what): the session is over; \(signIn)")
    }
  }
}
