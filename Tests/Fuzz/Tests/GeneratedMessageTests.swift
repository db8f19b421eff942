import FuzzTargets
import Testing

/// Messages that are mostly right, so that they get further than bytes at random do.
@Suite("What was judged is what is forwarded: parse, forward, parse") struct GeneratedMessageTests {
  /// Numbers that look random and are the same in every run.
  private struct Numbers {
    var state: UInt64

    mutating func next(below bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(((state ^ (state >> 33)) &* 0xff51_afd7_ed55_8ccd) >> 33) % bound
    }

    mutating func pick<Element>(_ choices: [Element]) -> Element { choices[next(below: choices.count)] }
    mutating func happens(_ percent: Int) -> Bool { next(below: 100) < percent }
  }

  private static let names = [
    "Accept", "X-A", "x-b", "Cookie", "Via", "TE", "Trailer", "Connection", "Keep-Alive", "Upgrade", "Expect", "Max-Forwards",
    "Bearerd-Auth", "Bearerd-Client-Secret", "Proxy-Connection", "Authorization", "!#$%&'*+-.^_`|~", "Content-Type", "Set-Cookie",
    "Location", "Date",
  ]
  private static let values = [
    "", "a", "a, b", "\"q\\\"\"", "trailers", "close", "keep-alive, X-A", "x-b", "upgrade", "websocket", "1.0 p, 1.1 q", "100-continue",
    "0", "7", " padded\t", "\u{e9}\u{ff}", String(repeating: "long ", count: 60), "http://api.test/x",
  ]

  private static func content(_ numbers: inout Numbers) -> (field: String, bytes: String) {
    let text = String(repeating: numbers.pick(["x", "0\r\n\r\n", "GET / HTTP/1.1\r\n"]), count: numbers.next(below: 30))
    switch numbers.next(below: 3) {
    case 0: return ("", "")
    case 1: return ("Content-Length: \(numbers.happens(10) ? "00" : "")\(text.utf8.count)\r\n", text)
    case _:
      var chunks = ""
      var rest = text[...]
      while !rest.isEmpty {
        let piece = rest.prefix(1 + numbers.next(below: 40))
        rest = rest.dropFirst(piece.count)
        chunks += String(piece.utf8.count, radix: 16) + (numbers.happens(20) ? ";e=\"v\"" : "") + "\r\n" + piece + "\r\n"
      }
      let trailers = numbers.happens(20) ? "X-Sum: 1\r\nHost: evil\r\n" : ""
      return ("Transfer-Encoding: \(numbers.pick(["chunked", "Chunked"]))\r\n", chunks + "0\r\n" + trailers + "\r\n")
    }
  }

  private static func fields(_ numbers: inout Numbers) -> String {
    (0..<numbers.next(below: 12)).map { _ in "\(numbers.pick(names)):\(numbers.pick(["", " ", "\t "]))\(numbers.pick(values))\r\n" }
      .joined()
  }

  /// One byte in twenty messages is another: close to right is where parsers differ.
  private static func spoiled(_ text: String, _ numbers: inout Numbers) -> [UInt8] {
    var bytes = Array(text.utf8)
    if numbers.happens(5) { bytes[numbers.next(below: bytes.count)] = UInt8(numbers.next(below: 256)) }
    return bytes
  }

  @Test("requests", arguments: 0..<8)
  func requests(_ seed: Int) throws {
    var numbers = Numbers(state: UInt64(seed) + 1)
    for _ in 0..<250 {
      let target = numbers.pick(["/", "/a?b", "*", "http://api.test", "http://api.test?x", "https://[::1]:8/y", "//x/../y;z"])
      let (field, content) = Self.content(&numbers)
      let head =
        "\(numbers.pick(["GET", "POST", "OPTIONS", "HEAD", "BREW", "CONNECT"])) \(target) HTTP/1.\(numbers.pick(["1", "1", "0"]))\r\n"
        + "Host: api.test\r\n" + Self.fields(&numbers) + field + Self.fields(&numbers) + "\r\n"
      try FuzzTarget.request.check(Self.spoiled(head + content, &numbers))
    }
  }

  @Test("responses", arguments: 0..<8)
  func responses(_ seed: Int) throws {
    var numbers = Numbers(state: UInt64(seed) + 1001)
    for _ in 0..<250 {
      let (field, content) = Self.content(&numbers)
      let head =
        "HTTP/1.\(numbers.pick(["1", "1", "0"])) \(numbers.pick(["200", "204", "304", "401", "103", "101", "799"]))"
        + "\(numbers.pick([" OK", " ", ""]))\r\n" + Self.fields(&numbers) + field + Self.fields(&numbers) + "\r\n"
      // The first byte chooses the request that is answered.
      try FuzzTarget.response.check([UInt8(numbers.next(below: 256))] + Self.spoiled(head + content, &numbers))
    }
  }
}
