import ArgumentParser

struct SessionCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "session", abstract: "Add, look at, try, refresh and remove stored logins.",
    discussion: """
      Works on the store directly, whether or not bearerd is running: a running
      one sees every change at once. Run as root on a store that belongs to
      another user, these commands act as that user.

      Example:
        bearerd session add ci --provider github --from-json answer.json
        bearerd session list
      """,
    subcommands: [
      SessionAddCommand.self, SessionListCommand.self, SessionShowCommand.self, SessionVerifyCommand.self,
      SessionRefreshCommand.self, SessionRemoveCommand.self,
    ])
}

struct SessionName: ParsableArguments {
  @Argument(help: ArgumentHelp("The session's name.", valueName: "name"))
  var text: String
}
