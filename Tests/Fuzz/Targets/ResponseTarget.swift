import HTTPSyntax
import ProxyCore

/// A response, as `RequestTarget`. The first byte chooses the request's method and how the client is answered.
enum ResponseTarget {
  static func check(_ input: [UInt8]) throws {
    var source = ByteSource(input)
    let choice = source.next()
    let method: HTTPSyntax.Method = [.get, .head, .post, .connect][Int(choice & 3)]
    let closes = choice & 4 != 0
    let bytes = source.remainder
    let head = ResponseHead(limits: judgedLimits)
    let whole = Message.response(head, bytes, [bytes.count], to: method)
    for arrivals in deliveries(of: bytes.count) {
      try requireEqual(
        Message.response(head, bytes, arrivals, to: method), whole, "RFC 9112: cut after \(arrivals.prefix(3))")
    }
    guard case .whole(let judged) = Message.response(head, bytes, [bytes.count], to: method) else { return }
    let rest = Array(bytes[judged.headBytes...])
    let body = DecodedBody.decode(judged.framing, rest, [rest.count])
    for arrivals in deliveries(of: rest.count) {
      try requireEqual(
        DecodedBody.decode(judged.framing, rest, arrivals), body, "I9: a body cut after \(arrivals.prefix(3))")
    }
    guard case .finished = body.ending else { return }
    // Where the end of the connection was the end of the content, the client is told by chunks.
    let framing = judged.framing == .untilClose ? MessageFraming.chunked : judged.framing
    let plan = ForwardedResponse(
      framing: framing, closes: closes, keepsHTTP10Alive: false, via: ViaLine(pseudonym: Array("here".utf8)),
      note: choice & 8 != 0 ? "a \"note\"" : nil)
    let bound = plan.bytesMax(headBytes: bytes.count)
    var out = ByteBuffer(capacity: bound + 8192)
    plan.write(head, bytes.span.bytes, into: &out)
    try require(out.count <= bound, "the head is \(out.count - bound) bytes longer than bytesMax")
    let sent = out.withReadable { view in (0..<view.byteCount).map { view.byte(at: $0) } }
    try compare(sent + written(framing, body.content), judged, framing, body.content, method)
  }

  private static func compare(
    _ sent: [UInt8], _ judged: Message, _ framing: MessageFraming, _ content: [UInt8], _ method: HTTPSyntax.Method
  ) throws {
    let head = ResponseHead(limits: forwardedLimits)
    guard case .whole(var received) = Message.response(head, sent, [sent.count], to: method) else {
      throw Broken(description: "what was forwarded is refused: \(String(decoding: sent, as: UTF8.self))")
    }
    try requireEqual(received.start, judged.start, "status and reason")
    try requireEqual(received.framing, framing, "framing")
    let codings = received.take("transfer-encoding")
    let lengths = received.take("content-length")
    try requireEqual(codings.count, framing == .chunked ? 1 : 0, "Transfer-Encoding where chunked, and there only")
    try require(lengths.count <= 1, "one Content-Length")
    if case .contentLength(let length) = framing {
      try requireEqual(lengths, [Array("\(length)".utf8)], "RFC 9112 §6.3: one Content-Length, one number")
    }
    if framing == .chunked { try require(lengths.isEmpty, "no Content-Length beside chunked") }
    let status = head.status
    if status < 200 || status == 204 { try require(lengths.isEmpty, "RFC 9110 §8.6: none in 1xx and 204") }
    let removed = HopByHop.always.union(HopByHop.named(by: judged.lines)).union(["content-length"])
    let expected = judged.lines.filter { !removed.contains($0.name) }
    try requireEqual(Array(received.lines.prefix(expected.count)), expected, "fields, in their order")
    let ours = Set(received.lines.dropFirst(expected.count).map(\.name))
    try require(
      ours.isSubset(of: ["via", "proxy-status", "connection", "upgrade"]) && ours.contains("via"), "added: \(ours)")
    let rest = Array(sent[received.headBytes...])
    let body = DecodedBody.decode(received.framing, rest, [rest.count], isEnd: false)
    try requireEqual(body.content, content, "content")
    try requireEqual(body.ending, .finished(consumed: rest.count), "one message, no byte left")
  }
}

/// The chunked coding alone, with what may follow it on the connection.
enum ChunkedTarget {
  static func check(_ bytes: [UInt8]) throws {
    let whole = DecodedBody.decode(.chunked, bytes, [bytes.count])
    for arrivals in deliveries(of: bytes.count) {
      let cut = DecodedBody.decode(.chunked, bytes, arrivals)
      try requireEqual(cut, whole, "RFC 9112 §7.1: cut after \(arrivals.prefix(3))")
    }
    guard case .finished(let consumed) = whole.ending else { return }
    try require(consumed <= bytes.count, "consumed \(consumed) of \(bytes.count)")
    let alone = DecodedBody.decode(.chunked, Array(bytes.prefix(consumed)), [consumed])
    try requireEqual(alone, whole, "bytes behind the body change nothing")
    let short = DecodedBody.decode(.chunked, Array(bytes.prefix(consumed - 1)), [consumed - 1])
    try requireEqual(short.ending, .unfinished, "I9: one byte less is no whole body")
    let again = written(.chunked, whole.content)
    let read = DecodedBody.decode(.chunked, again, [again.count])
    try requireEqual(read.content, whole.content, "what is written reads the same")
    try requireEqual(read.ending, .finished(consumed: again.count), "nothing is left")
    let lines = TrailerLines(limits: forwardedLimits)
    if lines.parse(whole.trailers.span.bytes) == nil {
      for line in lines.lines {
        try require(!whole.trailers[line.name].isEmpty, "a trailer has a name")
        let value = whole.trailers[line.value]
        try require(!value.contains { $0 == 13 || $0 == 10 || $0 == 0 }, "a trailer's value has no control character")
      }
    }
  }
}
