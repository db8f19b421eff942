/// The head of a response: status line and header section (RFC 9112 §2.1), parsed in place.
///
/// A reusable table like `RequestHead`; what is kept of the head before serves requests of the same method.
public final class ResponseHead {
  private enum Phase: Equatable {
    /// As `RequestHead`'s.
    case kept
    case statusLine, fields
    case complete(bytes: Int)
    case failed(HeadError)
  }

  public let limits: HeadLimits
  private var phase = Phase.statusLine
  private var line = StatusLine()
  private var section: FieldSection
  private var connection = ConnectionOptions()
  private var keptText = KeptText()
  /// The method that the head was read for.
  private var method = Method.other

  // After completion only:

  /// 100 to 999.
  public var status: Int { line.status }
  /// May be empty.
  public var reason: ByteRange { line.reason }
  /// 0 or 1; a higher minor version counts as 1 (RFC 9110 §2.5).
  public var minorVersion: UInt8 { line.minorVersion }
  /// In the order they came, repeats kept.
  public var lines: [FieldLine] { section.lines }
  public private(set) var framing = MessageFraming.none
  /// What the `Content-Length` field says: with `framing` `none` it is the length that the content of a
  /// response to GET would have (RFC 9110 §8.6), and nil there where the field is not valid.
  public private(set) var contentLength: UInt64?
  /// Whether the connection can go on after this response (RFC 9112 §9.3). Of a 101 and of a 2xx to CONNECT
  /// it says nothing.
  public var isPersistent: Bool {
    framing != .untilClose && connection.isPersistent(minorVersion: minorVersion)
  }
  /// `Connection: upgrade`.
  public var connectionHasUpgrade: Bool { connection.upgrade }
  /// 100 to 199: another response to the same request follows, except after 101.
  public var isInterim: Bool { status < 200 }

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
    case .complete, .failed, .fields, .statusLine: clear()
    }
  }

  private func clear() {
    phase = .statusLine
    line = StatusLine()
    section.reset(start: 0)
    piece = nil
    connection = ConnectionOptions()
    framing = .none
    contentLength = nil
  }

  /// As `RequestHead.parse`. `requestMethod` is that of the request being answered; it decides whether there
  /// can be a body.
  public func parse(_ bytes: RawSpan, requestMethod: Method) -> HeadParse {
    if phase == .kept {
      if requestMethod == method, keptText.begins(bytes) { phase = .complete(bytes: keptText.count) } else { clear() }
    }
    if phase == .statusLine {
      switch line.scan(bytes, lineBytesMax: limits.requestLineBytes) {
      case .incomplete: return .incomplete
      case .failed(let error): phase = .failed(error)
      case .complete:
        section.reset(start: line.position)
        phase = .fields
      }
    }
    if phase == .fields {
      switch section.scan(bytes, toleratesSpaceBeforeColon: true) {
      case .incomplete: return .incomplete
      case .failed(let error): phase = .failed(error)
      case .complete(let end):
        connection = section.readConnectionOptions(bytes)
        if let error = readFraming(bytes, requestMethod) {
          phase = .failed(error)
        } else {
          phase = .complete(bytes: end)
          method = requestMethod
          keptText.keep(bytes.extracting(first: end), section)
        }
      }
    }
    switch phase {
    case .kept, .statusLine, .fields: return .incomplete
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

  /// RFC 9112 §6.3 for responses, rule by rule.
  private func readFraming(_ bytes: RawSpan, _ method: Method) -> HeadError? {
    let length = section.contentLength(bytes, acceptsIdentical: true)
    let isSwitchToTunnel = method == .connect && (200...299).contains(status)
    if method == .head || isInterim || status == 204 || status == 304 || isSwitchToTunnel {
      // Rules 1 and 2: no body, whatever the framing fields say.
      framing = .none
      if case .value(let value) = length, !section.contains(.transferEncoding) { contentLength = value }
      return nil
    }
    if section.contains(.transferEncoding) {
      // Rules 3 and 4, and §6.1 for HTTP/1.0; nothing ambiguous is read until close.
      if minorVersion == 0 { return .transferEncodingInHTTP10 }
      if section.contains(.contentLength) { return .contentLengthWithTransferEncoding }
      if let error = section.transferCodingFault(bytes) { return error }
      framing = .chunked
      return nil
    }
    switch length {
    case .failed(let error): return error  // rule 5
    case .value(let value):  // rule 6
      framing = .contentLength(value)
      contentLength = value
    case .absent: framing = .untilClose  // rule 8
    }
    return nil
  }
}
