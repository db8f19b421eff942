import Foundation

/// The project's files as a checkout has them, without what tools put there.
enum Tree {
  static let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().path

  struct File: Sendable, CustomStringConvertible {
    /// Relative to the root.
    var path: String
    var text: String
    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }
    var description: String { path }

    /// The target that a file under `Sources` belongs to.
    var target: String { String(path.split(separator: "/").dropFirst().first ?? "") }
  }

  static func files(under folder: String, endingIn suffixes: String...) -> [File] {
    let base = root + "/" + folder
    let names = FileManager.default.enumerator(atPath: base)?.compactMap { $0 as? String } ?? []
    return names.filter { name in
      suffixes.contains { name.hasSuffix($0) } && !name.split(separator: "/").contains { $0.hasPrefix(".") }
    }.sorted().compactMap { name in
      FileManager.default.contents(atPath: base + "/" + name).map {
        File(path: folder + "/" + name, text: String(decoding: $0, as: UTF8.self))
      }
    }
  }

  static func file(_ path: String) -> File? {
    FileManager.default.contents(atPath: root + "/" + path).map {
      File(path: path, text: String(decoding: $0, as: UTF8.self))
    }
  }

  static let swiftSources = files(under: "Sources", endingIn: ".swift")

  /// What people and tools read of the project: code, settings, prose.
  static let everything =
    ["Sources", "Tests", "config", "systemd", ".ci"].flatMap {
      files(
        under: $0, endingIn: ".swift", ".md", ".toml", ".h", ".modulemap", ".py", ".js", ".java", ".sh", ".service",
        ".socket", "run")
    } + ["Package.swift", "README.md", "CHANGELOG.md", "Makefile"].compactMap { file($0) }

  /// `line:` of every line that has one of those words, for a failure that can be clicked.
  static func hits(_ files: [File], _ isHit: (Substring) -> Bool) -> [String] {
    files.flatMap { file in
      file.lines.enumerated().filter { isHit($0.element) }.map { "\(file.path):\($0.offset + 1): \($0.element)" }
    }
  }

  /// The line without what stands behind `//`; a `//` inside a string literal does not count.
  static func code(_ line: Substring) -> Substring {
    var isInString = false
    var previous: Character?
    for index in line.indices {
      let character = line[index]
      if character == "\"", previous != "\\" { isInString.toggle() }
      if !isInString, character == "/", previous == "/" { return line[..<line.index(before: index)] }
      previous = character
    }
    return line
  }
}
