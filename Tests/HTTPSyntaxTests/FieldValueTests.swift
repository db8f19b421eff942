import HTTPSyntax
import Testing

@Suite("Names that are treated specially")
struct KnownFieldTests {
  /// `access-control-request-method` from `accessControlRequestMethod`.
  static func fieldName(_ field: KnownField) -> String {
    let words = "\(field)".reduce(into: "") { text, letter in
      text += letter.isUppercase ? "-" + letter.lowercased() : String(letter)
    }
    return words == "te" ? "TE" : words
  }

  static func lookUp(_ name: String) -> KnownField {
    let bytes = Array("??\(name)".utf8)
    return bytes.withPrefix(bytes.count) {
      KnownField.named($0, ByteRange(offset: 2, count: UInt16(bytes.count - 2)))
    }
  }

  @Test("Each is found in any case", arguments: KnownField.allCases.filter { $0 != .other })
  func found(_ field: KnownField) {
    let name = Self.fieldName(field)
    #expect(Self.lookUp(name) == field)
    #expect(Self.lookUp(name.uppercased()) == field)
    #expect(Self.lookUp(name.lowercased()) == field)
  }

  @Test(
    "With a byte changed, missing or more it is another name", arguments: KnownField.allCases.filter { $0 != .other })
  func resemblance(_ field: KnownField) {
    let name = Self.fieldName(field)
    #expect(Self.lookUp(name + "s") == .other)
    #expect(Self.lookUp(String(name.dropLast())) == .other)
    for index in name.indices {
      var changed = name
      changed.replaceSubrange(index...index, with: name[index] == "-" ? "_" : "!")
      #expect(Self.lookUp(changed) == .other)
    }
  }

  @Test("Names of every other length are unknown", arguments: [0, 1, 5, 9, 39, 40, 41, 300])
  func lengths(_ count: Int) {
    #expect(Self.lookUp(String(repeating: "a", count: count)) == .other)
  }
}

@Suite("RFC 9110 §5.6.1 lists")
struct ListTests {
  static let lists: [(String, [String])] = [
    ("", []),
    (" \t ", []),
    (",", []),
    ("a", ["a"]),
    ("a,b", ["a", "b"]),
    (" a \t, b c ,", ["a", "b c"]),
    (",,a,,b", ["a", "b"]),
    ("\"a,b\", c", ["\"a,b\"", "c"]),
    ("x=\"a\\\",b\", c", ["x=\"a\\\",b\"", "c"]),
    ("\"open, c", ["\"open, c"]),
    ("\"open\\", ["\"open\\"]),
    ("a\\, b", ["a\\", "b"]),
  ]

  @Test("Elements without the white space around them", arguments: lists)
  func elements(_ text: String, _ expected: [String]) {
    let bytes = Array(text.utf8)
    var found: [String] = []
    bytes.withPrefix(bytes.count) { span in
      FieldValues.forEachElement(of: span) {
        found.append($0.string)
        return true
      }
    }
    #expect(found == expected)
  }

  @Test("Iteration stops when it is told to")
  func stops() {
    var count = 0
    let bytes = Array("a, b, c".utf8)
    bytes.withPrefix(bytes.count) { span in
      FieldValues.forEachElement(of: span) { _ in
        count += 1
        return count < 2
      }
    }
    #expect(count == 2)
  }

  static let tokens: [(String, Bool)] = [
    ("close", true), ("CLOSE", true), ("x, close", true), ("closed", false), ("x close", false), ("\"close\"", false),
    ("\"x, close\"", false), ("", false),
  ]

  @Test("A token is a whole element, in any case", arguments: tokens)
  func containsToken(_ text: String, _ expected: Bool) {
    let bytes = Array(text.utf8)
    #expect(bytes.withPrefix(bytes.count) { FieldValues.containsToken($0, "close") } == expected)
  }

  @Test("Only letters have two cases")
  func folding() {
    let pairs: [(String, StaticString, Bool)] = [
      ("Ab-1", "ab-1", true), ("@", "`", false), ("[", "{", false), ("a", "ab", false), ("\r", "-", false),
      ("ABCXYZ-019", "abcxyz-019", true), ("AAAAAAAA@", "aaaaaaaa`", false), ("[[[[[[[[", "{{{{{{{{", false),
      ("@@@@@@@@", "````````", false), ("\r\r\r\r\r\r\r\r", "--------", false), ("éÉéÉ", "éééé", false),
    ]
    for (text, other, expected) in pairs {
      let bytes = Array(text.utf8)
      #expect(bytes.withPrefix(bytes.count) { FieldValues.equalsIgnoringCase($0, other) } == expected)
    }
  }
}

@Suite("RFC 9110 §6.5 trailers")
struct TrailerTests {
  static func parse(_ text: String) -> (HeadError?, [String]) {
    let bytes = Array(text.utf8)
    let trailers = TrailerLines(limits: HeadLimits(requestLineBytes: 16, sectionBytes: 64, fields: 2))
    let error = bytes.withPrefix(bytes.count) { trailers.parse($0) }
    return (error, trailers.lines.map { "\(bytes.text($0.name.offsets))=\(bytes.text($0.value.offsets))" })
  }

  static let table: [(String, HeadError?, [String])] = [
    ("", nil, []),
    ("\r\n", nil, []),
    ("A: b\r\n", nil, ["A=b"]),
    ("A: b\r\nC:d \r\n\r\n", nil, ["A=b", "C=d"]),
    ("A : b\r\n", .spaceBeforeColon, []),
    ("A: b\r\n c\r\n", .obsFold, ["A=b"]),
    ("A: b\0\r\n", .invalidFieldValue, []),
    ("A: b", .lineUnterminated, []),
    ("A: b\r", .lineUnterminated, ["A=b"]),
    ("A: b\r\nA: b\r\nA: b\r\n", .tooManyFields, ["A=b", "A=b"]),
    ("A: " + String(repeating: "b", count: 62) + "\r\n", .sectionTooLong, []),
  ]

  @Test("Trailer lines obey the rules of a head's", arguments: table)
  func lines(_ text: String, _ error: HeadError?, _ lines: [String]) {
    let found = Self.parse(text)
    #expect(found.0 == error)
    #expect(found.1 == lines)
  }

  static let forwardable: [(String, Bool)] = [
    ("X-Checksum", true), ("grpc-status", true), ("Server-Timing", true), ("ETag", true), ("Server", true),
    ("Transfer-Encoding", false), ("content-length", false), ("Host", false), ("Authorization", false),
    ("Set-Cookie", false), ("Cookie", false), ("TE", false), ("Trailer", false), ("Connection", false),
    ("Keep-Alive", false), ("Cache-Control", false), ("Content-Encoding", false), ("Content-Range", false),
    ("content-type", false), ("If-None-Match", false), ("Range", false), ("WWW-Authenticate", false),
    ("Location", false), ("Retry-After", false), ("Vary", false), ("Date", false), ("Age", false), ("Expires", false),
    ("Bearerd-Session", false), ("X-Forwarded-For", false), ("Expect", false), ("Max-Forwards", false),
  ]

  @Test("Framing, routing, authentication and control never pass as trailers (§6.5.1)", arguments: forwardable)
  func forwards(_ name: String, _ expected: Bool) {
    let bytes = Array("\(name): x\r\n".utf8)
    let trailers = TrailerLines(limits: HeadLimits())
    bytes.withPrefix(bytes.count) { span in
      #expect(trailers.parse(span) == nil)
      #expect(trailers.lines.map { TrailerLines.isForwardable($0, in: span) } == [expected])
    }
  }
}
