import BearerPolicy
import Chronology
import HTTPSyntax

/// JSON texts of a token endpoint.
enum JSONTarget {
  static func check(_ bytes: [UInt8]) throws {
    guard let value = JSONValue.parse(bytes) else { return }
    try require(depth(value) <= JSONValue.depthMax + 1, "deeper than the limit")
    var text: [UInt8] = []
    write(value, onto: &text)
    guard let again = JSONValue.parse(text) else {
      throw Broken(description: "what was read is refused as it is written: \(String(decoding: text, as: UTF8.self))")
    }
    try requireEqual(canonical(again), canonical(value), "RFC 8259: a value reads as it was written")
  }

  /// A whole number has two forms: whether digits behind the point that no Double holds make it one of them depends on
  /// how it was written.
  private static func canonical(_ value: JSONValue) -> JSONValue {
    switch value {
    case .integer(let number): .number(Double(number))
    case .array(let elements): .array(elements.map(canonical))
    case .object(let members): .object(members.mapValues(canonical))
    case .null, .bool, .number, .string: value
    }
  }

  private static func depth(_ value: JSONValue) -> Int {
    switch value {
    case .null, .bool, .integer, .number, .string: 0
    case .array(let elements): 1 + (elements.map(depth).max() ?? 0)
    case .object(let members): 1 + (members.values.map(depth).max() ?? 0)
    }
  }

  private static func write(_ value: JSONValue, onto text: inout [UInt8]) {
    switch value {
    case .null: text += "null".utf8
    case .bool(let flag): text += "\(flag)".utf8
    case .integer(let number): text += "\(number)".utf8
    case .number(let number): text += "\(number)".utf8
    case .string(let string): write(string, onto: &text)
    case .array(let elements):
      text += "[".utf8
      for (index, element) in elements.enumerated() {
        if index > 0 { text += ",".utf8 }
        write(element, onto: &text)
      }
      text += "]".utf8
    case .object(let members):
      text += "{".utf8
      for (index, member) in members.enumerated() {
        if index > 0 { text += ",".utf8 }
        write(member.key, onto: &text)
        text += ":".utf8
        write(member.value, onto: &text)
      }
      text += "}".utf8
    }
  }

  private static func write(_ string: String, onto text: inout [UInt8]) {
    text += "\"".utf8
    for byte in string.utf8 {
      switch byte {
      case UInt8(ascii: "\""): text += "\\\"".utf8
      case UInt8(ascii: "\\"): text += "\\\\".utf8
      case 0..<0x20:
        text += "\\u00".utf8
        text += [digit(byte >> 4), digit(byte & 15)]
      default: text.append(byte)
      }
    }
    text += "\"".utf8
  }

  private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}

/// A token as it came, and a token with the bytes as its payload.
enum JWTTarget {
  static func check(_ bytes: [UInt8]) throws {
    _ = JWT.claims(of: Secret(bytes: bytes))
    guard bytes.count <= 4096 else { return }
    let token = Array("e30.".utf8) + base64url(bytes) + Array(".c2ln".utf8)
    let claims = JWT.claims(of: Secret(bytes: token))
    guard let value = JSONValue.parse(bytes), case .object = value else {
      return try require(claims == nil, "RFC 7519 §3: a payload that is no JSON object has no claims")
    }
    guard let claims else { throw Broken(description: "a JSON object has claims") }
    if case .integer(let seconds) = value["exp"] {
      try requireEqual(claims.expiresAt, WallTime(seconds: seconds), "RFC 7519 §4.1.4")
    }
    if value["iat"] == nil { try require(claims.issuedAt == nil, "no iat, no time of issue") }
  }

  private static func base64url(_ bytes: [UInt8]) -> [UInt8] {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var text: [UInt8] = []
    var accumulator: UInt32 = 0
    var bits: UInt32 = 0
    for byte in bytes {
      accumulator = accumulator << 8 | UInt32(byte)
      bits += 8
      while bits >= 6 {
        bits -= 6
        text.append(alphabet[Int(accumulator >> bits & 63)])
      }
      accumulator &= (1 << bits) - 1
    }
    if bits > 0 { text.append(alphabet[Int(accumulator << (6 - bits) & 63)]) }
    return text
  }
}

/// A token endpoint's answer, judged for each kind of provider. The first bytes choose provider, status and fields.
enum TokenResponseTarget {
  private static let statuses = [200, 400, 401, 403, 408, 429, 500, 502, 503, 302, 201, 404, 410]

  static func check(_ input: [UInt8]) throws {
    var source = ByteSource(input)
    let provider = source.pick(Presets.all)
    let status = source.pick(statuses)
    let retryAfter: Interval? = source.flag() ? .seconds(Int64(source.next())) : nil
    let reply = TokenEndpointReply.answer(
      status: status, serverDate: source.flag() ? DateTarget.now + .seconds(Int64(source.next())) : nil,
      retryAfter: retryAfter, body: source.remainder)
    let outcome = RefreshOutcome.classify(reply, provider: provider, receivedAt: DateTarget.now)
    let again = RefreshOutcome.classify(reply, provider: provider, receivedAt: DateTarget.now)
    try requireEqual(again, outcome, "one answer, one outcome")
    let byStatus = "http_\(status)"
    switch outcome {
    case .success(let tokens):
      try requireEqual(status, 200, "SPEC §3: only a 200 is a success")
      try require((1...RefreshOutcome.tokenBytesMax).contains(tokens.accessToken.count), "1 byte to 16 KiB")
      let isVisible = tokens.accessToken.withBytes { bytes in
        (0..<bytes.byteCount).allSatisfy { bytes.byte(at: $0) > 0x20 && bytes.byte(at: $0) < 0x7F }
      }
      try require(isVisible, "a token that is not visible ASCII would end its header line")
      if provider.rotation == .always { try require(tokens.refreshToken != nil, "rotation = always") }
      try requireEqual(tokens.obtainedAt, DateTarget.now, "obtained when received")
    case .dead(let code):
      try require(
        provider.deadCodes.contains(code) || code == byStatus && provider.deadStatuses.contains(status),
        "I8: \(code) does not end a session")
    case .configurationFault(let code):
      try require(
        provider.configCodes.contains(code)
          || code == byStatus && (300...499).contains(status) && status != 408 && status != 429,
        "no fault of the configuration: \(code)")
    case .knownNotSucceeded(let reason, _):
      try require(
        provider.knownCodes.contains(reason)
          || reason == byStatus
            && (provider.knownStatuses.contains(status) || provider.everyOtherStatusIsKnown
              || status == 503 && retryAfter != nil),
        "I1: \(reason) does not prove that nothing was used up")
      try require(status != 200 || reason != byStatus, "a 200 without a code proves nothing")
    case .unknown(let reason):
      try require(
        reason == byStatus && status != 200 || status == 200 && UnusableReply(rawValue: reason) != nil,
        "I10: a reason is a word of ours: \(reason)")
    case .notSent: throw Broken(description: "an answer proves that the request was sent")
    }
  }
}
