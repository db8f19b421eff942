public import HTTPSyntax

/// How a request's head is written anew for the upstream. What is parsed is what is written: field lines are
/// copied one by one, never the section as a whole, and the framing is our own.
///
/// Not copyable, because each copy would count references to all of its arrays, for each request: it is filled in and
/// written where it lies.
public struct ForwardedRequest: ~Copyable, Sendable {
  /// Path and query within the client's bytes; without a leading slash one is put before it.
  public var path: ByteRange
  /// `Authorization: Bearer …\r\n`, or empty.
  public var authorizationLine: [UInt8]
  /// A client's own `Authorization` goes on (routes without a token, or `keep`).
  public var keepsClientAuthorization: Bool
  public var via: ViaLine
  public var framing: MessageFraming
  public var sendsExpect: Bool
  /// `Idempotency-Key: …\r\n`, or empty.
  public var idempotencyLine: [UInt8]
  /// The client asks to switch protocols, and the upstream may (RFC 9110 §7.8).
  public var asksForUpgrade: Bool
  /// The value of `Max-Forwards` to send in place of the client's; nil sends that as it came.
  public var maxForwards: UInt64?

  public init(
    path: ByteRange = .empty, authorizationLine: [UInt8] = [],
    keepsClientAuthorization: Bool = false, via: ViaLine, framing: MessageFraming = .none,
    sendsExpect: Bool = false, idempotencyLine: [UInt8] = [], asksForUpgrade: Bool = false, maxForwards: UInt64? = nil
  ) {
    self.path = path
    self.authorizationLine = authorizationLine
    self.keepsClientAuthorization = keepsClientAuthorization
    self.via = via
    self.framing = framing
    self.sendsExpect = sendsExpect
    self.idempotencyLine = idempotencyLine
    self.asksForUpgrade = asksForUpgrade
    self.maxForwards = maxForwards
  }

  /// For another request: all but `via` is as at first.
  public mutating func reset() {
    path = .empty
    authorizationLine = []
    keepsClientAuthorization = false
    framing = .none
    sendsExpect = false
    idempotencyLine = []
    asksForUpgrade = false
    maxForwards = nil
  }

  /// Upper bound of what `write` appends for a head of `headBytes`.
  public func bytesMax(headBytes: Int, hostLine: [UInt8]) -> Int {
    headBytes + HeadLimits.fieldsMax + hostLine.count + authorizationLine.count + idempotencyLine.count
      + via.count + 128
  }

  /// Appends the head. The caller has made `bytesMax` room.
  ///
  /// - Parameter hostLine: `Host: api.example.com\r\n`, the upstream's own.
  public func write(_ head: RequestHead, _ bytes: RawSpan, hostLine: [UInt8], into out: inout ByteBuffer) {
    writeRequestLine(head, bytes, into: &out)
    // Host first (RFC 9112 §3.2 asks for it early).
    out.append(array: hostLine)
    out.append(array: authorizationLine)
    writeLines(head, bytes, into: &out)
    if !idempotencyLine.isEmpty { out.append(array: idempotencyLine) }
    if sendsExpect { out.append("Expect: 100-continue\r\n") }
    // RFC 9110 §10.1.4: an upstream may send trailers only to who says that it takes them.
    let takesTrailers = head.teTrailers && head.minorVersion > 0
    if takesTrailers { out.append("TE: trailers\r\n") }
    if asksForUpgrade {
      UpgradeFields.write(head.lines, bytes, withTE: takesTrailers, into: &out)
    } else if takesTrailers {
      out.append("Connection: TE\r\n")
    }
    switch framing {
    case .none, .untilClose: break
    case .contentLength(let length):
      out.append("Content-Length: ")
      out.append(decimal: length)
      out.append("\r\n")
    case .chunked: out.append("Transfer-Encoding: chunked\r\n")
    }
    out.append(array: via.sectionEnd(minorVersion: head.minorVersion))
  }

