import CLinux
import Glibc

/// A listening socket on 127.0.0.1 and a port of the kernel's choice. Owns its descriptor.
final class Listener: Sendable {
  let port: UInt16
  private let descriptor: Int32

  init() throws(MockServerError) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw .systemCall(name: "socket", errno: errno) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let failed: String? = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        if bind(descriptor, generic, length) != 0 { return "bind" }
        if listen(descriptor, 1024) != 0 { return "listen" }
        return getsockname(descriptor, generic, &length) != 0 ? "getsockname" : nil
      }
    }
    if let failed {
      let code = errno
      close(descriptor)
      throw .systemCall(name: failed, errno: code)
    }
    self.descriptor = descriptor
    port = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(descriptor) }

  /// Hands every connection to `take`, which owns its descriptor from then on, until `shut`.
  func acceptEach(_ take: (Int32) -> Void) {
    while true {
      let connection = bearerd_accept(descriptor)
      if connection >= 0 {
        // The threads wait in read and write; accept4 was only wanted for close-on-exec.
        _ = fcntl(connection, F_SETFL, 0)
        var on: Int32 = 1
        setsockopt(connection, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        take(connection)
        continue
      }
      switch errno {
      case EINTR, ECONNABORTED: continue
      case EMFILE, ENFILE, ENOBUFS, ENOMEM:
        // Nothing to do but let others close theirs; the pause ends early when `shut` is called.
        var entry = pollfd(fd: descriptor, events: 0, revents: 0)
        if poll(&entry, 1, 20) != 0 { return }
      default: return
      }
    }
  }

  /// Ends `acceptEach`, which may be waiting on another thread, and refuses later connections.
  func shut() { shutdown(descriptor, Int32(SHUT_RDWR)) }
}
