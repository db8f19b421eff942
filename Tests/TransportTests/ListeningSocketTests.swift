import CLinux
import Glibc
import Testing
import Transport

@Suite("SPEC §1: listening on TCP") struct TCPListeningTests {
  private func loopback(_ port: UInt16) throws -> SocketAddress {
    try #require(SocketAddress(literal: "127.0.0.1", port: port))
  }

  /// Nagle's algorithm is off: nothing waits for an acknowledgement.
  private func hasNoDelay(_ descriptor: Int32) -> Bool {
    var isOn: Int32 = 0
    var length = socklen_t(4)
    return getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, &length) == 0 && isOn == 1
  }

  @Test("port 0 becomes the port that connections reach, and accept answers nil until one comes")
  func accepts() throws {
    let listening = try ListeningSocket.tcp(loopback(0))
    let port = try #require(listening.address.port)
    #expect(port != 0)
    #expect(listening.address.description == "127.0.0.1:\(port)")
    if try listening.accept() != nil { Issue.record("accepted before anybody came") }
    let client = try connectedSocket(port: port)
    defer { close(client) }
    guard let accepted = try listening.accept() else {
      Issue.record("no connection")
      return
    }
    // Non-blocking and closed on exec.
    #expect(fcntl(accepted.raw, F_GETFL) & O_NONBLOCK != 0)
    #expect(fcntl(accepted.raw, F_GETFD) & FD_CLOEXEC != 0)
    #expect(hasNoDelay(accepted.raw))
    writeAll(client, [7])
    var byte: UInt8 = 0
    var entry = pollfd(fd: accepted.raw, events: Int16(POLLIN), revents: 0)
    #expect(poll(&entry, 1, 30_000) == 1)
    #expect(recv(accepted.raw, &byte, 1, 0) == 1 && byte == 7)
  }

  @Test("an address in use is refused, and free again when its socket goes")
  func inUse() throws {
    var first: ListeningSocket? = try ListeningSocket.tcp(loopback(0))
    let port = try #require(first?.address.port)
    let fault = #expect(throws: SocketFault.self) { _ = try ListeningSocket.tcp(loopback(port)) }
    #expect(fault?.code == EADDRINUSE)
    #expect(fault?.call == "bind 127.0.0.1:\(port)")
    first = nil
    #expect(try ListeningSocket.tcp(loopback(port)).address.port == port)
  }

  @Test("an inherited socket is used where it listens, and refused where it does not")
  func inherited() throws {
    let (descriptor, port) = try listeningSocket()
    let listening = try ListeningSocket.inherited(descriptor)
    #expect(listening.address.port == port)
    #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0)
    #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
    let client = try connectedSocket(port: port)
    defer { close(client) }
    guard let accepted = try listening.accept() else {
      Issue.record("no connection")
      return
    }
    #expect(hasNoDelay(accepted.raw))
    let (silent, _) = try silentPort()
    #expect(throws: SocketFault.self) { _ = try ListeningSocket.inherited(silent) }
  }
}

/// One at a time, because the umask that they set for a moment belongs to the process.
@Suite("SPEC §1: listening on a Unix socket", .serialized) struct UnixListeningTests {
  private let directory: ScratchDirectory
  private var path: String { "\(directory.path)/s" }

  // Of a file's mode (inode(7)); two modules declare the names.
  private static let typeMask: UInt32 = 0o170000
  private static let socketType: UInt32 = 0o140000
  private static let regularType: UInt32 = 0o100000

  init() throws { directory = try ScratchDirectory() }

  private func mode(_ path: String) -> UInt32? {
    var status = stat()
    return lstat(path, &status) == 0 ? status.st_mode : nil
  }

  private func connects() throws -> Bool {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
  }

  @Test(
    "the file has the mode asked for, and goes with the socket", arguments: [UInt32(0o600), 0o660, 0o666])
  func mode(_ wanted: UInt32) throws {
    do {
      let listening = try ListeningSocket.unix(path: path, mode: wanted)
      #expect(mode(path) == Self.socketType | wanted)
      #expect(listening.address.description == path)
      #expect(listening.address.port == nil)
      #expect(try connects())
      guard let accepted = try listening.accept() else {
        Issue.record("no connection")
        return
      }
      #expect(bearerd_peer_uid(accepted.raw) == Int64(getuid()))
    }
    #expect(mode(path) == nil)
  }

  @Test("one left over by a dead process is replaced")
  func stale() throws {
    let dead = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(dead, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    close(dead)
    #expect(bound == 0 && mode(path) != nil)
    #expect(try !connects())
    let listening = try ListeningSocket.unix(path: path, mode: 0o600)
    #expect(try connects())
    withExtendedLifetime(listening) {}
  }

  @Test("one that answers is left alone")
  func live() throws {
    let first = try ListeningSocket.unix(path: path, mode: 0o600)
    let fault = #expect(throws: SocketFault.self) { _ = try ListeningSocket.unix(path: path, mode: 0o600) }
    #expect(fault?.code == EADDRINUSE)
    #expect(try connects())
    withExtendedLifetime(first) {}
  }

  @Test("a file that is no socket is left alone")
  func regularFile() throws {
    _ = try directory.file("s", "precious")
    let fault = #expect(throws: SocketFault.self) { _ = try ListeningSocket.unix(path: path, mode: 0o600) }
    #expect(fault?.code == EADDRINUSE)
    #expect(mode(path).map { $0 & Self.typeMask } == Self.regularType)
  }

  @Test("a path that does not fit is refused")
  func tooLong() throws {
    let long = directory.path + "/" + String(repeating: "x", count: 108)
    let fault = #expect(throws: SocketFault.self) { _ = try ListeningSocket.unix(path: long, mode: 0o600) }
    #expect(fault?.code == ENAMETOOLONG)
    #expect(SocketAddress(unixPath: "") == nil)
    #expect(SocketAddress(unixPath: "a\0b") == nil)
    #expect(SocketAddress(unixPath: String(repeating: "x", count: 107)) != nil)
  }
}
