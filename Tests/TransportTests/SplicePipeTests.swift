import CLinux
import Glibc
import Testing
import Transport

@Suite("splice(2): content passes through a pipe of the loop's") struct SplicePipeTests {
  private let pool = PipePool()

  /// A channel and the descriptor of its other end.
  private func ends() throws -> (Channel, Int32) {
    signal(SIGPIPE, SIG_IGN)
    let (near, far) = try socketPair()
    return (Channel(Descriptor(near)), far)
  }

  @Test("what one socket gives the other gets, no more than was asked for")
  func passes() throws {
    let (from, source) = try ends()
    let (to, sink) = try ends()
    defer { for end in [source, sink] { close(end) } }
    let pipe = try #require(pool.borrow())
    writeAll(source, Array(1...10))
    from.note(.readable)
    #expect(from.take(into: pipe, max: 7) == .bytes(7))
    #expect(pipe.count == 7)
    #expect(to.send(pipe) == .bytes(7))
    #expect(pipe.isEmpty)
    var received = [UInt8](repeating: 0, count: 20)
    #expect(recv(sink, &received, received.count, 0) == 7)
    #expect(received.prefix(7) == [1, 2, 3, 4, 5, 6, 7])
    #expect(from.take(into: pipe, max: 7) == .bytes(3))
    #expect(to.send(pipe) == .bytes(3))
    #expect(from.take(into: pipe, max: 7) == .wouldBlock)
    #expect(!from.mayRead)
  }

  @Test("what the sink does not take stays in the pipe, and its end is told")
  func full() throws {
    let (from, source) = try ends()
    let (to, sink) = try ends()
    defer { close(source) }
    from.note(.readable)
    var moved = 0
    while true {
      let pipe = try #require(pool.borrow())
      writeAll(source, [UInt8](repeating: 7, count: 4096))
      #expect(from.take(into: pipe, max: 4096) == .bytes(4096))
      let result = to.send(pipe)
      if result == .wouldBlock {
        #expect(pipe.count == 4096 && !to.mayWrite)
        close(sink)
        #expect(to.send(pipe) == .failed(.socket(EPIPE)))
        break
      }
      #expect(result == .bytes(4096))
      moved += 4096
      pool.giveBack(pipe)
      if moved > 64 << 20 {
        Issue.record("the sink never filled")
        break
      }
    }
  }

  @Test("the end of the source is told as its reads tell it")
  func end() throws {
    let (from, source) = try ends()
    let pipe = try #require(pool.borrow())
    close(source)
    from.note(.hangup)
    #expect(from.take(into: pipe, max: 100) == .endOfStream)
    #expect(pipe.isEmpty)
  }

  @Test("an empty pipe is lent again, one that holds something never; no more than 64 at a time (I12)")
  func lending() throws {
    let first = try #require(pool.borrow())
    pool.giveBack(first)
    let second = try #require(pool.borrow())
    #expect(second === first)
    let (from, source) = try ends()
    defer { close(source) }
    writeAll(source, [1])
    from.note(.readable)
    #expect(from.take(into: second, max: 1) == .bytes(1))
    pool.giveBack(second)
    var lent: [SplicePipe] = []
    for _ in 0..<64 { lent.append(try #require(pool.borrow())) }
    #expect(lent.allSatisfy { $0 !== second && $0.isEmpty })
    #expect(pool.borrow() == nil)
    pool.giveBack(lent.removeLast())
    #expect(pool.borrow() != nil)
  }

  @Test("eight pipes are wide, kept ones are lent before others, and one that was lost is made anew")
  func width() throws {
    let lent = try (0..<10).map { _ in try #require(pool.borrow()) }
    #expect(lent.map(\.capacity) == Array(repeating: 1 << 20, count: 8) + [256 << 10, 256 << 10])
    pool.giveBack(lent[0])
    pool.giveBack(lent[9])
    #expect(pool.borrow() === lent[0])
    #expect(pool.borrow() === lent[9])
    let (from, source) = try ends()
    defer { close(source) }
    writeAll(source, [1])
    from.note(.readable)
    #expect(from.take(into: lent[3], max: 1) == .bytes(1))
    pool.giveBack(lent[3])
    let anew = try #require(pool.borrow())
    #expect(anew.capacity == 1 << 20)
    // Eight are kept, the wide ones.
    for pipe in [lent[8], lent[9], anew] + lent[0...2] + lent[4...7] { pool.giveBack(pipe) }
    let again = try (0..<9).map { _ in try #require(pool.borrow()) }
    #expect(again.prefix(8).allSatisfy { $0.capacity == 1 << 20 } && again[8] !== lent[8] && again[8] !== lent[9])
  }

  /// Goal: where the kernel refuses a wide pipe an ordinary one serves, where it refuses that too there is none, and wide
  /// ones are asked for again after 64 lendings. Method: a process of its own, which becomes an account without other pipes
  /// (root has no limit), uses up what fs.pipe-user-pages-soft allows but for two ordinary pipes, then those too.
  @Test("an account that may have no more pipe memory gets ordinary pipes, then none, later wide ones again")
  func refusal() async {
    await #expect(processExitsWith: .success) {
      #expect(getuid() != 0 || setuid(61_184) == 0)
      var held: [Int32: [Raw]] = [:]
      defer { for pipe in held.values.joined() { pipe.close() } }
      // A wide one fits no more, two ordinary ones do.
      for size in [Raw.wide, Raw.ordinary] {
        while let pipe = Raw(size) {
          held[size, default: []].append(pipe)
          try #require(held[size]?.count != 400, "pipes are not limited here (fs.pipe-user-pages-soft)")
        }
      }
      let freed = held[Raw.wide]?.popLast()
      try #require(freed != nil)
      freed?.close()
      for _ in 0..<2 { held[Raw.ordinary, default: []].append(try #require(Raw(Raw.ordinary))) }
      let pool = PipePool()
      let first = try #require(pool.borrow())
      #expect(first.capacity == 256 << 10)
      while let pipe = Raw(Raw.ordinary) { held[Raw.ordinary, default: []].append(pipe) }
      #expect(pool.borrow() == nil)
      pool.giveBack(first)
      for pipe in held.removeValue(forKey: Raw.ordinary) ?? [] { pipe.close() }
      held.removeValue(forKey: Raw.wide)?.forEach { $0.close() }
      // The refused borrowing counts as one of 64.
      let lent = (0..<63).compactMap { _ in
        let pipe = pool.borrow()
        if let pipe { pool.giveBack(pipe) }
        return pipe
      }
      #expect(lent.count == 63 && lent.allSatisfy { $0 === first })
      #expect(pool.borrow()?.capacity == 1 << 20)
    }
  }

  /// A pipe that was granted what it asked for.
  private struct Raw {
    static let wide: Int32 = 1 << 20
    static let ordinary: Int32 = 256 << 10
    private var ends: (Int32, Int32) = (-1, -1)

    init?(_ bytes: Int32) {
      var pair: [Int32] = [-1, -1]
      guard pipe(&pair) == 0 else { return nil }
      ends = (pair[0], pair[1])
      if bearerd_set_pipe_capacity(ends.0, bytes) < bytes {
        close()
        return nil
      }
    }

    func close() {
      Glibc.close(ends.0)
      Glibc.close(ends.1)
    }
  }
}
