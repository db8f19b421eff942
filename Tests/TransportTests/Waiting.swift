// The importer attributes pthread_mutex_t to the first C module that declares it.
import CLinux
import COpenSSL
import Dispatch
import Glibc
import Transport

struct WaitedTooLong: Error {}

/// What other threads report, taken out in order; waits with a deadline, never by sleeping.
///
/// Behind a POSIX mutex, because the thread sanitizer does not see the standard library's.
final class Inbox<Element: Sendable>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let arrived = DispatchSemaphore(value: 0)
  private var elements: [Element] = []
  private var takenCount = 0

  init() {
    mutex = .allocate(capacity: 1)
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  func put(_ element: Element) {
    pthread_mutex_lock(mutex)
    elements.append(element)
    pthread_mutex_unlock(mutex)
    arrived.signal()
  }

  func next() throws -> Element {
    if arrived.wait(timeout: .now() + .seconds(30)) == .timedOut { throw WaitedTooLong() }
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    takenCount += 1
    return elements[takenCount - 1]
  }

  func next(_ count: Int) throws -> [Element] { try (0..<count).map { _ in try next() } }

  /// Everything that was ever put.
  var all: [Element] {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return elements
  }
}

/// A loop that is stopped with its owner.
final class RunningLoop: Sendable {
  let loop: EventLoop

  init(index: Int = 0) throws { loop = try EventLoop(index: index) }
  deinit { loop.stop() }

  /// Runs `body` on the loop's queue and waits for it.
  @discardableResult
  func run<Result: Sendable>(_ body: @escaping @Sendable (EventLoop) throws -> Result) throws -> Result {
    let answer = Inbox<Swift.Result<Result, any Error>>()
    loop.post { [loop] in answer.put(Swift.Result { try body(loop) }) }
    return try answer.next().get()
  }

  /// Returns after every deadline that is due and everything posted before.
  func settle() throws {
    let passed = Inbox<Bool>()
    let marker = DeadlineMarker { passed.put(true) }
    try run { loop in
      marker.token = loop.enroll(marker)
      loop.setDeadline(loop.now, for: marker.token)
    }
    _ = try passed.next()
    try run { $0.dismiss(marker.token) }
  }
}

private final class DeadlineMarker: LoopMember, @unchecked Sendable {
  var token = MemberToken.unassigned
  private let passed: @Sendable () -> Void

  init(_ passed: @escaping @Sendable () -> Void) { self.passed = passed }
  func ready(_ readiness: Readiness) {}
  func deadlinePassed() { passed() }
}

/// A blocking or non-blocking pair of connected Unix stream sockets.
func socketPair(nonBlocking: Bool = true) throws -> (Int32, Int32) {
  var pair: [Int32] = [-1, -1]
  let kind = Int32(SOCK_STREAM.rawValue) | O_CLOEXEC | (nonBlocking ? O_NONBLOCK : 0)
  guard socketpair(AF_UNIX, kind, 0, &pair) == 0 else { throw SocketFault(call: "socketpair", code: errno) }
  return (pair[0], pair[1])
}

/// A blocking TCP socket that is connected to `port` of 127.0.0.1.
func connectedSocket(port: UInt16) throws -> Int32 {
  let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
  guard descriptor >= 0 else { throw SocketFault(call: "socket", code: errno) }
  if connectToLoopback(descriptor, port: port) != 0 {
    let code = errno
    close(descriptor)
    throw SocketFault(call: "connect", code: code)
  }
  return descriptor
}

func connectToLoopback(_ descriptor: Int32, port: UInt16) -> Int32 {
  var address = loopbackAddress(port)
  return withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
}

/// A blocking listening socket on 127.0.0.1 and a port of the kernel's choice.
func listeningSocket(backlog: Int32 = 128) throws -> (descriptor: Int32, port: UInt16) {
  let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
  var address = loopbackAddress(0)
  var length = socklen_t(MemoryLayout<sockaddr_in>.size)
  let isListening = withUnsafeMutablePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(descriptor, $0, length) == 0 && listen(descriptor, backlog) == 0
        && getsockname(descriptor, $0, &length) == 0
    }
  }
  guard isListening else { throw SocketFault(call: "listen", code: errno) }
  return (descriptor, UInt16(bigEndian: address.sin_port))
}

private func loopbackAddress(_ port: UInt16) -> sockaddr_in {
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
  address.sin_port = port.bigEndian
  return address
}

/// A port of 127.0.0.1 where nobody listens: bound, so that nobody else gets it, until the descriptor is closed.
func silentPort() throws -> (descriptor: Int32, port: UInt16) {
  let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
  var address = loopbackAddress(0)
  var length = socklen_t(MemoryLayout<sockaddr_in>.size)
  let isBound = withUnsafeMutablePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
    }
  }
  guard isBound else { throw SocketFault(call: "bind", code: errno) }
  return (descriptor, UInt16(bigEndian: address.sin_port))
}

/// Writes all of `bytes` to a blocking descriptor; false once the peer is gone.
@discardableResult
func writeAll(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
  var sent = 0
  while sent < bytes.count {
    let count = bytes[sent...].withUnsafeBytes {
      send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
    }
    if count <= 0 { return false }
    sent += count
  }
  return true
}

/// A new directory, removed with its owner.
final class ScratchDirectory {
  let path: String

  init() throws {
    var template = Array("/tmp/transport-tests.XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw SocketFault(call: "mkdtemp", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    for name in names { unlink("\(path)/\(name)") }
    rmdir(path)
  }

  var names: [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != "." && name != ".." { names.append(name) }
    }
    return names
  }

  /// Writes a file and answers its path.
  func file(_ name: String, _ text: String) throws -> String {
    let whole = "\(path)/\(name)"
    let descriptor = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SocketFault(call: "open", code: errno) }
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    guard write(descriptor, bytes, bytes.count) == bytes.count else {
      throw SocketFault(call: "write", code: errno)
    }
    return whole
  }
}
