import Admin
import Glibc
import Testing

@Suite("SPEC §12: log lines") struct LineLogTests {
  /// A pipe that refuses what does not fit, as a full disk does.
  private final class NarrowPipe {
    let ends: [Int32]

    init() {
      var ends: [Int32] = [0, 0]
      #expect(pipe(&ends) == 0)
      for end in ends { #expect(fcntl(end, F_SETFL, O_NONBLOCK) == 0) }
      self.ends = ends
    }

    deinit { for end in ends { close(end) } }

    /// What it held; afterwards there is room.
    func emptied() -> String {
      var all: [UInt8] = []
      var piece = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = read(ends[0], &piece, piece.count)
        if count <= 0 { return String(decoding: all, as: UTF8.self) }
        all += piece[..<count]
      }
    }
  }

  @Test("A descriptor that refused lines gets the later ones, whole, and how many are missing")
  func goesOnAfterRefusal() {
    let pipe = NarrowPipe()
    let log = LineLog(descriptor: pipe.ends[1])
    let long = String(repeating: "x", count: 999)
    for _ in 0..<100 {
      log.write(long)
      log.flush()
    }
    let before = pipe.emptied().split(separator: "\n")
    #expect(before.count < 100 && before.first?.utf8.count == 999)
    log.write("later")
    log.flush()
    let after = pipe.emptied()
    #expect(after.hasSuffix("later\n"), "\(after)")
    #expect(after.contains(" log lines dropped: "), "\(after)")
    #expect(after.split(separator: "\n").allSatisfy { $0 == "later" || $0.hasPrefix("(") || $0.hasPrefix("x") }, "\(after)")
  }
}
