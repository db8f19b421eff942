/// Why a body was refused. What stood before the offending byte is content; the message is incomplete and the
/// connection cannot be used again.
public enum BodyError: Error, Equatable, CaseIterable, Sendable {
  case invalidChunkSize, chunkSizeTooLarge, invalidChunkExtension, chunkExtensionsTooLong
  case missingChunkEnd, bareLF, bareCR, trailersTooLong, malformedTrailers

  /// One line for people.
  public var explanation: StaticString {
    switch self {
    case .invalidChunkSize: "a chunk does not begin with its size in hexadecimal digits"
    case .chunkSizeTooLarge: "a chunk size is out of bounds"
    case .invalidChunkExtension: "a chunk extension has a control character"
    case .chunkExtensionsTooLong: "the chunk extensions are too long"
    case .missingChunkEnd: "a chunk's data does not end in CRLF where its size says"
    case .bareLF: "a line of the chunked coding ends with a line feed alone"
    case .bareCR: "a carriage return stands without a line feed in the chunked coding"
    case .trailersTooLong: "the trailer section is too long"
    case .malformedTrailers: "a line of the trailer section is not a field line"
    }
  }
}

/// Finds the content of one message body in the bytes of its connection, in place: nothing is copied and any
/// input may be split at any byte (RFC 9112 §6.3, §7.1).
///
/// Use: `next(in:)` with everything that is readable; consume `skip` bytes; of `content` take as many bytes as
/// wanted, consume them and report them with `took`; repeat. Bytes after the body's end are never looked at.
public struct BodyDecoder: Sendable {
  public enum Step: Equatable, Sendable {
    /// After `skip` bytes of framing, `count` (at least 1) bytes of content.
    case content(skip: Int, count: Int)
    /// After `skip` bytes of framing, nothing complete: call again with more bytes.
    case needsMore(skip: Int)
    /// The body has ended. After `skip` bytes of framing come `trailers` bytes of whole trailer field lines, to be
    /// read, and `tail` bytes more; all of them are the body's and are consumed.
    case finished(skip: Int, trailers: Int, tail: Int)
    case failed(BodyError)
  }

  public enum EndOfInput: Equatable, Sendable {
    case complete
    /// The message must not look complete to anyone (RFC 9112 §8).
    case truncated
  }

  private enum Phase: Equatable {
    case untilClose
    /// `remaining` bytes of content, then the end.
    case contentLength
    /// Before the first digit of a chunk-size, or among its digits.
    case chunkSize
    /// White space after the size, which only an extension may follow (RFC 9112 §7.1.1).
    case chunkSizeBlank
    case chunkExtension
    case chunkSizeEnd
    /// `remaining` bytes of chunk-data, then its CRLF.
    case chunkData
    case chunkDataCR, chunkDataLF
    case trailers
    case finished
    case failed(BodyError)
  }

  private var phase: Phase
  /// Content bytes left of the body or the chunk.
  private var remaining: UInt64 = 0
  private var sizeDigits: UInt8 = 0
  private var lineExtensionBytes: UInt32 = 0
  private var extensionBytes: UInt32 = 0
  private var trailers = TrailerScan()

  /// Of one chunk's line. A peer that sends more wastes our time, and nothing reads extensions.
  public static let lineExtensionBytesMax: UInt32 = 4096
  /// Of all chunks of a body.
  public static let extensionBytesMax: UInt32 = 16_384
  /// The trailer section, its final CRLF included; it stands in the buffer as a whole.
  public static let trailerBytesMax = 8192

  public init(_ framing: MessageFraming) {
    switch framing {
    case .none: phase = .finished
    case .contentLength(let length):
      phase = length == 0 ? .finished : .contentLength
      remaining = length
    case .chunked: phase = .chunkSize
    case .untilClose: phase = .untilClose
    }
  }

  /// Nothing more belongs to this body.
  public var isFinished: Bool { phase == .finished }

  /// Content bytes to come, where the framing says it.
  public var remainingContentLength: UInt64? {
    switch phase {
    case .contentLength: remaining
    case .finished: 0
    case .untilClose, .chunkSize, .chunkSizeBlank, .chunkExtension, .chunkSizeEnd, .chunkData, .chunkDataCR,
      .chunkDataLF, .trailers, .failed:
      nil
    }
  }

  /// `bytes` begins with the first byte that is not consumed.
  public mutating func next(in bytes: RawSpan) -> Step {
    var offset = 0
    while true {
      switch phase {
      case .finished: return .finished(skip: offset, trailers: 0, tail: 0)
      case .failed(let error): return .failed(error)
      case .untilClose:
        return bytes.isEmpty ? .needsMore(skip: 0) : .content(skip: 0, count: bytes.byteCount)
      case .contentLength, .chunkData:
        let available = bytes.byteCount - offset
        if available == 0 { return .needsMore(skip: offset) }
        return .content(skip: offset, count: Int(min(remaining, UInt64(available))))
      case .trailers:
        return readTrailers(bytes, from: offset)
      case .chunkSize, .chunkSizeBlank, .chunkExtension, .chunkSizeEnd, .chunkDataCR, .chunkDataLF:
        guard offset < bytes.byteCount else { return .needsMore(skip: offset) }
        phase = phase(after: bytes.byte(at: offset))
        offset += 1
      }
    }
  }

  /// `count` bytes of the content last offered were consumed.
  public mutating func took(_ count: Int) {
    precondition(count >= 0, "took less than nothing")
    if phase == .untilClose { return }
    precondition(phase == .contentLength || phase == .chunkData || count == 0, "took what was not offered")
    precondition(UInt64(count) <= remaining, "took more than was offered")
    remaining -= UInt64(count)
    guard remaining == 0 else { return }
    if phase == .contentLength {
      phase = .finished
    } else if phase == .chunkData {
      phase = .chunkDataCR
    }
  }

