import Foundation
import Testing

@Suite("RFC 9112: what two parties could read in two ways is refused and never forwarded")
struct RequestRefusalTests {
  private static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

  private static func post(_ fields: String..., content: String = "0\r\n\r\n") -> String {
    "POST / HTTP/1.1\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n" + content + smuggled
  }

  static let heads: [Refused] = [
    // 9112 §6.3, 9110 §8.6: Content-Length.
    Refused("§6.3 Content-Length with Transfer-Encoding", post("Content-Length: 5", "Transfer-Encoding: chunked")),
    Refused("§6.3 Transfer-Encoding with Content-Length", post("Transfer-Encoding: chunked", "Content-Length: 5")),
    Refused("§6.3 differing Content-Lengths", post("Content-Length: 5", "Content-Length: 6")),
    Refused("§6.3 differing Content-Lengths in a list", post("Content-Length: 5, 6")),
    Refused("§6.3 repeated Content-Length", post("Content-Length: 5", "Content-Length: 5")),
    Refused("§6.3 a list of identical Content-Lengths", post("Content-Length: 5, 5")),
    Refused("§6.3 a signed Content-Length", post("Content-Length: +5")),
    Refused("§6.3 a negative Content-Length", post("Content-Length: -5")),
    Refused("§6.3 a hexadecimal Content-Length", post("Content-Length: 0x5")),
    Refused("§6.3 a Content-Length with white space", post("Content-Length: 5 6")),
    Refused("§6.3 an empty Content-Length", post("Content-Length:")),
    Refused("§6.3 a Content-Length with a fraction", post("Content-Length: 5.0")),
    Refused("§6.3 a Content-Length in quotes", post("Content-Length: \"5\"")),
    Refused("§6.3 a Content-Length past 64 bits", post("Content-Length: 18446744073709551621")),
    Refused("§6.3 a Content-Length with an underscore", post("Content-Length: 1_0")),
    Refused("§6.3 Content-Length of another spelling stands beside it", post("Content-Length: 5", "content-LENGTH: 0")),
    // 9112 §6.1: Transfer-Encoding.
    Refused("§6.1 chunked is not last", post("Transfer-Encoding: chunked, identity")),
    Refused("§6.1 not chunked at all", post("Transfer-Encoding: identity")),
    Refused("§6.1 chunked twice", post("Transfer-Encoding: chunked, chunked")),
    Refused("§6.1 chunked on two lines", post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")),
    Refused("§6.1 chunked, then another line", post("Transfer-Encoding: chunked", "Transfer-Encoding: identity")),
    Refused("§6.1 a word that begins alike", post("Transfer-Encoding: chunkedx")),
    Refused("§6.1 a word that ends alike", post("Transfer-Encoding: xchunked")),
    Refused("§6.1 chunked in quotes", post("Transfer-Encoding: \"chunked\"")),
    Refused("§6.1 chunked with a parameter", post("Transfer-Encoding: chunked;a=b")),
    Refused("§6.1 empty", post("Transfer-Encoding:")),
    Refused("§6.1 an empty element", post("Transfer-Encoding: ,chunked")),
    Refused("§6.1 vertical tab before chunked", post("Transfer-Encoding: \u{b}chunked")),
    Refused("§6.1 chunked with a control character", post("Transfer-Encoding: chunked\u{1}")),
    Refused("§6.1 a coding we do not know", post("Transfer-Encoding: gzip, chunked"), status: 501),
    Refused("§6.1 in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled),
    // 9112 §5.1, §5.2, §2.2: field lines.
    Refused("§5.1 space before the colon", post("Transfer-Encoding : chunked")),
    Refused("§5.1 tab before the colon", post("Content-Length\t: 5")),
    Refused("§5.2 obs-fold", post("X: a", " Transfer-Encoding: chunked")),
    Refused("§5.2 obs-fold of the framing field", post("Transfer-Encoding:", " chunked")),
    Refused("§5.2 obs-fold with a tab", post("X: a", "\tb")),
    Refused("§2.2 white space before the first field", "POST / HTTP/1.1\r\n Host: localhost\r\nX: y\r\n\r\n"),
    Refused("§2.2 bare CR in a value", post("X: a\rTransfer-Encoding: chunked")),
    Refused("§2.2 bare CR before the colon", post("Transfer-Encoding\r: chunked")),
    Refused("§2.2 bare LF ends a line", "POST / HTTP/1.1\nHost: localhost\n\n"),
    Refused("§2.2 bare LF within the section", post("X: y\nTransfer-Encoding: chunked")),
    Refused("§2.2 bare LF ends the section", "GET / HTTP/1.1\r\nHost: localhost\r\n\n" + smuggled),
    Refused("§2.2 CR CR LF", "GET / HTTP/1.1\r\nHost: localhost\r\r\n\r\n"),
    Refused("9110 §5.5 NUL in a value", post("X: a\0b")),
    Refused("9110 §5.5 a control character in a value", post("X: a\u{7f}")),
    Refused("9110 §5.1 NUL in a name", post("X\0: a")),
    Refused("9110 §5.1 an empty name", post(": a")),
    Refused("9110 §5.1 a name with a space", post("X Y: a")),
    Refused("9110 §5.1 a name outside ASCII", post("Xé: a")),
    Refused("9110 §5.1 a name in parentheses", post("(X): a")),
    Refused("9110 §5.1 a line without a colon", post("Transfer-Encoding chunked")),
    // 9112 §3: request line.
    Refused("§3 two spaces", "GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3 a tab", "GET\t/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3 a space in the target", "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3 space behind the version", "GET / HTTP/1.1 \r\nHost: localhost\r\n\r\n"),
    Refused("§3 space before the method", " GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3 no version", "GET /\r\nHost: localhost\r\n\r\n"),
    Refused("§3 no target", "GET HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.1 a method that is no token", "G(ET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§2.3 lower-case version", "GET / http/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§2.3 a version of more digits", "GET / HTTP/1.10\r\nHost: localhost\r\n\r\n"),
    Refused("§2.3 HTTP/2.0 in a request line", "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", status: 505),
    Refused("§2.3 HTTP/0.9", "GET / HTTP/0.9\r\nHost: localhost\r\n\r\n", status: 505),
    Refused("§2.3 another protocol", "GET / ICY/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2 NUL in the target", "GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2 a byte beyond ASCII in the target", "GET /é HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2 a fragment", "GET /#x HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2.4 * of another method", "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2.3 authority-form of another method", "GET localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2.3 CONNECT without a port", "CONNECT localhost HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("9110 §4.2.4 user information", "GET http://a@localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2.2 an empty host", "GET http:/// HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2.2 another scheme", "GET ftp://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2.2 a port past 65535", "GET http://localhost:65536/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2.2 a backslash in the host", "GET http://localhost\\@evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    // 9112 §3.2: Host.
    Refused("§3.2 no Host", "GET / HTTP/1.1\r\n\r\n"),
    Refused("§3.2 no Host with absolute-form", "GET http://localhost/ HTTP/1.1\r\n\r\n"),
    Refused("§3.2 two Hosts", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
    Refused("§3.2 two Hosts in one", "GET / HTTP/1.1\r\nHost: localhost, localhost\r\n\r\n"),
    Refused("§3.2 a Host with a path", "GET / HTTP/1.1\r\nHost: localhost/x\r\n\r\n"),
    Refused("§3.2 a Host with user information", "GET / HTTP/1.1\r\nHost: a@localhost\r\n\r\n"),
    Refused("§3.2 a Host with a space", "GET / HTTP/1.1\r\nHost: local host\r\n\r\n"),
    Refused("§3.2 a Host with a bad port", "GET / HTTP/1.1\r\nHost: localhost:x\r\n\r\n"),
    Refused("§3.2 two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: localhost\r\nHost: evil\r\n\r\n"),
    Refused("SPEC §1 an empty Host", "GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", status: 421),
    // Limits and others.
    Refused("9110 §9.3.6 a CONNECT that is denied, with what was sent ahead", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled, status: 403),
    Refused("9110 §9.3.8 TRACE with content", "TRACE / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"),
    Refused("9112 §3 a method longer than any", String(repeating: "A", count: 9000) + " / HTTP/1.1\r\nHost: localhost\r\n\r\n", status: 501),
    Refused("9110 §10.1.1 an unknown expectation", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 200-ok\r\n\r\na", status: 417),
    Refused("9110 §15.5.15 a long target", "GET /\(String(repeating: "a", count: 9000)) HTTP/1.1\r\nHost: localhost\r\n\r\n", status: 414),
    Refused("6585 §5 a long field", "GET / HTTP/1.1\r\nHost: localhost\r\nX: \(String(repeating: "a", count: 33_000))\r\n\r\n", status: 431),
    Refused("6585 §5 many fields", "GET / HTTP/1.1\r\nHost: localhost\r\n\(String(repeating: "X: a\r\n", count: 128))\r\n", status: 431),
    Refused("9110 §7.6.3 a loop", "GET / HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 a, 1.1 here (x)\r\nConnection: close\r\n\r\n", status: 508),
    Refused("9110 §7.6.2 a Max-Forwards that is none", "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: x\r\nConnection: close\r\n\r\n"),
  ]

  @Test("a head: the status, then the end of the connection, and nothing of it upstream")
  func head() throws {
    let scene = try RawScene()
    for (row, isCut) in Self.heads.flatMap({ [($0, false), ($0, true)] }) {
      let client = try scene.client()
      if isCut { client.sendInPieces(row.request) } else { client.send(row.request) }
      let (text, ending) = client.receive()
      #expect(text.hasPrefix("HTTP/1.1 \(row.status) "), "\(row.title): \(text)")
      #expect(ending == .closed, "\(row.title): \(text)")
      #expect(text.matches(of: #/HTTP\/1\.1 \d\d\d /#).count == 1, "\(row.title): one answer: \(text)")
      #expect(!scene.origin.isDialled(within: 0.002), "\(row.title)")
    }
    try scene.daemon.finish()
  }

  /// The head is right, so it may have left; the content ends in nothing that a server takes for its end.
  static let chunks: [Refused] = [
    Refused("§7.1 no size", "\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 a size that is no number", "x\r\n"),
    Refused("§7.1 a signed size", "+3\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 a negative size", "-1\r\n"),
    Refused("§7.1 a size with 0x", "0x3\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 a size past 64 bits", "10000000000000003\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 a size of many zeros", String(repeating: "0", count: 40) + "3\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 space before the size", " 3\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 bare LF behind the size", "3\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 bare CR behind the size", "3\rabc\r\n0\r\n\r\n"),
    Refused("§7.1 bare LF in an extension", "3;a\nb\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 bare CR in an extension", "3;a\rb\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 NUL in an extension", "3;a\0\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 content longer than its size", "2\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 content shorter than its size", "4\r\nabc\r\n0\r\n\r\n"),
    Refused("§7.1 bare LF behind the content", "3\r\nabc\n0\r\n\r\n"),
    Refused("§7.1 an endless extension", "3;" + String(repeating: "a", count: 70_000)),
    Refused("§7.1.2 obs-fold in the trailer section", "0\r\nX: a\r\n b\r\n\r\n"),
    Refused("§7.1.2 space before a trailer's colon", "0\r\nX : a\r\n\r\n"),
    Refused("§7.1.2 bare LF in the trailer section", "0\r\nX: a\n\r\n"),
    Refused("§7.1.2 a trailer section past its limit", "0\r\nX: " + String(repeating: "a", count: 40_000) + "\r\n\r\n"),
    Refused("§7.1 bare LF behind the last chunk", "0\n\n"),
  ]

  @Test("a chunked body: 400 and the end, and the upstream never sees the end of a message")
  func chunked() throws {
    let scene = try RawScene()
    for (row, isCut) in Self.chunks.flatMap({ [($0, false), ($0, true)] }) {
      let client = try scene.client()
      let head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      let body = row.request + Self.smuggled
      if isCut { client.sendInPieces(head + body) } else { client.send(head + body) }
      let (text, ending) = client.receive()
      #expect(text.hasPrefix("HTTP/1.1 400 ") && ending == .closed, "\(row.title): \(text)")
      #expect(text.matches(of: #/HTTP\/1\.1 \d\d\d /#).count == 1, "\(row.title): one answer: \(text)")
      guard scene.origin.isWaiting(within: 0.05) else { continue }
      let (seen, _) = try scene.origin.accept().receive()
      #expect(!seen.contains("0\r\n\r\n") && !seen.contains("smuggled"), "\(row.title): \(seen.debugDescription)")
      #expect(seen.components(separatedBy: " HTTP/1.1\r\n").count <= 2, "\(row.title): \(seen.debugDescription)")
    }
    try scene.daemon.finish()
  }

  @Test("9110 §7.6.2 Max-Forwards: 0 ends here: OPTIONS with 200, TRACE with the request")
  func ended() throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: 0\r\n\r\n")
    let options = client.receive(until: "\r\n\r\n").text
    #expect(options.hasPrefix("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: "), "\(options)")
    client.send("TRACE /x HTTP/1.1\r\nHost: localhost\r\nCookie: secret\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n")
    let trace = client.receive()
    #expect(trace.ending == .closed && trace.text.contains("Content-Type: message/http\r\n"))
    #expect(
      trace.text.hasSuffix("\r\n\r\nTRACE /x HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n"),
      "\(trace.text)")
    #expect(!scene.origin.isDialled(within: 0.01))
    try scene.daemon.finish()
  }
}
