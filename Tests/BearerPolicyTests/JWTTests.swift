import BearerPolicy
import Chronology
import Testing

@Suite("RFC 7519 reading exp and iat, never verifying") struct JWTTests {
  @Test(
    "NumericDate is seconds, a fraction, or a numeral, and saturates",
    arguments: [
      (#"{"exp":1738066500,"iat":1738065600}"#, 1_738_066_500_000, 1_738_065_600_000),
      (#"{"exp":1738066500.25}"#, 1_738_066_500_250, nil), (#"{"iat":"1738065600"}"#, nil, 1_738_065_600_000),
      (#"{"exp":-1}"#, -1000, nil), (#"{"exp":9223372036854775807}"#, .max, nil), (#"{"exp":1e300}"#, .max, nil),
      (#"{"exp":-1e300}"#, .min, nil), (#"{"exp":null}"#, nil, nil),
      (#"{"exp":true}"#, nil, nil), (#"{"exp":{}}"#, nil, nil), (#"{"exp":"soon"}"#, nil, nil), ("{}", nil, nil),
    ] as [(String, Int64?, Int64?)])
  func claims(_ payload: String, _ expiry: Int64?, _ issued: Int64?) {
    let expected = JWT.Claims(
      expiresAt: expiry.map { WallTime(milliseconds: $0) }, issuedAt: issued.map { WallTime(milliseconds: $0) })
    #expect(JWT.claims(of: jwt(payload)) == expected)
  }

  @Test(
    "what is no JWS with a JSON object is opaque",
    arguments: [
      "", ".", "..", "...", "opaque", "a.b", "a.b.c", "a.e30.c.d", ".e30.sig", "a.W10.c", "a.MQ.c", "a.bnVsbA.c",
      "a.e30x.c",
      "a.e3 0.c", "a.e3+0.c", "a.e3/0.c", "a.e.c", "a.e30==.c", "a.e30===.c", "a.fQ.c", "a.ew.c",
      // An encrypted token (RFC 7516) has five parts.
      "a.b.c.d.e",
    ])
  func opaque(_ text: String) {
    #expect(JWT.claims(of: Secret(text)) == nil)
  }

  @Test("base64url with and without padding, every length of payload")
  func lengths() {
    let encoded = ["e30": 0, "e30=": 0, "IHt9": 1, "ICB7fQ": 2, "ICB7fQ==": 2]
    for (text, _) in encoded { #expect(JWT.claims(of: Secret("h.\(text).s")) != nil) }
    for count in 0..<16 {
      let padded = #"{"exp":1,"x":"\#(String(repeating: "~", count: count))"}"#
      #expect(JWT.claims(of: jwt(padded))?.expiresAt == WallTime(seconds: 1))
    }
    // Both digits that base64url has of its own occur.
    #expect(JWT.claims(of: jwt(#"{"a":">>>???~~~","exp":2}"#))?.expiresAt == WallTime(seconds: 2))
  }

  @Test("16 KiB are read, a byte more is opaque")
  func sizeLimit() {
    let token = jwt(#"{"exp":5}"#)
    let padding = JWT.bytesMax - token.count
    #expect(JWT.claims(of: Secret(token.reveal() + String(repeating: "x", count: padding))) != nil)
    #expect(JWT.claims(of: Secret(token.reveal() + String(repeating: "x", count: padding + 1))) == nil)
  }

  /// Goal: no bytes trap. Method: 20 000 mutations of a good token; each must give an answer that is nil or bounded.
  @Test("mutated tokens never trap and never give more than the two claims")
  func mutations() {
    var scatter = Scatter(state: 42)
    let good = Array(jwt(#"{"exp":1738066500,"iat":1738065600,"sub":"a"}"#).reveal().utf8)
    var read = 0
    for _ in 0..<20_000 {
      var bytes = good
      for _ in 0..<Int.random(in: 1...4, using: &scatter) {
        let index = Int.random(in: 0..<bytes.count, using: &scatter)
        switch UInt8.random(in: 0..<4, using: &scatter) {
        case 0: bytes[index] = .random(in: .min ... .max, using: &scatter)
        case 1: bytes.remove(at: index)
        case 2: bytes.insert(.random(in: .min ... .max, using: &scatter), at: index)
        default: bytes.removeSubrange(index...)
        }
        if bytes.isEmpty { break }
      }
      if JWT.claims(of: Secret(bytes: bytes)) != nil { read += 1 }
    }
    #expect(read > 0 && read < 20_000)
  }
}
