import HTTPSyntax

/// A message as whoever receives it understands it: for comparing what was judged with what was forwarded.
struct Message: Equatable {
  struct Line: Equatable {
    var name: String
    var value: [UInt8]
  }

  /// Method and target, or status and reason, as they stand in the start line.
  var start: [[UInt8]]
  var minorVersion: UInt8
  var lines: [Line]
  var framing: MessageFraming
  var headBytes: Int

  /// Removes the lines of that name and gives back their values.
  mutating func take(_ name: String) -> [[UInt8]] {
    let taken = lines.filter { $0.name == name }.map(\.value)
    lines.removeAll { $0.name == name }
    return taken
  }
}

enum Reading<Value: Equatable>: Equatable {
  case incomplete
  case failed(HeadError)
  case whole(Value)
}

/// Roomier than `judgedLimits`, because what is forwarded may be longer.
let forwardedLimits = HeadLimits(requestLineBytes: 8192, sectionBytes: 32_768, fields: 255)
let judgedLimits = HeadLimits(requestLineBytes: 1024, sectionBytes: 4096, fields: 64)

extension Array where Element == UInt8 {
  func prefixView<Result>(_ count: Int, _ body: (RawSpan) throws -> Result) rethrows -> Result {
    try body(span.bytes.extracting(0..<count))
  }

  subscript(_ range: ByteRange) -> [UInt8] { Array(self[range.offsets]) }
}

extension Message {
  static func lines(_ fields: [FieldLine], _ bytes: [UInt8]) -> [Line] {
    fields.map { Line(name: String(decoding: bytes[$0.name], as: UTF8.self).lowercased(), value: bytes[$0.value]) }
  }

  static func request(_ head: RequestHead, _ bytes: [UInt8], _ arrivals: [Int]) -> Reading<Message> {
    head.reset()
    for count in arrivals {
      switch bytes.prefixView(count, { head.parse($0) }) {
      case .incomplete: continue
      case .failed(let error): return .failed(error)
      case .complete(let end):
        return .whole(
          Message(
            start: [bytes[head.methodRange], bytes[head.target]], minorVersion: head.minorVersion,
            lines: lines(head.lines, bytes), framing: head.framing, headBytes: end))
      }
    }
    return .incomplete
  }

  static func response(
    _ head: ResponseHead, _ bytes: [UInt8], _ arrivals: [Int], to method: HTTPSyntax.Method
  ) -> Reading<Message> {
    head.reset()
    for count in arrivals {
      switch bytes.prefixView(count, { head.parse($0, requestMethod: method) }) {
      case .incomplete: continue
      case .failed(let error): return .failed(error)
      case .complete(let end):
        return .whole(
          Message(
            start: [Array("\(head.status)".utf8), bytes[head.reason]], minorVersion: head.minorVersion,
            lines: lines(head.lines, bytes), framing: head.framing, headBytes: end))
      }
    }
    return .incomplete
  }
}

/// A body as it was decoded from bytes that came in pieces.
struct DecodedBody: Equatable {
  enum Ending: Equatable {
    /// Bytes that were the body's.
    case finished(consumed: Int)
    case failed(BodyError)
    case unfinished
  }

  var content: [UInt8] = []
  var trailers: [UInt8] = []
  var ending = Ending.unfinished

  /// - Parameter isEnd: no more comes after the last delivery.
  static func decode(
    _ framing: MessageFraming, _ bytes: [UInt8], _ arrivals: [Int], isEnd: Bool = true
  ) -> DecodedBody {
    var decoder = BodyDecoder(framing)
    var body = DecodedBody()
    var position = 0
    for count in arrivals {
      steps: while true {
        switch bytes.span.bytes.extracting(position..<count).step(&decoder) {
        case .content(let skip, let offered):
          position += skip
          body.content += bytes[position..<position + offered]
          position += offered
          decoder.took(offered)
        case .needsMore(let skip):
          position += skip
          break steps
        case .finished(let skip, let trailers, let tail):
          position += skip
          body.trailers += bytes[position..<position + trailers]
          body.ending = .finished(consumed: position + trailers + tail)
          return body
        case .failed(let error):
          body.ending = .failed(error)
          return body
        }
      }
    }
    if isEnd, decoder.endOfInput() == .complete { body.ending = .finished(consumed: position) }
    return body
  }
}

extension RawSpan {
  fileprivate func step(_ decoder: inout BodyDecoder) -> BodyDecoder.Step { decoder.next(in: self) }
}

/// The body as a proxy sends it on: each framing written anew.
func written(_ framing: MessageFraming, _ content: [UInt8]) -> [UInt8] {
  switch framing {
  case .none, .contentLength, .untilClose: return content
  case .chunked:
    var out = ByteBuffer(capacity: content.count + 2 * ChunkedEncoding.chunkHeaderBytesMax + 16)
    // Two chunks where there is content for two, so that the boundary between them is read too.
    for piece in [content.prefix(content.count / 2), content.dropFirst(content.count / 2)] where !piece.isEmpty {
      out.appendChunkHeader(size: piece.count)
      out.append(Array(piece).span.bytes)
      out.appendChunkEnd()
    }
    out.appendLastChunk()
    return out.withReadable { bytes in (0..<bytes.byteCount).map { bytes.byte(at: $0) } }
  }
}

/// Fields that end at this hop, or that a proxy writes itself (RFC 9110 §7.6.1; SPEC §2), by an account of its own.
enum HopByHop {
  static let always: Set<String> = [
    "connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    "proxy-authorization", "proxy-authenticate", "proxy-authentication-info", "http2-settings",
  ]
  static let ofRequests: Set<String> = [
    "host", "content-length", "expect", "authorization", "bearerd-client-secret", "bearerd-session", "bearerd-auth", "bearerd-retry",
    "bearerd-replayable",
  ]

  static func named(by lines: [Message.Line]) -> Set<String> {
    var names: Set<String> = []
    for line in lines where line.name == "connection" {
      FieldValues.forEachElement(of: line.value.span.bytes) { element in
        names.insert(element.string.lowercased())
        return true
      }
    }
    return names.subtracting(["host", "content-length", "close"])
  }
}
