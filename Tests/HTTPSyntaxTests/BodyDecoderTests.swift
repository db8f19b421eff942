import HTTPSyntax
import Testing

struct DecodedBody: Equatable {
  enum End: Equatable {
    case finished
    case failed(BodyError)
    case waiting, truncated
  }

  var content = ""
  var trailers = ""
  var consumed = 0
  var end = End.waiting

  /// Delivers the bytes as given and takes at most `taking` bytes of content at once.
  static func decode(_ framing: MessageFraming, _ bytes: [UInt8], _ arrivals: [Int], taking: Int) -> DecodedBody {
    var decoder = BodyDecoder(framing)
    var body = DecodedBody()
    var content: [UInt8] = []
    arrival: for count in arrivals {
      while true {
        let step = Array(bytes[body.consumed..<max(count, body.consumed)]).withPrefix(max(0, count - body.consumed)) {
          decoder.next(in: $0)
        }
        switch step {
        case .content(let skip, let offered):
          let taken = min(offered, taking)
          content += bytes[body.consumed + skip..<body.consumed + skip + taken]
          decoder.took(taken)
          body.consumed += skip + taken
        case .needsMore(let skip):
          body.consumed += skip
          continue arrival
        case .finished(let skip, let trailers, let tail):
          body.trailers = bytes.text(body.consumed + skip..<body.consumed + skip + trailers)
          body.consumed += skip + trailers + tail
          body.end = .finished
          break arrival
        case .failed(let error):
          body.end = .failed(error)
          break arrival
        }
      }
    }
    if body.end == .waiting { body.end = decoder.endOfInput() == .complete ? .finished : .truncated }
    body.content = String(decoding: content, as: UTF8.self)
    // How far a refused body was consumed depends on how it arrived.
    if case .failed = body.end { body.consumed = 0 }
    return body
  }

  static func decode(_ framing: MessageFraming, _ text: String) -> DecodedBody {
    for taking in [1, 2, 3] {
      let bytes = Array(text.utf8)
      let whole = decode(framing, bytes, [bytes.count], taking: .max)
      #expect(decode(framing, bytes, [bytes.count], taking: taking) == whole)
    }
    return sameAtEverySplit(text) { bytes, arrivals in decode(framing, bytes, arrivals, taking: .max) }
  }
}

@Suite("RFC 9112 §6.3 a body ends where its framing says")
struct BodyLengthTests {
  @Test(
    "No body and a body of zero bytes have ended before they begin",
    arguments: [MessageFraming.none, .contentLength(0)])
  func empty(_ framing: MessageFraming) {
    #expect(BodyDecoder(framing).isFinished)
    #expect(DecodedBody.decode(framing, "next") == DecodedBody(end: .finished))
  }

  @Test("Content-Length bytes and not one more")
  func contentLength() {
    #expect(
      DecodedBody.decode(.contentLength(5), "helloGET") == DecodedBody(content: "hello", consumed: 5, end: .finished))
    #expect(
      DecodedBody.decode(.contentLength(5), "hell") == DecodedBody(content: "hell", consumed: 4, end: .truncated))
  }

  @Test("Until the connection's end")
  func untilClose() {
    #expect(DecodedBody.decode(.untilClose, "hello") == DecodedBody(content: "hello", consumed: 5, end: .finished))
    #expect(DecodedBody.decode(.untilClose, "") == DecodedBody(end: .finished))
  }

  @Test("What is left is known where the framing says it")
  func remaining() {
    var decoder = BodyDecoder(.contentLength(5))
    #expect(decoder.remainingContentLength == 5)
    let bytes = Array("abc".utf8)
    #expect(bytes.withPrefix(3) { decoder.next(in: $0) } == .content(skip: 0, count: 3))
    decoder.took(2)
    #expect(decoder.remainingContentLength == 3)
    #expect(!decoder.isFinished)
    decoder.took(3)
    #expect(decoder.isFinished && decoder.remainingContentLength == 0)
    #expect(BodyDecoder(.chunked).remainingContentLength == nil)
    #expect(BodyDecoder(.untilClose).remainingContentLength == nil)
  }

  @Test("A length beyond memory is offered as far as it has come")
  func huge() {
    var decoder = BodyDecoder(.contentLength(UInt64(Int64.max)))
    let bytes = Array("abc".utf8)
    #expect(bytes.withPrefix(3) { decoder.next(in: $0) } == .content(skip: 0, count: 3))
  }
}

