/// The elements of a comma-separated field value, in order, one per call (RFC 9110 §5.6.1). A comma inside a
/// quoted string separates nothing; empty elements are skipped. No allocation.
public struct ListElements: Sendable {
  private var position: Int
  private let end: Int
  private var isExhausted = false

  /// Over a part of the bytes later given to `next`.
  public init(_ value: ByteRange) {
    position = value.start
    end = value.end
  }

  /// Without the white space around it, never empty; nil at the end.
  public mutating func next(in bytes: RawSpan) -> ByteRange? {
    while let element = nextOrEmpty(in: bytes) {
      if !element.isEmpty { return element }
    }
    return nil
  }

  /// Empty elements too, for the lists where they are an error.
  mutating func nextOrEmpty(in bytes: RawSpan) -> ByteRange? {
    if isExhausted { return nil }
    while position < end, ByteClass.isBlank(bytes.byte(at: position)) { position += 1 }
    let start = position
    var isQuoted = false
    scan: while position < end {
      switch bytes.byte(at: position) {
      case ByteClass.comma where !isQuoted: break scan
      case ByteClass.doubleQuote: isQuoted.toggle()
      case ByteClass.backslash where isQuoted: position += 1
      default: break
      }
      position += 1
    }
    // A backslash that ends the value would have stepped past it.
    position = min(position, end)
    var last = position
    while last > start, ByteClass.isBlank(bytes.byte(at: last - 1)) { last -= 1 }
    if position < end { position += 1 } else { isExhausted = true }
    return ByteRange(start..<last)
  }
}

/// Questions to field values. No allocation.
public enum FieldValues {
  /// Calls `body` with each element of a comma-separated list until it returns false. The value is at most
  /// 65 535 bytes, as every value of a parsed head is.
  public static func forEachElement(of list: RawSpan, _ body: (RawSpan) -> Bool) {
    var elements = ListElements(ByteRange(0..<list.byteCount))
    while let element = elements.next(in: list) {
      if !body(list.extracting(element.offsets)) { return }
    }
  }

  /// Whether an element of the list is this token, in any case. `token` is in lower case.
  public static func containsToken(_ list: RawSpan, _ token: StaticString) -> Bool {
    var elements = ListElements(ByteRange(0..<list.byteCount))
    while let element = elements.next(in: list) {
      if list.equalsIgnoringCase(element, token) { return true }
    }
    return false
  }

  /// ASCII letters in any case; every other byte as it is. `text` is in lower case.
  public static func equalsIgnoringCase(_ bytes: RawSpan, _ text: StaticString) -> Bool {
    guard bytes.byteCount == text.utf8CodeUnitCount else { return false }
    return bytes.containsIgnoringCase(text, at: 0)
  }
}

extension RawSpan {
  /// Whether the part is this text, which is in lower case, ASCII letters in any case.
  public func equalsIgnoringCase(_ range: ByteRange, _ text: StaticString) -> Bool {
    Int(range.count) == text.utf8CodeUnitCount && containsIgnoringCase(text, at: range.start)
  }

  /// Whether two parts hold the same text, ASCII letters in any case.
  public func equalsIgnoringCase(_ left: ByteRange, _ right: ByteRange) -> Bool {
    guard left.count == right.count else { return false }
    var index = 0
    while index < Int(left.count) {
      let one = ByteClass.lowercased(byte(at: left.start + index))
      if one != ByteClass.lowercased(byte(at: right.start + index)) { return false }
      index += 1
    }
    return true
  }
}
