import ArgumentParser
import CLinux
import Chronology
import Glibc
import SessionStore

struct SessionRemoveCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove", abstract: "Forget a login on this machine.",
    discussion: """
      The provider is not told: sign out there too if the login must end. Refresh
      tokens that were used up stay known, so that they are not added again by
      mistake.

      Example:
        bearerd session remove ci --yes
      """)

  @OptionGroup var name: SessionName
  @OptionGroup var options: StoreOptions

  @Flag(help: "Do not ask.")
  var yes = false

  /// A refresh under way ends within its deadline [10 s], and its result is written.
  private static let patience = Interval.seconds(20)

  func run() throws {
    let configuration = try options.load()
    let store = try StoreOwner.open(configuration)
    // A file that cannot be read may go, too.
    if let fault = Self.absence(of: name.text, in: store) { throw CommandFailure(fault) }
    try confirm()
    do {
      let lock = try store.lock(name.text, until: Instant(nanoseconds: bearerd_boottime()) + Self.patience)
      defer { lock.release() }
      try store.remove(name.text, lock: lock)
    } catch {
      throw CommandFailure(error)
    }
    try Output.write("session “\(name.text)” is removed\n")
  }

  /// nil where there is something to remove.
  private static func absence(of name: String, in store: FileSessionStore) -> StoreFault? {
    do {
      _ = try store.load(name)
      return nil
    } catch {
      if case .missing = error { return error }
      if case .badName = error { return error }
      return nil
    }
  }

  private func confirm() throws(CommandFailure) {
    if yes { return }
    guard isatty(STDIN_FILENO) == 1 else {
      throw CommandFailure(Sysexit.usage, "nobody is there to ask: say `--yes` to remove “\(name.text)”")
    }
    Output.ask("Remove session “\(name.text)” and its tokens? [y/N] ")
    let answer = readLine() ?? ""
    guard ["y", "yes"].contains(answer.lowercased()) else {
      throw CommandFailure(1, "nothing was removed")
    }
  }
}
