internal import HTTPSyntax

/// The form of a path in which rules' prefixes are compared: without query, octets decoded, empty and dot segments gone
/// (RFC 3986 §6.2.2, and what origins do beyond it).
///
/// An origin may take `/oauth/%74oken`, `/x/../oauth/token` and `//oauth/token` for its token endpoint, so what holds for
/// one spelling holds for all. The path is forwarded as it came.
package enum MatchingPath {
  /// nil where the path is in that form already, but for a query.
  package static func normalized(_ path: RawSpan) -> [UInt8]? {
    if isNormal(path) { return nil }
    let decoded = decoded(path)
    var segments: [ArraySlice<UInt8>] = []
    var endsInside = false
    for segment in decoded.split(separator: slash, omittingEmptySubsequences: false) {
      endsInside = true
      switch segment {
      case []: endsInside = false
      case [dot]: endsInside = false
      case [dot, dot]:
        endsInside = false
        if !segments.isEmpty { segments.removeLast() }
      default: segments.append(segment)
      }
    }
    var normal: [UInt8] = []
    for segment in segments {
      normal.append(slash)
      normal += segment
    }
    if !endsInside { normal.append(slash) }
    return normal
  }

  static func normalized(prefix: [UInt8]) -> [UInt8] { unsafe normalized(prefix.span.bytes) ?? prefix }

  private static let slash = UInt8(ascii: "/")
  private static let dot = UInt8(ascii: ".")
  private static let query = UInt8(ascii: "?")
  private static let percent = UInt8(ascii: "%")

  /// Every path that is not in the form has a `%`, or a `/` before a `/` or a dot.
  private static func isNormal(_ path: RawSpan) -> Bool {
    var previous = UInt8(0)
    for index in 0..<path.byteCount {
      let byte = path.byte(at: index)
      if byte == query { return true }
      if byte == percent || previous == slash && (byte == slash || byte == dot) { return false }
      previous = byte
    }
    return true
  }

  /// A `%` that begins no octet stands for itself.
  private static func decoded(_ path: RawSpan) -> [UInt8] {
    var bytes: [UInt8] = []
    var index = 0
    while index < path.byteCount, path.byte(at: index) != query {
      if path.byte(at: index) == percent, index + 2 < path.byteCount,
        let high = ByteClass.hexadecimalDigit(path.byte(at: index + 1)),
        let low = ByteClass.hexadecimalDigit(path.byte(at: index + 2)) {
        bytes.append(high << 4 | low)
        index += 3
      } else {
        bytes.append(path.byte(at: index))
        index += 1
      }
    }
    return bytes
  }
}
