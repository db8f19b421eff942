internal import BearerPolicy

extension Configuration {
  static let secretKeys = ["client_secret_file", "client_secret_env"]

  /// The largest file that is taken for a secret: a key or a token is far below it.
  static let secretFileBytesMax = 64 * 1024

  /// Client secret, parameters, header fields and static fields; what is secret among them comes from files
  /// (SPEC §10).
  static func readSecrets(
    _ provider: inout Provider, _ connection: inout ProviderConnection, _ reader: TableReader,
    readFile: (String) -> Result<[UInt8], FileProblem>
  ) {
    let path = reader.path(at: "client_secret_file")
    let variable = reader.value("client_secret_env", .fileVariable)
    if reader.has("client_secret_file"), reader.has("client_secret_env") {
      reader.conflict("client_secret_env", "cannot stand beside `client_secret_file`")
    } else if let path {
      provider.oauthClientSecret = secret(path, reader, "client_secret_file", readFile: readFile)
      connection.secretFiles["client_secret"] = path
    } else if let variable {
      let given = reader.diagnostics.environment[variable]
      if let path = given.flatMap({ reader.absolutePath($0, at: "client_secret_env") }) {
        provider.oauthClientSecret = secret(path, reader, "client_secret_env", readFile: readFile)
        connection.secretFiles["client_secret"] = path
      } else if given == nil {
        reader.report(
          "client_secret_env",
          .invalid(found: TOMLText.quoted(variable), expected: "a variable that is set to the path of a file"))
      }
    }
    for name in provider.parameterNames {
      let source = reader.value(name, .secretSource)
      if let value = resolve(source, reader, name, name, &connection, readFile: readFile) {
        provider.parameters[name] = value
      }
    }
    readFields("headers", into: &provider.headers, &connection, reader, isHeader: true, readFile: readFile)
    readFields(
      "static_fields", into: &provider.staticFields, &connection, reader, isHeader: false, readFile: readFile)
  }

  /// A table of `name = "value"` or `name = { file = "path" }` over the preset's fields: one of the same name is
  /// replaced where it stands, a new one comes last.
  private static func readFields(
    _ key: String, into fields: inout [Provider.Field], _ connection: inout ProviderConnection,
    _ reader: TableReader,
    isHeader: Bool, readFile: (String) -> Result<[UInt8], FileProblem>
  ) {
    let table = reader.table(key)
    for name in table.keys {
      if isHeader, !Reading<String>.isToken(name) || reservedHeaders.contains(name.lowercased()) {
        table.report(
          name,
          .invalid(found: TOMLNode.string(name).shown, expected: "a field name that bearerd does not set itself"))
      }
      let source = table.askFreely(name, .secretSource)
      guard let value = resolve(source, table, name, "\(key).\(name)", &connection, readFile: readFile) else {
        continue
      }
      let same = fields.firstIndex { isHeader ? $0.name.lowercased() == name.lowercased() : $0.name == name }
      if let same {
        fields[same].value = value
      } else {
        fields.append(Provider.Field(name: name, value: value))
      }
    }
  }

  private static func resolve(
    _ source: SecretSource?, _ reader: TableReader, _ key: String, _ name: String,
    _ connection: inout ProviderConnection, readFile: (String) -> Result<[UInt8], FileProblem>
  ) -> Secret? {
    switch source {
    case nil: return nil
    case .text(let text): return Secret(text)
    case .file(let text):
      guard let path = reader.absolutePath(text, at: key) else { return nil }
      connection.secretFiles[name] = path
      return secret(path, reader, key, readFile: readFile)
    }
  }

  /// Framing and connection fields, and the credentials that `client_auth` makes.
  private static let reservedHeaders: Set<String> = [
    "authorization", "connection", "content-length", "expect", "host", "te", "transfer-encoding",
    "upgrade",
  ]

  /// The file's bytes without the line end that editors add; nil after a report.
  static func secret(
    _ path: String, _ reader: TableReader, _ key: String, readFile: (String) -> Result<[UInt8], FileProblem>
  ) -> Secret? {
    switch readFile(path) {
    case .failure(let problem):
      reader.report(key, .file(path: path, reason: problem.reason))
    case .success(let bytes):
      var end = bytes.count
      while end > 0, bytes[end - 1] == 0x0A || bytes[end - 1] == 0x0D { end -= 1 }
      let value = bytes[..<end]
      if value.isEmpty {
        reader.report(key, .file(path: path, reason: "is empty"))
      } else if value.count > secretFileBytesMax {
        reader.report(key, .file(path: path, reason: "is larger than 64KiB"))
      } else if value.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
        reader.report(key, .file(path: path, reason: "holds control characters or several lines"))
      } else {
        return Secret(bytes: value)
      }
    }
    return nil
  }
}

/// Where a value that may be secret comes from.
private enum SecretSource {
  case text(String)
  case file(String)
}

extension Reading where Value == SecretSource {
  fileprivate static var secretSource: Reading {
    let expected = "a text without control characters, or `{ file = \"/path\" }`"
    return Reading(expected: expected, isSensitive: true) { node in
      switch node {
      case .string(let text) where text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }: return .text(text)
      case .table(let entries):
        guard entries.count == 1, case .string(let path)? = entries["file"] else { return nil }
        return .file(path)
      case .string, .integer, .float, .boolean, .time, .array: return nil
      }
    }
  }
}

extension Reading where Value == String {
  fileprivate static var fileVariable: Reading {
    text("the name of an environment variable that ends in _FILE and holds a path") { text in
      isToken(text) && text.hasSuffix("_FILE") ? text : nil
    }
  }
}
