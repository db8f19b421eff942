import Foundation
import Testing

/// A process of the test. Its output goes to files, so that it never blocks on a pipe; it is killed, by its id, at
/// the latest when this is released.
///
/// Started and reaped by hand: what is timed here is the instant of the kill, and its end must be certain before the
/// next process begins.
final class Child: @unchecked Sendable {
  /// 0 once it was reaped: the number may be another process's then.
  private var pid: pid_t = 0
  private var status: Int32?
  private let gate = NSLock()
  private let stem: String
  private let name: String

  /// - Parameter input: what stands on its standard input; nothing where nil.
  init(_ executable: String, _ arguments: [String], in scratch: Scratch, input: String? = nil) throws {
    name = ([URL(fileURLWithPath: executable).lastPathComponent] + arguments).joined(separator: " ")
    stem = scratch("process-\(UUID().uuidString.prefix(8))")
    if let input { try Data(input.utf8).write(to: URL(fileURLWithPath: stem + ".in")) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, input == nil ? "/dev/null" : stem + ".in", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, stem + ".out", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    posix_spawn_file_actions_addopen(&actions, 2, stem + ".err", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // The mock server ignores SIGPIPE in this process, which a child would inherit.
    var defaults = sigset_t()
    sigemptyset(&defaults)
    sigaddset(&defaults, SIGPIPE)
    posix_spawnattr_setsigdefault(&attributes, &defaults)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
    let inherited = ["PATH", "HOME", "LD_LIBRARY_PATH"].compactMap { name in
      ProcessInfo.processInfo.environment[name].map { "\(name)=\($0)" }
    }
    let code = Self.withCStrings([executable] + arguments) { argv in
      Self.withCStrings(inherited) { posix_spawnp(&pid, executable, &actions, &attributes, argv, $0) }
    }
    guard code == 0 else { throw Trouble("\(name): \(String(cString: strerror(code)))") }
  }

  deinit { kill9() }

  private static func withCStrings<Result>(
    _ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
  ) -> Result {
    let copies = texts.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    return body(copies + [nil])
  }

  var output: String { Self.text(ofFile: stem + ".out") }
  var error: String { Self.text(ofFile: stem + ".err") }

  private static func text(ofFile path: String) -> String {
    String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
  }

  /// nil while it runs; then its exit status, or minus the number of the signal that ended it.
  var end: Int32? {
    gate.withLock {
      reap(options: WNOHANG)
      return status
    }
  }

  private func reap(options: Int32) {
    var raw: Int32 = 0
    guard pid != 0 else { return }
    var reaped = waitpid(pid, &raw, options)
    while reaped < 0, errno == EINTR { reaped = waitpid(pid, &raw, options) }
    guard reaped == pid else { return }
    pid = 0
    let signal = raw & 0x7f
    status = signal == 0 ? (raw >> 8) & 0xff : -signal
  }

  /// SIGKILL; returns once the process is gone. The files it wrote stay readable until the scratch goes.
  func kill9() {
    gate.withLock {
      guard pid != 0 else { return }
      kill(pid, SIGKILL)
      reap(options: 0)
    }
  }

  func terminate() { gate.withLock { if pid != 0 { kill(pid, SIGTERM) } } }

  /// Waits for its end; one that takes too long is killed.
  func wait(within seconds: Double = 60) throws -> Int32 {
    do {
      return try awaited("the end of \(name)", within: seconds) { end }
    } catch {
      kill9()
      throw error
    }
  }

  /// Runs it to its end.
  static func run(
    _ executable: String, _ arguments: [String], in scratch: Scratch, input: String? = nil
  ) throws -> (exit: Int32, output: String, error: String) {
    let child = try Child(executable, arguments, in: scratch, input: input)
    defer { child.forgetFiles() }
    return (try child.wait(), child.output, child.error)
  }

  /// Removes the files; for the many short commands of a long run.
  func forgetFiles() {
    for suffix in [".in", ".out", ".err"] { unlink(stem + suffix) }
  }
}

/// What went wrong with the test's own means, or did not come true in time.
struct Trouble: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

/// Looks again until there is a value, or throws. Never waits longer than it must.
@discardableResult
func awaited<Value>(_ what: String, within seconds: Double = 30, _ look: () throws -> Value?) throws -> Value {
  let deadline = Date().addingTimeInterval(seconds)
  while Date() < deadline {
    if let value = try look() { return value }
    usleep(3000)
  }
  throw Trouble("\(what) did not come within \(seconds) s")
}

/// A directory of one test's own, removed with everything in it when this is released.
final class Scratch: Sendable {
  let path: String

  init() throws {
    path = NSTemporaryDirectory() + "bearerd-chaos-" + UUID().uuidString.prefix(8)
    try FileManager.default.createDirectory(
      atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func callAsFunction(_ name: String) -> String { path + "/" + name }
}

/// The built program: `BEARERD_BINARY`, else the one that lies beside the test bundle.
enum Binary {
  static let path =
    ProcessInfo.processInfo.environment["BEARERD_BINARY"]
    ?? URL(fileURLWithPath: (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "")
      .deletingLastPathComponent().appendingPathComponent("bearerd").path
}
