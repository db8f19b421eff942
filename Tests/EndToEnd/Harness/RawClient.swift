import Foundation

/// A TCP or Unix connection that sends exactly the bytes it is told to. One thread may send while another receives.
final class RawClient: @unchecked Sendable {
  private var descriptor: Int32

  struct Refused: Error { var code: Int32 }

  init(port: UInt16) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var limit = timeval(tv_sec: 10, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    if code != 0 { throw Refused(code: errno) }
  }

  /// A connection that is there already, such as one that was accepted.
  init(taking descriptor: Int32) {
    self.descriptor = descriptor
    var limit = timeval(tv_sec: 10, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit { leave() }

  /// Closes the connection, now rather than at the end of the test.
  func leave() {
    if descriptor >= 0 { close(descriptor) }
    descriptor = -1
  }

  /// Ends the connection so that the peer sees an abort, not a half-close.
  func reset() {
    var now = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, socklen_t(MemoryLayout<linger>.size))
    leave()
  }

  func send(_ text: String) { send(Array(text.utf8)) }

  func send(_ bytes: [UInt8]) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count <= 0 { return }
      rest = rest.dropFirst(count)
    }
  }

  /// Sends what the connection takes now; how many bytes that were.
  func offer(_ bytes: ArraySlice<UInt8>) -> Int {
    bytes.withUnsafeBytes {
      max(0, Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)))
    }
  }

  func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// How a connection ended, as far as it was read.
  enum Ending: Equatable {
    case stopped
    case closed
    case reset
    case silent
  }

  /// So many bytes, or fewer where the connection ends or nothing comes.
  func receive(count wanted: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while bytes.count < wanted {
      let count = recv(descriptor, &piece, min(piece.count, wanted - bytes.count), 0)
      if count <= 0 { break }
      bytes += piece[..<count]
    }
    return bytes
  }

  /// Whether nothing comes, and nothing ends, for so long.
  func isSilent(for seconds: Double) -> Bool {
    var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&waiting, 1, Int32(seconds * 1000)) == 0
  }

  /// Everything up to the end of the connection, or until `stop` has arrived.
  func receive(until stop: String? = nil) -> (text: String, ending: Ending) {
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      if let stop, String(decoding: bytes, as: UTF8.self).contains(stop) { break }
      let count = recv(descriptor, &piece, piece.count, 0)
      if count == 0 { return (String(decoding: bytes, as: UTF8.self), .closed) }
      if count < 0 {
        return (String(decoding: bytes, as: UTF8.self), errno == ECONNRESET ? .reset : .silent)
      }
      bytes += piece[..<count]
    }
    return (String(decoding: bytes, as: UTF8.self), .stopped)
  }
}
