import FoundationEssentials
import Glibc
import Testing
import Transport

/// A plain channel over a socket pair, and the other end.
private final class Ends {
  let channel: Channel
  let far: Int32
  private var isFarOpen = true

  init() throws {
    signal(SIGPIPE, SIG_IGN)
    let (near, far) = try socketPair()
    channel = Channel(Descriptor(near))
    self.far = far
  }

  deinit { closeFar() }

  func closeFar() {
    if isFarOpen { close(far) }
    isFarOpen = false
  }

  func read(_ count: Int) -> (IOResult, [UInt8]) {
    var bytes = [UInt8](repeating: 0, count: count)
    let result = bytes.withUnsafeMutableBytes { channel.read(into: $0) }
    if case .bytes(let read) = result { return (result, Array(bytes[..<read])) }
    return (result, [])
  }

  func write(_ bytes: [UInt8]) -> IOResult { bytes.withUnsafeBytes { channel.write($0) } }

  func write(_ first: [UInt8], _ second: [UInt8]) -> IOResult {
    first.withUnsafeBytes { first in second.withUnsafeBytes { channel.write(first, $0) } }
  }

  /// What has arrived at the far end.
  func received() -> [UInt8] {
    var all: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = recv(far, &piece, piece.count, 0)
      if count <= 0 { return all }
      all += piece[..<count]
    }
  }
}

@Suite("Channel: reading plaintext under edge-triggered readiness") struct PlainReadTests {
  private let ends: Ends

  init() throws { ends = try Ends() }

  @Test("nothing may be read before the kernel says so; a full read goes on, a short one means drained")
  func shortRead() {
    #expect(!ends.channel.mayRead && ends.channel.mayWrite && !ends.channel.isTLS)
    writeAll(ends.far, [1, 2, 3, 4, 5])
    ends.channel.note(.readable)
    #expect(ends.channel.mayRead)
    #expect(ends.read(3) == (.bytes(3), [1, 2, 3]))
    #expect(ends.channel.mayRead)
    #expect(ends.read(3) == (.bytes(2), [4, 5]))
    #expect(!ends.channel.mayRead)
  }

  @Test("a read that fills the buffer exactly is followed by one that would block")
  func wouldBlock() {
    writeAll(ends.far, [1, 2])
    ends.channel.note(.readable)
    #expect(ends.read(2) == (.bytes(2), [1, 2]))
    #expect(ends.channel.mayRead)
    #expect(ends.read(2) == (.wouldBlock, []))
    #expect(!ends.channel.mayRead)
  }

  @Test("a FIN that came with the data is read to after a short read: no second edge comes")
  func dataWithFIN() {
    writeAll(ends.far, [1, 2])
    shutdown(ends.far, Int32(SHUT_WR))
    ends.channel.note([.readable, .peerShutdown])
    #expect(ends.channel.sawPeerShutdown)
    #expect(ends.read(100) == (.bytes(2), [1, 2]))
    #expect(ends.channel.mayRead)
    #expect(ends.read(100) == (.endOfStream, []))
  }

  @Test("writing goes on after the peer's FIN")
  func halfClosed() {
    shutdown(ends.far, Int32(SHUT_WR))
    ends.channel.note([.readable, .peerShutdown])
    #expect(ends.read(1) == (.endOfStream, []))
    #expect(ends.write([9]) == .bytes(1))
    #expect(ends.received() == [9])
  }

  @Test(
    "what readiness says",
    arguments: [
      (Readiness.readable, true, false, false), (.writable, false, false, false),
      (.peerShutdown, true, true, false),
      (.hangup, true, true, false), (.error, true, false, true), (Readiness(), false, false, false),
    ])
  func notes(_ readiness: Readiness, _ mayRead: Bool, _ sawShutdown: Bool, _ sawError: Bool) {
    ends.channel.note(readiness)
    #expect(ends.channel.mayRead == mayRead)
    #expect(ends.channel.sawPeerShutdown == sawShutdown)
    #expect(ends.channel.sawError == sawError)
  }

  @Test("a reset is told from an end")
  func reset() throws {
    let (listener, port) = try listeningSocket()
    defer { close(listener) }
    let channel = Channel(Descriptor(try connectedSocket(port: port)))
    let far = accept(listener, nil, nil)
    SocketOptions.resetOnClose(far)
    close(far)
    var bytes = [UInt8](repeating: 0, count: 8)
    let result = bytes.withUnsafeMutableBytes { channel.read(into: $0) }
    #expect(result == .failed(.socket(ECONNRESET)))
    #expect(IOFault.socket(ECONNRESET).isReset && IOFault.socket(EPIPE).isReset)
    #expect(!IOFault.socket(EIO).isReset && !IOFault.truncated.isReset && !IOFault.tls.isReset)
  }

  private func option(_ name: Int32, of descriptor: Int32) -> Int32 {
    var value: Int32 = 0
    var length: socklen_t = 4
    #expect(getsockopt(descriptor, SOL_SOCKET, name, &value, &length) == 0)
    return value
  }

