/// A request as the backend sees it: a value, whatever carried it.
public struct BackendRequest: Sendable {
  public var method: String
  /// Without the query: `/notes`.
  public var path: String
  /// What stands behind the question mark, undecoded; empty where there is none.
  public var query: String
  /// Field lines in order, repeats kept, names in lower case.
  public var headers: [(String, String)]
  /// Empty when only the head is passed (`handleHead`).
  public var body: [UInt8]

  public init(
    method: String, path: String, query: String = "", headers: [(String, String)] = [], body: [UInt8] = []
  ) {
    self.method = method
    self.path = path
    self.query = query
    self.headers = headers
    self.body = body
  }

  /// The value of the first field line of that name; `name` in lower case.
  public func header(_ name: String) -> String? { headers.first { $0.0 == name }?.1 }

  /// The credentials of `Authorization: Bearer …` (RFC 6750 §2.1); nil where there is no such field, where the
  /// scheme is another one, or where the field is repeated.
  public var bearer: String? {
    let values = headers.filter { $0.0 == "authorization" }
    guard values.count == 1, let value = values.first?.1, value.utf8.count > 7,
      value.prefix(7).lowercased() == "bearer "
    else { return nil }
    return String(value.dropFirst(7))
  }

  /// The number given by a query parameter, within `range`; `absent` where it is missing or not such a number.
  func number(_ name: String, in range: ClosedRange<Int>, absent: Int) -> Int {
    guard let text = FormFields(query).value(name), let number = Int(text), range.contains(number) else {
      return absent
    }
    return number
  }
}

/// What the backend answers and what then goes wrong on the wire.
public struct BackendDecision: Sendable {
  public var reply: BackendReply
  public var transport: TransportFault

  public init(reply: BackendReply, transport: TransportFault = .none) {
    self.reply = reply
    self.transport = transport
  }
}

/// A failure of the connection under the answer.
public enum TransportFault: Equatable, Sendable, CaseIterable {
  /// The answer arrives whole.
  case none
  /// Nothing was executed or rotated, and nothing is ever answered: the peer waits until it gives up.
  case hangBeforeCommit
  /// Executed or rotated, and nothing is ever answered.
  case hangAfterCommit
  /// Nothing was executed or rotated; the connection is reset instead of an answer.
  case resetBeforeCommit
  /// Executed or rotated; the connection is reset instead of an answer.
  case resetAfterCommit
  /// Executed; the head and half of the body are sent, then the connection ends (over TLS without close_notify).
  case truncateBody
  /// Executed; bytes that are not HTTP are sent, then the connection ends.
  case junk

  /// Whether the peer gets no complete answer, so that it cannot know what happened.
  public var isUnanswered: Bool {
    switch self {
    case .none: false
    case .hangBeforeCommit, .hangAfterCommit, .resetBeforeCommit, .resetAfterCommit, .truncateBody, .junk: true
    }
  }
}

/// An answer, described rather than rendered, so that a gigabyte costs no memory.
public struct BackendReply: Sendable {
  public var status: Int
  /// Field lines without framing and `Date`, which the carrier adds; names in lower case.
  public var headers: [(String, String)]
  public var body: ReplyBody
  public var framing: ReplyFraming
  /// Sent behind a chunked body (RFC 9112 §7.1.2); empty otherwise.
  public var trailers: [(String, String)]
  /// Interim responses (1xx) sent before this one.
  public var interim: [(status: Int, headers: [(String, String)])]
  /// How long the peer waits for the head, in milliseconds.
  public var delayMilliseconds: Int

  public init(
    status: Int, headers: [(String, String)] = [], body: ReplyBody = .bytes([]), framing: ReplyFraming = .length
  ) {
    self.status = status
    self.headers = headers
    self.body = body
    self.framing = framing
    trailers = []
    interim = []
    delayMilliseconds = 0
  }

  /// The value of the first field line of that name; `name` in lower case.
  public func header(_ name: String) -> String? { headers.first { $0.0 == name }?.1 }
}

public enum ReplyBody: Equatable, Sendable {
  case bytes([UInt8])
  /// `count` bytes of the alphabet, over and over: byte i is `a` + i mod 26.
  case pattern(count: Int)
  /// Server-sent events numbered from 1, with a pause before each but the first.
  case events(count: Int, intervalMilliseconds: Int)

  /// The event of that number as it stands on the wire (WHATWG HTML, server-sent events).
  public static func event(_ number: Int) -> String { "id: \(number)\ndata: event \(number)\n\n" }

  /// The length of the whole body in bytes.
  public var byteCount: Int {
    switch self {
    case .bytes(let bytes): bytes.count
    case .pattern(let count): count
    case .events(let count, _): count == 0 ? 0 : (1...count).reduce(0) { $0 + Self.event($1).utf8.count }
    }
  }

  /// The whole body in memory; meant for small ones.
  public var rendered: [UInt8] {
    switch self {
    case .bytes(let bytes): bytes
    case .pattern(let count): (0..<count).map { UInt8(ascii: "a") + UInt8($0 % 26) }
    case .events(let count, _): count == 0 ? [] : (1...count).flatMap { Array(Self.event($0).utf8) }
    }
  }
}

/// How the body's end is marked (RFC 9112 §6).
public enum ReplyFraming: Equatable, Sendable, CaseIterable {
  case length
  case chunked
  /// The end of the connection ends the body.
  case close
  /// No body and no Content-Length (204, 304).
  case bodiless
  /// After a 101 every byte comes back as it was sent.
  case echoTunnel
}

/// A request body as far as somebody needs it: its length always, its digest and its bytes on demand.
public struct ReceivedBody: Sendable {
  /// What is needed of a body. Bytes past `keep`'s limit are counted and not kept.
  public enum Use: Equatable, Sendable {
    case count
    case digest
    case keep(bytesMax: Int)
  }

  public private(set) var bytes: [UInt8] = []
  public private(set) var byteCount = 0
  /// FNV-1a, 64 bits, of all bytes; meaningless under `Use.count`.
  public private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
  /// Trailer field lines that came behind the body (RFC 9110 §6.5), names in lower case.
  public var trailers: [(String, String)] = []
  private let use: Use

  public init(_ use: Use) { self.use = use }

  public mutating func append(_ piece: RawSpan) {
    byteCount += piece.byteCount
    switch use {
    case .count: break
    case .digest: hash(piece)
    case .keep(let bytesMax):
      hash(piece)
      let kept = min(piece.byteCount, max(0, bytesMax - bytes.count))
      for offset in 0..<kept { bytes.append(Self.byte(of: piece, at: offset)) }
    }
  }

  public mutating func append(_ piece: [UInt8]) {
    let span = unsafe piece.span.bytes
    append(span)
  }

  /// Whether bytes were lost to `keep`'s limit.
  public var isCut: Bool {
    switch use {
    case .count, .digest: false
    case .keep: byteCount > bytes.count
    }
  }

  /// The digest of `bytes`, for tests that compare it with what `/echo` reports: sixteen hexadecimal digits.
  public static func digest(of bytes: [UInt8]) -> String {
    var body = ReceivedBody(.digest)
    body.append(bytes)
    return hexadecimal(body.digest)
  }

  private mutating func hash(_ piece: RawSpan) {
    var value = digest
    for offset in 0..<piece.byteCount {
      value = (value ^ UInt64(Self.byte(of: piece, at: offset))) &* 0x100_0000_01b3
    }
    digest = value
  }

  /// Traps outside the view.
  private static func byte(of piece: RawSpan, at offset: Int) -> UInt8 {
    unsafe piece.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
  }
}
