internal import CLinux
internal import Glibc

/// Which call failed, and its errno.
struct DiskError: Error {
  var call: Disk.Call
  var code: Int32
}

/// An open descriptor that has one owner; the end of its life closes it.
struct Descriptor: ~Copyable {
  let number: Int32
  let path: String

  deinit {
    // Never repeated: on Linux the descriptor is gone even where close is interrupted (close(2)).
    close(number)
  }
}

/// The file system calls of the store: EINTR is retried here and errno read once.
///
/// Tests put a `fault` in front of the kernel; nothing else differs between them and the daemon.
package struct Disk: Sendable {
  package enum Call: Sendable, CaseIterable {
    case open, lock, read, write, allocate, truncate, sync, syncDirectory, rename, unlink, makeDirectory,
      status,
      list
  }

  /// Asked before each call: nil lets it happen, an errno fails it, and 0 makes `sync` and `syncDirectory`
  /// succeed without being done.
  package typealias Fault = @Sendable (_ call: Call, _ path: String) -> Int32?

  private let fault: Fault?

  package init(fault: Fault? = nil) { self.fault = fault }

  private func perform(_ call: Call, _ path: String, _ body: () -> Int) throws(DiskError) -> Int {
    while true {
      if let injected = fault?(call, path) {
        if injected == EINTR { continue }
        if injected == 0 {
          precondition(call == .sync || call == .syncDirectory, "only a sync can be left out")
          return 0
        }
        throw DiskError(call: call, code: injected)
      }
      let result = body()
      if result >= 0 { return result }
      let code = errno
      if code != EINTR { throw DiskError(call: call, code: code) }
    }
  }

  /// Never blocks, and is not inherited by a child; a symbolic link at the path's end is an error unless it
  /// `followsLinks`.
  func open(
    _ path: String, _ flags: Int32, mode: UInt32 = 0, followsLinks: Bool = false
  ) throws(DiskError) -> Descriptor {
    let all = flags | O_CLOEXEC | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW)
    let number = try perform(.open, path) { Int(Glibc.open(path, all, mode)) }
    return Descriptor(number: Int32(number), path: path)
  }

  /// false where another open file description holds it.
  func tryLock(_ descriptor: borrowing Descriptor) throws(DiskError) -> Bool {
    let number = descriptor.number
    do {
      _ = try perform(.lock, descriptor.path) { Int(bearerd_ofd_try_lock(number)) }
      return true
    } catch {
      if error.code == EAGAIN || error.code == EACCES { return false }
      throw error
    }
  }

  /// Whether another open file description holds it; takes nothing, and needs no more than a reader's descriptor.
  func isLocked(_ descriptor: borrowing Descriptor) throws(DiskError) -> Bool {
    let number = descriptor.number
    return try perform(.lock, descriptor.path) { Int(bearerd_ofd_is_locked(number)) } == 1
  }

  /// Up to `bytesMax` bytes from the start; one more than that means the file is larger.
  func read(_ descriptor: borrowing Descriptor, bytesMax: Int) throws(DiskError) -> [UInt8] {
    let number = descriptor.number
    let size = min(Int(try status(descriptor).st_size), bytesMax) + 1
    var bytes = [UInt8](repeating: 0, count: size)
    var filled = 0
    while filled < bytes.count {
      let at = filled
      let count = try perform(.read, descriptor.path) {
        bytes.withUnsafeMutableBytes { Glibc.pread(number, $0.baseAddress! + at, size - at, off_t(at)) }
      }
      if count == 0 { break }
      filled += count
    }
    bytes.removeLast(bytes.count - filled)
    return bytes
  }

  /// All of `bytes`, from the file's start.
  func write(_ descriptor: borrowing Descriptor, _ bytes: [UInt8]) throws(DiskError) {
    let number = descriptor.number
    var written = 0
    while written < bytes.count {
      let at = written
      written += try perform(.write, descriptor.path) {
        bytes.withUnsafeBytes { Glibc.pwrite(number, $0.baseAddress! + at, bytes.count - at, off_t(at)) }
      }
    }
  }

  /// Gives the file `count` bytes that later writes cannot fail for lack of, beyond its end where the file system
  /// can, else by making it that long.
  func allocate(_ descriptor: borrowing Descriptor, count: Int) throws(DiskError) {
    let number = descriptor.number
    _ = try perform(.allocate, descriptor.path) { Int(bearerd_allocate(number, off_t(count))) }
  }

  /// Cuts the file to `count` bytes and frees what was allocated beyond them.
  func truncate(_ descriptor: borrowing Descriptor, count: Int) throws(DiskError) {
    let number = descriptor.number
    _ = try perform(.truncate, descriptor.path) { Int(ftruncate(number, off_t(count))) }
  }

  func sync(_ descriptor: borrowing Descriptor) throws(DiskError) {
    let number = descriptor.number
    _ = try perform(.sync, descriptor.path) { Int(fsync(number)) }
  }

  /// Makes the names in a directory durable.
  func syncDirectory(_ path: String) throws(DiskError) {
    let directory = try openDirectory(path)
    let number = directory.number
    _ = try perform(.syncDirectory, path) { Int(fsync(number)) }
  }

  private func openDirectory(_ path: String) throws(DiskError) -> Descriptor {
    // Follows a link: a state directory may be one (systemd's DynamicUser makes it so).
    let number = try perform(.open, path) { Int(Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) }
    return Descriptor(number: Int32(number), path: path)
  }

  /// Returns the file that had the name before, still open: the kernel frees its blocks when it is closed, which a
  /// disk that is told of each free block makes slow (2 ms, measured), and nothing that waits should wait for that.
  @discardableResult
  func rename(_ from: String, to: String) throws(DiskError) -> Descriptor? {
    let replaced = try? open(to, O_RDONLY)
    _ = try perform(.rename, to) { Int(Glibc.rename(from, to)) }
    return replaced
  }

  /// false where there was nothing.
  @discardableResult
  func unlink(_ path: String) throws(DiskError) -> Bool {
    do {
      _ = try perform(.unlink, path) { Int(Glibc.unlink(path)) }
      return true
    } catch {
      if error.code == ENOENT { return false }
      throw error
    }
  }

  /// 0700; false where it exists already.
  func makeDirectory(_ path: String) throws(DiskError) -> Bool {
    do {
      _ = try perform(.makeDirectory, path) { Int(mkdir(path, 0o700)) }
      return true
    } catch {
      if error.code == EEXIST { return false }
      throw error
    }
  }

  func status(_ descriptor: borrowing Descriptor) throws(DiskError) -> stat {
    let number = descriptor.number
    var status = stat()
    _ = try perform(.status, descriptor.path) { Int(fstat(number, &status)) }
    return status
  }

  func status(_ path: String, followsLinks: Bool = false) throws(DiskError) -> stat {
    var status = stat()
    _ = try perform(.status, path) { Int(followsLinks ? stat(path, &status) : lstat(path, &status)) }
    return status
  }

  /// The names in a directory, in no order, without `.` and `..`.
  func list(_ path: String, _ body: (String) -> Void) throws(DiskError) {
    var stream: OpaquePointer?
    _ = try perform(.list, path) {
      stream = opendir(path)
      return stream == nil ? -1 : 0
    }
    guard let stream else { return }
    defer { closedir(stream) }
    while true {
      errno = 0
      guard let entry = readdir(stream) else {
        let code = errno
        if code != 0 { throw DiskError(call: .list, code: code) }
        return
      }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
      }
      if name != ".", name != ".." { body(name) }
    }
  }
}

/// Overwrites bytes that held tokens, where a plain loop could be optimized away.
func wipe(_ bytes: inout [UInt8]) {
  bytes.withUnsafeMutableBytes { buffer in
    if let start = buffer.baseAddress { explicit_bzero(start, buffer.count) }
  }
}
