import BearerPolicy
import Configuration
import SessionStore

/// A session's file.
enum RecordTarget {
  static func check(_ bytes: [UInt8]) throws {
    guard let record = try? SessionRecord(fileBytes: bytes) else { return }
    let written = record.fileBytes()
    guard let again = try? SessionRecord(fileBytes: written) else {
      throw Broken(description: "a session's file is refused as it was written")
    }
    try requireEqual(again, record, "SPEC §5: what is written is what is read")
    try requireEqual(again.fileBytes(), written, "one record, one file")
  }
}

/// A configuration file, with no secret files and an empty environment.
enum ConfigurationTarget {
  static func check(_ bytes: [UInt8]) throws {
    guard let text = String(validating: bytes, as: UTF8.self) else { return }
    switch read(text) {
    case .success(let configuration):
      try requireEqual(read(text), .success(configuration), "one text, one configuration")
      try require(!configuration.effective.isEmpty, "every configuration can be shown")
    case .failure(let errors):
      try require(!errors.errors.isEmpty, "a refusal says why")
      for error in errors.errors {
        try require(
          !error.description.utf8.contains { $0 < 0x20 || $0 == 0x7F }, "an error is one line: \(error.description)")
      }
    }
  }

  private static func read(_ text: String) -> Result<Configuration, ConfigurationErrors> {
    Configuration.parse(text, environment: [:]) { _ in .failure(FileProblem(reason: "No such file or directory")) }
  }
}
