import Foundation

/// A directory of one test's own, removed with everything in it when this is released.
final class Scratch: Sendable {
  let path: String

  init() throws {
    path = NSTemporaryDirectory() + "bearerd-e2e-" + UUID().uuidString.prefix(8)
    try FileManager.default.createDirectory(
      atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func callAsFunction(_ name: String) -> String { path + "/" + name }

  /// The path of a file that holds `text`.
  @discardableResult
  func write(_ text: String, to name: String) throws -> String {
    try Data(text.utf8).write(to: URL(fileURLWithPath: self(name)))
    return self(name)
  }

  /// The path of a file of that many bytes of `ReplyBody.pattern`, made without holding it in memory.
  func writePattern(bytes: Int, to name: String) throws -> String {
    let path = self(name)
    _ = FileManager.default.createFile(atPath: path, contents: nil)
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    // A multiple of 26, so that the pieces join.
    let piece = Data((0..<26 * 4096).map { UInt8(ascii: "a") + UInt8($0 % 26) })
    var left = bytes
    while left > 0 {
      try file.write(contentsOf: piece.prefix(left))
      left -= min(left, piece.count)
    }
    try file.close()
    return path
  }
}

/// Text of a file that another process writes; what is not UTF-8 is replaced. Empty while there is none.
func text(ofFile path: String) -> String {
  String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
}

/// What did not come true in time.
struct TimedOut: Error, CustomStringConvertible {
  var description: String
}

/// Looks again until `isTrue` or the deadline; says which. Never waits longer than it must.
func eventually(within seconds: Double = 15, _ isTrue: () throws -> Bool) rethrows -> Bool {
  let deadline = Date().addingTimeInterval(seconds)
  while Date() < deadline {
    if try isTrue() { return true }
    usleep(5000)
  }
  return try isTrue()
}

/// Looks again until there is a value, or throws.
func awaited<Value>(
  _ what: String, within seconds: Double = 15, _ look: () throws -> Value?
) throws -> Value {
  let deadline = Date().addingTimeInterval(seconds)
  while Date() < deadline {
    if let value = try look() { return value }
    usleep(5000)
  }
  throw TimedOut(description: "\(what) within \(seconds) s")
}
