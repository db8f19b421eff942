public import HTTPSyntax

/// How a client of the gateway must see the origin in `Location` and `Content-Location`.
public struct LocationRewrite: Sendable {
  /// Values that begin with this, the origin,
  public var from: [UInt8]
  /// are given this instead.
  public var to: [UInt8]
  /// What a path-absolute reference gets before it: the end of `to`, or nothing.
  public var strippedPrefix: [UInt8]

  public init(from: [UInt8], to: [UInt8], strippedPrefix: [UInt8] = []) {
    self.from = from
    self.to = to
    self.strippedPrefix = strippedPrefix
  }
}

/// How a response's head is written anew for the client. Not copyable, like `ForwardedRequest`.
public struct ForwardedResponse: ~Copyable, Sendable {
  /// `.none` with a `Content-Length` line kept is right for HEAD and 304 (RFC 9110 §8.6).
  public var framing: MessageFraming
  /// The connection ends after this message: say so (RFC 9112 §9.6).
  public var closes: Bool
  /// An HTTP/1.0 client asked to keep its connection and can see where the content ends.
  public var keepsHTTP10Alive: Bool
  public var via: ViaLine
  /// Details for a `Proxy-Status` line of ours, after any the response has (RFC 9209 §2).
  public var note: String?
  /// `Date: …\r\n`, for a response that has none (RFC 9110 §6.6.1); empty for none.
  public var dateLine: [UInt8]
  /// Gateway mode, for a response that names a location.
  public var rewrite: LocationRewrite?

  public init(
    framing: MessageFraming = .none, closes: Bool = false, keepsHTTP10Alive: Bool = false, via: ViaLine,
    note: String? = nil, dateLine: [UInt8] = [], rewrite: LocationRewrite? = nil
  ) {
    self.framing = framing
    self.closes = closes
    self.keepsHTTP10Alive = keepsHTTP10Alive
    self.via = via
    self.note = note
    self.dateLine = dateLine
    self.rewrite = rewrite
  }

  public func bytesMax(headBytes: Int) -> Int {
    // Location and Content-Location may each grow by the new origin; a note's bytes may all be escaped.
    headBytes + HeadLimits.fieldsMax + via.count + dateLine.count + (note?.utf8.count ?? 0) * 2
      + 2 * (rewrite?.to.count ?? 0) + 192
  }

  public func write(_ head: ResponseHead, _ bytes: RawSpan, into out: inout ByteBuffer) {
    let contentLengthSeen = writeLines(head, bytes, into: &out)
    if head.firstIndex(of: .date) == nil { out.append(array: dateLine) }
    switch framing {
    case .none, .untilClose: break
    case .contentLength(let length):
      // Written anew where the response did not have it in a form to copy.
      if !contentLengthSeen {
        out.append("Content-Length: ")
        out.append(decimal: length)
        out.append("\r\n")
      }
    case .chunked: out.append("Transfer-Encoding: chunked\r\n")
    }
    if note == nil, head.status != 101, !closes, !keepsHTTP10Alive {
      return out.append(array: via.sectionEnd(minorVersion: head.minorVersion))
    }
    out.append(array: via.line(minorVersion: head.minorVersion))
    if let note {
      out.append("Proxy-Status: bearerd; details=\"")
      out.append(utf8: StructuredField.string(note))
      out.append("\"\r\n")
    }
    if head.status == 101 {
      UpgradeFields.write(head.lines, bytes, into: &out)
    } else if closes {
      out.append("Connection: close\r\n")
    } else if keepsHTTP10Alive {
      out.append("Connection: keep-alive\r\n")
    }
    out.append("\r\n")
  }

  /// For an interim response (RFC 9110 §15.2): its fields, no framing.
  public static func interim(via: ViaLine) -> ForwardedResponse { ForwardedResponse(via: via) }

  /// Status line and field lines; returns whether a length is among them.
  private func writeLines(_ head: ResponseHead, _ bytes: RawSpan, into out: inout ByteBuffer) -> Bool {
    // Only the text decides what goes on.
    let isPlain = rewrite == nil && framing == head.framing
    if isPlain, let piece = head.piece {
      out.append(bytes.extracting(piece))
      return head.contentLength != nil
    }
    var copied = CopiedPart()
    writeStatusLine(head, bytes, &copied, into: &out)
    var contentLengthSeen = false
    for index in head.lines.indices {
      let line = head.lines[index]
      if !forwards(line, head, &contentLengthSeen) { continue }
      if isCopied(line, head) {
        copied.append(line, of: bytes, into: &out)
      } else {
        copied.interrupt(bytes, into: &out)
        out.append(bytes.extracting(line.name.offsets))
        out.append(": ")
        writeValue(line, at: index, head, bytes, into: &out)
        out.append("\r\n")
      }
    }
    copied.end(bytes, into: &out)
    if isPlain { head.piece = copied.onlyPiece }
    return contentLengthSeen
  }

