/// How origins may read a path: RFC 3986 leaves no doubt about most, but a path with encoded, empty or dot segments is
/// one resource to one server and another to the next.
///
/// Rules about paths must hold however the origin reads them. A reading has its octets decoded, its dot segments
/// resolved (RFC 3986 §5.2.4, §6.2.2) and no query; a `/` in it ends a segment, and nothing else does.
public enum PathReadings {
  /// The readings that differ, the one by RFC 3986 first; nil where the path, but for a query, is its only reading.
  ///
  /// Servers differ in whether `%2F` and a backslash separate segments, whether empty segments count, and whether `;`
  /// begins parameters that are no part of a segment.
  public static func of(_ path: RawSpan) -> [[UInt8]]? {
    if isPlain(path) { return nil }
    var readings: [[UInt8]] = []
    for choice in UInt8(0)..<8 {
      let reading = read(path, Reader(rawValue: choice))
      if !readings.contains(reading) { readings.append(reading) }
    }
    return readings
  }

  /// The reading of a configured prefix by RFC 3986.
  public static func standard(_ prefix: [UInt8]) -> [UInt8] { unsafe of(prefix.span.bytes)?[0] ?? prefix }

  private struct Reader: OptionSet {
    let rawValue: UInt8
    static let decodesSlash = Reader(rawValue: 1)
    static let mergesSlashes = Reader(rawValue: 2)
    static let dropsParameters = Reader(rawValue: 4)
  }

  private static let slash = UInt8(ascii: "/")
  private static let backslash = UInt8(ascii: "\\")
  private static let dot = UInt8(ascii: ".")
  private static let query = UInt8(ascii: "?")
  private static let percent = UInt8(ascii: "%")
  private static let semicolon = UInt8(ascii: ";")

  /// Whatever can be read in two ways has one of these.
  private static func isPlain(_ path: RawSpan) -> Bool {
    var previous = UInt8(0)
    for index in 0..<path.byteCount {
      let byte = path.byte(at: index)
      if byte == query { return true }
      if byte == percent || byte == semicolon || byte == backslash { return false }
      if previous == slash && (byte == slash || byte == dot) { return false }
      previous = byte
    }
    return true
  }

  private static func read(_ path: RawSpan, _ reader: Reader) -> [UInt8] {
    var segments: [[UInt8]] = []
    var segment: [UInt8] = []
    var isInParameters = false
    /// A last segment that is a dot segment, or merged away, leaves a slash at the end.
    var endsInSlash = true

    func endSegment() {
      switch segment {
      case [dot]: endsInSlash = true
      case [dot, dot]:
        if !segments.isEmpty { segments.removeLast() }
        endsInSlash = true
      case [] where reader.contains(.mergesSlashes): endsInSlash = true
      default:
        segments.append(segment)
        endsInSlash = false
      }
      segment = []
      isInParameters = false
    }

    var index = 0
    var isFirst = true
    while index < path.byteCount, path.byte(at: index) != query {
      let raw = path.byte(at: index)
      let octet = raw == percent ? self.octet(path, at: index) : nil
      index += octet == nil ? 1 : 3
      let byte = octet ?? raw
      let isSeparator = raw == slash || reader.contains(.decodesSlash) && (byte == slash || byte == backslash)
      if isSeparator {
        // What stands before the first slash is nothing.
        if !isFirst || !segment.isEmpty { endSegment() }
      } else if isInParameters || reader.contains(.dropsParameters) && raw == semicolon {
        isInParameters = true
      } else if octet == slash {
        segment += "%2F".utf8
      } else {
        segment.append(byte)
      }
      isFirst = false
    }
    if segment.isEmpty && !isInParameters {
      // An empty segment at the end is the slash there.
      endsInSlash = true
    } else {
      endSegment()
    }
    var reading: [UInt8] = []
    for segment in segments {
      reading.append(slash)
      reading += segment
    }
    if endsInSlash { reading.append(slash) }
    return reading
  }

  /// The octet that `%XX` stands for; a `%` that begins none stands for itself.
  private static func octet(_ path: RawSpan, at index: Int) -> UInt8? {
    guard index + 2 < path.byteCount, let high = ByteClass.hexadecimalDigit(path.byte(at: index + 1)),
      let low = ByteClass.hexadecimalDigit(path.byte(at: index + 2))
    else { return nil }
    return high << 4 | low
  }
}
