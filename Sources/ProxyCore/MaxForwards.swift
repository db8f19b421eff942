public import HTTPSyntax

/// `Max-Forwards` (RFC 9110 §7.6.2), which OPTIONS and TRACE obey and every other method ignores.
public enum MaxForwards: Equatable, Sendable {
  /// Absent, or of a method that ignores it.
  case unlimited
  /// To forward with this value.
  case forward(UInt64)
  /// The request ends here: it is ours to answer.
  case ended
  /// Several, or not a number.
  case malformed

  public static func read(_ head: RequestHead, _ bytes: RawSpan) -> MaxForwards {
    guard head.method == .options || head.method == .trace, let index = head.firstIndex(of: .maxForwards) else {
      return .unlimited
    }
    let value = bytes.extracting(head.lines[index].value.offsets)
    guard head.count(of: .maxForwards) == 1, value.byteCount > 0 else { return .malformed }
    var number: UInt64 = 0
    for offset in 0..<value.byteCount {
      let digit = value.byte(at: offset) &- 0x30
      guard digit <= 9 else { return .malformed }
      // "The lesser of" the value and the largest that the recipient supports.
      number = min(number * 10 + UInt64(digit), max)
    }
    return number == 0 ? .ended : .forward(number - 1)
  }

  /// More hops than any chain has.
  private static let max: UInt64 = 1_000_000
}

/// The content of our answer to a TRACE that ends here: the request as it came (RFC 9110 §9.3.8).
public enum TraceContent {
  /// "message/http" of the head, without the fields that may hold credentials.
  public static func make(_ head: RequestHead, _ bytes: RawSpan) -> [UInt8] {
    var content: [UInt8] = []
    func append(_ range: ByteRange) {
      for offset in range.offsets { content.append(bytes.byte(at: offset)) }
    }
    append(head.methodRange)
    content.append(0x20)
    append(head.target)
    content.append(contentsOf: head.minorVersion == 0 ? Array(" HTTP/1.0\r\n".utf8) : Array(" HTTP/1.1\r\n".utf8))
    for line in head.lines where !line.field.isCredential {
      append(line.name)
      content.append(contentsOf: ": ".utf8)
      append(line.value)
      content.append(contentsOf: "\r\n".utf8)
    }
    content.append(contentsOf: "\r\n".utf8)
    return content
  }
}