  @Test("a wide receive window holds megabytes, and a single byte is still told of")
  func wideWindow() throws {
    let (listener, port) = try listeningSocket()
    defer { close(listener) }
    let channel = Channel(Descriptor(try connectedSocket(port: port)))
    let far = accept(listener, nil, nil)
    defer { close(far) }
    let before = option(SO_RCVBUF, of: channel.descriptor)
    channel.widenReceiveWindow()
    let maximum = try #require(
      String(contentsOfFile: "/proc/sys/net/ipv4/tcp_rmem", encoding: .utf8).split(whereSeparator: \.isWhitespace).last)
    let wanted = min(4 << 20, try #require(Int32(maximum)) / 2)
    #expect(before < wanted && option(SO_RCVBUF, of: channel.descriptor) >= wanted)
    #expect(option(SO_RCVLOWAT, of: channel.descriptor) == 1)
    #expect(writeAll(far, [7]))
    var waiting = pollfd(fd: channel.descriptor, events: Int16(POLLIN), revents: 0)
    #expect(poll(&waiting, 1, 5000) == 1)
  }

  @Test("a channel told to reset on close does")
  func resetOnClose() throws {
    let (listener, port) = try listeningSocket()
    defer { close(listener) }
    let near = try connectedSocket(port: port)
    defer { close(near) }
    do {
      let channel = Channel(Descriptor(accept(listener, nil, nil)))
      channel.resetOnClose()
    }
    var byte: UInt8 = 0
    #expect(recv(near, &byte, 1, 0) == -1 && errno == ECONNRESET)
  }
}

@Suite("Channel: writing plaintext") struct PlainWriteTests {
  private let ends: Ends

  init() throws { ends = try Ends() }

  @Test("a full peer makes a partial write, then would block until the kernel says writable")
  func backPressure() {
    let bytes = (0..<4_000_000).map { UInt8(truncatingIfNeeded: $0) }
    var sent = 0
    while ends.channel.mayWrite, case .bytes(let count) = ends.write(Array(bytes[sent...])) { sent += count }
    #expect(sent > 0 && sent < bytes.count)
    #expect(!ends.channel.mayWrite)
    #expect(ends.write([1]) == .wouldBlock)
    #expect(ends.received() == Array(bytes[..<sent]))
    ends.channel.note(.writable)
    #expect(ends.channel.mayWrite)
    #expect(ends.write([1]) == .bytes(1))
  }

  @Test(
    "two parts leave in their order, also where one is empty",
    arguments: [
      ([1, 2], [3]), ([], [3, 4]), ([1, 2], []),
    ] as [([UInt8], [UInt8])])
  func twoParts(_ first: [UInt8], _ second: [UInt8]) {
    #expect(ends.write(first, second) == .bytes(first.count + second.count))
    #expect(ends.received() == first + second)
    #expect(ends.channel.mayWrite)
  }

  @Test("a partial write of two parts ends anywhere, in order")
  func twoPartsPartly() {
    let first = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0) }
    let second = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    guard case .bytes(let count) = ends.write(first, second) else {
      Issue.record("nothing was written")
      return
    }
    #expect(count < first.count + second.count)
    #expect(!ends.channel.mayWrite)
    #expect(ends.received() == Array((first + second)[..<count]))
  }

  @Test("a peer that is gone fails the write and sends no signal")
  func gone() {
    ends.closeFar()
    #expect(ends.write([1]) == .failed(.socket(EPIPE)))
    #expect(ends.write([1], [2]) == .failed(.socket(EPIPE)))
  }

  @Test("shutting our side down is a FIN behind everything written; reading goes on")
  func shutdownWriting() {
    #expect(ends.write([1, 2]) == .bytes(2))
    ends.channel.shutdownWriting()
    var bytes = [UInt8](repeating: 0, count: 8)
    #expect(recv(ends.far, &bytes, 8, 0) == 2)
    #expect(recv(ends.far, &bytes, 8, 0) == 0)
    writeAll(ends.far, [5])
    ends.channel.note(.readable)
    #expect(ends.read(8) == (.bytes(1), [5]))
  }

  @Test(
    "the last bytes leave with our end, and before the reset that what nobody has read makes of closing",
    arguments: [false, true])
  func lastBytes(leavesUnread: Bool) throws {
    let (listener, port) = try listeningSocket()
    defer { close(listener) }
    let far = try connectedSocket(port: port)
    defer { close(far) }
    do {
      let channel = Channel(Descriptor(accept(listener, nil, nil)))
      if leavesUnread { writeAll(far, [9]) }
      #expect([UInt8]([1, 2, 3]).withUnsafeBytes { channel.write($0, isLast: true) } == .bytes(3))
      channel.shutdownWriting()
    }
    var bytes = [UInt8](repeating: 0, count: 8)
    #expect(recv(far, &bytes, 8, 0) == 3 && bytes.prefix(3) == [1, 2, 3])
    #expect(recv(far, &bytes, 8, 0) <= 0)
  }

  @Test("the descriptor is closed with the channel")
  func closes() throws {
    let (near, far) = try socketPair(nonBlocking: false)
    defer { close(far) }
    do { _ = Channel(Descriptor(near)) }
    var byte: UInt8 = 0
    #expect(recv(far, &byte, 1, 0) == 0)
  }
}
