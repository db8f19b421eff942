import ArgumentParser
import Configuration
import Daemon

struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check", abstract: "Check a configuration and print every error at once.",
    discussion: """
      Ends with 78 (EX_CONFIG) when there is an error.

      Example:
        bearerd check --config bearerd.toml --effective
      """)

  @OptionGroup var file: ConfigurationOption

  @Flag(help: "Print the configuration as it takes effect: defaults and presets filled in, secrets redacted.")
  var effective = false

  func run() throws {
    let path = file.path
    let checked: Configuration
    switch ConfigurationLoader.load(path: path, environment: ProcessEnvironment.all) {
    case .failure(let failure): throw CommandFailure(failure.errors, path: path)
    case .success(let configuration): checked = configuration
    }
    if effective {
      try Output.write(checked.effective)
    } else {
      try Output.write("\(path): good, \(Self.summary(of: checked))\n")
    }
  }

  private static func summary(of configuration: Configuration) -> String {
    func count(_ number: Int, _ noun: String) -> String { number == 1 ? "1 \(noun)" : "\(number) \(noun)s" }
    return count(configuration.upstreams.count, "upstream") + " on "
      + count(configuration.listeners.count, "listener")
  }
}
