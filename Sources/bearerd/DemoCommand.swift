import ArgumentParser

struct DemoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Show what bearerd does, offline and without configuration.",
    discussion: """
      Starts a strict identity provider with 3 s tokens, an API and a proxy in this process, sends real requests
      through the proxy and says what happens. Nothing outside a temporary directory is touched.

      Example:
        bearerd demo --keep
      """)

  @Flag(help: "Leave it running at the end, with lines to try in another shell.")
  var keep = false

  func run() throws {
    let stage = try DemoStage()
    let isRight = try Demo(stage).play()
    if keep { try stage.keepRunning() }
    stage.end()
    if !isRight { throw ExitCode(1) }
  }
}
