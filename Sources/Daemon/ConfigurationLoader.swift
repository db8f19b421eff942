public import Configuration

/// Reads and checks the configuration's file, for the daemon and for the commands alike.
public enum ConfigurationLoader {
  /// All that is wrong with the file and the files it names, at once.
  public static func load(path: String, environment: [String: String]) -> Result<Configuration, ConfigurationErrors> {
    switch Configuration.readFile(path) {
    case .failure(let problem):
      return .failure(
        ConfigurationErrors([
          ConfigurationError(
            key: "--config", problem: .file(path: path, reason: problem.reason),
            hint: "name the configuration's file with --config")
        ]))
    case .success(let bytes):
      return parse(String(decoding: bytes, as: UTF8.self), environment: environment)
    }
  }

  public static func parse(_ text: String, environment: [String: String]) -> Result<Configuration, ConfigurationErrors> {
    let parsed = Configuration.parse(text, environment: environment, readFile: Configuration.readFile)
    guard case .success(let configuration) = parsed else { return parsed }
    let missing = configuration.checkFiles()
    return missing.isEmpty ? parsed : .failure(ConfigurationErrors(missing))
  }
}
