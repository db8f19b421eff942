import Foundation
import Testing

@Suite("House rules that a machine can check") struct TidyTests {
  @Test("Nothing in Sources can trap on a peer's word or write to standard output behind the commands' back")
  func forbiddenWords() {
    let forced = Tree.hits(Tree.swiftSources) { line in
      let code = Tree.code(line)
      return code.contains("try!") || code.contains("as!")
    }
    #expect(forced.isEmpty, "\(forced)")
    let prints = Tree.hits(Tree.swiftSources.filter { $0.target != "bearerd" }) { Tree.code($0).contains(/\bprint\(/) }
    #expect(prints.isEmpty, "\(prints)")
  }

  @Test("No work is left lying about")
  func leftovers() {
    // Put together here, so that this file does not hold the words it looks for.
    let words = ["FIX" + "ME", "TO" + "DO", "XX" + "X"]
    let hits = Tree.hits(Tree.everything) { line in
      words.contains { word in
        line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.contains { $0 == word }
      }
    }
    #expect(hits.isEmpty, "\(hits)")
  }

  @Test("No file knows the machine it was written on")
  func machinePaths() {
    let paths = ["/wo" + "rk/", "/tmp/" + "iso", "/ro" + "ot/", "/ho" + "me/"]
    let hits = Tree.hits(Tree.everything) { line in paths.contains { line.contains($0) } }
    #expect(hits.isEmpty, "\(hits)")
  }

  @Test("The top holds what belongs there")
  func topLevel() throws {
    let allowed: Set<String> = [
      "Sources", "Tests", "config", "systemd", "Package.swift", "Package.resolved", "README.md", "CHANGELOG.md",
      "LICENSE", "Makefile", ".ci", ".gitignore", ".git", ".build", ".swiftpm", ".swift-format",
    ]
    let entries = try FileManager.default.contentsOfDirectory(atPath: Tree.root)
    #expect(Set(entries).subtracting(allowed) == [])
  }

  @Test(
    "Every local link of the guides leads somewhere",
    arguments: ["README.md", "Sources/README.md", "config/README.md", "systemd/README.md"])
  func links(_ path: String) throws {
    guard let file = Tree.file(path) else { return }
    let folder = URL(fileURLWithPath: Tree.root + "/" + path).deletingLastPathComponent()
    for match in file.text.matches(of: /\]\(([^)\s]+)\)/) {
      let link = match.1.split(separator: "#", omittingEmptySubsequences: false)[0]
      if link.isEmpty || link.contains("://") || link.hasPrefix("mailto:") { continue }
      let target = folder.appendingPathComponent(String(link)).standardizedFileURL.path
      #expect(FileManager.default.fileExists(atPath: target), "\(path) links to \(link)")
    }
  }

  @Test("Sizes, for the reader of the log; nothing fails here but an empty tree")
  func sizes() {
    let files = Tree.swiftSources + Tree.files(under: "Tests", endingIn: ".swift")
    #expect(!files.isEmpty)
    for file in files where file.lines.count > 400 { print("long file: \(file.path): \(file.lines.count) lines") }
    let wide = Tree.hits(files) { $0.count > 120 }
    print("lines over 120 columns: \(wide.count)")
    for line in wide.prefix(20) { print("  \(line.prefix(100))…") }
    for target in Set(Tree.swiftSources.map(\.target)).sorted() {
      let count = Tree.swiftSources.filter { $0.target == target }.reduce(0) { $0 + $1.lines.count }
      print("lines: \(target) \(count)")
    }
  }
}
