import CLinux
import Glibc

/// A failed system call: which, and why. No text is made until somebody asks.
public struct SocketFault: Error, Equatable, Sendable, CustomStringConvertible {
  public let call: String
  public let code: Int32

  public init(call: String, code: Int32) {
    self.call = call
    self.code = code
  }

  public var description: String { "\(call): \(String(cString: strerror(code)))" }

  public var isDescriptorExhaustion: Bool { code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM }
  public var isWouldBlock: Bool { code == EAGAIN || code == EWOULDBLOCK }
}

/// `result` of a call that answers −1 with errno set.
func checked(_ result: Int32, _ call: String) throws(SocketFault) -> Int32 {
  if result < 0 { throw SocketFault(call: call, code: errno) }
  return result
}

/// Owns a descriptor: closed exactly once, when this goes.
public struct Descriptor: ~Copyable, @unchecked Sendable {
  public let raw: Int32

  public init(_ raw: Int32) { self.raw = raw }

  deinit { _ = Glibc.close(raw) }

  /// Gives the descriptor up without closing it.
  public consuming func release() -> Int32 {
    let descriptor = raw
    discard self
    return descriptor
  }
}

/// An address that can be connected or bound.
public struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
  public enum Family: Sendable { case ipv4, ipv6, unix }

  private let storage: [UInt8]
  public let family: Family

  init(storage: [UInt8], family: Family) {
    self.storage = storage
    self.family = family
  }

  /// A copy of what the kernel gave; nil for families bearerd does not speak.
  init?(_ pointer: UnsafePointer<sockaddr>, length: socklen_t) {
    switch Int32(pointer.pointee.sa_family) {
    case AF_INET: family = .ipv4
    case AF_INET6: family = .ipv6
    case AF_UNIX: family = .unix
    case _: return nil
    }
    storage = Array(UnsafeRawBufferPointer(start: pointer, count: Int(length)))
  }

  /// A literal IPv4 or IPv6 address, without brackets.
  public init?(literal host: String, port: UInt16) {
    var v4 = sockaddr_in()
    if inet_pton(AF_INET, host, &v4.sin_addr) == 1 {
      v4.sin_family = sa_family_t(AF_INET)
      v4.sin_port = port.bigEndian
      self.init(storage: withUnsafeBytes(of: &v4) { Array($0) }, family: .ipv4)
      return
    }
    var v6 = sockaddr_in6()
    if inet_pton(AF_INET6, host, &v6.sin6_addr) == 1 {
      v6.sin6_family = sa_family_t(AF_INET6)
      v6.sin6_port = port.bigEndian
      self.init(storage: withUnsafeBytes(of: &v6) { Array($0) }, family: .ipv6)
      return
    }
    return nil
  }

  /// A path of at most 107 bytes (unix(7)).
  public init?(unixPath path: String) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: address.sun_path), !bytes.contains(0) else {
      return nil
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    self.init(storage: withUnsafeBytes(of: &address) { Array($0) }, family: .unix)
  }

  func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    storage.withUnsafeBytes { bytes in
      body(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
    }
  }

  public var port: UInt16? {
    switch family {
    case .ipv4, .ipv6: UInt16(storage[2]) << 8 | UInt16(storage[3])
    case .unix: nil
    }
  }

  /// 127.0.0.0/8, ::1, and IPv4-mapped forms of the former.
  public var isLoopback: Bool {
    switch family {
    case .ipv4: storage[4] == 127
    case .ipv6:
      storage[8..<23].allSatisfy { $0 == 0 } && storage[23] == 1
        || storage[8..<18].allSatisfy { $0 == 0 } && storage[18] == 255 && storage[19] == 255 && storage[20] == 127
    case .unix: true
    }
  }

  /// 169.254.0.0/16 and fe80::/10: where cloud metadata services listen. `0.0.0.0` and `::` count too: they reach this host.
  public var isLinkLocalOrUnspecified: Bool {
    switch family {
    case .ipv4: storage[4] == 169 && storage[5] == 254 || storage[4] == 0
    case .ipv6:
      storage[8] == 0xfe && storage[9] & 0xc0 == 0x80 || storage[8..<24].allSatisfy { $0 == 0 }
        || storage[8..<18].allSatisfy { $0 == 0 } && storage[18] == 255 && storage[19] == 255
          && (storage[20] == 169 && storage[21] == 254 || storage[20] == 0)
    case .unix: false
    }
  }

  public var description: String {
    switch family {
    case .ipv4: "\(storage[4]).\(storage[5]).\(storage[6]).\(storage[7]):\(port ?? 0)"
    case .ipv6:
      withPointer { pointer, length in
        var host = [CChar](repeating: 0, count: 64)
        getnameinfo(pointer, length, &host, 64, nil, 0, NI_NUMERICHOST)
        return "[\(String(decoding: host.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))]:\(port ?? 0)"
      }
    case .unix: String(decoding: storage.dropFirst(2).prefix { $0 != 0 }, as: UTF8.self)
    }
  }
}

/// A socket that accepts, non-blocking. Connections over TCP have Nagle's algorithm off: they inherit it on Linux, which
/// saves a system call for each.
public final class ListeningSocket: @unchecked Sendable {
  public let descriptor: Int32
  public let address: SocketAddress
  private let owned: Descriptor
  private let unixPath: String?

