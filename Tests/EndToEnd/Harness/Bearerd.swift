import Foundation
import Testing

/// One running daemon: started with a configuration file, found by the ports it logs, stopped by SIGTERM.
final class Bearerd {
  let program: Program
  /// The first TCP listener's port; 0 where there is none.
  let port: UInt16
  let adminPort: UInt16
  private let scratch: Scratch
  private let owner: AnyObject?

  /// Returns once the daemon serves.
  ///
  /// - Parameter owner: what the daemon needs to be there, such as its upstream.
  init(
    configuration: String, in scratch: Scratch, keeping owner: AnyObject? = nil, binary: String = Binaries.bearerd,
    environment: [String: String] = [:], launcher: [String] = []
  ) throws {
    self.scratch = scratch
    self.owner = owner
    let command = launcher + [binary, "run", "--config", configuration, "--log-format", "logfmt"]
    program = try Program(command[0], Array(command.dropFirst()), in: scratch, environment: environment)
    let started = program
    let ports = try awaited("bearerd listening") { () -> (UInt16, UInt16)? in
      let log = started.error
      guard started.isRunning else {
        throw TimedOut(description: "bearerd ended at start: \(log)")
      }
      guard let admin = Self.port(for: "admin", in: log), log.contains("msg=ready") else { return nil }
      return (Self.port(for: "proxy", in: log) ?? 0, admin)
    }
    (port, adminPort) = ports
  }

  /// The port in the first line that says where a TCP listener of this purpose listens.
  private static func port(for purpose: String, in log: String) -> UInt16? {
    for line in log.split(separator: "\n") where line.contains("msg=listening") && line.contains("for=\(purpose)") {
      guard let address = line.range(of: "127.0.0.1:") else { continue }
      return UInt16(line[address.upperBound...].prefix { $0.isNumber })
    }
    return nil
  }

  var log: String { program.error }

  var url: String { "http://127.0.0.1:\(port)" }

  // MARK: clients

  /// curl straight to the daemon, with the target as in gateway mode.
  func gateway(_ path: String, _ options: [String] = []) throws -> Response {
    try Transfer(options + [url + path], in: scratch).finish()
  }

  /// curl with the daemon as its proxy.
  func forward(_ target: String, _ options: [String] = []) throws -> Response {
    try startForward(target, options).finish()
  }

  func startForward(_ target: String, _ options: [String] = []) throws -> Transfer {
    try Transfer(["-x", url] + options + [target], in: scratch)
  }

  func admin(_ path: String) throws -> Response {
    try Transfer(["http://127.0.0.1:\(adminPort)" + path], in: scratch, seconds: 10).finish()
  }

  /// The sum of a metric over its labels that contain all of `labels`; nil where it is not there.
  func metric(_ name: String, _ labels: String...) throws -> Double? {
    let answer = try admin("/metrics")
    let values = answer.body.split(separator: "\n").compactMap { line -> Double? in
      guard line.hasPrefix(name), labels.allSatisfy({ line.contains($0) }) else { return nil }
      let rest = line.dropFirst(name.count)
      guard rest.first == "{" || rest.first == " " else { return nil }
      return line.split(separator: " ").last.flatMap { Double($0) }
    }
    return values.isEmpty ? nil : values.reduce(0, +)
  }

  // MARK: ending

  /// The daemon is alive, answers for itself and holds no client connection; then it stops as asked.
  func finish(sourceLocation: SourceLocation = #_sourceLocation) throws {
    #expect(program.isRunning, "alive; \(log.suffix(3000))", sourceLocation: sourceLocation)
    var left: Double?
    let areGone = try eventually {
      left = try metric("bearerd_client_connections")
      return left == 0
    }
    #expect(areGone, "client connections left: \(String(describing: left))", sourceLocation: sourceLocation)
    program.signal(SIGTERM)
    let exit = try program.end(within: 20)
    #expect(exit == 0, "\(log.suffix(3000))", sourceLocation: sourceLocation)
  }

  func reload() { program.signal(SIGHUP) }

  /// Returns once the log holds that text.
  func waitForLog(_ text: String, within seconds: Double = 15) throws {
    _ = try awaited("'\(text)' in the log", within: seconds) { log.contains(text) ? true : nil }
  }
}
