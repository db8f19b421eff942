import Foundation
import Testing

@Suite("The import line: what each target may see") struct LayeringTests {
  /// From the top down; a target may depend only on targets that stand lower.
  static let rooms = [
    "bearerd", "Daemon", "Admin", "Server", "SessionStore", "Configuration", "Transport", "MockServer", "MockBackend",
    "ProxyCore", "BearerPolicy", "HTTP2Framing", "HTTPSyntax", "Chronology", "CNghttp2", "COpenSSL", "CLinux",
  ]

  /// Modules that each target below the line may import. `FoundationEssentials` is for its JSON coders.
  static let belowTheLine: [String: Set<String>] = [
    "MockBackend": ["Chronology", "FoundationEssentials"],
    "ProxyCore": ["BearerPolicy", "HTTPSyntax", "Chronology"],
    "BearerPolicy": ["Chronology", "FoundationEssentials"],
    "HTTP2Framing": ["CNghttp2"],
    "HTTPSyntax": ["Chronology"],
    "Chronology": [],
  ]

  private static let modifiers: Set<String> = ["public", "internal", "package", "private", "fileprivate"]

  private static func imports(of file: Tree.File) -> [String] {
    file.lines.compactMap { line in
      let words = Tree.code(line).split(separator: " ")
      guard let index = words.firstIndex(of: "import"), index + 1 < words.count,
        words[..<index].allSatisfy({ Self.modifiers.contains(String($0)) || $0.hasPrefix("@") })
      else { return nil }
      return words[index + 1].split(separator: ".").first.map(String.init)
    }
  }

  @Test("Below the line there are no sockets, clocks, queues or files", arguments: belowTheLine.keys.sorted())
  func pure(_ target: String) throws {
    let files = Tree.files(under: "Sources/" + target, endingIn: ".swift")
    #expect(!files.isEmpty)
    let allowed = try #require(Self.belowTheLine[target])
    for file in files {
      let foreign = Set(Self.imports(of: file)).subtracting(allowed)
      #expect(foreign.isEmpty, "\(file.path) imports \(foreign)")
    }
  }

  @Test("Of FoundationEssentials only the JSON coders are used below the line, never its clock")
  func coders() {
    let files = Tree.swiftSources.filter { Self.belowTheLine[$0.target] != nil }
    let clocks = ["Date()", "Date.now", "ContinuousClock", "SuspendingClock", ".random(", "SystemRandomNumberGenerator"]
    let hits = Tree.hits(files) { line in clocks.contains { Tree.code(line).contains($0) } }
    #expect(hits.isEmpty, "\(hits)")
  }

  @Test("No shipped file imports the whole of Foundation")
  func foundation() {
    for file in Tree.swiftSources {
      #expect(!Self.imports(of: file).contains("Foundation"), "\(file.path)")
    }
  }

  @Test("Dependencies of targets point downwards only, and the manifest names every room")
  func downwards() throws {
    let manifest = try #require(Tree.file("Package.swift")).text
    let declared = Self.declaredTargets(in: manifest)
    #expect(Set(declared.keys) == Set(Self.rooms), "\(Set(declared.keys).symmetricDifference(Self.rooms))")
    for (target, dependencies) in declared {
      let height = try #require(Self.rooms.firstIndex(of: target))
      for dependency in dependencies {
        let other = try #require(Self.rooms.firstIndex(of: dependency), "\(target) depends on \(dependency)")
        #expect(other > height, "\(target) depends on \(dependency), which stands above it")
      }
    }
  }

  /// The rooms by name with the rooms they depend on; tests and products of other packages left out.
  private static func declaredTargets(in manifest: String) -> [String: [String]] {
    let declaration = /\.(?<kind>executableTarget|target|systemLibrary)\(\s*name: "(?<name>\w+)"(?<rest>[^\[\)]*)/
    var found: [String: [String]] = [:]
    for match in manifest.matches(of: declaration) {
      var dependencies: [String] = []
      if match.rest.contains("dependencies:"), let open = manifest[match.range.upperBound...].firstIndex(of: "["),
        let close = manifest[open...].firstIndex(of: "]")
      {
        let list = String(manifest[open..<close]).replacing(/\.product\([^)]*\)/, with: "")
        dependencies = list.matches(of: /"(\w+)"/).map { String($0.1) }
      }
      // What the fuzzer and its tests are made of lies with the tests.
      if match.name.hasPrefix("Fuzz") { continue }
      found[String(match.name)] = dependencies
    }
    return found
  }

  @Test("Every import of a room is declared in the manifest")
  func declared() throws {
    let manifest = try #require(Tree.file("Package.swift")).text
    let declared = Self.declaredTargets(in: manifest)
    for file in Tree.swiftSources {
      let rooms = Set(Self.imports(of: file)).intersection(Self.rooms)
      let undeclared = rooms.subtracting(declared[file.target] ?? [])
      #expect(undeclared.isEmpty, "\(file.path) imports \(undeclared)")
    }
  }
}
