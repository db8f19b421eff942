/// How a message body's end is found (RFC 9112 §6.3).
public enum MessageFraming: Equatable, Sendable {
  /// There is no body.
  case none
  /// Bytes of content; at most `Int64.max`. Zero is kept apart from `none`, so that it is forwarded.
  case contentLength(UInt64)
  case chunked
  /// A response that ends with its connection.
  case untilClose
}

/// The framing rules both kinds of message share. Where RFC 9112 §6.3 lets a recipient guess, this one
/// refuses: whoever guesses differently is smuggled a message.
extension FieldSection {
  enum ContentLength: Equatable {
    case absent
    case value(UInt64)
    case failed(HeadError)
  }

  /// `Content-Length`, once (RFC 9112 §6.3, rule 5). Repeats and lists of one and the same number are taken
  /// where `acceptsIdentical`.
  func contentLength(_ bytes: RawSpan, acceptsIdentical: Bool) -> ContentLength {
    guard let first = firstIndex(of: .contentLength) else { return .absent }
    var length: UInt64?
    var isRepeated = false
    for index in first..<lines.count where lines[index].field == .contentLength {
      // Nearly always it is one line with one number.
      if length == nil, let value = Self.decimal(bytes, lines[index].value) {
        length = value
        continue
      }
      var elements = ListElements(lines[index].value)
      while let element = elements.nextOrEmpty(in: bytes) {
        guard let value = Self.decimal(bytes, element) else { return .failed(.contentLengthMalformed) }
        if let length, length != value { return .failed(.contentLengthDiffers) }
        isRepeated = isRepeated || length != nil
        length = value
      }
    }
    if isRepeated, !acceptsIdentical { return .failed(.contentLengthRepeated) }
    return length.map { .value($0) } ?? .failed(.contentLengthMalformed)
  }

  /// nil: `chunked` and nothing else, the one coding this program decodes (RFC 9112 §6.1, §7).
  ///
  /// Stricter than RFC 9110 §5.6.1: an empty list element is refused, because parsers differ on it.
  func transferCodingFault(_ bytes: RawSpan) -> HeadError? {
    guard let first = firstIndex(of: .transferEncoding) else { return .transferEncodingNotChunked }
    var isLastChunked = false
    var chunkedCount = 0
    var hasOther = false
    for index in first..<lines.count where lines[index].field == .transferEncoding {
      var elements = ListElements(lines[index].value)
      while let element = elements.nextOrEmpty(in: bytes) {
        if element.isEmpty { return .transferEncodingMalformed }
        isLastChunked = bytes.equalsIgnoringCase(element, "chunked")
        if isLastChunked { chunkedCount += 1 } else { hasOther = true }
      }
    }
    if !isLastChunked { return .transferEncodingNotChunked }
    if chunkedCount > 1 { return .transferEncodingMalformed }
    return hasOther ? .unsupportedTransferCoding : nil
  }

  /// 1*DIGIT up to `Int64.max`, the bound of peers that count in signed numbers.
  private static func decimal(_ bytes: RawSpan, _ range: ByteRange) -> UInt64? {
    guard (1...19).contains(range.count) else { return nil }
    var value: UInt64 = 0
    for offset in range.offsets {
      let byte = bytes.byte(at: offset)
      guard ByteClass.isDigit(byte) else { return nil }
      value = value * 10 + UInt64(byte - 0x30)
    }
    return value <= UInt64(Int64.max) ? value : nil
  }
}