  /// The peer sends no more. TLS without a close_notify is not an end of input but a failure.
  public mutating func endOfInput() -> EndOfInput {
    switch phase {
    case .untilClose:
      phase = .finished
      return .complete
    case .finished: return .complete
    case .contentLength, .chunkSize, .chunkSizeBlank, .chunkExtension, .chunkSizeEnd, .chunkData, .chunkDataCR,
      .chunkDataLF, .trailers, .failed:
      return .truncated
    }
  }

  /// One byte of chunk framing.
  private mutating func phase(after byte: UInt8) -> Phase {
    switch phase {
    case .chunkSize: return afterChunkSize(byte)
    case .chunkSizeBlank, .chunkExtension: return afterExtension(byte)
    case .chunkSizeEnd:
      guard byte == ByteClass.lineFeed else { return .failed(.bareCR) }
      sizeDigits = 0
      lineExtensionBytes = 0
      if remaining > 0 { return .chunkData }
      trailers = TrailerScan()
      return .trailers
    case .chunkDataCR:
      return byte == ByteClass.carriageReturn ? .chunkDataLF : .failed(.missingChunkEnd)
    case .chunkDataLF: return byte == ByteClass.lineFeed ? .chunkSize : .failed(.missingChunkEnd)
    case .untilClose, .contentLength, .chunkData, .trailers, .finished, .failed: return phase
    }
  }

  /// 1 to 16 digits: more leading zeros than that are no number anybody means.
  private mutating func afterChunkSize(_ byte: UInt8) -> Phase {
    if let digit = ByteClass.hexadecimalDigit(byte) {
      guard sizeDigits < 16, remaining <= UInt64(Int64.max) >> 4 else { return .failed(.chunkSizeTooLarge) }
      remaining = remaining << 4 | UInt64(digit)
      sizeDigits += 1
      return .chunkSize
    }
    guard sizeDigits > 0 else { return .failed(.invalidChunkSize) }
    switch byte {
    case ByteClass.carriageReturn: return .chunkSizeEnd
    case ByteClass.lineFeed: return .failed(.bareLF)
    case ByteClass.semicolon: return countExtension(then: .chunkExtension)
    case ByteClass.space, ByteClass.horizontalTab: return countExtension(then: .chunkSizeBlank)
    default: return .failed(.invalidChunkSize)
    }
  }

  private mutating func afterExtension(_ byte: UInt8) -> Phase {
    if phase == .chunkSizeBlank {
      if byte == ByteClass.semicolon { return countExtension(then: .chunkExtension) }
      return ByteClass.isBlank(byte) ? countExtension(then: .chunkSizeBlank) : .failed(.invalidChunkSize)
    }
    if byte == ByteClass.carriageReturn { return .chunkSizeEnd }
    if byte == ByteClass.lineFeed { return .failed(.bareLF) }
    return ByteClass.isFieldValue(byte) ? countExtension(then: .chunkExtension) : .failed(.invalidChunkExtension)
  }

  private mutating func countExtension(then next: Phase) -> Phase {
    lineExtensionBytes += 1
    extensionBytes += 1
    let isTooLong = lineExtensionBytes > Self.lineExtensionBytesMax || extensionBytes > Self.extensionBytesMax
    return isTooLong ? .failed(.chunkExtensionsTooLong) : next
  }

  private mutating func readTrailers(_ bytes: RawSpan, from offset: Int) -> Step {
    switch trailers.scan(bytes, from: offset) {
    case .incomplete: return .needsMore(skip: offset)
    case .failed(let error):
      phase = .failed(error)
      return .failed(error)
    case .complete(let length):
      // A line that is none could be the beginning of another message to whoever reads it otherwise.
      if length > 0, !Self.isTrailerSection(bytes.extracting(offset..<offset + length)) {
        phase = .failed(.malformedTrailers)
        return .failed(.malformedTrailers)
      }
      phase = .finished
      return .finished(skip: offset, trailers: length, tail: 2)
    }
  }
}

extension BodyDecoder {
  /// Allocates, because trailers are rare.
  private static func isTrailerSection(_ bytes: RawSpan) -> Bool {
    TrailerLines(limits: HeadLimits(sectionBytes: trailerBytesMax, fields: 255)).parse(bytes) == nil
  }
}

/// Finds the empty line that ends a trailer section (RFC 9112 §7.1.2) in a buffer that keeps the whole section.
private struct TrailerScan: Sendable {
  enum Result {
    case incomplete
    /// Bytes before the final CRLF.
    case complete(Int)
    case failed(BodyError)
  }

  /// Bytes of the section looked at.
  private var scanned = 0
  private var lineStart = 0
  private var isAfterCR = false

  /// The section begins at `offset`, which is 0 in later calls because the caller has consumed what was before.
  mutating func scan(_ bytes: RawSpan, from offset: Int) -> Result {
    while offset + scanned < bytes.byteCount {
      if scanned == BodyDecoder.trailerBytesMax { return .failed(.trailersTooLong) }
      let byte = bytes.byte(at: offset + scanned)
      scanned += 1
      if isAfterCR {
        guard byte == ByteClass.lineFeed else { return .failed(.bareCR) }
        isAfterCR = false
        if scanned - lineStart == 2 { return .complete(lineStart) }
        lineStart = scanned
      } else if byte == ByteClass.carriageReturn {
        isAfterCR = true
      } else if byte == ByteClass.lineFeed {
        return .failed(.bareLF)
      }
    }
    return .incomplete
  }
}
