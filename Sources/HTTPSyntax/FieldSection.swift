/// One field line of a head or a trailer section (RFC 9110 §5.2), as offsets into the bytes it was parsed from.
public struct FieldLine: Equatable, Sendable {
  public let name: ByteRange
  /// Without the white space around it; may be empty.
  public let value: ByteRange
  public let field: KnownField
  /// The line ends at this hop: it is hop-by-hop by itself, or a `Connection` field names it.
  public internal(set) var isConnectionOption: Bool
}

/// Reads field lines until the empty line, one pass, resumable at any byte (RFC 9112 §5).
///
/// Stricter than RFC 9112 §2.2 permits: a line feed alone never ends a line, in responses neither, because
/// peers that differ on it see two different messages.
///
/// Not copyable: a question to it copies no table.
struct FieldSection: ~Copyable {
  enum Scan: Equatable {
    case incomplete
    /// Offset after the empty line.
    case complete(end: Int)
    case failed(HeadError)
  }

  /// What is expected at `position`.
  private enum Phase {
    /// First byte of a field line or of the final empty line.
    case lineStart
    case name
    /// White space between name and colon, which a response may have (RFC 9112 §5.1).
    case colon
    case beforeValue, value
    /// The line feed of a field line.
    case lineEnd
    /// The line feed of the empty line.
    case sectionEnd
  }

  private(set) var lines: [FieldLine] = []
  /// Of each known field's first line in `lines`, or `absent`.
  private var firsts: [64 of UInt8] = .init(repeating: absent)
  private var phase = Phase.lineStart
  private var sectionStart = 0
  private var position = 0
  private var name = ByteRange.empty
  private var valueStart = 0
  private let sectionBytes: Int
  private let linesMax: Int

  private static let absent: UInt8 = 0xFF

  init(limits: HeadLimits) {
    sectionBytes = limits.sectionBytes
    linesMax = limits.fields
  }

  /// Keeps the table's memory. The first field line begins at `start`.
  mutating func reset(start: Int) {
    // Cheaper than removeAll(keepingCapacity:), which replaces a range: heads have few lines, and often none are left.
    while !lines.isEmpty { lines.removeLast() }
    firsts = .init(repeating: Self.absent)
    phase = .lineStart
    sectionStart = start
    position = start
  }

  func firstIndex(of field: KnownField) -> Int? {
    let index = firsts[Int(field.rawValue)]
    return index == Self.absent ? nil : Int(index)
  }

  func contains(_ field: KnownField) -> Bool { firsts[Int(field.rawValue)] != Self.absent }

  func count(of field: KnownField) -> Int {
    guard let first = firstIndex(of: field) else { return 0 }
    var count = 0
    for index in first..<lines.count where lines[index].field == field { count += 1 }
    return count
  }

  mutating func markConnectionOption(at index: Int) { lines[index].isConnectionOption = true }

  /// True between lines: what was read so far are whole field lines.
  var isAtLineStart: Bool { phase == .lineStart }

  mutating func scan(_ bytes: RawSpan, toleratesSpaceBeforeColon: Bool) -> Scan {
    let end = min(bytes.byteCount, sectionStart + sectionBytes)
    while position < end {
      switch phase {
      case .lineStart:
        if let error = beginLine(bytes.byte(at: position)) { return .failed(error) }
      case .name:
        if let error = readName(bytes, to: end, toleratesSpaceBeforeColon) { return .failed(error) }
      case .colon:
        while position < end, ByteClass.isBlank(bytes.byte(at: position)) { position += 1 }
        guard position < end else { break }
        guard bytes.byte(at: position) == ByteClass.colon else { return .failed(.invalidFieldName) }
        position += 1
        phase = .beforeValue
      case .beforeValue:
        while position < end, ByteClass.isBlank(bytes.byte(at: position)) { position += 1 }
        guard position < end else { break }
        valueStart = position
        phase = .value
      case .value:
        if let error = readValue(bytes, to: end) { return .failed(error) }
      case .lineEnd, .sectionEnd:
        guard bytes.byte(at: position) == ByteClass.lineFeed else { return .failed(.bareCR) }
        position += 1
        if phase == .sectionEnd { return .complete(end: position) }
        phase = .lineStart
      }
    }
    return position - sectionStart >= sectionBytes ? .failed(.sectionTooLong) : .incomplete
  }

  private mutating func beginLine(_ byte: UInt8) -> HeadError? {
    switch byte {
    case ByteClass.carriageReturn:
      position += 1
      phase = .sectionEnd
      return nil
    case ByteClass.lineFeed: return .bareLF
    case ByteClass.space, ByteClass.horizontalTab: return .obsFold
    default:
      guard ByteClass.isTokenCharacter(byte) else { return .invalidFieldName }
      guard lines.count < linesMax else { return .tooManyFields }
      name = ByteRange(position..<position)
      phase = .name
      return nil
    }
  }

  private mutating func readName(_ bytes: RawSpan, to end: Int, _ toleratesSpace: Bool) -> HeadError? {
    let offset = bytes.endOfToken(from: position, to: end)
    position = offset
    guard offset < end else { return nil }
    name = ByteRange(name.start..<offset)
    switch bytes.byte(at: offset) {
    case ByteClass.colon:
      phase = .beforeValue
    case ByteClass.space, ByteClass.horizontalTab:
      guard toleratesSpace else { return .spaceBeforeColon }
      phase = .colon
    default:
      return .invalidFieldName
    }
    position = offset + 1
    return nil
  }

  private mutating func readValue(_ bytes: RawSpan, to end: Int) -> HeadError? {
    let offset = bytes.endOfFieldValue(from: position, to: end)
    position = offset
    guard offset < end else { return nil }
    switch bytes.byte(at: offset) {
    case ByteClass.carriageReturn: break
    case ByteClass.lineFeed: return .bareLF
    default: return .invalidFieldValue
    }
    var last = offset
    while last > valueStart, ByteClass.isBlank(bytes.byte(at: last - 1)) { last -= 1 }
    append(KnownField.named(bytes, name), value: ByteRange(valueStart..<last))
    position = offset + 1
    phase = .lineEnd
    return nil
  }

  private mutating func append(_ field: KnownField, value: ByteRange) {
    let slot = Int(field.rawValue)
    if firsts[slot] == Self.absent { firsts[slot] = UInt8(lines.count) }
    lines.append(FieldLine(name: name, value: value, field: field, isConnectionOption: field.isHopByHop))
  }
}
