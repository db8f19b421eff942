import BearerPolicy
import Configuration
import Testing

/// Parses with an environment and files that exist in the test only.
func parse(
  _ text: String, environment: [String: String] = [:], files: [String: String] = [:]
) -> Result<Configuration, ConfigurationErrors> {
  Configuration.parse(text, environment: environment) { path in
    files[path].map { .success(Array($0.utf8)) } ?? .failure(FileProblem(reason: "No such file or directory"))
  }
}

/// The configuration; records an issue where the text is refused.
func configuration(
  _ text: String, environment: [String: String] = [:], files: [String: String] = [:],
  sourceLocation: SourceLocation = #_sourceLocation
) throws -> Configuration {
  switch parse(text, environment: environment, files: files) {
  case .success(let configuration): return configuration
  case .failure(let errors):
    Issue.record("\(errors)", sourceLocation: sourceLocation)
    throw errors
  }
}

/// Every error in words, in order; none where the text is accepted.
func errors(_ text: String, environment: [String: String] = [:], files: [String: String] = [:]) -> [String] {
  switch parse(text, environment: environment, files: files) {
  case .success: []
  case .failure(let errors): errors.errors.map(\.description)
  }
}

/// An upstream that is valid, with further keys.
func upstream(_ more: String, origin: String = "https://api.example.com") -> String {
  "[upstream.api]\norigin = \"\(origin)\"\nsession = \"s\"\n\(more)\n"
}

/// A provider that is valid, with further keys.
func provider(_ more: String) -> String {
  "[provider.p]\npreset = \"oauth2\"\nendpoint = \"https://login.example.com/token\"\n\(more)\n"
}

struct Refusal: Sendable, CustomTestStringConvertible {
  let text: String
  /// The whole of the only error.
  let error: String
  init(_ text: String, _ error: String) {
    self.text = text
    self.error = error
  }
  var testDescription: String { text }
}
