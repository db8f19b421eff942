/// What one scan of a start line found.
enum LineScan: Equatable {
  case incomplete
  /// `position` is after the CRLF.
  case complete
  case failed(HeadError)
}

/// `method SP request-target SP HTTP-version CRLF` (RFC 9112 §3), resumable at any byte.
struct RequestLine {
  private enum Phase {
    /// Empty lines that some clients send after a body (RFC 9112 §2.2).
    case leading
    case method, target, version, lineEnd
  }

  private(set) var method = Method.other
  private(set) var methodRange = ByteRange.empty
  private(set) var target = ByteRange.empty
  private(set) var minorVersion: UInt8 = 1
  private(set) var position = 0
  private var phase = Phase.leading
  private var lineStart = 0
  /// Where the element being read begins.
  private var mark = 0

  /// Four empty lines; a client that sends more of them sends no request.
  private static let leadingBytesMax = 8

  mutating func scan(_ bytes: RawSpan, lineBytesMax: Int) -> LineScan {
    if phase == .leading {
      if let error = skipEmptyLines(bytes) { return .failed(error) }
      if phase == .leading { return .incomplete }
    }
    let end = min(bytes.byteCount, lineStart + lineBytesMax)
    while position < end {
      switch phase {
      case .leading: break
      case .method:
        if let error = readMethod(bytes, to: end) { return .failed(error) }
      case .target:
        if let error = readTarget(bytes, to: end) { return .failed(error) }
      case .version:
        if position == mark, end - position >= 8, bytes.contains("HTTP/1.1", at: position) {
          position += 8
          minorVersion = 1
          phase = .lineEnd
          continue
        }
        if let error = bytes.versionFault(at: position, index: position - mark, else: .malformedRequestLine) {
          return .failed(error)
        }
        position += 1
        if position - mark == 8 {
          minorVersion = bytes.byte(at: position - 1) == 0x30 ? 0 : 1
          phase = .lineEnd
        }
      case .lineEnd:
        let byte = bytes.byte(at: position)
        if byte == ByteClass.lineFeed {
          position += 1
          return position - mark == 10 ? .complete : .failed(.bareLF)
        }
        // Only a line feed may follow the carriage return.
        if position - mark == 9 { return .failed(.bareCR) }
        guard byte == ByteClass.carriageReturn else { return .failed(.malformedRequestLine) }
        position += 1
      }
    }
    guard position - lineStart >= lineBytesMax else { return .incomplete }
    return .failed(phase == .method ? .requestLineTooLong : .targetTooLong)
  }

  private mutating func skipEmptyLines(_ bytes: RawSpan) -> HeadError? {
    while position < bytes.byteCount {
      let byte = bytes.byte(at: position)
      if position % 2 == 1 {
        guard byte == ByteClass.lineFeed else { return .bareCR }
      } else if byte != ByteClass.carriageReturn {
        lineStart = position
        mark = position
        phase = .method
        return nil
      } else if position >= Self.leadingBytesMax {
        return .malformedRequestLine
      }
      position += 1
    }
    return nil
  }

  private mutating func readMethod(_ bytes: RawSpan, to end: Int) -> HeadError? {
    position = bytes.endOfToken(from: position, to: end)
    guard position < end else { return nil }
    guard bytes.byte(at: position) == ByteClass.space, position > mark else { return .malformedRequestLine }
    methodRange = ByteRange(mark..<position)
    method = Method.named(bytes, methodRange)
    position += 1
    mark = position
    phase = .target
    return nil
  }

  private mutating func readTarget(_ bytes: RawSpan, to end: Int) -> HeadError? {
    position = bytes.endOfTarget(from: position, to: end)
    guard position < end else { return nil }
    switch bytes.byte(at: position) {
    case ByteClass.space where position > mark:
      target = ByteRange(mark..<position)
      position += 1
      mark = position
      phase = .version
      return nil
    case ByteClass.space, ByteClass.carriageReturn, ByteClass.lineFeed: return .malformedRequestLine
    default: return .invalidTarget
    }
  }
}

