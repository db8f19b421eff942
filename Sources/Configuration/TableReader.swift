/// What one key may hold: how a value is read, and how that is described to whoever wrote another.
struct Reading<Value> {
  var expected: String
  /// The text may carry credentials: an error shows its type alone (I10).
  var isSensitive = false
  /// nil where the node is not such a value.
  var read: (TOMLNode) -> Value?
}

/// Collects every error of one parse and every key that was looked for.
final class Diagnostics {
  let environment: [String: String]
  private(set) var errors: [ConfigurationError] = []
  /// Every key asked for, names and indices replaced by `*`: the keys that exist.
  private(set) var knownKeys: Set<String> = []
  private var readers: [TableReader] = []

  init(environment: [String: String]) { self.environment = environment }

  func report(_ key: String, _ problem: ConfigurationError.Problem, hint: String? = nil) {
    errors.append(ConfigurationError(key: key, problem: problem, hint: hint))
  }

  func asked(_ pattern: String) { knownKeys.insert(pattern) }

  func opened(_ reader: TableReader) { readers.append(reader) }

  /// Call once, after everything was read.
  func reportUnknownKeys() {
    for reader in readers { reader.reportUnknownKeys() }
  }
}

/// Reads one table key by key. A key that nobody asks for is an error in the end, so no list of keys is kept.
final class TableReader {
  /// Dotted path, empty for the root.
  let path: String
  private let pattern: String
  private let entries: [String: TOMLNode]
  let diagnostics: Diagnostics
  private var asked: [String] = []

  init(path: String, pattern: String, entries: [String: TOMLNode], diagnostics: Diagnostics) {
    self.path = path
    self.pattern = pattern
    self.entries = entries
    self.diagnostics = diagnostics
    diagnostics.opened(self)
  }

  var isEmpty: Bool { entries.isEmpty }
  var keys: [String] { entries.keys.sorted() }

  func has(_ key: String) -> Bool { entries[key] != nil }

  func path(_ key: String) -> String { path.isEmpty ? TOMLText.key(key) : "\(path).\(TOMLText.key(key))" }

  func report(_ key: String, _ problem: ConfigurationError.Problem, hint: String? = nil) {
    diagnostics.report(path(key), problem, hint: hint)
  }

  func conflict(_ key: String, _ reason: String) { report(key, .conflict(reason)) }

  // MARK: values

  /// The value, or nil where the key is absent or was reported.
  func value<Value>(_ key: String, _ reading: Reading<Value>) -> Value? {
    ask(key).flatMap { convert($0, reading, at: path(key)) }
  }

  /// Leaves `target` as it is where the key is absent or was reported.
  func read<Value>(_ key: String, into target: inout Value, _ reading: Reading<Value>) {
    if let value = value(key, reading) { target = value }
  }

  func read<Value>(_ key: String, into target: inout Value?, _ reading: Reading<Value>) {
    if let value = value(key, reading) { target = value }
  }

  /// An array, each wrong element reported by its index; nil where the key is absent or is no array.
  func list<Value>(_ key: String, of reading: Reading<Value>) -> [Value]? {
    guard let node = ask(key) else { return nil }
    guard case .array(let elements) = node else {
      report(key, .invalid(found: shown(node, reading), expected: "an array, each element \(reading.expected)"))
      return nil
    }
    return elements.enumerated().compactMap { convert($1, reading, at: "\(path(key))[\($0)]") }
  }

  func read<Value>(_ key: String, into target: inout [Value], listOf reading: Reading<Value>) {
    if let values = list(key, of: reading) { target = values }
  }

  // MARK: tables

  /// An absent table reads as an empty one.
  func table(_ key: String) -> TableReader {
    let entries: [String: TOMLNode] = ask(key).flatMap { tableEntries($0, at: path(key)) } ?? [:]
    return reader(path(key), pattern: patternPath(key), entries: entries)
  }

  /// The tables inside a table, by name, sorted: `[upstream.NAME]`.
  func namedTables(_ key: String) -> [(name: String, reader: TableReader)] {
    guard let node = ask(key), let tables = tableEntries(node, at: path(key)) else { return [] }
    return tables.sorted { $0.key < $1.key }.compactMap { name, node in
      let path = "\(path(key)).\(TOMLText.key(name))"
      return tableEntries(node, at: path).map {
        (name, reader(path, pattern: patternPath(key) + ".*", entries: $0))
      }
    }
  }

