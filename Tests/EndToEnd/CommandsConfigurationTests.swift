import BearerPolicy
import Foundation
import Testing

@Suite("SPEC §11 command line") struct CommandsConfigurationTests {
  @Test("check prints every error at once, with key path and what was expected, and exits 78")
  func everyError() throws {
    let scene = try CommandLineScene()
    let path = try scene.scratch.write(
      """
      lops = 2
      [limits]
      header_fields = 7000
      [upstream.api]
      origin = "ftp://api.example.com"
      [provider.okta]
      preset = "okta"
      """, to: "bad.toml")
    let said = try scene.run("check", "--config", path)
    #expect(said.exit == 78)
    for part in [
      "did you mean `loops`", "`limits.header_fields`", "`upstream.api.origin`", "provider.okta.domain",
    ] {
      #expect(said.error.contains(part), "\(part) in \(said.error)")
    }
    for line in said.error.split(separator: "\n") { #expect(line.hasPrefix("bearerd: ")) }
    #expect(said.output.isEmpty)
  }

  @Test("check says that a good file is good; --effective prints the whole result with secrets redacted")
  func effective() throws {
    let scene = try CommandLineScene()
    let secret = try scene.scratch.write(scene.secret("client-secret-text"), to: "secret")
    let path = try scene.scratch.write(
      """
      [upstream.api]
      origin = "https://api.example.com"
      session = "ci"
      [provider.mine]
      preset = "google"
      client_id = "id-1"
      client_secret_file = "\(secret)"
      """, to: "good.toml")
    let good = try scene.run("check", environment: ["BEARERD_CONFIG": path])
    #expect(good.exit == 0, "\(good.error)")
    #expect(good.output.contains("1 upstream on 1 listener"))
    let effective = try scene.run("check", "--config", path, "--effective")
    #expect(effective.exit == 0)
    #expect(effective.output.contains("[provider.mine]"))
    // It is a configuration again, and the same one.
    let again = try scene.scratch.write(effective.output, to: "again.toml")
    #expect(try scene.run("check", "--config", again, "--effective").output == effective.output)
  }

  @Test("a relative path counts from where the command was started")
  func relativePath() throws {
    let scene = try CommandLineScene()
    try scene.scratch.write("", to: "empty.toml")
    #expect(try scene.run("check", "--config", "empty.toml").exit == 0)
    #expect(try scene.run("check", "--config", "absent.toml").exit == 78)
    let listed = try scene.run("session", "list", "--state-dir", "sub", "--config", "empty.toml")
    #expect(listed.exit == 0, "\(listed.error)")
    #expect(FileManager.default.fileExists(atPath: scene.scratch("sub/sessions")))
  }

  @Test("a file that was named must be there; --state-dir makes up for the default one only")
  func missingFile() throws {
    let scene = try CommandLineScene()
    let said = try scene.session("list", "--config", scene.scratch("absent.toml"))
    #expect(said.exit == 78)
    #expect(said.error.contains("absent.toml"))
  }

  @Test("every preset is listed with what it needs")
  func presets() throws {
    let scene = try CommandLineScene()
    let lines = try scene.run("providers").output.split(separator: "\n").dropFirst()
    #expect(lines.count == Presets.all.count)
    for (line, preset) in zip(lines, Presets.all) {
      #expect(line.hasPrefix(preset.name + " "))
      #expect(line.contains(preset.onUnknown.rawValue) && line.contains(preset.rotation.rawValue))
      for key in preset.missingSettings { #expect(line.contains(key)) }
    }
    let unknown = try scene.run("providers", "nobody")
    #expect(unknown.exit == 64)
    #expect(unknown.error.contains("keycloak"))
  }

  @Test("a printed preset is a configuration once what it names is given", arguments: Presets.all.map(\.name))
  func pasted(_ name: String) throws {
    let scene = try CommandLineScene()
    let preset = try #require(Presets.named(name))
    let printed = try scene.run("providers", name).output
    let file = try scene.scratch.write("text", to: "file")
    let values = [
      "endpoint": "endpoint = \"https://id.example.com/token\"",
      "client_secret": "client_secret_file = \"\(file)\"", "api_key": "api_key = { file = \"\(file)\" }",
      "base_url": "base_url = \"https://id.example.com\"",
    ]
    var lines = printed.split(separator: "\n").map(String.init)
    for key in preset.missingSettings {
      let wanted = key == "client_secret" ? "client_secret_file" : key
      let index = try #require(lines.firstIndex { $0.hasPrefix("# \(wanted) = ") }, "\(key) in \(printed)")
      lines[index] = values[key] ?? "\(key) = \"id.example.com\""
    }
    let path = try scene.scratch.write(lines.joined(separator: "\n"), to: "pasted.toml")
    let said = try scene.run("check", "--config", path)
    #expect(said.exit == 0, "\(said.error)\n\(printed)")
    // As printed, `check` names exactly what is missing.
    let raw = try scene.scratch.write(printed, to: "raw.toml")
    let refused = try scene.run("check", "--config", raw)
    #expect((refused.exit == 0) == preset.missingSettings.isEmpty)
    for key in preset.missingSettings { #expect(refused.error.contains(".\(key)"), "\(refused.error)") }
    let json = try scene.run("providers", name, "--json").json
    #expect(json["name"] as? String == name)
    #expect(json["required"] as? [String] == preset.missingSettings)
  }

  static let commands: [[String]] = [
    [], ["run"], ["check"], ["session"], ["session", "add"], ["session", "list"], ["session", "show"],
    ["session", "verify"], ["session", "refresh"], ["session", "remove"], ["providers"], ["version"],
  ]

  @Test("every command has help with an example", arguments: commands)
  func help(_ command: [String]) throws {
    let scene = try CommandLineScene()
    let (exit, output, error) = try Program.run(Binaries.bearerd, command + ["--help"], in: scene.scratch)
    #expect(exit == 0)
    #expect(error.isEmpty)
    let line = (["bearerd"] + command).joined(separator: " ")
    // Once in the usage, once in the example.
    #expect(output.components(separatedBy: line).count > 2, "\(output)")
  }

  @Test(
    "a usage error is EX_USAGE on standard error",
    arguments: [["bogus"], ["session", "add"], ["run", "--log-format", "xml"]])
  func usage(_ command: [String]) throws {
    let scene = try CommandLineScene()
    let (exit, output, error) = try Program.run(Binaries.bearerd, command, in: scene.scratch)
    #expect(exit == 64)
    #expect(output.isEmpty)
    #expect(error.hasPrefix("bearerd: "))
  }

  @Test("a reader that goes away is no error; a full disk is EX_IOERR")
  func standardOutput() throws {
    let scene = try CommandLineScene()
    let full = try Program.run(
      "sh", ["-c", "\"$0\" providers > /dev/full", Binaries.bearerd], in: scene.scratch)
    #expect(full.exit == 74)
    #expect(full.error.contains("cannot write to standard output"))
    let closed = try Program.run(
      "bash", ["-c", "\"$0\" providers | true; exit ${PIPESTATUS[0]}", Binaries.bearerd], in: scene.scratch)
    #expect(closed.exit == 0)
  }

  @Test("version and --version agree")
  func version() throws {
    let scene = try CommandLineScene()
    let version = try scene.run("version").output
    #expect(version.hasPrefix("bearerd "))
    #expect(try "bearerd " + scene.run("--version").output == version)
  }
}
