import Foundation

/// An origin on loopback that is played by the test: it reads and writes exactly the bytes it is told to.
final class RawOrigin {
  private let descriptor: Int32
  let port: UInt16

  init() throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let listening = descriptor
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listening, $0, length) == 0 && listen(listening, 64) == 0 ? getsockname(listening, $0, &length) : -1
      }
    }
    if code != 0 { throw RawClient.Refused(code: errno) }
    port = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(descriptor) }

  /// The next connection; throws where none comes in time.
  func accept(within seconds: Double = 20) throws -> RawClient {
    guard let connection = connection(within: seconds) else { throw TimedOut(description: "nobody connected") }
    return connection
  }

  /// Whether somebody connects after all.
  func isDialled(within seconds: Double) -> Bool { connection(within: seconds) != nil }

  /// Whether a connection waits to be accepted.
  func isWaiting(within seconds: Double) -> Bool {
    var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&waiting, 1, Int32(seconds * 1000)) == 1
  }

  private func connection(within seconds: Double) -> RawClient? {
    var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    guard poll(&waiting, 1, Int32(seconds * 1000)) == 1 else { return nil }
    let accepted = Foundation.accept(descriptor, nil, nil)
    return accepted < 0 ? nil : RawClient(taking: accepted)
  }
}

/// A daemon before an origin of the test's own, in both modes without a token: what passes is HTTP and nothing else.
final class RawScene {
  let scratch: Scratch
  let origin: RawOrigin
  let daemon: Bearerd

  /// - Parameters:
  ///   - tables: further tables of the configuration, or keys of `[upstream.raw]` at their beginning.
  init(top: String = "", _ tables: String = "", launcher: [String] = []) throws {
    scratch = try Scratch()
    origin = try RawOrigin()
    let file = try scratch.write(
      """
      loops = 1
      state_directory = "\(scratch("state"))"
      pseudonym = "here"
      \(top)
      [[listener]]
      tcp = "127.0.0.1:0"
      [admin]
      address = "127.0.0.1:0"
      [upstream.raw]
      origin = "http://127.0.0.1:\(origin.port)"
      auth = "none"
      default = true
      \(tables)
      """, to: "bearerd.toml")
    daemon = try Bearerd(configuration: file, in: scratch, launcher: launcher)
  }

  func client() throws -> RawClient { try RawClient(port: daemon.port) }
}
