import Foundation

/// Another process of the test. Its output goes to files, so that it never blocks on a pipe; it is killed, by its
/// id, at the latest when this is released.
final class Program {
  private let process = Process()
  private let outputPath: String
  private let errorPath: String
  let name: String
  /// Holds the files as long as the program may write to them.
  private let scratch: Scratch

  /// - Parameters:
  ///   - environment: the whole environment but `PATH`, `HOME` and the like: nothing of the caller's proxies gets in.
  ///   - input: what stands on its standard input; nothing where nil.
  init(
    _ executable: String, _ arguments: [String], in scratch: Scratch, environment: [String: String] = [:],
    input: String? = nil
  ) throws {
    self.scratch = scratch
    name = URL(fileURLWithPath: executable).lastPathComponent
    let stem = scratch("\(name)-\(UUID().uuidString.prefix(6))")
    (outputPath, errorPath) = (stem + ".out", stem + ".err")
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = executable.hasPrefix("/") ? ["--", executable] + arguments : [executable] + arguments
    let inherited = ["PATH", "HOME", "JAVA_HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS"].compactMap { name in
      ProcessInfo.processInfo.environment[name].map { (name, $0) }
    }
    process.environment = Dictionary(inherited) { $1 }.merging(environment) { $1 }
    process.currentDirectoryURL = URL(fileURLWithPath: scratch.path)
    process.standardOutput = try Self.file(outputPath)
    process.standardError = try Self.file(errorPath)
    if let input {
      try input.write(toFile: stem + ".in", atomically: false, encoding: .utf8)
      process.standardInput = try FileHandle(forReadingFrom: URL(fileURLWithPath: stem + ".in"))
    } else {
      process.standardInput = FileHandle.nullDevice
    }
    try process.run()
  }

  deinit {
    if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    _ = eventually(within: 10) { !process.isRunning }
  }

  private static func file(_ path: String) throws -> FileHandle {
    _ = FileManager.default.createFile(atPath: path, contents: nil)
    return try FileHandle(forWritingTo: URL(fileURLWithPath: path))
  }

  var pid: Int32 { process.processIdentifier }
  var isRunning: Bool { process.isRunning }
  var output: String { text(ofFile: outputPath) }
  var error: String { text(ofFile: errorPath) }

  func signal(_ number: Int32) { if process.isRunning { kill(process.processIdentifier, number) } }

  /// How it ended: its exit status, or minus the number of the signal that killed it.
  func end(within seconds: Double = 60) throws -> Int32 {
    guard eventually(within: seconds, { !process.isRunning }) else {
      kill(process.processIdentifier, SIGKILL)
      throw TimedOut(description: "\(name) did not end within \(seconds) s: \(error.suffix(2000))")
    }
    // Foundation notices the end on another thread.
    process.waitUntilExit()
    return process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus
  }

  /// Runs it to its end.
  static func run(
    _ executable: String, _ arguments: [String], in scratch: Scratch, environment: [String: String] = [:],
    input: String? = nil, within seconds: Double = 60
  ) throws -> (exit: Int32, output: String, error: String) {
    let program = try Program(executable, arguments, in: scratch, environment: environment, input: input)
    let exit = try program.end(within: seconds)
    return (exit, program.output, program.error)
  }

  /// Peak of the resident memory so far (`VmHWM`), in KiB.
  func peakResidentKiB() -> Int? { kernelNumber(of: "VmHWM:") }

  /// The resident memory now that is the process's own (`RssAnon`), in KiB: code, which the kernel takes and brings again
  /// as it likes, is not in it.
  func ownKiB() -> Int? { kernelNumber(of: "RssAnon:") }

  /// Processor time of all threads so far, user and system.
  func processorSeconds() throws -> Double {
    // The name in parentheses may hold anything; the numbers follow it (proc(5)).
    let line = text(ofFile: "/proc/\(pid)/stat")
    guard let end = line.lastIndex(of: ")") else { throw TimedOut(description: "no such process") }
    let numbers = line[line.index(after: end)...].split(separator: " ")
    guard numbers.count > 12, let user = Double(numbers[11]), let system = Double(numbers[12]) else {
      throw TimedOut(description: "not the numbers of a process")
    }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  var openDescriptorCount: Int? {
    try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count
  }

  private func kernelNumber(of label: String) -> Int? {
    let line = text(ofFile: "/proc/\(pid)/status").split(separator: "\n").first { $0.hasPrefix(label) }
    return line?.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) }
  }
}
