import ArgumentParser
import BearerPolicy
import Configuration
import Daemon
@preconcurrency import Glibc

struct ConfigurationOption: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The configuration file. Default: $BEARERD_CONFIG, else \(Configuration.defaultPath).", valueName: "path")
  )
  var config: String?

  /// nil where nobody names a file: then the default one may be absent.
  var named: String? { config ?? ProcessEnvironment.value("BEARERD_CONFIG") }

  /// Absolute.
  var path: String { absolutePath(named ?? Configuration.defaultPath) }
}

/// What the commands on sessions need to know: the configuration, and where the store is.
struct StoreOptions: ParsableArguments {
  @OptionGroup var file: ConfigurationOption

  @Option(
    name: .customLong("state-dir"),
    help: ArgumentHelp(
      "The directory that holds the sessions, instead of the configuration's. With it the configuration may be absent.",
      valueName: "dir"))
  var stateDirectory: String?

  @Option(
    help: ArgumentHelp("The file that holds the store's key, instead of the configuration's.", valueName: "file"))
  var keyFile: String?

  /// The configuration with `--state-dir` and `--key-file` in it.
  func load() throws(CommandFailure) -> Configuration {
    let environment = ProcessEnvironment.all
    let path = file.path
    let result: Result<Configuration, ConfigurationErrors>
    if file.named == nil, access(path, F_OK) != 0, errno == ENOENT {
      guard stateDirectory != nil else {
        throw CommandFailure(
          Sysexit.noInput,
          "there is no configuration at \(path): name one with `--config`, or the store with `--state-dir`")
      }
      result = Configuration.parse("", environment: environment, readFile: Configuration.readFile)
    } else {
      result = ConfigurationLoader.load(path: path, environment: environment)
    }
    switch result {
    case .failure(let failure):
      throw CommandFailure(failure.errors, path: path)
    case .success(var configuration):
      if let stateDirectory { configuration.stateDirectory = absolutePath(stateDirectory) }
      if let keyFile {
        configuration.store.keyFile = absolutePath(keyFile)
        configuration.store.isKeyCredential = false
      }
      return configuration
    }
  }
}

extension Configuration {
  /// The entry of that name, else the preset, which may lack settings that only a configuration can give.
  func provider(named name: String) -> Provider? { providers[name] ?? Presets.named(name) }

  /// With the preset as an entry where there is none, so that what it lacks can be named.
  func admitting(provider name: String) -> Configuration {
    guard providers[name] == nil, let preset = Presets.named(name) else { return self }
    var configuration = self
    configuration.providers[name] = preset
    configuration.providerConnections[name] = ProviderConnection(preset: name)
    return configuration
  }
}

/// The process's environment. Read, never changed.
enum ProcessEnvironment {
  static func value(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

  static var all: [String: String] {
    var variables: [String: String] = [:]
    var entry = environ
    while let variable = entry.pointee {
      let text = String(cString: variable)
      if let equals = text.firstIndex(of: "=") {
        variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
      }
      entry = entry.advanced(by: 1)
    }
    return variables
  }
}

/// Relative to the directory that the command was started in.
func absolutePath(_ path: String) -> String {
  guard !path.hasPrefix("/"), let directory = getcwd(nil, 0) else { return path }
  defer { free(directory) }
  return "\(String(cString: directory))/\(path)"
}
