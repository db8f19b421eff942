import BearerPolicy
import Testing

@Suite("RFC 8259 reading a token endpoint's answer") struct JSONValueTests {
  @Test(
    "values keep their kind",
    arguments: [
      ("null", JSONValue.null), ("true", .bool(true)), ("false", .bool(false)), ("0", .integer(0)),
      ("1", .integer(1)),
      ("-9223372036854775808", .integer(.min)), ("3600.5", .number(3600.5)), ("\"1\"", .string("1")),
      ("[]", .array([])),
      ("{}", .object([:])), ("[1,\"a\",null]", .array([.integer(1), .string("a"), .null])),
      ("{\"expires_in\":1,\"expiresIn\":2}", .object(["expires_in": .integer(1), "expiresIn": .integer(2)])),
      (" {\"a\" : \"\\u00e9\\\"\"} ", .object(["a": .string("é\"")])), ("99999999999999999999", .number(1e20)),
    ])
  func kinds(_ text: String, _ expected: JSONValue) {
    #expect(JSONValue.parse(Array(text.utf8)) == expected)
  }

  @Test(
    "what is not one JSON text in UTF-8 is refused",
    arguments: [
      "", " ", "{", "}", "{]", "[1,]", "{\"a\":}", "{\"a\"}", "{a:1}", "'a'", "1 2", "{}x", "\"\u{01}\"", "nul",
      "{\"a\":1,}", "[1, \n]", "{\"a\":1e400}", "\"\\ud800\"", "\"\\x\"", "[\"a\u{01}\"]", "01", "+1", ".5", "NaN",
      "<html>", "access_token=a&expires_in=1", "\u{0}", "{\"a\":\"\u{0}\"}",
    ])
  func refuses(_ text: String) {
    #expect(JSONValue.parse(Array(text.utf8)) == nil)
  }

  @Test("bytes that are no UTF-8, and UTF-16, are refused")
  func refusesOtherEncodings() {
    #expect(JSONValue.parse([0x22, 0xFF, 0x22]) == nil)
    #expect(JSONValue.parse([0xFF, 0xFE, 0x7B, 0x00, 0x7D, 0x00]) == nil)
    #expect(JSONValue.parse([0x00, 0x7B, 0x00, 0x7D]) == nil)
  }

  @Test("depth, number of values and length are bounded, at the bound and past it")
  func bounds() {
    func nested(_ depth: Int) -> [UInt8] {
      Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
    }
    #expect(JSONValue.parse(nested(JSONValue.depthMax)) != nil)
    #expect(JSONValue.parse(nested(JSONValue.depthMax + 1)) == nil)
    #expect(JSONValue.parse(nested(100_000)) == nil)
    func list(_ count: Int) -> [UInt8] {
      Array(("[" + Array(repeating: "1", count: count).joined(separator: ",") + "]").utf8)
    }
    #expect(JSONValue.parse(list(JSONValue.valuesMax)) != nil)
    #expect(JSONValue.parse(list(JSONValue.valuesMax + 1)) == nil)
    func long(_ count: Int) -> [UInt8] { Array(("\"" + String(repeating: "a", count: count - 2) + "\"").utf8) }
    #expect(JSONValue.parse(long(JSONValue.bytesMax)) != nil)
    #expect(JSONValue.parse(long(JSONValue.bytesMax + 1)) == nil)
  }

  @Test("brackets and commas inside a string do not count, and an escaped quotation mark does not end it")
  func stringsDoNotCount() {
    let inside = String(repeating: "[{,\\\"", count: 5000)
    #expect(JSONValue.parse(Array("[\"\(inside)\"]".utf8)) != nil)
  }

  @Test(
    "a dotted path walks members and indices",
    arguments: [
      ("a", "1"), ("b.c", "2"), ("errors.0.code", "x"), ("errors.1.code", "y"), ("errors.2.code", nil),
      ("errors.-1.code", nil), ("errors.x", nil), ("b.c.d", nil), ("", nil), ("b.", nil), ("missing", nil),
      ("n.a", nil),
    ] as [(String, String?)])
  func paths(_ path: String, _ expected: String?) throws {
    let text = #"{"a":"1","b":{"c":"2"},"errors":[{"code":"x"},{"code":"y"}],"n":null}"#
    let tree = try #require(JSONValue.parse(Array(text.utf8)))
    #expect(tree[path]?.stringValue == expected)
  }

  @Test(
    "a whole number may be a string, and saturates",
    arguments: [
      ("3600", 3600), ("\"3600\"", 3600), ("3600.9", 3600), ("\"3600.9\"", 3600), ("-5", -5), ("\"-5\"", -5),
      ("1e3", 1000), ("1e300", .max), ("-1e300", .min), ("\"1e999\"", .max), ("\"99999999999999999999\"", .max),
      ("\"nan\"", nil), ("\"inf\"", nil), ("\"0x10\"", nil), ("\"\"", nil), ("\"1h\"", nil), ("true", nil),
      ("null", nil), ("[1]", nil), ("{\"a\":1}", nil),
    ] as [(String, Int64?)])
  func wholeNumbers(_ text: String, _ expected: Int64?) throws {
    #expect(try #require(JSONValue.parse(Array(text.utf8))).int64Value == expected)
  }
}
