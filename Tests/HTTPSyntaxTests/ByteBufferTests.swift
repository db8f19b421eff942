import HTTPSyntax
import Testing

/// What a buffer says of itself: a copy for `#expect`, which takes no value that cannot be copied.
private struct Seen: Equatable {
  var text: String
  var start: Int
  var end: Int
  var room: Int

  init(_ text: String, start: Int, end: Int, room: Int) {
    self.text = text
    self.start = start
    self.end = end
    self.room = room
  }

  init(_ buffer: borrowing ByteBuffer) {
    self.init(buffer.withReadable { $0.string }, start: buffer.start, end: buffer.end, room: buffer.room)
  }
}

@Suite("A buffer keeps its bytes between two indices")
struct ByteBufferTests {
  @Test("Content is appended, consumed and moved")
  func content() {
    var buffer = ByteBuffer(capacity: 8)
    #expect(Seen(buffer) == Seen("", start: 0, end: 0, room: 8))
    buffer.append("abcdef")
    buffer.consume(4)
    #expect(Seen(buffer) == Seen("ef", start: 4, end: 6, room: 2))
    let fitsSeven = buffer.ensureRoom(7)
    #expect(!fitsSeven && Seen(buffer) == Seen("ef", start: 4, end: 6, room: 2))
    let fitsSix = buffer.ensureRoom(6)
    #expect(fitsSix && Seen(buffer) == Seen("ef", start: 0, end: 2, room: 6))
    buffer.append(byte: 0x67)
    #expect(Seen(buffer).text == "efg")
  }

  @Test("Both indices return to 0 when nothing is left")
  func emptied() {
    var buffer = ByteBuffer(capacity: 4)
    buffer.append("abcd")
    #expect(Seen(buffer).room == 0)
    buffer.consume(3)
    buffer.consume(1)
    #expect(Seen(buffer) == Seen("", start: 0, end: 0, room: 4))
  }

  @Test("What is written through the pointer becomes readable when it is reported")
  func produced() {
    var buffer = ByteBuffer(capacity: 4)
    buffer.writable.copyBytes(from: "xy".utf8)
    #expect(Seen(buffer) == Seen("", start: 0, end: 0, room: 4))
    buffer.produced(2)
    let content = Array(buffer.readable)
    #expect(content == Array("xy".utf8))
    content.withUnsafeBytes { buffer.append($0) }
    #expect(Seen(buffer).text == "xyxy")
  }

  @Test(
    "Numbers",
    arguments: [
      (UInt64(0), "0", "0"), (9, "9", "9"), (10, "10", "a"), (255, "255", "ff"), (4096, "4096", "1000"),
      (UInt64.max, "18446744073709551615", "ffffffffffffffff"),
    ])
  func numbers(_ value: UInt64, _ decimal: String, _ hexadecimal: String) {
    var buffer = ByteBuffer(capacity: 64)
    buffer.append(decimal: value)
    #expect(Seen(buffer).text == decimal)
    buffer.reset()
    buffer.append(hexadecimal: value)
    #expect(Seen(buffer).text == hexadecimal)
  }

  @Test("Empty appends change nothing")
  func empty() {
    var buffer = ByteBuffer(capacity: 1)
    buffer.append("")
    buffer.append(utf8: "")
    buffer.append(UnsafeRawBufferPointer(start: nil, count: 0))
    buffer.consume(0)
    buffer.compact()
    #expect(Seen(buffer) == Seen("", start: 0, end: 0, room: 1))
  }

  @Test("Without memory it is empty and has no room, and says so")
  func withoutMemory() {
    var buffer = ByteBuffer()
    let hasMemory = buffer.hasMemory
    #expect(!hasMemory && Seen(buffer) == Seen("", start: 0, end: 0, room: 0))
    buffer.consume(0)
    buffer.compact()
    let fits = buffer.ensureRoom(1)
    #expect(!fits)
  }

  @Test("Its memory can go on to another, which begins empty")
  func handedOn() {
    var first = ByteBuffer(capacity: 8)
    first.append("secret")
    let memory = first.takeMemory()
    let second = ByteBuffer(memory: memory)
    #expect(Seen(second) == Seen("", start: 0, end: 0, room: 8))
  }

  @Test("A text longer than the room stops the program instead of the memory after it")
  func overflow() async {
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer(capacity: 4)
      buffer.append("abcde")
    }
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer(capacity: 2)
      buffer.append(decimal: 100)
    }
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer(capacity: 4)
      buffer.produced(5)
    }
    await #expect(processExitsWith: .failure) {
      var buffer = ByteBuffer(capacity: 4)
      buffer.consume(1)
    }
  }
}
