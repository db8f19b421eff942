import Foundation

/// A file system of its own that is quickly full; unmounted when this is released.
final class SmallDisk {
  let path: String
  private let scratch: Scratch
  private static let bytes = 512 << 10

  static let isPossible = (try? SmallDisk()) != nil

  init() throws {
    scratch = try Scratch()
    path = scratch("disk")
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    guard mount("tmpfs", path, "tmpfs", UInt(MS_NOSUID | MS_NODEV), "size=\(Self.bytes),mode=0700") == 0 else {
      throw Trouble("mount: \(String(cString: strerror(errno)))")
    }
  }

  deinit { umount2(path, Int32(MNT_DETACH)) }

  /// Takes every free byte.
  func fill() throws {
    let descriptor = open(path + "/filler", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { close(descriptor) }
    let page = [UInt8](repeating: 0x66, count: 4096)
    var count = 0
    repeat { count = write(descriptor, page, page.count) } while count > 0
    guard count < 0, errno == ENOSPC else { throw Trouble("the disk did not fill up") }
  }

  func free() throws { try FileManager.default.removeItem(atPath: path + "/filler") }
}