  private init(_ descriptor: consuming Descriptor, unixPath: String? = nil) throws(SocketFault) {
    self.descriptor = descriptor.raw
    self.unixPath = unixPath
    address = try Self.localAddress(of: descriptor.raw)
    if address.family != .unix { SocketOptions.setNoDelay(descriptor.raw) }
    owned = descriptor
  }

  deinit { if let unixPath { unlink(unixPath) } }

  /// The kernel's own bound; more wait in SYN.
  private static let backlog: Int32 = 4096

  public static func tcp(_ address: SocketAddress) throws(SocketFault) -> ListeningSocket {
    let family = address.family == .ipv6 ? AF_INET6 : AF_INET
    let descriptor = Descriptor(
      try checked(socket(family, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC | O_NONBLOCK, 0), "socket"))
    var on: Int32 = 1
    setsockopt(descriptor.raw, SOL_SOCKET, SO_REUSEADDR, &on, 4)
    if family == AF_INET6 { setsockopt(descriptor.raw, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &on, 4) }
    _ = try checked(address.withPointer { bind(descriptor.raw, $0, $1) }, "bind \(address)")
    _ = try checked(listen(descriptor.raw, backlog), "listen \(address)")
    return try ListeningSocket(descriptor)
  }

  /// A socket file with `mode`. One left over by a dead process is replaced; one that answers is not.
  public static func unix(path: String, mode: UInt32) throws(SocketFault) -> ListeningSocket {
    guard let address = SocketAddress(unixPath: path) else {
      throw SocketFault(call: "bind \(path)", code: ENAMETOOLONG)
    }
    let descriptor = Descriptor(
      try checked(socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC | O_NONBLOCK, 0), "socket"))
    if address.withPointer({ connect(descriptor.raw, $0, $1) }) == 0 {
      throw SocketFault(call: "bind \(path)", code: EADDRINUSE)
    }
    // A file that is no socket refuses the connection too.
    if errno == ECONNREFUSED, isSocketFile(path) { unlink(path) }
    let fresh = Descriptor(
      try checked(socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC | O_NONBLOCK, 0), "socket"))
    // The mode must be right from the file's first moment: nobody may connect in between.
    let before = umask(0o177)
    let bound = address.withPointer { bind(fresh.raw, $0, $1) }
    let code = errno
    umask(before)
    if bound != 0 { throw SocketFault(call: "bind \(path)", code: code) }
    _ = try checked(chmod(path, mode), "chmod \(path)")
    _ = try checked(listen(fresh.raw, backlog), "listen \(path)")
    return try ListeningSocket(fresh, unixPath: path)
  }

  private static func isSocketFile(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0 && status.st_mode & 0o170000 == 0o140000  // S_IFMT, S_IFSOCK (inode(7))
  }

  /// One that the service manager opened (sd_listen_fds(3)); it stays open for the next instance.
  public static func inherited(_ raw: Int32) throws(SocketFault) -> ListeningSocket {
    let descriptor = Descriptor(raw)
    _ = try checked(bearerd_set_nonblocking(raw), "fcntl")
    _ = try checked(bearerd_set_cloexec(raw), "fcntl")
    var isListening: Int32 = 0
    var length = socklen_t(4)
    _ = try checked(getsockopt(raw, SOL_SOCKET, SO_ACCEPTCONN, &isListening, &length), "getsockopt")
    if isListening == 0 { throw SocketFault(call: "inherited socket \(raw) does not listen", code: EINVAL) }
    return try ListeningSocket(descriptor)
  }

  /// The next connection, or nil where there is none at present.
  public func accept() throws(SocketFault) -> Descriptor? {
    while true {
      let descriptor = bearerd_accept(self.descriptor)
      if descriptor >= 0 { return Descriptor(descriptor) }
      switch errno {
      case EAGAIN: return nil
      // The peer gave up before we took it (accept(2)): the next one may be good.
      case EINTR, ECONNABORTED, EPROTO, ENETDOWN, EHOSTDOWN, EHOSTUNREACH, ENETUNREACH: continue
      case let code: throw SocketFault(call: "accept", code: code)
      }
    }
  }

  private static func localAddress(of descriptor: Int32) throws(SocketFault) -> SocketAddress {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let result = withUnsafeMutableBytes(of: &storage) {
      getsockname(descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
    }
    _ = try checked(result, "getsockname")
    let address = withUnsafeBytes(of: &storage) {
      SocketAddress($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), length: length)
    }
    guard let address else { throw SocketFault(call: "getsockname", code: EAFNOSUPPORT) }
    return address
  }
}

public enum SocketOptions {
  /// Small writes leave at once: bearerd gathers what belongs together itself.
  public static func setNoDelay(_ descriptor: Int32) {
    var on: Int32 = 1
    setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4)
  }

  /// Lets the peer send some 4 MiB ahead, or what half of net.ipv4.tcp_rmem's maximum allows, until the connection ends.
  ///
  /// SO_RCVLOWAT widens the receive buffer to what has to fit (tcp_set_rcvlowat, since Linux 4.18) and leaves the kernel's
  /// own tuning on, which SO_RCVBUF would end. It is one again at once: no byte is kept waiting for others.
  public static func widenReceiveWindow(_ descriptor: Int32) {
    for bytes: Int32 in [4 << 20, 1] {
      var least = bytes
      setsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &least, 4)
    }
  }

  /// Close sends RST: the only way an HTTP/1.0 client can learn that a body was cut (I9).
  public static func resetOnClose(_ descriptor: Int32) {
    var linger = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
  }
}
