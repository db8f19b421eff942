import Foundation
import FuzzTargets
import Testing

@Suite("The fuzzer's targets hold for the inputs that are kept") struct CorpusTests {
  static func files(of target: FuzzTarget) -> [URL] {
    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appendingPathComponent("Corpus/" + target.rawValue)
    let found = try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    return (found ?? []).sorted { $0.path < $1.path }
  }

  @Test("each file of the corpus, and each of its beginnings", arguments: FuzzTarget.allCases)
  func corpus(_ target: FuzzTarget) throws {
    let files = Self.files(of: target)
    #expect(!files.isEmpty, "no corpus for \(target.rawValue)")
    for file in files {
      let bytes = [UInt8](try Data(contentsOf: file))
      for count in [bytes.count, bytes.count / 2, bytes.count - 1] where count >= 0 {
        #expect(throws: Never.self, "\(file.lastPathComponent), \(count) bytes") {
          try target.check(Array(bytes.prefix(count)))
        }
      }
    }
  }
}
