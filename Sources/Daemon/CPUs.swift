import Glibc

/// How many CPUs this process may keep busy: its affinity, and the quota of its control group.
enum CPUs {
  static var available: Int {
    let online = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    return max(1, min(online, quota ?? online))
  }

  /// cgroup v2 `cpu.max`: `QUOTA PERIOD` in microseconds, or `max PERIOD`. Rounded up, so that 1.5 CPUs get two loops.
  private static var quota: Int? {
    guard let text = read("/sys/fs/cgroup/cpu.max") else { return nil }
    let parts = text.split(whereSeparator: { $0 == " " || $0 == "\n" })
    guard parts.count == 2, let quota = Int(parts[0]), let period = Int(parts[1]), period > 0 else { return nil }
    return (quota + period - 1) / period
  }

  private static func read(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 64)
    let count = Glibc.read(descriptor, &buffer, buffer.count)
    return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
  }
}
