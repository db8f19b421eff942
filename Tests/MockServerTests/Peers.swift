import Foundation
import MockBackend
import MockServer

/// A started server with one signed-in user, and a directory for files that curl reads.
final class ServedSession: Sendable {
  let server: MockServer
  let accessToken: String
  let refreshToken: String
  let directory: String

  init(_ configure: (inout MockServerSettings) -> Void = { _ in }) throws {
    var settings = MockServerSettings()
    settings.backend.accessTokenLifetimeMilliseconds = 600_000
    configure(&settings)
    server = try MockServer(settings: settings)
    try server.start()
    (accessToken, refreshToken) = server.login(user: "ada")
    directory = NSTemporaryDirectory() + "mock-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    try server.writeCertificateAuthority(to: authorityPath)
  }

  deinit {
    server.stop()
    try? FileManager.default.removeItem(atPath: directory)
  }

  var authorityPath: String { directory + "/ca.pem" }

  func write(_ text: String, to name: String) throws -> String {
    let path = directory + "/" + name
    try text.write(toFile: path, atomically: true, encoding: .utf8)
    return path
  }

  enum Side: CaseIterable, Sendable { case plain, tls }

  func url(_ side: Side, _ path: String) -> String {
    switch side {
    case .plain: "http://localhost:\(server.plainPort)\(path)"
    case .tls: "https://localhost:\(server.tlsPort)\(path)"
    }
  }

  /// Runs curl against one or more paths with the session's token, or another, or none.
  func curl(
    _ side: Side, _ paths: String..., options: [String] = [], token: String? = nil, isAnonymous: Bool = false,
    input: Data? = nil
  ) throws -> CurlResult {
    let credentials = isAnonymous ? [] : ["-H", "Authorization: Bearer \(token ?? accessToken)"]
    return try CurlResult.run(
      credentials + ["--cacert", authorityPath] + options + paths.map { url(side, $0) }, input: input)
  }
}

/// What curl said and how it ended.
struct CurlResult: Sendable {
  var exit: Int32
  /// Heads (with `-i` or `-D -`) and bodies.
  var output: String

  /// curl reads no configuration of the user's and takes no proxy from the environment.
  static func run(_ arguments: [String], input: Data? = nil) throws -> CurlResult {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["curl", "-q", "-sS", "--noproxy", "*", "--max-time", "30"] + arguments
    let output = Pipe()
    let source = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    process.standardInput = source
    try process.run()
    if let input { try source.fileHandleForWriting.write(contentsOf: input) }
    try source.fileHandleForWriting.close()
    let bytes = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return CurlResult(exit: process.terminationStatus, output: String(decoding: bytes, as: UTF8.self))
  }
}

/// A TCP connection that sends exactly the bytes it is told to.
final class RawClient {
  let descriptor: Int32

  struct Refused: Error {}

  init(port: UInt16) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var limit = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    if code != 0 { throw Refused() }
  }

  deinit { close(descriptor) }

  func send(_ text: String) {
    let bytes = Array(text.utf8)
    _ = bytes.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
  }

  func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Everything up to the end of the connection, or up to and including `stop`.
  func receive(until stop: String? = nil) -> String {
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 4096)
    while true {
      let text = String(decoding: bytes, as: UTF8.self)
      if let stop, text.hasSuffix(stop) { return text }
      let count = recv(descriptor, &piece, piece.count, 0)
      if count <= 0 { return text }
      bytes += piece[..<count]
    }
  }
}

/// Looks again until `isTrue` or the deadline; says which.
func eventually(_ isTrue: () -> Bool) -> Bool {
  let deadline = Date().addingTimeInterval(10)
  while Date() < deadline {
    if isTrue() { return true }
    sched_yield()
  }
  return isTrue()
}
