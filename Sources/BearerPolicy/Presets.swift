/// The providers that ship in the binary: data that the configuration may override field by field.
///
/// Where a comment says "unverified", the value is common knowledge that was not read in the provider's own
/// documentation or code.
public enum Presets {
  public static let all: [Provider] =
    [oauth2] + backends + identityProviders + clouds + applications

  public static func named(_ name: String) -> Provider? { all.first { $0.name == name } }

  /// RFC 6749 §6 to the letter; unknown outcomes fail closed.
  private static let oauth2 = preset("oauth2", "Any OAuth 2.0 token endpoint (RFC 6749 §6)") {
    $0.staticFields = [refreshGrant]
    $0.required = ["endpoint"]
  }

  static func preset(_ name: String, _ summary: String, _ fill: (inout Provider) -> Void) -> Provider {
    var provider = Provider(name: name)
    provider.summary = summary
    fill(&provider)
    return provider
  }

  static let refreshGrant = Provider.Field(name: "grant_type", value: Secret("refresh_token"))
}