/// `HTTP-version SP status-code [SP reason] CRLF` (RFC 9112 §4), resumable at any byte.
///
/// The white space before an empty reason, which the RFC requires, may be missing: many servers omit it.
struct StatusLine {
  private enum Phase { case version, afterVersion, code, afterCode, reason, lineEnd }

  /// 100 to 999.
  private(set) var status = 0
  private(set) var reason = ByteRange.empty
  private(set) var minorVersion: UInt8 = 1
  private(set) var position = 0
  private var phase = Phase.version
  private var mark = 0

  mutating func scan(_ bytes: RawSpan, lineBytesMax: Int) -> LineScan {
    let end = min(bytes.byteCount, lineBytesMax)
    while position < end {
      let byte = bytes.byte(at: position)
      switch phase {
      case .version:
        if position == 0, end >= 8, bytes.contains("HTTP/1.1", at: 0) {
          position = 8
          phase = .afterVersion
          continue
        }
        if let error = bytes.versionFault(at: position, index: position, else: .malformedStatusLine) {
          return .failed(error)
        }
        if position == 7 {
          minorVersion = byte == 0x30 ? 0 : 1
          phase = .afterVersion
        }
      case .afterVersion:
        guard byte == ByteClass.space else { return .failed(.malformedStatusLine) }
        phase = .code
      case .code:
        if status == 0, end - position >= 3, let code = bytes.threeDigits(at: position) {
          status = code
          position += 3
          phase = .afterCode
          continue
        }
        guard ByteClass.isDigit(byte), status > 0 || byte != 0x30 else { return .failed(.malformedStatusLine) }
        status = status * 10 + Int(byte - 0x30)
        if status >= 100 { phase = .afterCode }
      case .afterCode:
        mark = position + 1
        switch byte {
        case ByteClass.space: phase = .reason
        case ByteClass.carriageReturn: phase = .lineEnd
        case ByteClass.lineFeed: return .failed(.bareLF)
        default: return .failed(.malformedStatusLine)
        }
      case .reason:
        position = bytes.endOfFieldValue(from: position, to: end)
        guard position < end else { continue }
        switch bytes.byte(at: position) {
        case ByteClass.carriageReturn: break
        case ByteClass.lineFeed: return .failed(.bareLF)
        default: return .failed(.malformedStatusLine)
        }
        reason = ByteRange(mark..<position)
        phase = .lineEnd
      case .lineEnd:
        guard byte == ByteClass.lineFeed else { return .failed(.bareCR) }
        position += 1
        return .complete
      }
      position += 1
    }
    return position >= lineBytesMax ? .failed(.statusLineTooLong) : .incomplete
  }
}

extension RawSpan {
  /// 100 to 999.
  fileprivate func threeDigits(at offset: Int) -> Int? {
    let (first, second, third) = (byte(at: offset), byte(at: offset + 1), byte(at: offset + 2))
    guard ByteClass.isDigit(first), first != 0x30, ByteClass.isDigit(second), ByteClass.isDigit(third) else { return nil }
    return Int(first - 0x30) * 100 + Int(second - 0x30) * 10 + Int(third - 0x30)
  }

  /// Byte `index` (0 to 7) of `HTTP/1.x` (RFC 9112 §2.3). Another major version is `version`, anything else `fault`.
  fileprivate func versionFault(at offset: Int, index: Int, else fault: HeadError) -> HeadError? {
    let name: StaticString = "HTTP/"
    let byte = byte(at: offset)
    switch index {
    case 0..<5:
      let expected = unsafe name.utf8Start[index]
      return byte == expected ? nil : fault
    case 5: return ByteClass.isDigit(byte) ? nil : fault
    case 6: return byte == ByteClass.dot ? nil : fault
    default:
      guard ByteClass.isDigit(byte) else { return fault }
      return self.byte(at: offset - 2) == 0x31 ? nil : .version
    }
  }
}
