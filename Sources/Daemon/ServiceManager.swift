import CLinux
import Glibc

/// A listening socket that the service manager opened (sd_listen_fds(3)).
public struct InheritedSocket: Sendable {
  public var descriptor: Int32
  /// `FileDescriptorName=`; "unknown" where none was given.
  public var name: String
}

/// The two protocols between systemd and a service, both a few lines: sockets by number, state by datagram.
public struct ServiceManager: Sendable {
  public let sockets: [InheritedSocket]
  private let notifySocket: String?
  /// How often the watchdog wants to hear from us; nil: never.
  public let watchdogMicroseconds: UInt64?

  private static let firstDescriptor: Int32 = 3

  public init(environment: [String: String]) {
    notifySocket = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
    let isForUs = environment["WATCHDOG_PID"].map { $0 == String(getpid()) } ?? true
    watchdogMicroseconds = isForUs ? environment["WATCHDOG_USEC"].flatMap(UInt64.init) : nil
    guard environment["LISTEN_PID"] == String(getpid()), let count = environment["LISTEN_FDS"].flatMap(Int32.init),
      count > 0, count < 1024
    else {
      sockets = []
      return
    }
    let names = (environment["LISTEN_FDNAMES"] ?? "").split(separator: ":", omittingEmptySubsequences: false)
    sockets = (0..<count).map { index in
      _ = bearerd_set_cloexec(Self.firstDescriptor + index)
      let name = Int(index) < names.count ? String(names[Int(index)]) : "unknown"
      return InheritedSocket(descriptor: Self.firstDescriptor + index, name: name)
    }
  }

  /// Tells the service manager, if there is one (sd_notify(3)); lines of `NAME=value`.
  public func notify(_ state: String) {
    guard let path = notifySocket else { return }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    var bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
    // An abstract socket's name begins with NUL.
    if bytes.first == UInt8(ascii: "@") { bytes[0] = 0 }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let length = socklen_t(MemoryLayout.offset(of: \sockaddr_un.sun_path).map { $0 + bytes.count } ?? 0)
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | O_CLOEXEC, 0)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    let text = Array(state.utf8)
    withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        _ = sendto(descriptor, text, text.count, Int32(MSG_NOSIGNAL), $0, length)
      }
    }
  }
}
