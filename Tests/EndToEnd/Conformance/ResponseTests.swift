import Foundation
import Testing

@Suite("RFC 9110 and 9112: what reaches the client") struct ResponseForwardingTests {
  private static func row(
    _ title: String, request: String = Wire.request(), forwarded: String = Wire.forwarded(), _ answer: String, _ answered: String,
    closes: Bool = false
  ) -> Passing {
    Passing(title, request, forwarded: forwarded, answer: answer, answered: answered, closes: closes)
  }

  static let rows: [Passing] = [
    row("9112 §6.2 Content-Length", Wire.response("HTTP/1.1 200 OK", "Content-Length: 2", content: "hi"),
      Wire.answered("HTTP/1.1 200 OK", "Content-Length: 2", content: "hi")),
    row("9112 §7.1 chunks are framed anew",
      Wire.response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", content: "2;x=y\r\nhi\r\n0\r\n\r\n"),
      Wire.answered("HTTP/1.1 200 OK", behind: "", content: "").replacing(
        "Via: 1.1 here\r\n", with: "Transfer-Encoding: chunked\r\nVia: 1.1 here\r\n") + "2\r\nhi\r\n0\r\n\r\n"),
    row("9112 §6.3 close-delimited content becomes chunks", Wire.response("HTTP/1.1 200 OK", content: "hi"),
      "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\nVia: 1.1 here\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    row("9112 §6.3 the same of HTTP/1.0", Wire.response("HTTP/1.0 200 OK", content: "hi"),
      "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\nVia: 1.0 here\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    row("9112 §6.3 HTTP/1.0 client: close-delimited", request: "GET / HTTP/1.0\r\n\r\n",
      forwarded: Wire.forwarded(version: "1.0"),
      Wire.response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", content: "2\r\nhi\r\n0\r\n\r\n"),
      Wire.answered("HTTP/1.1 200 OK", behind: "Connection: close\r\n", content: "hi"), closes: true),
    row("9110 §8.6 a list of identical lengths is one", Wire.response("HTTP/1.1 200 OK", "Content-Length: 2, 2", content: "hi"),
      Wire.answered("HTTP/1.1 200 OK", "Content-Length: 2", content: "hi")),
    row("9110 §8.6 two identical lines are one", Wire.response("HTTP/1.1 200 OK", "Content-Length: 2", "Content-Length: 2", content: "hi"),
      Wire.answered("HTTP/1.1 200 OK", "Content-Length: 2", content: "hi")),
    row("9112 §5.1 white space before a colon is removed", Wire.response("HTTP/1.1 200 OK", "X-A : 1", "Content-Length : 2", content: "hi"),
      Wire.answered("HTTP/1.1 200 OK", "X-A: 1", "Content-Length: 2", content: "hi")),

    // No content.
    row("9112 §6.3 HEAD has no content, and keeps its length", request: Wire.request("HEAD / HTTP/1.1"),
      forwarded: Wire.forwarded("HEAD / HTTP/1.1"), Wire.response("HTTP/1.1 200 OK", "Content-Length: 5"),
      Wire.answered("HTTP/1.1 200 OK", "Content-Length: 5")),
    row("9112 §6.3 HEAD of chunks", request: Wire.request("HEAD / HTTP/1.1"), forwarded: Wire.forwarded("HEAD / HTTP/1.1"),
      Wire.response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), Wire.answered("HTTP/1.1 200 OK")),
    row("9110 §15.4.5 304 keeps the length of what it stands for", Wire.response("HTTP/1.1 304 Not Modified", "Content-Length: 5"),
      Wire.answered("HTTP/1.1 304 Not Modified", "Content-Length: 5")),
    row("9110 §8.6 204 has none", Wire.response("HTTP/1.1 204 No Content", "Content-Length: 5"), Wire.answered("HTTP/1.1 204 No Content")),
    row("9110 §15.3.6 205 with an empty body", Wire.response("HTTP/1.1 205 Reset", "Content-Length: 0"),
      Wire.answered("HTTP/1.1 205 Reset", "Content-Length: 0")),

