import HTTPSyntax
import Testing

@Suite("A buffer keeps its bytes between two indices")
struct ByteBufferTests {
  func text(_ buffer: ByteBuffer) -> String { buffer.withReadable { $0.string } }

  @Test("Content is appended, consumed and moved")
  func content() {
    let buffer = ByteBuffer(capacity: 8)
    #expect(buffer.isEmpty && buffer.room == 8)
    buffer.append("abcdef")
    buffer.consume(4)
    #expect(text(buffer) == "ef")
    #expect(buffer.room == 2 && buffer.start == 4 && buffer.end == 6)
    #expect(!buffer.ensureRoom(7))
    #expect(text(buffer) == "ef" && buffer.start == 4)
    #expect(buffer.ensureRoom(6))
    #expect(text(buffer) == "ef" && buffer.start == 0 && buffer.room == 6)
    buffer.append(byte: 0x67)
    #expect(text(buffer) == "efg")
  }

  @Test("Both indices return to 0 when nothing is left")
  func emptied() {
    let buffer = ByteBuffer(capacity: 4)
    buffer.append("abcd")
    #expect(buffer.room == 0)
    buffer.consume(3)
    buffer.consume(1)
    #expect(buffer.start == 0 && buffer.end == 0 && buffer.room == 4)
  }

  @Test("What is written through the pointer becomes readable when it is reported")
  func produced() {
    let buffer = ByteBuffer(capacity: 4)
    buffer.writable.copyBytes(from: "xy".utf8)
    #expect(buffer.isEmpty)
    buffer.produced(2)
    #expect(text(buffer) == "xy")
    #expect(Array(buffer.readable) == Array("xy".utf8))
    buffer.append(buffer.readable)
    #expect(text(buffer) == "xyxy")
  }

  @Test(
    "Numbers",
    arguments: [
      (UInt64(0), "0", "0"), (9, "9", "9"), (10, "10", "a"), (255, "255", "ff"), (4096, "4096", "1000"),
      (UInt64.max, "18446744073709551615", "ffffffffffffffff"),
    ])
  func numbers(_ value: UInt64, _ decimal: String, _ hexadecimal: String) {
    let buffer = ByteBuffer(capacity: 64)
    buffer.append(decimal: value)
    #expect(text(buffer) == decimal)
    buffer.reset()
    buffer.append(hexadecimal: value)
    #expect(text(buffer) == hexadecimal)
  }

  @Test("Empty appends change nothing")
  func empty() {
    let buffer = ByteBuffer(capacity: 1)
    buffer.append("")
    buffer.append(utf8: "")
    buffer.append(UnsafeRawBufferPointer(start: nil, count: 0))
    buffer.consume(0)
    buffer.compact()
    #expect(buffer.isEmpty)
  }

  @Test("A text longer than the room stops the program instead of the memory after it")
  func overflow() async {
    await #expect(processExitsWith: .failure) { ByteBuffer(capacity: 4).append("abcde") }
    await #expect(processExitsWith: .failure) { ByteBuffer(capacity: 2).append(decimal: 100) }
    await #expect(processExitsWith: .failure) { ByteBuffer(capacity: 4).produced(5) }
    await #expect(processExitsWith: .failure) { ByteBuffer(capacity: 4).consume(1) }
  }
}
