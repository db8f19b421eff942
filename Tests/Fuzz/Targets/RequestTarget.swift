import HTTPSyntax
import ProxyCore

/// A request: the same however it is cut; and what is forwarded of it is the message that was judged, one message,
/// with nothing behind it (RFC 9112 §11.2).
enum RequestTarget {
  static func check(_ bytes: [UInt8]) throws {
    let head = RequestHead(limits: judgedLimits)
    let whole = Message.request(head, bytes, [bytes.count])
    for arrivals in deliveries(of: bytes.count) {
      try requireEqual(Message.request(head, bytes, arrivals), whole, "RFC 9112: cut after \(arrivals.prefix(3))")
    }
    guard case .whole(let judged) = Message.request(head, bytes, [bytes.count]) else { return }
    guard case .success(let target) = HTTPSyntax.RequestTarget.parse(bytes.span.bytes, head.target, method: head.method)
    else { return }
    let path: ByteRange
    switch target {
    case .origin(let pathAndQuery): path = pathAndQuery
    case .absolute(_, _, let pathAndQuery): path = pathAndQuery
    case .asterisk: path = head.target
    case .authority: return
    }
    let rest = Array(bytes[judged.headBytes...])
    let body = DecodedBody.decode(judged.framing, rest, [rest.count], isEnd: false)
    for arrivals in deliveries(of: rest.count) {
      let cut = DecodedBody.decode(judged.framing, rest, arrivals, isEnd: false)
      try requireEqual(cut, body, "a body cut after \(arrivals.prefix(3))")
    }
    guard case .finished(let consumed) = body.ending else { return }
    try require(consumed <= rest.count, "a body of \(consumed) bytes, of \(rest.count)")
    let forwarded = try forward(head, bytes, path: path)
    try compare(forwarded + written(judged.framing, body.content), judged, body.content, pathOf(target, head, bytes))
  }

  private static func forward(_ head: RequestHead, _ bytes: [UInt8], path: ByteRange) throws -> [UInt8] {
    let plan = ForwardedRequest(
      path: path, authorizationLine: Array("Authorization: Bearer ours\r\n".utf8), keepsClientAuthorization: false,
      via: ViaLine(pseudonym: Array("here".utf8)), framing: head.framing, sendsExpect: false)
    let hostLine = Array("Host: api.test\r\n".utf8)
    let bound = plan.bytesMax(headBytes: bytes.count, hostLine: hostLine)
    var out = ByteBuffer(capacity: bound + 8192)
    plan.write(head, bytes.span.bytes, hostLine: hostLine, into: &out)
    try require(out.count <= bound, "the head is \(out.count - bound) bytes longer than bytesMax")
    return out.withReadable { view in (0..<view.byteCount).map { view.byte(at: $0) } }
  }

  /// The target in origin form (RFC 9112 §3.2.1), or the asterisk.
  private static func pathOf(
    _ target: HTTPSyntax.RequestTarget, _ head: RequestHead, _ bytes: [UInt8]
  ) -> [UInt8] {
    switch target {
    case .origin(let range): return bytes[range]
    case .asterisk, .authority: return bytes[head.target]
    case .absolute(_, _, let range):
      if range.isEmpty { return Array((head.method == .options ? "*" : "/").utf8) }
      return bytes[range].first == UInt8(ascii: "?") ? [UInt8(ascii: "/")] + bytes[range] : bytes[range]
    }
  }

  private static func compare(_ sent: [UInt8], _ judged: Message, _ content: [UInt8], _ path: [UInt8]) throws {
    let head = RequestHead(limits: forwardedLimits)
    guard case .whole(var received) = Message.request(head, sent, [sent.count]) else {
      throw Broken(description: "what was forwarded is refused: \(String(decoding: sent, as: UTF8.self))")
    }
    try requireEqual(received.start, [judged.start[0], path], "method and target")
    try requireEqual(received.framing, judged.framing, "framing")
    try requireEqual(received.minorVersion, 1, "our own version")
    try requireEqual(received.take("host"), [Array("api.test".utf8)], "Host is ours")
    try requireEqual(received.take("authorization"), [Array("Bearer ours".utf8)], "I6: the token is ours")
    try requireEqual(
      received.take("content-length").count + received.take("transfer-encoding").count,
      judged.framing == .none ? 0 : 1, "one framing field")
    try requireEqual(received.lines.popLast()?.name, "via", "Via is last")
    // Ours, to say that trailers are welcome where they are to the client.
    let ours = received.take("te")
    try requireEqual(received.take("connection"), ours.isEmpty ? [] : [Array("TE".utf8)], "a Connection of ours names TE")
    if !ours.isEmpty {
      try requireEqual(ours, [Array("trailers".utf8)], "TE is ours")
      let theirs = judged.lines.filter { $0.name == "te" }.map { String(decoding: $0.value, as: UTF8.self).lowercased() }
      try require(theirs.contains { $0.contains("trailers") }, "TE: trailers was not asked for")
    }
    let removed = HopByHop.always.union(HopByHop.ofRequests).union(HopByHop.named(by: judged.lines))
    try requireEqual(received.lines, judged.lines.filter { !removed.contains($0.name) }, "fields, in their order")
    let rest = Array(sent[received.headBytes...])
    let body = DecodedBody.decode(received.framing, rest, [rest.count], isEnd: false)
    try requireEqual(body.content, content, "content")
    try requireEqual(body.ending, .finished(consumed: rest.count), "one message, no byte left")
  }
}
