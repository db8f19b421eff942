import ArgumentParser
import CLinux
import Glibc
import Transport

/// The program: reads the command line, runs one command, ends with a code of sysexits.h.
@main
struct Bearerd: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bearerd",
    abstract: "A local HTTP proxy that carries the bearer token for programs that cannot.",
    discussion: """
      Try it without any configuration:
        bearerd demo

      Sign in once, then run:
        bearerd session add ci --provider github --from-json answer.json
        bearerd run --config bearerd.toml
      """,
    version: BearerdVersion.text,
    subcommands: [
      RunCommand.self, CheckCommand.self, DemoCommand.self, SessionCommand.self, StoreCommand.self,
      ProvidersCommand.self, VersionCommand.self,
    ])

  static func main() {
    // Before any secret is read: no core file, and no other process of this user may look into the memory (I10).
    _ = bearerd_not_dumpable()
    // A reader that goes away is an error of the write, not the end of the process.
    bearerd_ignore_sigpipe()
    TLSLibrary.prepare()
    do {
      var command = try parseAsRoot()
      try command.run()
    } catch let failure as CommandFailure {
      failure.report()
      Glibc.exit(failure.code)
    } catch {
      end(error)
    }
  }

  /// Help, a usage error, or an exit code that a command chose after it had said why.
  private static func end(_ error: any Error) -> Never {
    let code = exitCode(for: error)
    let text = fullMessage(for: error)
    if code.isSuccess {
      try? Output.write(text + "\n")
    } else if !text.isEmpty {
      Output.complain(text.hasPrefix("Error: ") ? String(text.dropFirst(7)) : text)
    }
    Glibc.exit(code.rawValue)
  }
}
