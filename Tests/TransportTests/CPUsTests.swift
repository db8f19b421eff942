import FoundationEssentials
import Glibc
import Testing

@testable import Transport

@Suite("SPEC §1: as many loops as there are CPUs to keep busy") struct CPUsTests {
  /// A tree of files, and the quota that is read from it.
  private func quota(_ files: [String: String]) throws -> Int? {
    let root = FileManager.default.temporaryDirectory.appending(path: "bearerd-cpus-\(UUID())")
    defer { try? FileManager.default.removeItem(at: root) }
    for (name, text) in files {
      let path = root.appending(path: name)
      try FileManager.default.createDirectory(at: path.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data(text.utf8).write(to: path)
    }
    return CPUs.quota(root: root.path)
  }

  @Test(
    "cgroup v2: cpu.max of the process's own group",
    arguments: [("150000 100000\n", 2), ("100000 100000\n", 1), ("100001 100000\n", 2), ("20000 100000\n", 1)])
  func own(text: String, expected: Int) throws {
    let files = [
      "proc/self/cgroup": "0::/system.slice/bearerd.service\n",
      "sys/fs/cgroup/system.slice/bearerd.service/cpu.max": text,
    ]
    #expect(try quota(files) == expected)
  }

  @Test("the group above may allow less, and so may the root of a container")
  func above() throws {
    #expect(
      try quota([
        "proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/b.service/cpu.max": "800000 100000\n",
        "sys/fs/cgroup/a.slice/cpu.max": "300000 100000\n",
      ]) == 3)
    #expect(try quota(["proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"]) == 4)
    #expect(try quota(["proc/self/cgroup": "0::/not/seen\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"]) == 4)
  }

  @Test("cgroup v1: cfs_quota_us, below either of its usual names")
  func legacy() throws {
    for directory in ["cpu", "cpu,cpuacct"] {
      #expect(
        try quota([
          "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/1f\n0::/\n",
          "sys/fs/cgroup/\(directory)/docker/1f/cpu.cfs_quota_us": "250000\n",
          "sys/fs/cgroup/\(directory)/docker/1f/cpu.cfs_period_us": "100000\n",
        ]) == 3)
    }
  }

  @Test(
    "no quota, and what is none",
    arguments: ["max 100000\n", "", "0 100000\n", "-1 100000\n", "100000 0\n", "100000\n", "many 100000\n"])
  func none(text: String) throws {
    #expect(try quota(["proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": text]) == nil)
    #expect(
      try quota([
        "proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
      ]) == nil)
    #expect(try quota([:]) == nil)
  }

  @Test("at least one, and no more than the machine has")
  func available() { #expect(1...max(1, sysconf(Int32(_SC_NPROCESSORS_CONF))) ~= CPUs.available) }
}
