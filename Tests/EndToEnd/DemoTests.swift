import Foundation
import Testing

@Suite("bearerd demo") struct DemoTests {
  @Test("The demonstration keeps every promise, ends by itself and leaves nothing behind")
  func everyPromise() throws {
    let scratch = try Scratch()
    let demo = try Program(Binaries.bearerd, ["demo"], in: scratch, environment: ["TMPDIR": scratch.path])
    #expect(try demo.end() == 0, "\(demo.output)\(demo.error)")
    #expect(!demo.output.contains("NOT AS PROMISED"))
    #expect(demo.output.contains("20 × GET → 20 × 200, 1 refresh"))
    #expect(demo.output.contains("presented again after their success 0"))
    let left = try FileManager.default.contentsOfDirectory(atPath: scratch.path)
    #expect(!left.contains { $0.hasPrefix("bearerd-demo") })
  }
}
