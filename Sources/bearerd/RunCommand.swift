import ArgumentParser
import Configuration
import Daemon
import Glibc

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Run the proxy until it is told to stop.",
    discussion: """
      SIGTERM lets requests in flight end; SIGHUP reads the configuration again.

      Example:
        bearerd run --config bearerd.toml --log-format logfmt
      """)

  @OptionGroup var file: ConfigurationOption

  @Option(help: ArgumentHelp("How log lines look. Default: what the configuration says."))
  var logFormat: LogFormat?

  func run() throws {
    let code = Daemon.run(
      configurationPath: file.path, environment: ProcessEnvironment.all,
      logFormat: logFormat?.setting, version: BearerdVersion.text)
    // Not exit(3): its handlers free OpenSSL's state, which a thread that still finishes its work may be using.
    _exit(code)
  }
}

/// The configuration's values of the same names.
enum LogFormat: String, ExpressibleByArgument, CaseIterable {
  case auto, logfmt, json

  var setting: Configuration.Log.Format {
    switch self {
    case .auto: .auto
    case .logfmt: .logfmt
    case .json: .json
    }
  }
}
