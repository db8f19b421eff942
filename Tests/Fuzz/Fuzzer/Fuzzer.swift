import FuzzTargets
import Glibc

/// libFuzzer's driver around one target, which `FUZZ_TARGET` names: one executable is linked, not one for each. All
/// arguments are libFuzzer's.
@main struct Fuzzer {
  static func main() {
    guard known() != nil else {
      let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: " ")
      tell("FUZZ_TARGET is none of: \(names)")
      exit(2)
    }
    var count = CommandLine.argc
    var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
    exit(runDriver(&count, &arguments, testOneInput))
  }
}

/// The package manager gives the executable a `main` of its own, so libFuzzer's is called by name.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ testOneInput: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private func known() -> FuzzTarget? {
  getenv("FUZZ_TARGET").flatMap { FuzzTarget(rawValue: String(cString: $0)) }
}

private let target = known()

private func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  do {
    try target?.check(Array(UnsafeBufferPointer(start: start, count: count)))
  } catch {
    tell("\(target.map(\.rawValue) ?? ""): \(error)")
    abort()
  }
  return 0
}

private func tell(_ text: String) {
  let line = Array((text + "\n").utf8)
  _ = write(STDERR_FILENO, line, line.count)
}
