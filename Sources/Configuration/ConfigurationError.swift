/// One thing that is wrong with a configuration, for the person who wrote it. Shows no secret (I10).
public struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
  /// Dotted path of the key (`upstream.api.origin`); empty for the text as a whole.
  public var key: String
  public var problem: Problem
  /// What to do about it, where that is known.
  public var hint: String?

  public init(key: String, problem: Problem, hint: String? = nil) {
    self.key = key
    self.problem = problem
    self.hint = hint
  }

  public enum Problem: Equatable, Sendable {
    /// Not TOML. Line and column count from 1.
    case syntax(message: String, line: Int, column: Int)
    case unknownKey(suggestion: String?)
    /// `found` is the value as it may be shown, or its type.
    case invalid(found: String, expected: String)
    case missing(expected: String)
    /// Two settings that cannot both hold.
    case conflict(String)
    /// The file that the key names cannot be used.
    case file(path: String, reason: String)
  }

  public var description: String {
    let text =
      switch problem {
      case .syntax(let message, let line, let column): "line \(line), column \(column): \(message)"
      case .unknownKey(let suggestion):
        "unknown key `\(key)`" + (suggestion.map { ": did you mean `\($0)`?" } ?? "")
      case .invalid(let found, let expected): "`\(key)`: found \(found), expected \(expected)"
      case .missing(let expected): "`\(key)` is missing: expected \(expected)"
      case .conflict(let reason): "`\(key)`: \(reason)"
      case .file(let path, let reason): "`\(key)`: \(path): \(reason)"
      }
    return hint.map { "\(text) (\($0))" } ?? text
  }
}

/// Everything that is wrong with a configuration: never empty.
public struct ConfigurationErrors: Error, Equatable, Sendable, CustomStringConvertible {
  public var errors: [ConfigurationError]

  public init(_ errors: [ConfigurationError]) { self.errors = errors }

  /// One line for each.
  public var description: String { errors.map(\.description).joined(separator: "\n") }
}

/// Why a file could not be read, in words (`No such file or directory`).
public struct FileProblem: Error, Equatable, Sendable {
  public var reason: String
  public init(reason: String) { self.reason = reason }
}
