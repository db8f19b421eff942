import Foundation
import Testing

/// The built program that the tests start.
enum Binaries {
  /// `BEARERD_BINARY`, else the release product, else the one beside the tests.
  static let bearerd = chosen("BEARERD_BINARY", orElse: [packagePath(".build/release/bearerd"), besideTests])

  /// A debug build, which has fault points: `BEARERD_FAULT_BINARY`, else the one beside the tests.
  static let withFaultPoints = chosen(
    "BEARERD_FAULT_BINARY", orElse: [besideTests, packagePath(".build/debug/bearerd")])

  static func packagePath(_ relative: String) -> String {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../../" + relative)
      .standardizedFileURL.path
  }

  /// A script or program text under `Peers`.
  static func peer(_ name: String) -> String { packagePath("Tests/EndToEnd/Peers/" + name) }

  /// SwiftPM puts the executable into the directory of the test bundle.
  private static var besideTests: String {
    let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
    let link = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? bundle
    return URL(fileURLWithPath: link).deletingLastPathComponent().appendingPathComponent("bearerd").path
  }

  private static func chosen(_ variable: String, orElse paths: [String]) -> String {
    if let named = ProcessInfo.processInfo.environment[variable] { return named }
    return paths.first { FileManager.default.isExecutableFile(atPath: $0) } ?? paths[0]
  }
}