  private func writeLines(_ head: RequestHead, _ bytes: RawSpan, into out: inout ByteBuffer) {
    // Only the text decides what goes on.
    let isPlain = maxForwards == nil && !keepsClientAuthorization
    if isPlain, let piece = head.piece { return out.append(bytes.extracting(piece)) }
    var copied = CopiedPart()
    for index in head.lines.indices {
      let line = head.lines[index]
      if !forwards(line) { continue }
      if line.field == .maxForwards, let maxForwards {
        copied.interrupt(bytes, into: &out)
        out.append(bytes.extracting(line.name.offsets))
        out.append(": ")
        out.append(decimal: maxForwards)
        out.append("\r\n")
      } else {
        copied.append(line, of: bytes, into: &out)
      }
    }
    copied.end(bytes, into: &out)
    if isPlain { head.piece = copied.onlyPiece }
  }

  private func writeRequestLine(_ head: RequestHead, _ bytes: RawSpan, into out: inout ByteBuffer) {
    let end = path.end + " HTTP/1.1\r\n".utf8.count
    // The line as we would write it (a later minor version is not ours): from the method on it is copied in one piece.
    if path == head.target, bytes.byte(at: path.start) == UInt8(ascii: "/"),
      bytes.byte(at: end - 3) == UInt8(ascii: "1") {
      return out.append(bytes.extracting(head.methodRange.start..<end))
    }
    out.append(bytes.extracting(head.methodRange.offsets))
    out.append(" ")
    writePathStart(head, bytes, into: &out)
    out.append(bytes.extracting(path.offsets))
    out.append(" HTTP/1.1\r\n")
  }

  /// An empty path is a slash; of OPTIONS in absolute form it is an asterisk (RFC 9112 §3.2.4).
  private func writePathStart(_ head: RequestHead, _ bytes: RawSpan, into out: inout ByteBuffer) {
    if path.isEmpty {
      let isAbsoluteForm = bytes.byte(at: head.target.start) != UInt8(ascii: "/")
      out.append(head.method == .options && isAbsoluteForm ? "*" : "/")
    } else if bytes.byte(at: path.start) == UInt8(ascii: "?") {
      out.append("/")
    }
  }

  private func forwards(_ line: FieldLine) -> Bool {
    if line.isConnectionOption { return false }
    switch line.field {
    case .host, .contentLength, .expect: return false
    case .authorization: return keepsClientAuthorization
    case .bearerdSession, .bearerdAuth, .bearerdRetry, .bearerdReplayable, .bearerdClientSecret: return false
    case .connection, .proxyConnection, .keepAlive, .te, .trailer, .transferEncoding, .upgrade,
      .proxyAuthorization, .proxyAuthenticate, .proxyAuthenticationInfo, .http2Settings:
      return false
    case .other, .wwwAuthenticate, .via, .maxForwards, .idempotencyKey, .location, .contentLocation, .setCookie,
      .cookie, .date, .retryAfter, .origin, .secFetchSite, .secFetchMode, .accessControlRequestMethod,
      .accessControlRequestHeaders, .accessControlRequestPrivateNetwork, .contentType, .age, .server:
      return true
    }
  }
}

extension FieldLine {
  /// Whether the line stands in the head as it would be written: one space before the value, none behind it.
  func isPlain(in bytes: RawSpan) -> Bool {
    value.start == name.end + 2 && bytes.byte(at: name.end) == UInt8(ascii: ":")
      && bytes.byte(at: name.end + 1) == UInt8(ascii: " ") && bytes.byte(at: value.end) == UInt8(ascii: "\r")
  }
}

extension HeadLimits {
  /// The most field lines a head can have. Each may grow by the space behind its colon, which a peer may leave out.
  static let fieldsMax = 255
}

/// What an `Upgrade` offers and a 101 grants (RFC 9110 §7.8).
public enum UpgradeOffer {
  /// Whether the request offers something to switch to. `h2c` is nothing: RFC 9113 §3.1 has made it obsolete, and what
  /// went through that tunnel would be requests that nobody judged.
  public static func isUsable(_ head: RequestHead, _ bytes: RawSpan) -> Bool {
    var count = 0
    var isUsable = true
    forEachProtocol(head.lines, bytes) { name in
      count += 1
      if name.equalsIgnoringCase("h2c") || name.equalsIgnoringCase("h2") { isUsable = false }
    }
    return count > 0 && isUsable
  }

