import CLinux
import Configuration
import Dispatch
import Glibc

/// What only the start needed: the heap of the configuration's parsing, and the code that has run for the last time.
enum StartMemory {
  /// In half a second: by then the sessions have been read, too.
  static func releaseSoon() { DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + 0.5) { release() } }

  /// Gives it back to the kernel. Code that is wanted after all comes again from the page cache (measured: 20.3 MiB
  /// resident before, 7.0 after).
  private static func release() {
    bearerd_release_freed_memory()
    for mapping in codeMappings() { madvise(mapping.baseAddress, mapping.count, MADV_DONTNEED) }
  }

  /// The executable mappings of files: never written to, so that nothing is lost.
  private static func codeMappings() -> [UnsafeMutableRawBufferPointer] {
    guard case .success(let maps) = Configuration.readFile("/proc/self/maps") else { return [] }
    var found: [UnsafeMutableRawBufferPointer] = []
    for line in String(decoding: maps, as: UTF8.self).split(separator: "\n") {
      // START-END PERMISSIONS OFFSET DEVICE INODE PATH (proc_pid_maps(5))
      let parts = line.split(separator: " ")
      guard parts.count >= 6, parts[1] == "r-xp", parts[5].hasPrefix("/") else { continue }
      let ends = parts[0].split(separator: "-").compactMap { UInt(String($0), radix: 16) }
      guard ends.count == 2, ends[1] > ends[0], let start = UnsafeMutableRawPointer(bitPattern: ends[0]) else {
        continue
      }
      found.append(UnsafeMutableRawBufferPointer(start: start, count: Int(ends[1] - ends[0])))
    }
    return found
  }
}
