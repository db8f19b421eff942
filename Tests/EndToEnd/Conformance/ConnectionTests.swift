import Foundation
import Testing

@Suite("RFC 9112 §9: connections") struct ConnectionTests {
  @Test("§9.3.2 pipelined requests are answered in their order, however their bytes are cut")
  func pipelining() throws {
    let scene = try RawScene()
    for isCut in [false, true] {
      let client = try scene.client()
      let count = 12
      let requests = (0..<count).map { index in
        index % 3 == 0
          ? Wire.request("POST /\(index) HTTP/1.1", "Content-Length: 3", content: "abc")
          : index % 3 == 1
            ? Wire.request("PUT /\(index) HTTP/1.1", "Transfer-Encoding: chunked", content: "2\r\nab\r\n0\r\n\r\n")
            : Wire.request("GET /\(index) HTTP/1.1")
      }.joined()
      if isCut { client.sendInPieces(requests) } else { client.send(requests) }
      let peer = try scene.origin.accept()
      for index in 0..<count {
        let head = peer.receive(until: "\r\n\r\n").text
        #expect(head.contains(" /\(index) HTTP/1.1\r\n"), "\(index): \(head)")
        if head.contains("Content-Length: 3"), !head.hasSuffix("abc") { _ = peer.receive(until: "abc") }
        if head.contains("chunked"), !head.hasSuffix("0\r\n\r\n") { _ = peer.receive(until: "0\r\n\r\n") }
        peer.send("HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: \(String(index).count)\r\n\r\n\(index)")
      }
      let expected = (0..<count).map { index in
        Wire.answered("HTTP/1.1 200 OK", "Content-Length: \(String(index).count)", content: "\(index)")
      }.joined()
      #expect(String(decoding: client.receive(count: expected.utf8.count), as: UTF8.self) == expected)
      client.leave()
      peer.leave()
    }
    try scene.daemon.finish()
  }

