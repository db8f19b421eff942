/// The head of a request: request line and header section (RFC 9112 §2.1), parsed in place.
///
/// A reusable table: `reset()` makes it ready for the next head and keeps its memory, so that a head costs no
/// allocation. It also keeps what it holds until the next head turns out to be another: one that comes again, byte for
/// byte, is not read again. Offsets refer to the bytes given to `parse`. Whoever keeps a copy of `lines` across the
/// next `parse` makes that one allocate.
public final class RequestHead {
  private enum Phase: Equatable {
    /// The table holds the head before this one, whose first bytes decide whether it is the same again.
    case kept
    case requestLine, fields
    case complete(bytes: Int)
    case failed(HeadError)
  }

  public let limits: HeadLimits
  private var phase = Phase.requestLine
  private var line = RequestLine()
  private var section: FieldSection
  private var connection = ConnectionOptions()
  private var keptText = KeptText()

  // After completion only:

  public var method: Method { line.method }
  public var methodRange: ByteRange { line.methodRange }
  /// The request-target as it came, for `RequestTarget.parse`. Visible ASCII.
  public var target: ByteRange { line.target }
  /// 0 or 1; a higher minor version counts as 1 (RFC 9110 §2.5).
  public var minorVersion: UInt8 { line.minorVersion }
  /// In the order they came, repeats kept.
  public var lines: [FieldLine] { section.lines }
  /// Never `untilClose`.
  public private(set) var framing = MessageFraming.none
  /// nil where there is no `Host` field, or an empty one (RFC 9112 §3.2).
  public private(set) var hostAuthority: Authority?
  /// Whether the client lets the connection go on after this exchange (RFC 9112 §9.3).
  public var isPersistent: Bool { connection.isPersistent(minorVersion: minorVersion) }
  /// `Connection: upgrade`.
  public var connectionHasUpgrade: Bool { connection.upgrade }
  /// `Expect: 100-continue` in HTTP/1.1; in HTTP/1.0 it is ignored (RFC 9110 §10.1.1).
  public private(set) var expectsContinue = false
  /// An expectation other than `100-continue`, which is answered 417.
  public private(set) var hasUnknownExpectation = false
  /// `TE: trailers`.
  public private(set) var teTrailers = false
  /// Of the texts that this table has read. A head that is, byte for byte, the one before it was not read again and has
  /// that one's number: what was concluded from that one holds for it.
  public private(set) var textNumber: UInt64 = 0
  /// The text can come again under its number.
  public var isKept: Bool { keptText.count > 0 }

  /// For who writes the head on: where the lines that go on stand, if all of them go on as they came and follow one
  /// another. It stays as long as the text; nil where that is not so, or not known.
  public var piece: Range<Int>?

  public init(limits: HeadLimits) {
    self.limits = limits
    section = FieldSection(limits: limits)
  }

  public func reset() {
    switch phase {
    case .kept: break
    case .complete where keptText.count > 0: phase = .kept
    case .complete, .failed, .fields, .requestLine: clear()
    }
  }

  private func clear() {
    phase = .requestLine
    line = RequestLine()
    section.reset(start: 0)
    piece = nil
    connection = ConnectionOptions()
    framing = .none
    hostAuthority = nil
    expectsContinue = false
    hasUnknownExpectation = false
    teTrailers = false
  }

  /// Goes on where the last call stopped: every byte is looked at once however the input is split. `bytes` is
  /// everything received since the head's first byte. After the end or a failure the answer stays the same
  /// until `reset()`.
  public func parse(_ bytes: RawSpan) -> HeadParse {
    if phase == .kept {
      if keptText.begins(bytes) { phase = .complete(bytes: keptText.count) } else { clear() }
    }
    if phase == .requestLine {
      switch line.scan(bytes, lineBytesMax: limits.requestLineBytes) {
      case .incomplete: return .incomplete
      case .failed(let error): phase = .failed(error)
      case .complete:
        section.reset(start: line.position)
        phase = .fields
      }
    }
    if phase == .fields {
      switch section.scan(bytes, toleratesSpaceBeforeColon: false) {
      case .incomplete: return .incomplete
      case .failed(let error): phase = .failed(error)
      case .complete(let end):
        if let error = interpret(bytes) {
          phase = .failed(error)
        } else {
          phase = .complete(bytes: end)
          textNumber += 1
          keptText.keep(bytes.extracting(first: end), section)
        }
      }
    }
    switch phase {
    case .kept, .requestLine, .fields: return .incomplete
    case .complete(let bytes): return .complete(bytes: bytes)
    case .failed(let error): return .failed(error)
    }
  }

  /// Index in `lines` of the field's first line.
  public func firstIndex(of field: KnownField) -> Int? { section.firstIndex(of: field) }

  /// How many lines the field has.
  public func count(of field: KnownField) -> Int { section.count(of: field) }

  /// The value of a line, during the call only.
  public func withValue<Result>(of line: FieldLine, in bytes: RawSpan, _ body: (RawSpan) -> Result) -> Result {
    body(bytes.extracting(line.value.offsets))
  }

  private func interpret(_ bytes: RawSpan) -> HeadError? {
    connection = section.readConnectionOptions(bytes)
    if let error = readFraming(bytes) ?? readHost(bytes) { return error }
    if section.contains(.expect) { readExpectations(bytes) }
    if section.contains(.te) { readTE(bytes) }
    return nil
  }

  /// RFC 9112 §6.3 for requests.
  private func readFraming(_ bytes: RawSpan) -> HeadError? {
    if section.contains(.transferEncoding) {
      if minorVersion == 0 { return .transferEncodingInHTTP10 }
      if section.contains(.contentLength) { return .contentLengthWithTransferEncoding }
      if let error = section.transferCodingFault(bytes) { return error }
      framing = .chunked
      return nil
    }
    switch section.contentLength(bytes, acceptsIdentical: false) {
    case .absent: framing = .none
    case .value(let length): framing = .contentLength(length)
    case .failed(let error): return error
    }
    return nil
  }

  /// RFC 9112 §3.2: exactly one in HTTP/1.1, at most one in HTTP/1.0, and valid.
  private func readHost(_ bytes: RawSpan) -> HeadError? {
    guard let first = section.firstIndex(of: .host) else { return minorVersion == 0 ? nil : .missingHost }
    if section.count(of: .host) > 1 { return .repeatedHost }
    let value = section.lines[first].value
    if value.isEmpty { return nil }
    switch Authority.parse(bytes, value) {
    case .success(let authority): hostAuthority = authority
    case .failure: return .invalidHost
    }
    return nil
  }

  private func readExpectations(_ bytes: RawSpan) {
    for line in section.lines where line.field == .expect {
      var elements = ListElements(line.value)
      while let element = elements.next(in: bytes) {
        if !bytes.equalsIgnoringCase(element, "100-continue") {
          hasUnknownExpectation = true
        } else if minorVersion > 0 {
          expectsContinue = true
        }
      }
    }
  }

  private func readTE(_ bytes: RawSpan) {
    for line in section.lines where line.field == .te {
      var elements = ListElements(line.value)
      while let element = elements.next(in: bytes) {
        if bytes.equalsIgnoringCase(element, "trailers") { teTrailers = true }
      }
    }
  }
}