    // Status lines.
    row("9112 §4 no reason phrase", Wire.response("HTTP/1.1 200 ", "Content-Length: 0"), Wire.answered("HTTP/1.1 200 ", "Content-Length: 0")),
    row("9112 §4 not even the space before it", Wire.response("HTTP/1.1 200", "Content-Length: 0"),
      Wire.answered("HTTP/1.1 200 ", "Content-Length: 0")),
    row("9112 §4 a reason of odd bytes", Wire.response("HTTP/1.1 200 Très\tbien", "Content-Length: 0"),
      Wire.answered("HTTP/1.1 200 Très\tbien", "Content-Length: 0")),
    row("9110 §15 an unknown status", Wire.response("HTTP/1.1 299 Odd", "Content-Length: 0"), Wire.answered("HTTP/1.1 299 Odd", "Content-Length: 0")),
    row("9110 §15 a status past 599", Wire.response("HTTP/1.1 799 Odd", "Content-Length: 0"), Wire.answered("HTTP/1.1 799 Odd", "Content-Length: 0")),
    row("9110 §15.4 redirects are not followed",
      Wire.response("HTTP/1.1 302 Found", "Location: http://elsewhere.test/", "Content-Length: 0"),
      Wire.answered("HTTP/1.1 302 Found", "Location: http://elsewhere.test/", "Content-Length: 0")),
    row("9110 §15.5.2 a 401 of an upstream without a token is its own",
      Wire.response("HTTP/1.1 401 No", "WWW-Authenticate: Basic", "Content-Length: 0"),
      Wire.answered("HTTP/1.1 401 No", "WWW-Authenticate: Basic", "Content-Length: 0")),

    // Interim responses.
    row("9110 §15.2 interim responses go on",
      "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + Wire.noContent,
      "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nVia: 1.1 here\r\n\r\nHTTP/1.1 102 Processing\r\nVia: 1.1 here\r\n\r\n"
        + Wire.noContentAnswered),
    row("9110 §15.2 an unknown one too", "HTTP/1.1 199 What\r\nX: y\r\n\r\n" + Wire.noContent,
      "HTTP/1.1 199 What\r\nX: y\r\nVia: 1.1 here\r\n\r\n" + Wire.noContentAnswered),
    row("9110 §15.2 none to HTTP/1.0", request: "GET / HTTP/1.0\r\n\r\n", forwarded: Wire.forwarded(version: "1.0"),
      "HTTP/1.1 103 Early Hints\r\n\r\n" + Wire.noContent,
      Wire.answered("HTTP/1.1 204 No Content", behind: "Connection: close\r\n"), closes: true),
    row("9112 §6.1 an interim response has no content",
      "HTTP/1.1 103 Early\r\nContent-Length: 5\r\n\r\n" + Wire.noContent,
      "HTTP/1.1 103 Early\r\nVia: 1.1 here\r\n\r\n" + Wire.noContentAnswered),