@Suite("RFC 9112 §7.1 chunked transfer coding")
struct ChunkedTests {
  static let accepted: [(String, String, String)] = [
    ("0\r\n\r\n", "", ""),
    ("5\r\nhello\r\n0\r\n\r\n", "hello", ""),
    ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", ""),
    ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789", ""),
    ("a\r\n0123456789\r\n000\r\n\r\n", "0123456789", ""),
    ("0000000000000003\r\nabc\r\n0\r\n\r\n", "abc", ""),
    ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", ""),
    ("3;a=b\r\nabc\r\n0;z\r\n\r\n", "abc", ""),
    ("3 \t; a = \"x; y\"\r\nabc\r\n0\r\n\r\n", "abc", ""),
    ("3;\u{e9}\t\r\nabc\r\n0\r\n\r\n", "abc", ""),
    ("0\r\nA: b\r\n\r\n", "", "A: b\r\n"),
    ("1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", "x", "A: b\r\nC: d\r\n"),
  ]

  @Test("Content and trailers, and not one byte of what follows", arguments: accepted)
  func accepts(_ text: String, _ content: String, _ trailers: String) {
    for next in ["", "GET / HTTP/1.1\r\n", "\r\n"] {
      let body = DecodedBody.decode(.chunked, text + next)
      let expected = DecodedBody(content: content, trailers: trailers, consumed: text.utf8.count, end: .finished)
      #expect(body == expected)
    }
  }

  static let refused: [(String, BodyError)] = [
    ("\r\n", .invalidChunkSize),
    (" 5\r\nhello\r\n", .invalidChunkSize),
    ("+5\r\nhello\r\n", .invalidChunkSize),
    ("-5\r\nhello\r\n", .invalidChunkSize),
    ("0x5\r\nhello\r\n", .invalidChunkSize),
    ("5x\r\nhello\r\n", .invalidChunkSize),
    ("g\r\n", .invalidChunkSize),
    (";a\r\n", .invalidChunkSize),
    ("5,5\r\nhello\r\n", .invalidChunkSize),
    ("5 \r\nhello\r\n", .invalidChunkSize),
    ("5 5\r\nhello\r\n", .invalidChunkSize),
    ("5_0\r\nhello\r\n", .invalidChunkSize),
    ("\n5\r\nhello\r\n", .invalidChunkSize),
    ("５\r\n", .invalidChunkSize),
    ("5\nhello\r\n", .bareLF),
    ("5;a\nhello\r\n", .bareLF),
    ("5\rhello\r\n", .bareCR),
    ("5;a\rb\r\nhello\r\n", .bareCR),
    ("5;a\0\r\nhello\r\n", .invalidChunkExtension),
    ("5;a\u{7f}\r\nhello\r\n", .invalidChunkExtension),
    ("00000000000000005\r\nhello\r\n", .chunkSizeTooLarge),
    ("8000000000000000\r\n", .chunkSizeTooLarge),
    ("FFFFFFFFFFFFFFFF\r\n", .chunkSizeTooLarge),
    ("10000000000000000\r\n", .chunkSizeTooLarge),
    ("5\r\nhelloX\r\n", .missingChunkEnd),
    ("5\r\nhello\n0\r\n", .missingChunkEnd),
    ("5\r\nhello\rX", .missingChunkEnd),
    ("5\r\nhello0\r\n\r\n", .missingChunkEnd),
    ("3\r\nhello\r\n0\r\n\r\n", .missingChunkEnd),
    ("0\r\nA: b\nC: d\r\n\r\n", .bareLF),
    ("0\r\n\n", .bareLF),
    ("0\r\nA: b\r\r\n", .bareCR),
    ("0\r\n\rX", .bareCR),
  ]

  @Test("What peers read in two ways is refused", arguments: refused)
  func refuses(_ text: String, _ error: BodyError) {
    #expect(DecodedBody.decode(.chunked, text).end == .failed(error))
  }

  @Test("A body cut anywhere is truncated", arguments: ["5;x\r\nhello\r\n0\r\nA: b\r\n\r\n"])
  func truncated(_ text: String) {
    let bytes = Array(text.utf8)
    for count in 0..<bytes.count {
      let body = DecodedBody.decode(.chunked, Array(bytes[..<count]), [count], taking: .max)
      #expect(body.end == .truncated, "after \(count) bytes")
    }
  }

  @Test("The largest size is Int64.max")
  func largestSize() {
    var decoder = BodyDecoder(.chunked)
    let bytes = Array("7FFFFFFFFFFFFFFF\r\nabc".utf8)
    #expect(bytes.withPrefix(bytes.count) { decoder.next(in: $0) } == .content(skip: 18, count: 3))
  }

  @Test("Extensions of one chunk are bounded")
  func lineExtensions() {
    let most = String(repeating: "x", count: Int(BodyDecoder.lineExtensionBytesMax) - 1)
    func end(_ text: String) -> DecodedBody.End {
      let bytes = Array(text.utf8)
      return DecodedBody.decode(.chunked, bytes, [10, bytes.count], taking: .max).end
    }
    #expect(end("1;\(most)\r\na\r\n0\r\n\r\n") == .finished)
    #expect(end("1;\(most)x\r\na\r\n0\r\n\r\n") == .failed(.chunkExtensionsTooLong))
  }

