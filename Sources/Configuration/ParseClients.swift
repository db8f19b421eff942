internal import BearerPolicy

extension Configuration {
  /// A secret shorter than this can be guessed by asking.
  private static let clientSecretBytesMin = 16

  mutating func readClients(_ root: TableReader, readFile: (String) -> Result<[UInt8], FileProblem>) {
    let tables = root.namedTables("client")
    for (name, reader) in tables {
      Self.checkName(name, reader)
      let path = reader.path(at: "secret_file")
      let sessions = reader.list("sessions", of: .sessionName(isPattern: true))
      if !reader.has("secret_file") {
        reader.report("secret_file", .missing(expected: "the file that holds the client's secret"))
      }
      guard let path, let secret = Self.secret(path, reader, "secret_file", readFile: readFile) else { continue }
      if secret.count < Self.clientSecretBytesMin {
        reader.report("secret_file", .file(path: path, reason: "holds less than \(Self.clientSecretBytesMin) bytes"))
      }
      if let other = clients.first(where: { $0.secret == secret }) {
        reader.conflict("secret_file", "holds the same secret as that of `client.\(other.name)`")
      }
      clients.append(Client(name: name, secret: secret, secretFile: path, sessions: sessions))
    }
    // A client that is wrong has been reported; without any, nobody could be told from anybody.
    guard tables.isEmpty else { return }
    for (index, listener) in listeners.enumerated() {
      switch listener {
      case .tcp(_, allowsRemote: true), .systemd(_, allowsRemote: true):
        root.diagnostics.report(
          "listener[\(index)].allow_remote", .conflict("needs a [client.NAME], so that not everybody may use the tokens"))
      case .tcp(_, allowsRemote: false), .systemd(_, allowsRemote: false), .unix: break
      }
    }
  }
}