    // Fields.
    row("9110 §7.6.1 hop-by-hop fields and those Connection names go",
      Wire.response(
        "HTTP/1.1 204 No", "Connection: x-a, keep-alive", "X-A: 1", "Keep-Alive: 5", "Proxy-Authenticate: Basic", "Upgrade: h2",
        "Trailer: a", "TE: x", "Proxy-Connection: close"),
      Wire.answered("HTTP/1.1 204 No")),
    row("9110 §5.3 Set-Cookie lines stay apart and in order",
      Wire.response("HTTP/1.1 204 No", "Set-Cookie: a=1, b", "X: y", "set-cookie: c=2"),
      Wire.answered("HTTP/1.1 204 No", "Set-Cookie: a=1, b", "X: y", "set-cookie: c=2")),
    row("9110 §5.5 empty values and obs-text", Wire.response("HTTP/1.1 204 No", "A:", "B: é\u{85}"),
      Wire.answered("HTTP/1.1 204 No", "A: ", "B: é\u{85}")),
    row("9110 §7.6.3 Via is added", Wire.response("HTTP/1.1 204 No", "Via: 1.1 other"),
      Wire.answered("HTTP/1.1 204 No", "Via: 1.1 other")),
    row("9112 §9.6 the upstream's close is not the client's", Wire.response("HTTP/1.1 204 No", "Connection: close"),
      Wire.answered("HTTP/1.1 204 No")),
    row("9110 §6.5 trailers go to who takes them", request: Wire.request("GET / HTTP/1.1", "TE: trailers"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "TE: trailers", "Connection: TE"),
      Wire.response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", content: "1\r\na\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n"),
      "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\nVia: 1.1 here\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n"),
    row("9110 §6.5 and are left out for others",
      Wire.response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", content: "1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n"),
      "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\nVia: 1.1 here\r\n\r\n1\r\na\r\n0\r\n\r\n"),
  ]

  @Test("byte for byte, whole and cut")
  func passes() throws {
    let scene = try RawScene()
    for row in Self.rows { try scene.check(row) }
    try scene.daemon.finish()
  }

  @Test("9110 §6.6.1 a response without Date gets one; an interim response does not")
  func dated() throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send(Wire.request())
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No\r\nConnection: close\r\n\r\n")
    let early = client.receive(until: "\r\n\r\n").text
    var text = early
    if !text.contains("204") { text += client.receive(until: "\r\n\r\n").text }
    let final = try #require(text.firstRange(of: "HTTP/1.1 204 No\r\n")).upperBound
    #expect(!text[..<final].contains("Date:"))
    let date = try #require(text[final...].firstMatch(of: #/^Date: (\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT)\r\n/#))
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
    let said = try #require(formatter.date(from: String(date.1)))
    #expect(abs(said.timeIntervalSinceNow) < 120)
    client.leave()
    try scene.daemon.finish()
  }

  /// Each is refused before a byte of it has gone: 502, and the connection to the client goes on.
  static let refusedHeads: [Faulty] = [
    Faulty("§6.3 Content-Length with Transfer-Encoding", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
    Faulty("§6.3 differing lengths", "Content-Length: 5\r\nContent-Length: 6\r\n"),
    Faulty("§6.3 differing lengths in a list", "Content-Length: 5, 6\r\n"),
    Faulty("§6.3 a length that is none", "Content-Length: x\r\n"),
    Faulty("§6.3 a signed length", "Content-Length: +5\r\n"),
    Faulty("§6.3 an empty length", "Content-Length:\r\n"),
    Faulty("§6.1 chunked is not last", "Transfer-Encoding: chunked, identity\r\n"),
    Faulty("§6.1 not chunked", "Transfer-Encoding: identity\r\n"),
    Faulty("§6.1 chunked twice", "Transfer-Encoding: chunked, chunked\r\n"),
    Faulty("§6.1 a coding we do not know", "Transfer-Encoding: gzip, chunked\r\n"),
    Faulty("§5.2 obs-fold", "X: a\r\n b\r\n"),
    Faulty("§2.2 bare LF", "X: a\nY: b\r\n"),
    Faulty("§2.2 bare CR", "X: a\rY: b\r\n"),
    Faulty("9110 §5.5 NUL", "X: a\0b\r\n"),
    Faulty("9110 §5.1 a name with a space", "X Y: a\r\n"),
    Faulty("9110 §5.1 an empty name", ": a\r\n"),
    Faulty("9110 §5.1 no colon", "nonsense\r\n"),
    Faulty("too many fields", String(repeating: "X: y\r\n", count: 129)),
    Faulty("a field past the limit", "X: " + String(repeating: "y", count: 40_000) + "\r\n"),
  ]

  @Test("an ambiguous head is 502 and nothing of it is relayed")
  func refusedHead() throws {
    let scene = try RawScene()
    for row in Self.refusedHeads {
      try refused(row.title, scene, "HTTP/1.1 200 OK\r\nX-From: upstream\r\n\(row.answer)\r\n5\r\nhello\r\n0\r\n\r\n")
    }
    try scene.daemon.finish()
  }

  static let refusedStarts: [Faulty] = [
    Faulty("§4 no HTTP", "hello\r\n\r\n"), Faulty("§4 HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"),
    Faulty("§4 HTTP/0.9", "<html>"), Faulty("§4 a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"),
    Faulty("§4 a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"), Faulty("§4 a status below 100", "HTTP/1.1 099 OK\r\n\r\n"),
    Faulty("§4 two spaces", "HTTP/1.1  200 OK\r\n\r\n"), Faulty("§4 bare LF", "HTTP/1.1 200 OK\n\n"),
    Faulty("§2.2 an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n"),
    Faulty("9110 §15.2.2 a 101 that nobody asked for", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    Faulty("§6.1 Transfer-Encoding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    Faulty("an interim response with an ambiguous head", "HTTP/1.1 103 Early\r\nX : y\nZ\r\n\r\n" + Wire.noContent),
    Faulty("the end inside the head", "HTTP/1.1 200 OK\r\nX: y\r\n"), Faulty("the end before the head", ""),
    Faulty("the end behind an interim response", "HTTP/1.1 103 Early\r\n\r\n"),
  ]

  @Test("what is no response is 502")
  func refusedStart() throws {
    let scene = try RawScene()
    for row in Self.refusedStarts { try refused(row.title, scene, row.answer) }
    try scene.daemon.finish()
  }

  private func refused(_ title: String, _ scene: RawScene, _ answer: String) throws {
    let client = try scene.client()
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send(answer)
    peer.finishSending()
    var text = client.receive(until: "\n}\n").text
    if let early = text.firstRange(of: "HTTP/1.1 103 Early\r\nVia: 1.1 here\r\n\r\n") { text.removeSubrange(early) }
    #expect(text.hasPrefix("HTTP/1.1 502 ") && text.contains("UPSTREAM_PROTOCOL"), "\(title): \(text)")
    #expect(!text.contains("X-From") && !text.contains("hello"), "\(title): \(text)")
    // The upstream's connection is of no use any more; the client's is.
    client.send(Wire.request("GET /next HTTP/1.1"))
    let next = try scene.origin.accept()
    #expect(next.receive(until: "\r\n\r\n").text.hasPrefix("GET /next "), "\(title)")
    next.send("HTTP/1.1 204 No\r\nDate: now\r\nConnection: close\r\n\r\n")
    #expect(client.receive(until: "\r\n\r\n").text == Wire.answered("HTTP/1.1 204 No"), "\(title)")
  }

  static let cut: [Faulty] = [
    Faulty("§8 fewer bytes than Content-Length", "Content-Length: 10\r\n\r\nhello"),
    Faulty("§8 no last chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    Faulty("§8 the end inside a chunk", "Transfer-Encoding: chunked\r\n\r\n9\r\nhello"),
    Faulty("§8 the end inside a chunk's header", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1"),
    Faulty("§8 the end inside the trailer section", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n"),
    Faulty("§8 the end before the empty line of the trailer section", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"),
    Faulty("§7.1 a size that is none", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n"),
    Faulty("§7.1 bare LF behind a size", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\na\r\n0\r\n\r\n"),
    Faulty("§7.1 content longer than its size", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n"),
    Faulty("§7.1.2 obs-fold in the trailer section", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
  ]

  @Test("I9: a truncated or malformed body never looks whole, to 1.1 and to 1.0, by FIN and by reset")
  func truncated() throws {
    let scene = try RawScene()
    for row in Self.cut { try truncated(row, scene) }
    try scene.daemon.finish()
  }

  private func truncated(_ row: Faulty, _ scene: RawScene) throws {
    for version in ["1.1", "1.0"] {
      for isReset in [false, true] {
        let client = try scene.client()
        client.send("GET / HTTP/\(version)\r\nHost: localhost\r\n\r\n")
        let peer = try scene.origin.accept()
        _ = peer.receive(until: "\r\n\r\n")
        peer.send("HTTP/1.1 200 OK\r\n" + row.answer)
        var (text, ending) = ("", RawClient.Ending.stopped)
        if isReset {
          // The bytes must have arrived before the reset throws them away.
          (text, ending) = client.receive(until: "hello")
          peer.reset()
        } else {
          peer.finishSending()
        }
        if ending == .stopped {
          let rest = client.receive()
          (text, ending) = (text + rest.text, rest.ending)
        }
        #expect(!text.hasSuffix("0\r\n\r\n"), "\(row.title): \(text.debugDescription)")
        let showsLength = row.answer.hasPrefix("Content-Length")
        #expect(ending == (version == "1.0" && !showsLength ? .reset : .closed) || ending == .reset, "\(row.title): \(version) \(text.debugDescription)")
      }
    }
  }
}
