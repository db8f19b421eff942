import Foundation

/// A place in which one daemon after another runs, and what clients know of it: where it listens now, and which of
/// its daemons were told to die.
///
///     down ──start──▶ up(n, port) ──kill──▶ down ──start──▶ up(n+1, port) …   ──close──▶ closed
final class Slot: @unchecked Sendable {
  private enum State {
    case down
    case up(port: UInt16)
    case closed
  }

  private let changed = NSCondition()
  private var state = State.down
  /// Counts the daemons; the current one while `up`.
  private var incarnation = 0
  private var lastDoomed = 0
  private var daemon: Child?
  private let scratch: Scratch
  private let configuration: String

  init(configuration: String, in scratch: Scratch) {
    self.configuration = configuration
    self.scratch = scratch
  }

  /// Starts the next daemon, which may be killed before it serves.
  func launch() throws {
    daemon = try Child(
      Binary.path, ["run", "--config", configuration, "--log-format", "logfmt"], in: scratch)
  }

  /// Waits until the launched daemon serves, and lets clients in.
  func open() throws {
    guard let daemon else { return }
    let port = try awaited("bearerd listening") { () -> UInt16? in
      let log = daemon.error
      if let end = daemon.end { throw Trouble("bearerd ended at start with \(end): \(log)") }
      return log.contains("msg=ready") ? Self.port(in: log) : nil
    }
    changed.withLock {
      incarnation += 1
      state = .up(port: port)
      changed.broadcast()
    }
  }

  func start() throws {
    try launch()
    try open()
  }

  private static func port(in log: String) -> UInt16? {
    for line in log.split(separator: "\n") where line.contains("msg=listening") && line.contains("for=proxy") {
      guard let address = line.range(of: "127.0.0.1:") else { continue }
      return UInt16(line[address.upperBound...].prefix { $0.isNumber })
    }
    return nil
  }

  /// kill -9. What clients see of this daemon from here on proves nothing.
  func kill9() {
    changed.withLock {
      lastDoomed = incarnation
      state = .down
    }
    daemon?.kill9()
    daemon?.forgetFiles()
    daemon = nil
  }

  /// SIGTERM; how the daemon ended, and its log.
  func stop() throws -> (exit: Int32, log: String) {
    changed.withLock { lastDoomed = incarnation }
    guard let daemon else { throw Trouble("no daemon runs") }
    daemon.terminate()
    let exit = try daemon.wait(within: 45)
    return (exit, daemon.error)
  }

  /// Clients that wait for a daemon go home.
  func close() {
    changed.withLock {
      state = .closed
      changed.broadcast()
    }
  }

  /// Where to send a request, as soon as there is such a place; nil once closed.
  func place() -> (incarnation: Int, port: UInt16)? {
    changed.withLock {
      while true {
        switch state {
        case .up(let port): return (incarnation, port)
        case .closed: return nil
        case .down: changed.wait()
        }
      }
    }
  }

  /// Whether that daemon had been told to die: then a broken connection is what it should be.
  func isDoomed(_ incarnation: Int) -> Bool { changed.withLock { incarnation <= lastDoomed } }

  var isAlive: Bool { daemon.map { $0.end == nil } ?? false }
  var log: String { daemon?.error ?? "" }
}