  /// Whether the response switches to what the request offers, and says so.
  public static func grants(
    _ response: ResponseHead, _ responseBytes: RawSpan, _ request: RequestHead, _ requestBytes: RawSpan
  ) -> Bool {
    var count = 0
    var isOffered = true
    forEachProtocol(response.lines, responseBytes) { granted in
      count += 1
      var found = false
      forEachProtocol(request.lines, requestBytes) { offered in
        if granted.equalsIgnoringCase(offered) { found = true }
      }
      if !found { isOffered = false }
    }
    return count > 0 && isOffered
  }

  private static func forEachProtocol(_ lines: [FieldLine], _ bytes: RawSpan, _ body: (RawSpan) -> Void) {
    for line in lines where line.field == .upgrade {
      FieldValues.forEachElement(of: bytes.extracting(line.value.offsets)) { element in
        body(element)
        return true
      }
    }
  }
}

/// `Upgrade` and the `Connection` that goes with it, on requests that ask for a switch and on the 101 that grants it.
enum UpgradeFields {
  static func write(_ lines: [FieldLine], _ bytes: RawSpan, withTE: Bool = false, into out: inout ByteBuffer) {
    out.append(withTE ? "Connection: upgrade, TE\r\n" : "Connection: upgrade\r\n")
    for line in lines where line.field == .upgrade {
      out.append("Upgrade: ")
      out.append(bytes.extracting(line.value.offsets))
      out.append("\r\n")
    }
  }
}

extension ByteBuffer {
  /// All of `bytes`; there must be room.
  public mutating func append(array bytes: [UInt8]) { append(unsafe bytes.span.bytes) }

  /// All of `bytes`; there must be room.
  mutating func append(array bytes: ArraySlice<UInt8>) { append(unsafe bytes.span.bytes) }
}

/// What goes on as it came: pieces of a message that follow one another are copied as one.
struct CopiedPart {
  private var start = 0
  private var stop = 0
  /// Something else stands between the pieces, or before them.
  private var isInterrupted = false

  /// Before anything else is appended to `out`, `interrupt` or at last `end` must be called; there must be room.
  mutating func append(_ piece: Range<Int>, of bytes: RawSpan, into out: inout ByteBuffer) {
    if piece.lowerBound != stop {
      if start < stop { interrupt(bytes, into: &out) }
      start = piece.lowerBound
    }
    stop = piece.upperBound
  }

  /// A field line, `Name: value` and CRLF whatever white space it came with.
  mutating func append(_ line: FieldLine, of bytes: RawSpan, into out: inout ByteBuffer) {
    if line.isPlain(in: bytes) { return append(line.name.start..<line.value.end + 2, of: bytes, into: &out) }
    interrupt(bytes, into: &out)
    out.append(bytes.extracting(line.name.offsets))
    out.append(": ")
    out.append(bytes.extracting(line.value.offsets))
    out.append("\r\n")
  }

  /// Something else comes next.
  mutating func interrupt(_ bytes: RawSpan, into out: inout ByteBuffer) {
    end(bytes, into: &out)
    start = stop
    isInterrupted = true
  }

  func end(_ bytes: RawSpan, into out: inout ByteBuffer) {
    if start < stop { out.append(bytes.extracting(start..<stop)) }
  }

  /// After `end`: all that was copied, perhaps nothing; nil where it is not one piece.
  var onlyPiece: Range<Int>? { isInterrupted ? nil : start..<stop }
}

/// Our `Via` line, for messages of either version (RFC 9110 §7.6.3), and the empty line behind it where it is the last.
public struct ViaLine: Sendable {
  private let http10: [UInt8]
  private let http11: [UInt8]

  public init(pseudonym: [UInt8]) {
    http10 = Array("Via: 1.0 ".utf8) + pseudonym + Array("\r\n\r\n".utf8)
    http11 = Array("Via: 1.1 ".utf8) + pseudonym + Array("\r\n\r\n".utf8)
  }

  /// The line and the empty line.
  ///
  /// - Parameter minorVersion: of the message received.
  func sectionEnd(minorVersion: UInt8) -> [UInt8] { minorVersion == 0 ? http10 : http11 }

  /// The line alone.
  func line(minorVersion: UInt8) -> ArraySlice<UInt8> { sectionEnd(minorVersion: minorVersion).dropLast(2) }

  /// Bytes of the line and the section's end.
  var count: Int { http11.count }
}