  @Test("Extensions of a whole body are bounded")
  func bodyExtensions() {
    let chunk = "1;" + String(repeating: "x", count: 1023) + "\r\na\r\n"
    func end(_ chunks: Int) -> DecodedBody.End {
      let bytes = Array((String(repeating: chunk, count: chunks) + "0\r\n\r\n").utf8)
      return DecodedBody.decode(.chunked, bytes, [bytes.count], taking: .max).end
    }
    #expect(end(16) == .finished)
    #expect(end(17) == .failed(.chunkExtensionsTooLong))
  }

  @Test("A trailer section of exactly the limit passes, one byte more is refused")
  func trailerLimit() {
    func body(_ valueBytes: Int) -> DecodedBody {
      let bytes = Array(("0\r\nA: " + String(repeating: "b", count: valueBytes) + "\r\n\r\n").utf8)
      return DecodedBody.decode(.chunked, bytes, [4000, bytes.count], taking: .max)
    }
    #expect(body(BodyDecoder.trailerBytesMax - 7).end == .finished)
    #expect(body(BodyDecoder.trailerBytesMax - 6).end == .failed(.trailersTooLong))
  }

  @Test(
    "A trailer section that is no section of field lines is refused (§7.1.2)",
    arguments: ["X: a\r\n b\r\n", "X : a\r\n", ": a\r\n", "nonsense\r\n", "X: a\0\r\n", "GET / HTTP/1.1\r\n"])
  func malformedTrailers(_ lines: String) {
    var decoder = BodyDecoder(.chunked)
    let bytes = Array("0\r\n\(lines)\r\n".utf8)
    #expect(decoder.next(in: bytes.span.bytes) == .failed(.malformedTrailers))
    #expect(!decoder.isFinished && decoder.endOfInput() == .truncated)
  }

  @Test("A failure stays")
  func failureStays() {
    var decoder = BodyDecoder(.chunked)
    let bytes = Array("x5\r\n".utf8)
    #expect(bytes.withPrefix(1) { decoder.next(in: $0) } == .failed(.invalidChunkSize))
    #expect(bytes.withPrefix(4) { decoder.next(in: $0.extracting(1..<4)) } == .failed(.invalidChunkSize))
    #expect(decoder.endOfInput() == .truncated)
    #expect(BodyError.allCases.allSatisfy { $0.explanation.utf8CodeUnitCount > 10 })
  }

  @Test("What is written is read back", arguments: [1, 9, 10, 15, 16, 255, 256, 4095, 4096, 65_535])
  func roundTrip(_ size: Int) {
    var buffer = ByteBuffer(capacity: size + 64)
    buffer.appendChunkHeader(size: size)
    #expect(buffer.count == ChunkedEncoding.chunkHeaderBytes(size: size))
    buffer.append(utf8: String(repeating: "z", count: size))
    buffer.appendChunkEnd()
    buffer.appendLastChunk()
    let bytes = Array(buffer.withReadable { $0.string }.utf8)
    let body = DecodedBody.decode(.chunked, bytes, [bytes.count / 2, bytes.count], taking: .max)
    #expect(body == DecodedBody(content: String(repeating: "z", count: size), consumed: bytes.count, end: .finished))
  }
}

@Suite("Any input: chunked framing does not depend on how it arrives, and nothing traps")
struct MutatedChunkedTests {
  @Test("Bodies with changed, removed and doubled bytes", arguments: 0..<200)
  func mutations(_ seed: Int) {
    var random = Sequence64(state: UInt64(seed) &* 7919 &+ 3)
    var bytes = Array("5;a=b\r\nhello\r\nA \t;c\r\n0123456789\r\n0\r\nX: y\r\nZ: w\r\n\r\n".utf8)
    let telling = Array("\r\n\t ;0F:\0x".utf8)
    for _ in 0..<1 + random.next(below: 3) {
      let offset = random.next(below: bytes.count)
      switch random.next(below: 3) {
      case 0: bytes[offset] = telling[random.next(below: telling.count)]
      case 1: bytes.remove(at: offset)
      default: bytes.insert(bytes[offset], at: offset)
      }
    }
    let whole = DecodedBody.decode(.chunked, bytes, [bytes.count], taking: .max)
    #expect(DecodedBody.decode(.chunked, bytes, Array(0...bytes.count), taking: .max) == whole)
    #expect(DecodedBody.decode(.chunked, bytes, [bytes.count], taking: 1) == whole)
  }
}
