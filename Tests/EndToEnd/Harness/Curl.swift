import Foundation
import Testing

/// A response as a client saw it.
struct Response: Sendable {
  /// How curl ended; 0 means that the response was complete.
  var exit: Int32
  /// 0 where there was none.
  var status: Int
  /// Every head, interim responses included.
  var heads: String
  /// Fields of the final response, names in lower case.
  var fields: [(name: String, value: String)]
  var body: String
  /// Extra `-w` output.
  var told: String

  func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }

  /// The `code` of an answer of bearerd's own.
  var code: String? {
    guard field("content-type") == "application/problem+json" else { return nil }
    return member("code") as? String
  }

  func member(_ name: String) -> Any? {
    (try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any])?[name]
  }
}

/// A transfer by curl that may still be under way.
final class Transfer {
  private let program: Program
  private let headPath: String
  private let bodyPath: String

  init(_ arguments: [String], in scratch: Scratch, seconds: Int = 60) throws {
    let stem = scratch("transfer-\(UUID().uuidString.prefix(8))")
    (headPath, bodyPath) = (stem + ".head", stem + ".body")
    program = try Program(
      "curl",
      ["-q", "-sS", "-N", "--max-time", "\(seconds)", "-D", headPath, "-o", bodyPath, "-w", "%{http_code}"]
        + arguments,
      in: scratch)
  }

  var heads: String { text(ofFile: headPath) }
  /// What has arrived of the body.
  var body: String { text(ofFile: bodyPath) }
  var isRunning: Bool { program.isRunning }

  /// Ends the client as a crash would.
  func kill() { program.signal(SIGKILL) }

  func finish(within seconds: Double = 90) throws -> Response {
    let exit = try program.end(within: seconds)
    let blocks = heads.components(separatedBy: "\r\n\r\n").filter { !$0.isEmpty }
    let fields = (blocks.last ?? "").components(separatedBy: "\r\n").dropFirst().compactMap { line in
      line.firstIndex(of: ":").map { colon in
        (
          name: line[..<colon].lowercased(),
          value: line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        )
      }
    }
    let told = program.output
    return Response(
      exit: exit, status: Int(told.prefix(3)) ?? 0, heads: heads, fields: fields, body: body,
      told: String(told.dropFirst(3)))
  }
}