  @Test("§9.6 a FIN behind a whole request is a half-close: the answer comes", arguments: ["", "Content-Length: 3\r\n\r\nabc"])
  func halfClose(_ rest: String) throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\n\(rest.isEmpty ? "\r\n" : rest)")
    client.finishSending()
    let peer = try scene.origin.accept()
    _ = peer.receive(until: rest.isEmpty ? "\r\n\r\n" : "abc")
    usleep(100_000)
    peer.send(Wire.noContent)
    #expect(client.receive() == (Wire.noContentAnswered, .closed))
    try scene.daemon.finish()
  }

  @Test("§9.6 a FIN inside a request is an abort: the upstream sees one too, and no end of the content")
  func abortedRequest() throws {
    let scene = try RawScene()
    for framing in ["Content-Length: 9\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
      let client = try scene.client()
      client.send("POST / HTTP/1.1\r\nHost: localhost\r\n\(framing)")
      let peer = try scene.origin.accept()
      _ = peer.receive(until: "abc")
      client.finishSending()
      let (rest, ending) = peer.receive()
      #expect(!rest.contains("0\r\n\r\n") && ending != .silent, "\(rest.debugDescription)")
    }
    try scene.daemon.finish()
  }

  @Test("9110 §7.5 an early refusal ends the upload: it arrives, and no further byte goes upstream")
  func earlyResponse() throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + String(repeating: "a", count: 1000))
    let peer = try scene.origin.accept()
    let head = peer.receive(until: "\r\n\r\n").text
    let seen = head.utf8.count - (head.firstRange(of: "\r\n\r\n").map { head[..<$0.upperBound].utf8.count } ?? 0)
    _ = peer.receive(count: 1000 - seen)
    peer.send("HTTP/1.1 413 Too Large\r\nDate: now\r\nContent-Length: 2\r\n\r\nno")
    let answer = Wire.answered("HTTP/1.1 413 Too Large", "Content-Length: 2", behind: "Connection: close\r\n", content: "no")
    #expect(String(decoding: client.receive(count: answer.utf8.count), as: UTF8.self) == answer)
    client.send(String(repeating: "b", count: 10_000))
    let rest = peer.receive()
    #expect(!rest.text.contains("b") && rest.ending != .silent)
    try scene.daemon.finish()
  }

  @Test("§9.3.1 no request is sent twice but a safe one without content, on a connection that had been idle")
  func staleConnection() throws {
    let scene = try RawScene()
    for (method, isRetried) in [("GET", true), ("HEAD", true), ("POST", false), ("DELETE", false)] {
      let client = try scene.client()
      client.send(Wire.request())
      let peer = try scene.origin.accept()
      _ = peer.receive(until: "\r\n\r\n")
      peer.send(Wire.noContent)
      #expect(client.receive(until: "\r\n\r\n").text == Wire.noContentAnswered)
      // The pooled connection takes the request and dies without an answer.
      client.send(Wire.request("\(method) /again HTTP/1.1"))
      #expect(peer.receive(until: "\r\n\r\n").text.contains(" /again "))
      peer.leave()
      if isRetried {
        let fresh = try scene.origin.accept()
        #expect(fresh.receive(until: "\r\n\r\n").text.hasPrefix("\(method) /again "))
        fresh.send("HTTP/1.1 204 No Content\r\nDate: now\r\nConnection: close\r\n\r\n")
        #expect(client.receive(until: "\r\n\r\n").text == Wire.noContentAnswered, "\(method)")
        fresh.leave()
      } else {
        #expect(client.receive(until: "\r\n\r\n").text.hasPrefix("HTTP/1.1 502 "), "\(method)")
        #expect(!scene.origin.isDialled(within: 0.05))
      }
      client.leave()
    }
    try scene.daemon.finish()
  }

  @Test(
    "9110 §7.8 a 101 to what was not asked for is 502",
    arguments: ["Upgrade: other\r\nConnection: upgrade\r\n", "Upgrade: websocket, other\r\nConnection: upgrade\r\n", "Upgrade:\r\n", ""])
  func otherProtocol(_ fields: String) throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send(Wire.request("GET /ws HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"))
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send("HTTP/1.1 101 Switching Protocols\r\n\(fields)\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    let text = client.receive(until: "\n}\n").text
    #expect(text.hasPrefix("HTTP/1.1 502 ") && text.contains("UPSTREAM_PROTOCOL"), "\(text)")
    client.leave()
    try scene.daemon.finish()
  }

  @Test("§6.3 bytes behind a response are the answer to nobody's request")
  func strayBytes() throws {
    let scene = try RawScene()
    for answer in ["HTTP/1.1 204 No\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"] {
      let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"
      for isTogether in [true, false] {
        let first = try scene.client()
        first.send(Wire.request())
        let peer = try scene.origin.accept()
        _ = peer.receive(until: "\r\n\r\n")
        peer.send(isTogether ? answer + poison : answer)
        #expect(!first.receive(until: answer.hasSuffix("ok") ? "\r\n\r\nok" : "\r\n\r\n").text.contains("POISON"))
        if !isTogether {
          peer.send(poison)
          #expect(peer.receive().ending != .silent, "the connection is given up")
        }
        let second = try scene.client()
        second.send(Wire.request("GET /second HTTP/1.1"))
        let fresh = try scene.origin.accept()
        #expect(fresh.receive(until: "\r\n\r\n").text.hasPrefix("GET /second "))
        fresh.send("HTTP/1.1 204 No Content\r\nDate: now\r\nConnection: close\r\n\r\n")
        #expect(second.receive(until: "\r\n\r\n").text == Wire.noContentAnswered)
        first.leave()
        second.leave()
        fresh.leave()
      }
    }
    try scene.daemon.finish()
  }

  @Test("§2.2 an empty line between requests begins none")
  func emptyLines() throws {
    let scene = try RawScene("[timeouts]\nheader = \"200ms\"")
    let client = try scene.client()
    client.send("\r\n")
    #expect(client.isSilent(for: 0.5))
    client.send(Wire.request())
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send(Wire.noContent)
    #expect(client.receive(until: "\r\n\r\n").text == Wire.noContentAnswered)
    client.send("\r\n\r\n")
    #expect(client.isSilent(for: 0.5))
    client.leave()
    try scene.daemon.finish()
  }

  @Test("9110 §15.2 a burst of interim responses reaches a client that reads late, and the answer too")
  func interimBurst() throws {
    let scene = try RawScene()
    let client = try scene.client()
    client.send(Wire.request())
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    let line = "X: \(String(repeating: "y", count: 100))\r\n"
    let count = 200_000
    let burst = Array((String(repeating: "HTTP/1.1 102 P\r\n\(line)\r\n", count: count) + Wire.noContent).utf8)
    let expected = count * "HTTP/1.1 102 P\r\n\(line)Via: 1.1 here\r\n\r\n".utf8.count + Wire.noContentAnswered.utf8.count
    // The client reads nothing until nothing more can be sent.
    var sent = 0
    var stalls = 0
    while stalls < 20 {
      let taken = peer.offer(burst[sent...])
      sent += taken
      stalls = taken > 0 ? 0 : stalls + 1
      usleep(5000)
    }
    #expect(sent < burst.count, "the burst is larger than what is between the two")
    var received = 0
    var tail: [UInt8] = []
    while received < expected {
      if sent < burst.count { sent += peer.offer(burst[sent...]) }
      let piece = client.receive(count: min(16_384, expected - received))
      if piece.isEmpty { break }
      received += piece.count
      tail = (tail + piece).suffix(Wire.noContentAnswered.utf8.count)
    }
    #expect(received == expected)
    #expect(String(decoding: tail, as: UTF8.self) == Wire.noContentAnswered)
    client.leave()
    try scene.daemon.finish()
  }

  @Test("9110 §7.8 an upgrade that the upstream declines is an ordinary exchange, one that it grants a tunnel")
  func upgrade() throws {
    let scene = try RawScene()
    let client = try scene.client()
    let request = Wire.request("GET /ws HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket")
    client.send(request)
    let peer = try scene.origin.accept()
    _ = peer.receive(until: "\r\n\r\n")
    peer.send("HTTP/1.1 426 Upgrade Required\r\nDate: now\r\nUpgrade: other\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n")
    let declined = Wire.answered("HTTP/1.1 426 Upgrade Required", "Content-Length: 0")
    #expect(client.receive(until: "\r\n\r\n").text == declined)
    // Bytes of the other protocol may follow the head at once, on both sides.
    client.send(request + "client-first")
    _ = peer.receive(until: "client-first".isEmpty ? "" : "\r\n\r\n")
    peer.send("HTTP/1.1 101 Switching Protocols\r\nDate: now\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nserver-first")
    let granted = client.receive(until: "server-first").text
    #expect(
      granted == "HTTP/1.1 101 Switching Protocols\r\nDate: now\r\nVia: 1.1 here\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nserver-first",
      "\(granted)")
    client.send(" more\r\n\r\nGET / HTTP/1.1\r\n")
    #expect(peer.receive(until: "GET / HTTP/1.1\r\n").text.hasSuffix("client-first more\r\n\r\nGET / HTTP/1.1\r\n"))
    client.finishSending()
    #expect(peer.receive().ending == .closed)
    peer.send("last")
    peer.leave()
    #expect(client.receive() == ("last", .closed))
    try scene.daemon.finish()
  }
}