  /// An array of tables, `[[listener]]`; nil where the key is absent or is none.
  func tables(_ key: String) -> [TableReader]? {
    guard let node = ask(key) else { return nil }
    guard case .array(let elements) = node else {
      report(key, .invalid(found: node.shown, expected: "an array of tables"), hint: "write `[[\(path(key))]]`")
      return nil
    }
    return elements.enumerated().compactMap { index, node in
      let path = "\(path(key))[\(index)]"
      return tableEntries(node, at: path).map { reader(path, pattern: patternPath(key), entries: $0) }
    }
  }

  /// Marks a key as known without reading it: its value was handled another way.
  func ask(_ key: String) -> TOMLNode? {
    if !asked.contains(key) { asked.append(key) }
    diagnostics.asked(patternPath(key))
    return entries[key]
  }

  // MARK: inside

  /// For tables whose keys are free, every key is asked for under one pattern.
  func askFreely<Value>(_ key: String, _ reading: Reading<Value>) -> Value? {
    asked.append(key)
    diagnostics.asked(pattern + ".*")
    return entries[key].flatMap { convert($0, reading, at: path(key)) }
  }

  private func patternPath(_ key: String) -> String { pattern.isEmpty ? key : "\(pattern).\(key)" }

  private func reader(_ path: String, pattern: String, entries: [String: TOMLNode]) -> TableReader {
    TableReader(path: path, pattern: pattern, entries: entries, diagnostics: diagnostics)
  }

  private func tableEntries(_ node: TOMLNode, at path: String) -> [String: TOMLNode]? {
    if case .table(let entries) = node { return entries }
    diagnostics.report(path, .invalid(found: node.shown, expected: "a table"))
    return nil
  }

  private func convert<Value>(_ node: TOMLNode, _ reading: Reading<Value>, at path: String) -> Value? {
    if let value = reading.read(node) { return value }
    diagnostics.report(path, .invalid(found: shown(node, reading), expected: reading.expected))
    return nil
  }

  private func shown<Value>(_ node: TOMLNode, _ reading: Reading<Value>) -> String {
    reading.isSensitive ? node.typeName : node.shown
  }

  func reportUnknownKeys() {
    for key in keys where !asked.contains(key) {
      let suggestion = EditDistance.closest(to: key, among: asked)
      report(key, .unknownKey(suggestion: suggestion), hint: suggestion == nil ? Self.hints[key] : nil)
    }
  }

  /// Keys that people may expect, and what there is instead.
  private static let hints = [
    "client_secret": "secrets come only from files: set `client_secret_file`",
    "access_token": "tokens are not configured: use `bearerd session add`",
    "refresh_token": "tokens are not configured: use `bearerd session add`",
    "ca_file": "it belongs in the `tls` table",
    "client_certificate_file": "it belongs in the `tls` table",
    "client_key_file": "it belongs in the `tls` table",
    "server_name": "it belongs in the `tls` table",
    "insecure": "certificates are always verified: set `tls.ca_file` to trust another authority",
    "allow_remote": "it belongs in a [[listener]]",
  ]
}

/// Distance of two words in insertions, deletions, substitutions and exchanges of neighbours.
enum EditDistance {
  /// The nearest word, if it is near enough to be what was meant.
  static func closest(to word: String, among candidates: [String]) -> String? {
    let limit = max(1, min(3, word.count / 3))
    return candidates.map { ($0, distance(word, $0)) }.filter { $0.1 <= limit }.min { $0.1 < $1.1 }?.0
  }

  static func distance(_ left: String, _ right: String) -> Int {
    let a = Array(left.utf8)
    let b = Array(right.utf8)
    // Keys are short; a long one is no misspelling of any.
    guard a.count <= 64, b.count <= 64 else { return .max }
    var rows = [Array(0...b.count)]
    for i in 0..<a.count {
      var row = [i + 1]
      for j in 0..<b.count {
        var best = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (a[i] == b[j] ? 0 : 1))
        if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { best = min(best, rows[i - 1][j - 1] + 1) }
        row.append(best)
      }
      rows.append(row)
    }
    return rows[a.count][b.count]
  }
}
