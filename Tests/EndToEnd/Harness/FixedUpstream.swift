import Foundation

/// An upstream on loopback that gives every request the same bytes, `@PORT@` among them replaced by its port.
final class FixedUpstream {
  private let program: Program
  let port: UInt16

  init(_ answer: String, in scratch: Scratch) throws {
    let file = try scratch.write(answer, to: "answer-\(UUID().uuidString.prefix(6))")
    let started = try Program("python3", [Binaries.peer("fixed_answer.py"), file], in: scratch)
    program = started
    port = try awaited("the fixed upstream") {
      UInt16(started.output.trimmingCharacters(in: .whitespacesAndNewlines))
    }
  }

  /// A table of the configuration that makes it the upstream `fixed`.
  func table(_ keys: String) -> String {
    "[upstream.fixed]\norigin = \"http://127.0.0.1:\(port)\"\nauth = \"none\"\n\(keys)\n"
  }
}
