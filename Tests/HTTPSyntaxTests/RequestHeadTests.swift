import HTTPSyntax
import Testing

@Suite("RFC 9112 §3 request line")
struct RequestLineTests {
  @Test("A method is known by its exact name", arguments: Method.allCases)
  func methods(_ method: Method) {
    let name = method == .other ? "get" : "\(method.name)"
    let parsed = ParsedRequest.parse("\(name) /a HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(parsed.method == method)
    #expect(parsed.methodText == name)
    #expect(parsed.target == "/a")
  }

  @Test(
    "Method names near a known one are other",
    arguments: ["GOT", "PUTS", "HEAT", "PATCX", "DELETF", "OPTIONZ", "M-SEARCH"])
  func otherMethods(_ name: String) {
    #expect(ParsedRequest.parse("\(name) / HTTP/1.1\r\nHost: h\r\n\r\n").method == .other)
  }

  @Test(
    "Versions: 1.0, and every later minor version as 1.1",
    arguments: [("HTTP/1.0", UInt8(0)), ("HTTP/1.1", 1), ("HTTP/1.2", 1), ("HTTP/1.9", 1)])
  func minorVersions(_ version: String, _ minor: UInt8) {
    #expect(ParsedRequest.parse("GET / \(version)\r\nHost: h\r\n\r\n").minorVersion == minor)
  }

  @Test("At most four empty lines before the request line are skipped (§2.2)", arguments: 0...5)
  func emptyLines(_ count: Int) {
    let text = String(repeating: "\r\n", count: count) + "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    let parsed = ParsedRequest.parse(text)
    #expect(parsed.result == (count <= 4 ? .complete(bytes: text.utf8.count) : .failed(.malformedRequestLine)))
    #expect(parsed.target == (count <= 4 ? "/" : ""))
  }

  static let refused: [(String, HeadError)] = [
    (" GET / HTTP/1.1\r\n\r\n", .malformedRequestLine),
    ("GET\r\n\r\n", .malformedRequestLine),
    ("GET /\r\n\r\n", .malformedRequestLine),
    ("GET  / HTTP/1.1\r\n\r\n", .malformedRequestLine),
    ("GET /  HTTP/1.1\r\n\r\n", .malformedRequestLine),
    ("GET / HTTP/1.1 \r\n\r\n", .malformedRequestLine),
    ("GET\t/ HTTP/1.1\r\n\r\n", .malformedRequestLine),
    ("G(T / HTTP/1.1\r\n\r\n", .malformedRequestLine),
    ("GET / http/1.1\r\n\r\n", .malformedRequestLine),
    ("GET / HTTP/11\r\n\r\n", .malformedRequestLine),
    ("GET / HTTP/1.10\r\n\r\n", .malformedRequestLine),
    ("GET / HTTP/1.x\r\n\r\n", .malformedRequestLine),
    ("GET / FTP/1.1\r\n\r\n", .malformedRequestLine),
    ("GET / a HTTP/1.1\r\n\r\n", .malformedRequestLine),
    ("GET / HTTP/2.0\r\n\r\n", .version),
    ("GET / HTTP/0.9\r\n\r\n", .version),
    ("GET /\t HTTP/1.1\r\n\r\n", .invalidTarget),
    ("GET /\u{7f} HTTP/1.1\r\n\r\n", .invalidTarget),
    ("GET /\0 HTTP/1.1\r\n\r\n", .invalidTarget),
    ("GET /ü HTTP/1.1\r\n\r\n", .invalidTarget),
    ("GET / HTTP/1.1\nHost: h\r\n\r\n", .bareLF),
    ("GET / HTTP/1.1\rHost: h\r\n\r\n", .bareCR),
    ("GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", .bareCR),
    ("\rGET / HTTP/1.1\r\n\r\n", .bareCR),
    ("\nGET / HTTP/1.1\r\n\r\n", .malformedRequestLine),
    ("\u{16}\u{03}\u{01}", .malformedRequestLine),
  ]

  @Test("Everything else is refused", arguments: refused)
  func refuses(_ text: String, _ error: HeadError) {
    #expect(ParsedRequest.parse(text).result == .failed(error))
  }

  @Test("A byte may stand in a target when it is visible ASCII", arguments: [1, 7, 8, 20])
  func targetBytes(_ offset: Int) {
    for byte in UInt8.min...UInt8.max {
      var bytes = Array("GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
      bytes[4 + offset] = byte
      let result = bytes.withPrefix(bytes.count) { RequestHead(limits: HeadLimits()).parse($0) }
      #expect((result == .complete(bytes: bytes.count)) == (0x21...0x7E).contains(byte), "byte \(byte)")
    }
  }
}

@Suite("RFC 9112 §5 field lines")
struct FieldLineTests {
  @Test("Names and values are found without the white space around a value")
  func values() {
    let parsed = ParsedRequest.parse(
      "GET / HTTP/1.1\r\nHost: \t h:8080 \t\r\nX-Empty:\r\nX-Blank: \t \r\nx-a:b  c\r\nX-Obs: \u{e9}\r\n\r\n")
    #expect(parsed.lines.map(\.name) == ["Host", "X-Empty", "X-Blank", "x-a", "X-Obs"])
    #expect(parsed.lines.map(\.value) == ["h:8080", "", "", "b  c", "\u{e9}"])
    #expect(parsed.lines.map(\.field) == [.host, .other, .other, .other, .other])
    #expect(parsed.host == "h")
  }

  @Test("Bytes after the head are not touched")
  func pipelined() {
    let first = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
    let bytes = Array((first + "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n").utf8)
    let head = RequestHead(limits: HeadLimits())
    #expect(bytes.withPrefix(bytes.count) { head.parse($0) } == .complete(bytes: first.utf8.count))
    #expect(bytes.withPrefix(bytes.count) { head.parse($0) } == .complete(bytes: first.utf8.count))
    #expect(bytes.text(head.target.offsets) == "/1")
  }

  @Test("A head is as new after reset")
  func reset() {
    let head = RequestHead(limits: HeadLimits())
    let full = Array(
      "POST /a HTTP/1.0\r\nHost: h\r\nConnection: upgrade, close\r\nContent-Length: 5\r\nTE: trailers\r\nExpect: x\r\n\r\n"
        .utf8)
    let plain = Array("GET / HTTP/1.1\r\nHost: other\r\n\r\n".utf8)
    let fresh = ParsedRequest.read(RequestHead(limits: HeadLimits()), plain, [plain.count])
    _ = ParsedRequest.read(head, full, [full.count])
    #expect(ParsedRequest.read(head, plain, [plain.count]) == fresh)
    _ = ParsedRequest.read(head, Array("GET / HTTP/3.0\r\n".utf8), [16])
    #expect(ParsedRequest.read(head, plain, [plain.count]) == fresh)
  }

  static let refused: [(String, HeadError)] = [
    ("Host: h\r\nA : b\r\n\r\n", .spaceBeforeColon),
    ("Host: h\r\nContent-Length : 5\r\n\r\n", .spaceBeforeColon),
    ("Host: h\r\nTransfer-Encoding\t: chunked\r\n\r\n", .spaceBeforeColon),
    ("Host: h\r\n folded\r\n\r\n", .obsFold),
    ("Host: h\r\n\tfolded\r\n\r\n", .obsFold),
    (" Host: h\r\n\r\n", .obsFold),
    ("Host: h\r\n: empty name\r\n\r\n", .invalidFieldName),
    ("Host: h\r\nno colon\r\n\r\n", .spaceBeforeColon),
    ("Host: h\r\nnocolon\r\n\r\n", .invalidFieldName),
    ("Host: h\r\nna\0me: x\r\n\r\n", .invalidFieldName),
    ("Host: h\r\nname\u{e9}: x\r\n\r\n", .invalidFieldName),
    ("Host: h\r\nna(me: x\r\n\r\n", .invalidFieldName),
    ("Host: h\r\nA: b\0c\r\n\r\n", .invalidFieldValue),
    ("Host: h\r\nA: b\u{1}c\r\n\r\n", .invalidFieldValue),
    ("Host: h\r\nA: b\u{7f}c\r\n\r\n", .invalidFieldValue),
    ("Host: h\r\nA: b\u{b}\r\n\r\n", .invalidFieldValue),
    ("Host: h\r\nA: b\rContent-Length: 5\r\n\r\n", .bareCR),
    ("Host: h\r\nA: b\r\r\n\r\n", .bareCR),
    ("Host: h\r\nA: b\nContent-Length: 5\r\n\r\n", .bareLF),
    ("Host: h\r\nA:\nB: c\r\n\r\n", .bareLF),
    ("Host: h\r\n\n", .bareLF),
    ("Host: h\r\n\rX: y\r\n\r\n", .bareCR),
  ]

  @Test("Lines that peers read in two ways are refused", arguments: refused)
  func refuses(_ section: String, _ error: HeadError) {
    #expect(ParsedRequest.parse("GET / HTTP/1.1\r\n" + section).result == .failed(error))
  }

  @Test("A byte may stand in a value when it is visible, white space or obs-text", arguments: [0, 1, 6, 7, 8, 19])
  func valueBytes(_ offset: Int) {
    for byte in UInt8.min...UInt8.max {
      var bytes = Array("GET / HTTP/1.1\r\nHost: h\r\nX: aaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n".utf8)
      bytes[28 + offset] = byte
      let result = bytes.withPrefix(bytes.count) { RequestHead(limits: HeadLimits()).parse($0) }
      let isAllowed = byte == 0x09 || (byte >= 0x20 && byte != 0x7F)
      #expect((result == .complete(bytes: bytes.count)) == isAllowed, "byte \(byte)")
    }
  }

  @Test("A byte may stand in a name when it is tchar (RFC 9110 §5.6.2)", arguments: [0, 1, 6, 7, 8, 15, 16, 19])
  func nameBytes(_ offset: Int) {
    let tchar = Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
    for byte in UInt8.min...UInt8.max where byte != 0x3A {
      var bytes = Array("GET / HTTP/1.1\r\nHost: h\r\nabcd-efgh-ijkl-mn-op: d\r\n\r\n".utf8)
      bytes[25 + offset] = byte
      let result = bytes.withPrefix(bytes.count) { RequestHead(limits: HeadLimits()).parse($0) }
      #expect((result == .complete(bytes: bytes.count)) == tchar.contains(byte), "byte \(byte)")
    }
  }
}

@Suite("SPEC §9 limits of a head")
struct HeadLimitTests {
  static let limits = HeadLimits(requestLineBytes: 32, sectionBytes: 40, fields: 3)

  @Test("A request line of exactly the limit passes, one byte more is refused")
  func requestLine() {
    let exact = "GET /" + String(repeating: "a", count: 32 - 16) + " HTTP/1.1\r\n"
    #expect(exact.utf8.count == 32)
    #expect(
      ParsedRequest.parse(exact + "Host: h\r\n\r\n", limits: Self.limits).result == .complete(bytes: 43))
    let longer = "GET /" + String(repeating: "a", count: 33 - 16) + " HTTP/1.1\r\nHost: h\r\n\r\n"
    #expect(ParsedRequest.parse(longer, limits: Self.limits).result == .failed(.targetTooLong))
    let method = String(repeating: "A", count: 33) + " / HTTP/1.1\r\n\r\n"
    #expect(ParsedRequest.parse(method, limits: Self.limits).result == .failed(.requestLineTooLong))
  }

  @Test("A section of exactly the limit passes, one byte more is refused")
  func section() {
    func head(_ valueBytes: Int) -> String {
      "GET / HTTP/1.1\r\nHost: h\r\nA: " + String(repeating: "b", count: valueBytes) + "\r\n\r\n"
    }
    #expect(ParsedRequest.parse(head(24), limits: Self.limits).result == .complete(bytes: 56))
    #expect(ParsedRequest.parse(head(25), limits: Self.limits).result == .failed(.sectionTooLong))
    #expect(ParsedRequest.parse(head(200), limits: Self.limits).result == .failed(.sectionTooLong))
  }

  @Test("As many lines as the limit pass, one more is refused")
  func fields() {
    let three = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nA: b\r\n"
    #expect(ParsedRequest.parse(three + "\r\n", limits: Self.limits).result == .complete(bytes: 39))
    #expect(ParsedRequest.parse(three + "A: b\r\n\r\n", limits: Self.limits).result == .failed(.tooManyFields))
  }

  @Test("The largest head of the default limits is addressed with sixteen bits")
  func largest() {
    let target = String(repeating: "a", count: 8192 - 15)
    let value = String(repeating: "b", count: 32_768 - 9 - 7)
    let text = "\r\n\r\nGET /\(target) HTTP/1.1\r\nHost: h\r\nX: \(value)\r\n\r\n"
    let bytes = Array(text.utf8)
    let parsed = ParsedRequest.read(RequestHead(limits: HeadLimits()), bytes, [100, bytes.count])
    #expect(parsed.result == .failed(.targetTooLong))
    let fitting = Array(text.replacing("/a", with: "/", maxReplacements: 1).utf8)
    let accepted = ParsedRequest.read(RequestHead(limits: HeadLimits()), fitting, [100, fitting.count])
    #expect(accepted.result == .complete(bytes: fitting.count))
    #expect(accepted.lines.last?.value.utf8.count == value.utf8.count)
  }

  @Test("A limit answers with its status code (RFC 9110 §15.5.15, RFC 6585 §5)")
  func statusCodes() {
    #expect(HeadError.targetTooLong.requestStatus == 414)
    #expect(HeadError.sectionTooLong.requestStatus == 431)
    #expect(HeadError.tooManyFields.requestStatus == 431)
    #expect(HeadError.unsupportedTransferCoding.requestStatus == 501)
    #expect(HeadError.version.requestStatus == 505)
    #expect(HeadError.contentLengthDiffers.requestStatus == 400)
    #expect(HeadError.allCases.allSatisfy { $0.explanation.utf8CodeUnitCount > 10 })
  }
}

@Suite("Any input: the answer does not depend on how it arrives, and nothing traps")
struct MutatedHeadTests {
  static let seeds = [
    "GET http://a.example:80/x?y=z HTTP/1.1\r\nHost: a.example\r\nConnection: close, X-A\r\nX-A: 1\r\nTE: trailers\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\nExpect: 100-continue\r\n\r\n",
    "PUT /p HTTP/1.0\r\nContent-Length: 12, 12\r\nCookie: \"a, b\"; c\r\nHost: [::1]:99\r\n\r\n",
  ]

