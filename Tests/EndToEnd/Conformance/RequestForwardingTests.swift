import Foundation
import Testing

@Suite("RFC 9110 and 9112: what reaches the upstream") struct RequestForwardingTests {
  static let rows: [Passing] = [
    // Methods and targets.
    Passing("9110 §9.1 an unknown method passes", Wire.request("BREW /pot HTTP/1.1"), forwarded: Wire.forwarded("BREW /pot HTTP/1.1")),
    Passing("9110 §9.1 methods are case-sensitive", Wire.request("get / HTTP/1.1"), forwarded: Wire.forwarded("get / HTTP/1.1")),
    Passing(
      "9110 §5.6.2 a method of odd token characters", Wire.request("M!#$%&'*+-.^_`|~9 / HTTP/1.1"),
      forwarded: Wire.forwarded("M!#$%&'*+-.^_`|~9 / HTTP/1.1")),
    Passing(
      "9110 §7.7 path and query are not touched", Wire.request("GET /a//b/../c/%2e%2E/%zz?q=%00&%2f#".dropLast() + " HTTP/1.1"),
      forwarded: Wire.forwarded("GET /a//b/../c/%2e%2E/%zz?q=%00&%2f HTTP/1.1")),
    Passing(
      "9112 §3.2.1 reserved characters in the target", Wire.request("GET /a;b=c,d:e@f!$'()*+?x=/?y HTTP/1.1"),
      forwarded: Wire.forwarded("GET /a;b=c,d:e@f!$'()*+?x=/?y HTTP/1.1")),
    Passing("9112 §3.2.4 OPTIONS *", Wire.request("OPTIONS * HTTP/1.1"), forwarded: Wire.forwarded("OPTIONS * HTTP/1.1")),
    Passing(
      "9112 §3.2.2 absolute-form overrides Host", "GET http://@HOST@/x HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n",
      forwarded: Wire.forwarded("GET /x HTTP/1.1")),
    Passing(
      "9110 §7.7 an empty path becomes a slash", "GET http://@HOST@ HTTP/1.1\r\nHost: x\r\n\r\n",
      forwarded: Wire.forwarded("GET / HTTP/1.1")),
    Passing(
      "9110 §7.7 an empty path before a query", "GET http://@HOST@?q HTTP/1.1\r\nHost: x\r\n\r\n",
      forwarded: Wire.forwarded("GET /?q HTTP/1.1")),
    Passing(
      "9112 §3.2.4 OPTIONS of an origin without a path becomes *", "OPTIONS http://@HOST@ HTTP/1.1\r\nHost: x\r\n\r\n",
      forwarded: Wire.forwarded("OPTIONS * HTTP/1.1")),
    Passing(
      "9112 §3.2.4 OPTIONS of an origin's root stays /", "OPTIONS http://@HOST@/ HTTP/1.1\r\nHost: x\r\n\r\n",
      forwarded: Wire.forwarded("OPTIONS / HTTP/1.1")),
    Passing(
      "9110 §4.2.3 the scheme is case-insensitive", "GET HTTP://@HOST@/x HTTP/1.1\r\nHost: x\r\n\r\n",
      forwarded: Wire.forwarded("GET /x HTTP/1.1")),
    Passing("9112 §2.2 empty lines before the request line", "\r\n\r\n" + Wire.request(), forwarded: Wire.forwarded()),

    // Field lines.
    Passing(
      "9110 §5.3 repeated field lines keep their order", Wire.request("GET / HTTP/1.1", "A: 1", "B: 2", "a: 3", "A: 4"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "A: 1", "B: 2", "a: 3", "A: 4")),
    Passing(
      "9110 §5.5 empty values stay", Wire.request("GET / HTTP/1.1", "A:", "B:   "),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "A: ", "B: ")),
    Passing(
      "9110 §5.5 white space around a value goes, within it stays", Wire.request("GET / HTTP/1.1", "A: \t x \t y\t "),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "A: x \t y")),
    Passing(
      "9110 §5.5 obs-text passes", Wire.request("GET / HTTP/1.1", "A: é\u{85}ÿ"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "A: é\u{85}ÿ")),
    Passing(
      "9110 §5.1 odd field names pass", Wire.request("GET / HTTP/1.1", "!#$%&'*+-.^_`|~: x"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "!#$%&'*+-.^_`|~: x")),
    Passing(
      "6265 §5.4 several Cookie lines", Wire.request("GET / HTTP/1.1", "Cookie: a=b", "Cookie: c=d"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "Cookie: a=b", "Cookie: c=d")),

    // Hop-by-hop.
    Passing(
      "9110 §7.6.1 fields that Connection names go",
      Wire.request("GET / HTTP/1.1", "Connection: x-a,, X-B ,keep-alive", "X-A: 1", "x-b: 2", "X-C: 3"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "X-C: 3")),
    Passing(
      "9110 §7.6.1 several Connection lines", Wire.request("GET / HTTP/1.1", "Connection: a", "A: 1", "Connection: b", "B: 2"),
      forwarded: Wire.forwarded("GET / HTTP/1.1")),
    Passing(
      "9110 §7.6.1 the fields of a hop go unnamed too",
      Wire.request(
        "GET / HTTP/1.1", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "TE: gzip", "Trailer: X", "Upgrade: h2c",
        "Proxy-Authorization: Basic YTpi", "Proxy-Authenticate: Basic", "Proxy-Authentication-Info: x"),
      forwarded: Wire.forwarded("GET / HTTP/1.1")),
    Passing(
      "9110 §7.6.1 Connection cannot take Host or Content-Length away",
      Wire.request("POST / HTTP/1.1", "Connection: host, content-length", "Content-Length: 2", content: "hi"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Content-Length: 2", content: "hi")),
    Passing(
      "9110 §10.1.4 TE: trailers goes on for ourselves", Wire.request("GET / HTTP/1.1", "TE: trailers, deflate;q=0.5", "Connection: TE"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "TE: trailers", "Connection: TE")),
    Passing(
      "9110 §7.8 an Upgrade that was asked for", Wire.request("GET / HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "Connection: upgrade", "Upgrade: websocket")),
    Passing(
      "9113 §3.1 h2c is not passed on, nor are its settings",
      Wire.request("GET / HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket, h2c", "HTTP2-Settings: AAMA"),
      forwarded: Wire.forwarded("GET / HTTP/1.1")),
    Passing(
      "9110 §7.8 Upgrade without Connection: upgrade ends here", Wire.request("GET / HTTP/1.1", "Upgrade: websocket"),
      forwarded: Wire.forwarded("GET / HTTP/1.1")),
    Passing(
      "9110 §7.6.3 Via is added behind those that came", Wire.request("GET / HTTP/1.1", "Via: 1.0 a, 1.1 b"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "Via: 1.0 a, 1.1 b")),
    Passing(
      "9110 §7.6.2 Max-Forwards is counted down", Wire.request("OPTIONS / HTTP/1.1", "Max-Forwards: 10"),
      forwarded: Wire.forwarded("OPTIONS / HTTP/1.1", "Max-Forwards: 9")),
    Passing(
      "9110 §7.6.2 other methods keep it", Wire.request("GET / HTTP/1.1", "Max-Forwards: 0"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "Max-Forwards: 0")),
    Passing(
      "9110 §9.3.8 TRACE passes without our token", Wire.request("TRACE / HTTP/1.1", "Max-Forwards: 1"),
      forwarded: Wire.forwarded("TRACE / HTTP/1.1", "Max-Forwards: 0")),

    // Content.
    Passing(
      "9112 §6.2 Content-Length", Wire.request("POST / HTTP/1.1", "Content-Length: 3", content: "abc"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Content-Length: 3", content: "abc")),
    Passing(
      "9110 §8.6 leading zeros are normalised", Wire.request("POST / HTTP/1.1", "Content-Length: 003", content: "abc"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Content-Length: 3", content: "abc")),
    Passing(
      "9110 §8.6 a length of zero stays", Wire.request("POST / HTTP/1.1", "Content-Length: 0"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Content-Length: 0")),
    Passing(
      "9110 §8.6 no content, no length", Wire.request("POST / HTTP/1.1"), forwarded: Wire.forwarded("POST / HTTP/1.1")),
    Passing(
      "9110 §9.3.1 a GET with content", Wire.request("GET / HTTP/1.1", "Content-Length: 3", content: "abc"),
      forwarded: Wire.forwarded("GET / HTTP/1.1", "Content-Length: 3", content: "abc")),
    Passing(
      "9112 §7.1 chunks are framed anew",
      Wire.request("POST / HTTP/1.1", "Transfer-Encoding: chunked", content: "3;ext=\"a;b\"\r\nabc\r\n0\r\n\r\n"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Transfer-Encoding: chunked", content: "3\r\nabc\r\n0\r\n\r\n")),
    Passing(
      "9112 §7.1 chunk sizes in any case, with leading zeros",
      Wire.request("POST / HTTP/1.1", "transfer-encoding: CHUNKED", content: "00A\r\n0123456789\r\n000\r\n\r\n"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Transfer-Encoding: chunked", content: "a\r\n0123456789\r\n0\r\n\r\n")),
    Passing(
      "9112 §7.1.2 trailers go on, but not those that frame, route or authenticate",
      Wire.request(
        "POST / HTTP/1.1", "Transfer-Encoding: chunked",
        content: "1\r\na\r\n0\r\nX-Sum: 1\r\nContent-Length: 5\r\nHost: evil\r\nAuthorization: x\r\nTransfer-Encoding: x\r\n\r\n"),
      forwarded: Wire.forwarded(
        "POST / HTTP/1.1", "Transfer-Encoding: chunked", content: "1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n")),
    Passing(
      "9112 §6.3 what follows the content is no part of it",
      Wire.request("POST / HTTP/1.1", "Content-Length: 3", "Connection: close", content: "abcGET /smuggled HTTP/1.1\r\n\r\n"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Content-Length: 3", content: "abc"),
      answered: Wire.answered("HTTP/1.1 204 No Content", behind: "Connection: close\r\n"), closes: true),
    Passing(
      "9110 §10.1.1 Expect goes on", Wire.request("POST / HTTP/1.1", "Content-Length: 3", "Expect: 100-Continue"),
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 3"),
      answer: "HTTP/1.1 413 Too Large\r\nDate: now\r\nContent-Length: 0\r\n\r\n",
      answered: Wire.answered("HTTP/1.1 413 Too Large", "Content-Length: 0", behind: "Connection: close\r\n"), closes: true),
    Passing(
      "9110 §10.1.1 Expect without content does not", Wire.request("GET / HTTP/1.1", "Expect: 100-continue"),
      forwarded: Wire.forwarded("GET / HTTP/1.1")),

    // Versions.
    Passing(
      "9110 §2.5 HTTP/1.0 goes on as 1.1, and Via tells", "GET / HTTP/1.0\r\n\r\n",
      forwarded: Wire.forwarded("GET / HTTP/1.1", version: "1.0"),
      answered: Wire.answered("HTTP/1.1 204 No Content", behind: "Connection: close\r\n"), closes: true),
    Passing(
      "9112 §9.3 HTTP/1.0 with keep-alive in gateway mode", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      forwarded: Wire.forwarded("GET / HTTP/1.1", version: "1.0"),
      answered: Wire.answered("HTTP/1.1 204 No Content", behind: "Connection: keep-alive\r\n")),
    Passing(
      "9112 §9.3 and never in forward mode", "GET http://@HOST@/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      forwarded: Wire.forwarded("GET / HTTP/1.1", version: "1.0"),
      answered: Wire.answered("HTTP/1.1 204 No Content", behind: "Connection: close\r\n"), closes: true),
    Passing(
      "9110 §10.1.1 Expect of HTTP/1.0 is ignored", "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
      forwarded: Wire.forwarded("POST / HTTP/1.1", "Content-Length: 1", version: "1.0", content: "a"),
      answered: Wire.answered("HTTP/1.1 204 No Content", behind: "Connection: close\r\n"), closes: true),
    Passing(
      "9110 §2.5 a higher minor version counts as 1.1", "GET / HTTP/1.7\r\nHost: localhost\r\n\r\n",
      forwarded: Wire.forwarded()),
    Passing(
      "9112 §9.6 Connection: close of the client", Wire.request("GET / HTTP/1.1", "Connection: close"),
      forwarded: Wire.forwarded(), answered: Wire.answered("HTTP/1.1 204 No Content", behind: "Connection: close\r\n"),
      closes: true),
  ]

  @Test("byte for byte, whole and cut")
  func passes() throws {
    let scene = try RawScene()
    for var row in Self.rows {
      row.request = row.request.replacing("@HOST@", with: "127.0.0.1:\(scene.origin.port)")
      try scene.check(row)
    }
    try scene.daemon.finish()
  }
}
