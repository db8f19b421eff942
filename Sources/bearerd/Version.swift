import ArgumentParser

/// The release, in the one place that is raised for a new one (semver.org).
enum BearerdVersion {
  static let text = "0.1.0"
}

struct VersionCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "version", abstract: "Print the version.",
    discussion: """
      Example:
        bearerd version
      """)

  func run() throws {
    try Output.write("bearerd \(BearerdVersion.text)\n")
  }
}
