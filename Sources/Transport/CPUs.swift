import CLinux
import Glibc

/// How many CPUs this process may keep busy, for the number of its loops.
public enum CPUs {
  /// The CPUs of its affinity, fewer where a quota of its control groups allows fewer: at least 1.
  public static var available: Int { min(max(1, Int(bearerd_affinity_count())), quota(root: "") ?? .max) }

  /// The least quota of the process's control group and those above it, in whole CPUs, or nil: rounded up, so that 1.5
  /// CPUs get two loops. Both versions of cgroups(7); in a container the outer groups cannot be seen, and need not be.
  ///
  /// - Parameter root: what stands before `/proc` and `/sys`.
  static func quota(root: String) -> Int? {
    guard let groups = read("\(root)/proc/self/cgroup") else { return nil }
    var least: Int?
    for line in groups.split(separator: "\n") {
      // hierarchy-ID:controller-list:cgroup-path
      let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard parts.count == 3, parts[1].isEmpty || parts[1].split(separator: ",").contains("cpu") else { continue }
      for directory in directories(above: parts[2]) {
        let found =
          parts[1].isEmpty
          ? unified("\(root)/sys/fs/cgroup\(directory)")
          : ["cpu", parts[1]].compactMap { legacy("\(root)/sys/fs/cgroup/\($0)\(directory)") }.first
        if let found { least = min(least ?? found, found) }
      }
    }
    return least
  }

  /// `/a/b` → `/a/b`, `/a`, and the root.
  private static func directories(above path: Substring) -> [Substring] {
    var found = [path == "/" ? "" : path]
    while let slash = found[found.count - 1].lastIndex(of: "/") { found.append(found[found.count - 1][..<slash]) }
    return found
  }

  /// `QUOTA PERIOD` in microseconds, or `max PERIOD`.
  private static func unified(_ directory: String) -> Int? {
    guard let parts = read("\(directory)/cpu.max")?.split(whereSeparator: \.isWhitespace), parts.count == 2,
      let quota = Int(parts[0]), let period = Int(parts[1])
    else { return nil }
    return whole(quota, period)
  }

  /// -1 stands for none.
  private static func legacy(_ directory: String) -> Int? {
    guard let quota = readNumber("\(directory)/cpu.cfs_quota_us"),
      let period = readNumber("\(directory)/cpu.cfs_period_us")
    else { return nil }
    return whole(quota, period)
  }

  private static func whole(_ quota: Int, _ period: Int) -> Int? {
    quota > 0 && period > 0 ? (quota - 1) / period + 1 : nil
  }

  private static func readNumber(_ path: String) -> Int? {
    read(path)?.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) }
  }

  private static func read(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = Glibc.read(descriptor, &buffer, buffer.count)
    return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
  }
}
