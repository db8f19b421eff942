import BearerPolicy
import Chronology
import HTTP2Framing
import HTTPSyntax

/// Request-targets and authorities. The first byte chooses the method.
enum AuthorityTarget {
  static func check(_ input: [UInt8]) throws {
    var source = ByteSource(input)
    let method: HTTPSyntax.Method = source.pick([.get, .options, .connect])
    let bytes = source.remainder
    guard bytes.count <= 4096 else { return }
    let all = ByteRange(0..<bytes.count)
    if case .success(let authority) = Authority.parse(bytes.span.bytes, all) { try same(authority, bytes) }
    if case .success(let target) = HTTPSyntax.RequestTarget.parse(bytes.span.bytes, all, method: method) {
      try read(target, bytes, method)
    }
    if String(validating: bytes, as: UTF8.self) != nil, let parts = URLParts(String(decoding: bytes, as: UTF8.self)) {
      let origin = parts.origin
      try requireEqual(Origin(url: origin.description), origin, "an origin reads as it was written")
      try requireEqual(
        URLParts(origin.description + parts.pathAndQuery), parts, "a URL reads as it was written")
      try require(parts.pathAndQuery.hasPrefix("/"), "a path begins with a slash")
    }
  }

  private static func same(_ authority: Authority, _ bytes: [UInt8]) throws {
    let host = bytes[authority.host]
    try require(!host.isEmpty, "a host is not empty")
    try require(
      host.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"/?#@\\%".utf8.contains($0) }, "nothing in a host ends it early")
    let text = host + (authority.port.map { Array(":\($0)".utf8) } ?? [])
    guard case .success(let again) = Authority.parse(text.span.bytes, ByteRange(0..<text.count)) else {
      throw Broken(description: "an authority is refused as it was written: \(String(decoding: text, as: UTF8.self))")
    }
    try requireEqual(text[again.host], host, "host")
    try requireEqual(again.port, authority.port, "port")
    try requireEqual(again.isIPv6, authority.isIPv6, "kind")
  }

  private static func read(
    _ target: HTTPSyntax.RequestTarget, _ bytes: [UInt8], _ method: HTTPSyntax.Method
  ) throws {
    switch target {
    case .origin(let path): try requireEqual(bytes[path], bytes, "origin form is the whole target")
    case .asterisk: try require(method == .options && bytes == [UInt8(ascii: "*")], "an asterisk, with OPTIONS")
    case .authority(let authority):
      try require(method == .connect && authority.port != nil, "authority form, with CONNECT and a port")
      try same(authority, bytes)
    case .absolute(let scheme, let authority, let path):
      try same(authority, bytes)
      let start = "\(scheme.name)://"
      try requireEqual(authority.host.start, start.utf8.count, "the host follows the scheme")
      try requireEqual(path.end, bytes.count, "the path is the rest")
      try require(path.isEmpty || bytes[path].first == 0x2F || bytes[path].first == 0x3F, "the path's start")
    }
  }
}

/// HTTP dates and `Retry-After`.
enum DateTarget {
  static let now = WallTime(seconds: 1_738_065_600)

  static func check(_ bytes: [UInt8]) throws {
    let view = bytes.span.bytes
    if let time = HTTPDate.parse(view, now: now) {
      try requireEqual(HTTPDate.parse(HTTPDate.format(time)), time, "RFC 9110 §5.6.7: a date reads as it was written")
    }
    if let wait = RetryAfter.parse(view, now: now) { try require(wait >= .zero, "a wait is not negative") }
    if let text = String(validating: bytes, as: UTF8.self) {
      try requireEqual(HTTPDate.parse(text, now: now), HTTPDate.parse(view, now: now), "text and bytes agree")
      try requireEqual(RetryAfter.parse(text, now: now), RetryAfter.parse(view, now: now), "text and bytes agree")
    }
    guard bytes.count >= 8 else { return }
    let milliseconds = bytes.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
    let written = HTTPDate.format(WallTime(milliseconds: milliseconds))
    try requireEqual(written.utf8.count, HTTPDate.formattedBytes, "every time has a date of one length")
    try require(HTTPDate.parse(written) != nil, "every date written can be read")
  }
}

/// The beginning of an HTTP/2 connection, and the answer to it.
enum PrefaceTarget {
  static func check(_ bytes: [UInt8]) throws {
    var last = ClientPreface.Match.partial
    for count in 0...min(bytes.count, 32) {
      let match = bytes.prefixView(count) { ClientPreface.match($0) }
      if last != .partial { try requireEqual(match, last, "a preface once decided stays so") }
      last = match
    }
    let whole = answer(bytes, [bytes.count])
    try require(whole.count < 100, "the refusal is \(whole.count) bytes long")
    try require(whole.count >= 9, "SETTINGS is sent in any case (RFC 9113 §3.4)")
    for arrivals in deliveries(of: bytes.count).suffix(3) {
      try require(answer(bytes, arrivals).count < 100, "the refusal stays short however the bytes are cut")
    }
  }

  private static func answer(_ bytes: [UInt8], _ arrivals: [Int]) -> [UInt8] {
    guard let refusal = HTTP2Refusal() else { return [] }
    var sent: [UInt8] = []
    func drain() {
      refusal.pendingOutput { piece in sent += (0..<piece.byteCount).map { piece.byte(at: $0) } }
    }
    drain()
    var position = 0
    for count in arrivals where count > position {
      refusal.received(bytes.span.bytes.extracting(position..<count))
      position = count
      drain()
    }
    return sent
  }
}
