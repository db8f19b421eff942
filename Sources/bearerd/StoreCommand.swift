import ArgumentParser
import Configuration
import SessionStore

struct StoreCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "store", abstract: "Encrypt the stored logins, change their key, decrypt them.",
    discussion: """
      Every file is converted under its session's lock and is whole at every
      moment: after a crash, run the same command again. A running bearerd reads
      what its configuration says, so stop it before and start it after with the
      configuration that fits. Run as root on a store that belongs to another
      user, these commands act as that user.

      Example:
        bearerd store generate-key /etc/bearerd/store-key
        bearerd store encrypt --key-file /etc/bearerd/store-key
      """,
    subcommands: [
      StoreGenerateKeyCommand.self, StoreEncryptCommand.self, StoreRotateKeyCommand.self,
      StoreDecryptCommand.self,
    ])
}

struct StoreGenerateKeyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "generate-key", abstract: "Make a key for the store.",
    discussion: """
      The file (mode 600) must not exist. Keep a copy of it in a safe place:
      without it the sessions cannot be read again. With systemd let root own it
      and hand it to the service:
        LoadCredential=store-key:/etc/bearerd/store-key

      Example:
        bearerd store generate-key /etc/bearerd/store-key
      """)

  @Argument(help: ArgumentHelp("The file to make.", valueName: "file"))
  var file: String

  func run() throws {
    let path = absolutePath(file)
    let key: StoreKey
    do {
      key = try StoreKey.generate(to: path)
    } catch {
      throw CommandFailure(error)
    }
    try Output.write("key \(key.id) is in \(printable(path)): keep a copy of it in a safe place\n")
  }
}

struct StoreEncryptCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "encrypt", abstract: "Encrypt the sessions that are plain text.",
    discussion: """
      Uses the configuration's `store.key_file`. The plain files are replaced;
      what the disk keeps of them in free blocks is out of reach: where that
      matters, sign in again afterwards.

      Example:
        bearerd store encrypt
      """)

  @OptionGroup var options: StoreOptions
  @OptionGroup var report: ConversionReport

  func run() throws {
    let configuration = try options.load()
    let key = try configuration.storeKey()
    try report.convert(configuration, .encrypt(key), done: "encrypted with key \(key.id)")
    if options.keyFile != nil, let path = configuration.store.keyFile {
      Output.complain("the configuration must set `store.key_file` to \(printable(path))")
    }
  }
}

struct StoreRotateKeyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "rotate-key", abstract: "Encrypt the sessions with another key.",
    discussion: """
      The configuration still names the old key, and must name the new one
      afterwards. Keep the old one until this command has ended without a
      complaint.

      Example:
        bearerd store generate-key /etc/bearerd/store-key-2
        bearerd store rotate-key --new-key-file /etc/bearerd/store-key-2
      """)

  @OptionGroup var options: StoreOptions
  @OptionGroup var report: ConversionReport

  @Option(help: ArgumentHelp("The file that holds the new key.", valueName: "file"))
  var newKeyFile: String

  func run() throws {
    let configuration = try options.load()
    let old = try configuration.storeKey()
    let path = absolutePath(newKeyFile)
    let new = try StoreOwner.key(path, configuration)
    guard new != old else {
      throw CommandFailure(
        Sysexit.usage,
        "both files hold key \(new.id): name the new key here, and the old one in the configuration or `--key-file`"
      )
    }
    try report.convert(configuration, .rotate(from: old, to: new), done: "encrypted with key \(new.id)")
    Output.complain("now the configuration must set `store.key_file` to \(printable(path))")
  }
}

struct StoreDecryptCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "decrypt", abstract: "Turn the sessions into plain text.",
    discussion: """
      Uses the configuration's `store.key_file`, which must be taken out of it
      afterwards.

      Example:
        bearerd store decrypt --key-file /etc/bearerd/store-key
      """)

  @OptionGroup var options: StoreOptions
  @OptionGroup var report: ConversionReport

  func run() throws {
    let configuration = try options.load()
    try report.convert(configuration, .decrypt(try configuration.storeKey()), done: "plain text")
    Output.complain("now the configuration must not set `store.key_file`")
  }
}

/// Runs a conversion as the store's owner and says what came of it.
struct ConversionReport: ParsableArguments {
  @Flag(help: "Print JSON for scripts.")
  var json = false

  private struct Counts: Encodable {
    var converted: Int
    var unchanged: Int
    var refused: Int
  }

  /// - Parameter done: what the sessions are now.
  func convert(
    _ configuration: Configuration, _ change: StoreConversion.Change, done: String
  ) throws {
    try StoreOwner.become(ownerOf: configuration.stateDirectory)
    let outcome: StoreConversion.Outcome
    do {
      outcome = try StoreConversion(stateDirectory: configuration.stateDirectory, change).run()
    } catch {
      throw CommandFailure(error)
    }
    if json {
      try JSONOutput.write(
        Counts(
          converted: outcome.convertedCount, unchanged: outcome.unchangedCount, refused: outcome.refusedCount))
    } else {
      let count = outcome.convertedCount
      try Output.write(
        "\(count) \(count == 1 ? "session is" : "sessions are") now \(done); "
          + "\(outcome.unchangedCount) already were, \(outcome.refusedCount) could not be converted\n")
    }
    if outcome.isComplete { return }
    var messages = outcome.refusals.map(\.detail)
    if outcome.refusedCount > messages.count {
      messages.append("and \(outcome.refusedCount - messages.count) more")
    }
    guard let stopped = outcome.stopped else {
      throw CommandFailure(
        Sysexit.dataError, messages + ["these are as they were: see to them, then run this again"])
    }
    let failure = CommandFailure(stopped)
    throw CommandFailure(failure.code, messages + failure.messages + ["stopped: run this again to go on"])
  }
}

extension Configuration {
  fileprivate func storeKey() throws(CommandFailure) -> StoreKey {
    guard let path = store.keyFile else {
      throw CommandFailure(
        Sysexit.configuration, "the store has no key: set `store.key_file`, or name one with `--key-file`")
    }
    return try StoreOwner.key(path, self)
  }
}