  @Test("Heads with changed, removed and doubled bytes", arguments: 0..<300)
  func mutations(_ seed: Int) {
    var random = Sequence64(state: UInt64(seed) &* 977 &+ 5)
    var bytes = Array(Self.seeds[seed % Self.seeds.count].utf8)
    let telling = Array("\r\n\t :,\"\\;#@[]\0\u{7f}/HTP1a0".utf8)
    for _ in 0..<1 + random.next(below: 4) {
      let offset = random.next(below: bytes.count)
      switch random.next(below: 3) {
      case 0: bytes[offset] = telling[random.next(below: telling.count)]
      case 1: bytes.remove(at: offset)
      default: bytes.insert(bytes[offset], at: offset)
      }
    }
    let whole = ParsedRequest.read(RequestHead(limits: HeadLimits()), bytes, [bytes.count])
    #expect(ParsedRequest.read(RequestHead(limits: HeadLimits()), bytes, Array(0...bytes.count)) == whole)
    let head = RequestHead(limits: HeadLimits())
    if case .complete(let end) = bytes.withPrefix(bytes.count, { head.parse($0) }) {
      #expect(end <= bytes.count)
      let target = bytes.withPrefix(bytes.count) { RequestTarget.parse($0, head.target, method: head.method) }
      if case .success(.absolute(_, let authority, let path)) = target {
        #expect(authority.host.end <= path.start && path.end == head.target.end)
      }
    }
  }
}
