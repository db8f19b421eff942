import ArgumentParser
import BearerPolicy
import Chronology
import Configuration

struct ProvidersCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "providers", abstract: "List the presets, or print one as configuration.",
    discussion: """
      Each setting of a preset can be overridden by `[provider.NAME]` in the configuration.

      Example:
        bearerd providers keycloak >> bearerd.toml
      """)

  @Argument(help: ArgumentHelp("The preset to print.", valueName: "name"))
  var name: String?

  @Flag(help: "Print JSON for scripts.")
  var json = false

  func run() throws {
    guard let name else {
      if json { return try JSONOutput.write(Presets.all.map(ProviderJSON.init)) }
      return try Output.write(Self.table)
    }
    guard let preset = Presets.named(name) else {
      throw CommandFailure(
        Sysexit.usage,
        "no preset is named “\(printable(name))”: there are \(Presets.all.map(\.name).joined(separator: ", "))")
    }
    if json {
      try JSONOutput.write(ProviderJSON(preset))
    } else {
      try Output.write(ProviderText.configuration(of: preset))
    }
  }

  private static var table: String {
    var table = TextTable("NAME", "ENDPOINT, OR WHAT MUST BE GIVEN", "ROTATION", "ON UNKNOWN", "SUMMARY")
    for preset in Presets.all {
      let missing = preset.missingSettings
      table.add(
        preset.name, missing.isEmpty ? preset.endpoint ?? "" : "give " + missing.joined(separator: ", "),
        preset.rotation.rawValue, preset.onUnknown.rawValue, preset.summary)
    }
    return table.text
  }
}

/// A preset as the `[provider.NAME]` that says the same, with a comment for each setting.
enum ProviderText {
  static func configuration(of preset: Provider) -> String {
    var alone = Configuration()
    alone.providers = [preset.name: preset]
    alone.providerConnections = [preset.name: Configuration.ProviderConnection(preset: preset.name)]
    // The writer of `check --effective` knows every key; what stands before the first provider is not asked for.
    let lines = alone.effective.split(separator: "\n", omittingEmptySubsequences: false)
    let start = lines.firstIndex { $0.hasPrefix("[provider.") } ?? lines.endIndex
    var text = "# \(preset.summary)\n"
    var missing = preset.missingSettings
    for line in lines[start...] where !line.isEmpty {
      let key = line.prefix { $0 != " " }
      if let words = Self.words[String(key)] { text += "# \(words)\n" }
      text += line + "\n"
      if line.hasPrefix("preset =") {
        text += required(missing)
        missing = []
      }
    }
    return text
  }

  /// Commented out, so that `bearerd check` names each one that is still missing.
  private static func required(_ keys: [String]) -> String {
    guard !keys.isEmpty else { return "" }
    var text = "# These must be given:\n"
    for key in keys {
      switch key {
      case "client_secret": text += "# client_secret_file = \"/path/of/the/file\"\n"
      case "api_key": text += "# api_key = { file = \"/path/of/the/file\" }\n"
      case "endpoint": text += "# endpoint = \"https://…\"\n"
      default: text += "# \(key) = \"…\"\n"
      }
    }
    return text
  }

  private static let words = [
    "endpoint": "The token endpoint; {name} stands for the setting of that name.",
    "encoding": "How the fields of the request are sent: form, json or query.",
    "token_field": "The field that carries the refresh token.",
    "client_auth": "How the OAuth client names itself: none, basic, body or mtls.",
    "response.bearer": "Where the answer's members stand, dotted; \"\" where there is none.",
    "expiry_sources": "What tells the access token's end: the earliest that is present.",
    "fallback_lifetime": "Its lifetime where none is.",
    "code_paths": "Where an error's code stands in the answer; the lists below say what a code means.",
    "dead_codes": "The session is over.",
    "config_codes": "bearerd's settings are refused, not the session: refreshing stops until they change.",
    "known_codes": "Nothing happened: tried again after a back-off.",
    "dead_statuses": "The same by HTTP status, where no code decides.",
    "every_other_status_is_known": "Whether every other complete answer leaves the session as it was.",
    "rotation":
      "Whether an answer brings a new refresh token and ends the old one: always, sometimes or never.",
    "grace": "How long a used refresh token may be sent once more: a duration, none or unlimited.",
    "on_unknown": "After a refresh whose outcome is unknown: quarantine, clear or replay-in-grace.",
    "leeway": "A request refreshes first when the access token ends within this time.",
    "refresh_ahead": "A timer refreshes this long before the end; off: requests only.",
    "timeout": "From connecting to the answer's last byte.",
    "validate_url": "Where `session verify` sends the access token.",
    "allow_plaintext": "Whether the URLs may be http beyond loopback.",
  ]
}

/// A preset for scripts: what people choose by, not every setting.
struct ProviderJSON: Encodable {
  var name: String
  var summary: String
  var endpoint: Nullable<String>
  var required: [String]
  var method: String
  var encoding: String
  var tokenField: String
  var clientAuthentication: String
  var bearer: String
  var expirySources: [String]
  var deadCodes: [String]
  var deadStatuses: [Int]
  var rotation: String
  var onUnknown: String
  var grace: String
  var leewaySeconds: Int64
  var refreshAheadSeconds: Nullable<Int64>
  var validateURL: Nullable<String>

  enum CodingKeys: String, CodingKey {
    case name, summary, endpoint, required, method, encoding, bearer, rotation, grace
    case tokenField = "token_field"
    case clientAuthentication = "client_auth"
    case expirySources = "expiry_sources"
    case deadCodes = "dead_codes"
    case deadStatuses = "dead_statuses"
    case onUnknown = "on_unknown"
    case leewaySeconds = "leeway_seconds"
    case refreshAheadSeconds = "refresh_ahead_seconds"
    case validateURL = "validate_url"
  }

  init(_ preset: Provider) {
    name = preset.name
    summary = preset.summary
    endpoint = Nullable(preset.endpoint)
    required = preset.missingSettings
    method = preset.method.rawValue
    encoding = preset.encoding.rawValue
    tokenField = preset.tokenField
    clientAuthentication = preset.clientAuthentication.rawValue
    bearer = preset.response.bearer
    expirySources = preset.expirySources.map(\.rawValue)
    deadCodes = preset.deadCodes
    deadStatuses = preset.deadStatuses
    rotation = preset.rotation.rawValue
    onUnknown = preset.onUnknown.rawValue
    switch preset.grace {
    case .none: grace = "none"
    case .seconds(let count): grace = "\(count)s"
    case .unlimited: grace = "unlimited"
    }
    leewaySeconds = preset.leeway.secondsRoundedUp
    refreshAheadSeconds = Nullable(preset.refreshAhead?.secondsRoundedUp)
    validateURL = Nullable(preset.validateURL)
  }
}