  private static let reasonStart = "HTTP/1.1 200 ".utf8.count

  private func writeStatusLine(
    _ head: ResponseHead, _ bytes: RawSpan, _ copied: inout CopiedPart, into out: inout ByteBuffer
  ) {
    // As we would write it (a later minor version is not ours).
    if head.reason.start == Self.reasonStart, bytes.byte(at: "HTTP/1.".utf8.count) == UInt8(ascii: "1") {
      return copied.append(0..<head.reason.end + 2, of: bytes, into: &out)
    }
    copied.interrupt(bytes, into: &out)
    out.append("HTTP/1.1 ")
    out.append(decimal: UInt64(head.status))
    out.append(" ")
    out.append(bytes.extracting(head.reason.offsets))
    out.append("\r\n")
  }

  private func isCopied(_ line: FieldLine, _ head: ResponseHead) -> Bool {
    switch line.field {
    // One number, as we would write it: no longer than its digits.
    case .contentLength: head.contentLength.map { $0.digitCount() == Int(line.value.count) } ?? true
    case .location, .contentLocation: rewrite == nil
    case _: true
    }
  }

  private func writeValue(
    _ line: FieldLine, at index: Int, _ head: ResponseHead, _ bytes: RawSpan, into out: inout ByteBuffer
  ) {
    // Of a list of identical numbers one is left (RFC 9110 §8.6).
    if line.field == .contentLength, let length = head.contentLength { return out.append(decimal: length) }
    let value = bytes.extracting(line.value.offsets)
    // A response has one Location; were each line of many rewritten, the head would outgrow `bytesMax`.
    guard let rewrite, line.field == .location || line.field == .contentLocation,
      head.firstIndex(of: line.field) == index
    else { return out.append(value) }
    if value.byteCount >= rewrite.from.count,
      value.extracting(first: rewrite.from.count).equalsIgnoringCase(rewrite.from),
      value.byteCount == rewrite.from.count || Self.endsAuthority(value.byte(at: rewrite.from.count)) {
      out.append(array: rewrite.to)
      out.append(value.extracting(droppingFirst: rewrite.from.count))
    } else if let authority = Self.networkPath(of: rewrite.from), let own = Self.networkPath(of: rewrite.to),
      value.byteCount >= authority.count, value.extracting(first: authority.count).equalsIgnoringCase(Array(authority)),
      value.byteCount == authority.count || Self.endsAuthority(value.byte(at: authority.count)) {
      out.append(array: own)
      out.append(value.extracting(droppingFirst: authority.count))
    } else {
      if Self.isPathAbsolute(value) { out.append(array: rewrite.strippedPrefix) }
      out.append(value)
    }
  }

  /// RFC 3986 §4.2: an origin without its scheme, `//host:port`.
  private static func networkPath(of origin: [UInt8]) -> ArraySlice<UInt8>? {
    origin.firstIndex(of: UInt8(ascii: "/")).map { origin[$0...] }
  }

  /// RFC 3986 §4.2: one slash, not two, which would begin an authority.
  private static func isPathAbsolute(_ value: RawSpan) -> Bool {
    let slash = UInt8(ascii: "/")
    guard value.byteCount > 0, value.byte(at: 0) == slash else { return false }
    return value.byteCount == 1 || value.byte(at: 1) != slash
  }

  /// `https://api.example.com.evil/` does not name the upstream's origin.
  private static func endsAuthority(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
  }

  private func forwards(_ line: FieldLine, _ head: ResponseHead, _ contentLengthSeen: inout Bool) -> Bool {
    if line.isConnectionOption { return false }
    switch line.field {
    case .contentLength:
      // RFC 9110 §8.6: none in 1xx and 204; one line where identical ones came; none that was not valid.
      if head.status < 200 || head.status == 204 || head.contentLength == nil || contentLengthSeen { return false }
      switch framing {
      case .none, .contentLength:
        contentLengthSeen = true
        return true
      case .chunked, .untilClose: return false
      }
    case .connection, .proxyConnection, .keepAlive, .te, .trailer, .transferEncoding, .upgrade,
      .proxyAuthorization, .proxyAuthenticate, .proxyAuthenticationInfo, .http2Settings:
      return false
    case .other, .host, .authorization, .wwwAuthenticate, .via, .expect, .maxForwards, .idempotencyKey, .location,
      .contentLocation, .setCookie, .cookie, .date, .retryAfter, .origin, .secFetchSite, .secFetchMode,
      .accessControlRequestMethod, .accessControlRequestHeaders, .accessControlRequestPrivateNetwork, .contentType,
      .age, .server, .bearerdSession, .bearerdAuth, .bearerdRetry, .bearerdReplayable,
      .bearerdClientSecret:
      return true
    }
  }
}
