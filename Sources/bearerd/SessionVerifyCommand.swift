import ArgumentParser
import BearerPolicy
import Configuration
import Daemon
import Logging
import SessionStore

struct SessionVerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify", abstract: "Try the access token at the provider's validate_url.",
    discussion: """
      Refreshes nothing. Ends with 0 when the token was accepted, 77 when it was
      rejected, 75 when nobody could tell.

      Example:
        bearerd session verify ci
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
    try SessionVerification.run(name.text, configuration.admitting(provider: provider), store)
  }
}

enum SessionVerification {
  /// Call as the store's owner.
  static func run(_ name: String, _ configuration: Configuration, _ store: FileSessionStore) throws(CommandFailure) {
    switch try SessionOperations.quiet(configuration, store).verify(name) {
    case .accepted(let status):
      try Output.write("the provider accepted the access token of “\(name)” (HTTP \(status))\n")
    case .rejected(let status):
      // Neither an overloaded server nor a limit says anything about the token.
      if status == 429 || status >= 500 {
        throw CommandFailure(
          Sysexit.temporaryFailure, "the provider could not tell (HTTP \(status)): try again later")
      }
      throw CommandFailure(
        Sysexit.noPermission,
        "the provider rejected the access token of “\(name)” (HTTP \(status)): "
          + "`bearerd session refresh \(SessionReport.quoted(name))`, or sign in again")
    case .noValidateURL:
      throw CommandFailure(
        Sysexit.configuration, "the provider of “\(name)” has no `validate_url`: set it in the configuration")
    case .unreachable(let reason):
      throw CommandFailure(
        Sysexit.temporaryFailure, "the provider's validate_url could not be reached: \(printable(reason))")
    case .noToken(let reason):
      throw CommandFailure(
        Sysexit.noPermission, "there is no access token to try: \(printable(reason))")
    }
  }
}

extension SessionOperations {
  /// Without a log: the command says itself what came of it. Call as the store's owner.
  static func quiet(_ configuration: Configuration, _ store: FileSessionStore) throws(CommandFailure)
    -> SessionOperations
  {
    do throws(StartFault) {
      return try SessionOperations(
        configuration: configuration, store: store, logger: Logger(label: "bearerd") { _ in SwiftLogNoOpLogHandler() })
    } catch {
      throw CommandFailure(Sysexit.configuration, error.description)
    }
  }
}
