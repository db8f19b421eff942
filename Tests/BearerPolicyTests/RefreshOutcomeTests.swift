import BearerPolicy
import Chronology
import Testing

private func classify(
  _ reply: TokenEndpointReply, _ change: (inout Provider) -> Void = { _ in }
) -> RefreshOutcome {
  RefreshOutcome.classify(reply, provider: provider(change), receivedAt: noon)
}

private func known(_ reason: String, retryAfter: Interval? = nil) -> RefreshOutcome {
  .knownNotSucceeded(reason: reason, retryAfter: retryAfter)
}

@Suite("SPEC §3 outcome: success") struct SuccessTests {
  @Test("200 with a usable access token")
  func success() {
    #expect(classify(answer(200, goodBody)) == .success(newTokens))
  }

  @Test("no refresh_token keeps the old one", arguments: ["", #","refresh_token":null"#, #","refresh_token":"""#])
  func keepsOld(_ member: String) {
    let body = #"{"access_token":"a","expires_in":10\#(member)}"#
    let expected = NewTokens(
      accessToken: Secret("a"), refreshToken: nil, obtainedAt: noon, expiresAt: after(10), expirySource: .expiresIn)
    #expect(classify(answer(200, body)) == .success(expected))
    #expect(classify(answer(200, body)) { $0.rotation = .never } == .success(expected))
    #expect(
      classify(answer(200, body)) { $0.rotation = .always } == .unknown(reason: "refresh_token_missing"))
  }

  @Test("the server's Date reaches the expiry")
  func serverDate() throws {
    let reply = answer(200, #"{"access_token":"a","expires_at":1738066500}"#, serverDate: after(600))
    guard case .success(let tokens) = classify(reply) else {
      Issue.record("not a success")
      return
    }
    #expect(tokens.expiresAt == after(300))
    #expect(tokens.expirySource == .expiresAt)
  }

  @Test(
    "a usable access token is 1 to 16 Ki bytes of visible ASCII",
    arguments: [
      (#""a""#, nil), (#""!~""#, nil), (#""\#(String(repeating: "t", count: 16 * 1024))""#, nil),
      (#""\#(String(repeating: "t", count: 16 * 1024 + 1))""#, "access_token_unusable"),
      (#""""#, "access_token_unusable"), (#""a b""#, "access_token_unusable"),
      (#""a\r\nX: y""#, "access_token_unusable"),
      (#""a\u007f""#, "access_token_unusable"), (#""é""#, "access_token_unusable"), ("1", "access_token_unusable"),
      ("true", "access_token_unusable"), ("{}", "access_token_unusable"), ("[]", "access_token_unusable"),
      ("null", "access_token_missing"),
    ] as [(String, String?)])
  func accessToken(_ value: String, _ fault: String?) {
    let outcome = classify(answer(200, #"{"access_token":\#(value)}"#))
    if let fault {
      #expect(outcome == .unknown(reason: fault))
    } else if case .success = outcome {
    } else {
      Issue.record("\(outcome)")
    }
  }

  @Test(
    "token_type is absent or bearer in any case",
    arguments: [
      ("", true), (#","token_type":"bearer""#, true), (#","token_type":"BEARER""#, true),
      (#","token_type":null"#, true), (#","token_type":"mac""#, false), (#","token_type":"""#, false),
      (#","token_type":1"#, false),
    ])
  func tokenType(_ member: String, _ isUsable: Bool) {
    let outcome = classify(answer(200, #"{"access_token":"a"\#(member)}"#))
    if isUsable {
      #expect(outcome != .unknown(reason: "token_type_not_bearer"))
    } else {
      #expect(outcome == .unknown(reason: "token_type_not_bearer"))
    }
    // A provider without the member does not judge by it.
    #expect(
      classify(answer(200, #"{"access_token":"a"\#(member)}"#)) { $0.response.tokenType = nil }
        != .unknown(reason: "token_type_not_bearer"))
  }

  @Test(
    "a new refresh token that cannot be presented makes the outcome unknown",
    arguments: [
      "1", "true", "{}", "[]", #""a\u0000b""#, #""a\nb""#, #""\#(String(repeating: "r", count: 16385))""#,
    ])
  func refreshTokenUnusable(_ value: String) {
    let body = #"{"access_token":"a","refresh_token":\#(value)}"#
    #expect(classify(answer(200, body)) == .unknown(reason: "refresh_token_unusable"))
  }

  @Test(
    "a reply that does not parse and one that lacks a member are told apart",
    arguments: [
      // A refresh token that cannot be read is not an absent one: nothing in such a reply is trusted.
      ("{\"access_token\":\"a\",\"refresh_token\":\"r\u{01}\"}", "reply_undecodable"),
      ("", "reply_undecodable"), ("<html>", "reply_undecodable"), ("[]", "reply_undecodable"),
      ("\"a\"", "reply_undecodable"), ("access_token=a&token_type=bearer", "reply_undecodable"),
      (#"{"access_token":"a""#, "reply_undecodable"), ("{}", "access_token_missing"),
      (#"{"refresh_token":"r"}"#, "access_token_missing"),
    ])
  func unusable(_ body: String, _ reason: String) {
    #expect(classify(answer(200, body)) == .unknown(reason: reason))
  }
}

@Suite("SPEC §3 outcome: body code first, then status, then where it failed") struct OutcomeOrderTests {
  @Test("a dead code at any status", arguments: [200, 201, 302, 400, 401, 403, 404, 408, 429, 500, 502, 503])
  func deadCode(_ status: Int) {
    let reply = answer(status, #"{"error":"invalid_grant","access_token":"a"}"#, retryAfter: .seconds(1))
    #expect(classify(reply) == .dead(code: "invalid_grant"))
    #expect(
      classify(reply) {
        $0.everyOtherStatusIsKnown = true
        $0.knownStatuses = [status]
      } == .dead(code: "invalid_grant"))
  }

  @Test("a configuration code at any status", arguments: [200, 400, 401, 429, 500, 503])
  func configCode(_ status: Int) {
    for code in ["invalid_client", "unauthorized_client", "unsupported_grant_type"] {
      let reply = answer(status, #"{"error":"\#(code)"}"#)
      #expect(classify(reply) { $0.deadStatuses = [400, 401] } == .configurationFault(code: code))
    }
  }

  @Test("a known code at any status, with its Retry-After", arguments: [200, 400, 401, 404, 500, 502])
  func knownCode(_ status: Int) {
    for code in ["temporarily_unavailable", "server_error", "slow_down"] {
      let reply = answer(status, #"{"error":"\#(code)"}"#, retryAfter: .seconds(7))
      #expect(classify(reply) { $0.deadStatuses = [401] } == known(code, retryAfter: .seconds(7)))
    }
  }

  @Test("a dead status counts where the body names no code of another row")
  func deadStatus() {
    let change: (inout Provider) -> Void = { $0.deadStatuses = [401, 429, 503] }
    #expect(classify(answer(401, ""), change) == .dead(code: "http_401"))
    #expect(classify(answer(401, #"{"error":"something_else"}"#), change) == .dead(code: "http_401"))
    #expect(classify(answer(429, ""), change) == .dead(code: "http_429"))
    #expect(classify(answer(503, "", retryAfter: .zero), change) == .dead(code: "http_503"))
    #expect(
      classify(answer(401, #"{"error":"invalid_client"}"#), change) == .configurationFault(code: "invalid_client"))
    #expect(classify(answer(401, #"{"error":"slow_down"}"#), change) == known("slow_down"))
    #expect(classify(answer(403, ""), change) == .configurationFault(code: "http_403"))
  }

  @Test(
    "statuses without a code",
    arguments: [
      (301, "config"), (302, "config"), (304, "config"), (307, "config"), (400, "config"), (401, "config"),
      (403, "config"), (404, "config"), (409, "config"), (499, "config"), (429, "known"), (408, "unknown"),
      (500, "unknown"), (501, "unknown"), (502, "unknown"), (503, "unknown"), (504, "unknown"), (599, "unknown"),
      (201, "unknown"), (202, "unknown"), (204, "unknown"), (206, "unknown"), (101, "unknown"), (600, "unknown"),
      (0, "unknown"), (-1, "unknown"),
    ])
  func statuses(_ status: Int, _ row: String) {
    // Even a body that would be a success at 200.
    for body in ["", "<html>", #"{"error":"something_else"}"#, goodBody] {
      let outcome = classify(answer(status, body))
      switch row {
      case "config": #expect(outcome == .configurationFault(code: "http_\(status)"))
      case "known": #expect(outcome == known("http_\(status)"))
      default: #expect(outcome == .unknown(reason: "http_\(status)"))
      }
    }
  }

  @Test("503 is known with Retry-After only; another 5xx is not, with or without")
  func retryAfter() {
    #expect(classify(answer(503, "", retryAfter: .seconds(9))) == known("http_503", retryAfter: .seconds(9)))
    #expect(classify(answer(503, "")) == .unknown(reason: "http_503"))
    #expect(classify(answer(502, "", retryAfter: .seconds(9))) == .unknown(reason: "http_502"))
    #expect(classify(answer(429, "", retryAfter: .seconds(9))) == known("http_429", retryAfter: .seconds(9)))
  }

  @Test("known statuses are the provider's; 429 without being one of them proves nothing")
  func knownStatuses() {
    #expect(classify(answer(409, "")) { $0.knownStatuses = [409] } == known("http_409"))
    #expect(classify(answer(500, "")) { $0.knownStatuses = [500] } == known("http_500"))
    #expect(classify(answer(429, "")) { $0.knownStatuses = [] } == .unknown(reason: "http_429"))
  }

  @Test(
    "every other status is known: any complete non-200 that is not dead",
    arguments: [201, 302, 400, 404, 408, 429, 500, 503])
  func everyOther(_ status: Int) {
    let change: (inout Provider) -> Void = { $0.everyOtherStatusIsKnown = true }
    #expect(classify(answer(status, ""), change) == known("http_\(status)"))
    #expect(classify(answer(200, "{}"), change) == .unknown(reason: "access_token_missing"))
    #expect(classify(.noAnswer(.timedOut), change) == .unknown(reason: "timed_out"))
  }

  @Test("sent without a complete answer is unknown", arguments: TokenEndpointReply.NoAnswer.allCases)
  func noAnswer(_ cause: TokenEndpointReply.NoAnswer) {
    #expect(classify(.noAnswer(cause)) == .unknown(reason: cause.rawValue))
  }

  @Test(
    "not sent is not sent",
    arguments: [
      (TokenEndpointReply.NotSent.nameResolution, "name_resolution"), (.connect, "connect"),
      (.outboundProxy, "outbound_proxy"), (.tls("certificate has expired"), "tls"),
      (.h2Refused, "h2_refused_stream"), (.h2GoneAway, "h2_goaway"),
    ])
  func notSent(_ cause: TokenEndpointReply.NotSent, _ reason: String) {
    #expect(classify(.notSent(cause)) == .notSent(reason: reason))
  }
}

@Suite("SPEC §3 where an error's code stands") struct CodePathTests {
  private func dead(_ body: String, paths: [String], codes: [String] = ["gone"]) -> Bool {
    let outcome = classify(answer(400, body)) {
      $0.codePaths = paths
      $0.deadCodes = codes
    }
    if case .dead = outcome { return true } else { return false }
  }

  @Test("dotted, indexed, numeric and decorated codes")
  func forms() {
    #expect(dead(#"{"error":{"message":"gone"}}"#, paths: ["error.message"]))
    #expect(dead(#"{"errors":[{"code":"gone"}]}"#, paths: ["errors.0.code"]))
    #expect(dead(#"{"code":70043}"#, paths: ["code"], codes: ["70043"]))
    #expect(dead(#"{"__type":"com.example#gone"}"#, paths: ["__type"]))
    #expect(dead(#"{"error":{"message":"gone : for good"}}"#, paths: ["error.message"]))
    #expect(!dead(#"{"error":"gone for good"}"#, paths: ["error"]))
    #expect(!dead(#"{"error":"Gone"}"#, paths: ["error"]))
    #expect(!dead(#"{"error":["gone"]}"#, paths: ["error"]))
    #expect(!dead(#"{"error":{"gone":true}}"#, paths: ["error"]))
    #expect(!dead(#"["gone"]"#, paths: ["error"]))
    #expect(!dead(#"{"error":"gone"}"#, paths: []))
  }

  @Test("the first code that a list names decides, in the order of the paths")
  func order() {
    let body = #"{"code":400,"error_code":"gone","error":"invalid_client"}"#
    #expect(dead(body, paths: ["code", "error_code", "error"]))
    #expect(!dead(body, paths: ["code", "error", "error_code"]))
  }

  @Test("joined members must all be there")
  func joined() {
    let path = ["errors.0.resource+errors.0.code"]
    #expect(dead(#"{"errors":[{"resource":"R","code":"invalid"}]}"#, paths: path, codes: ["R+invalid"]))
    #expect(!dead(#"{"errors":[{"resource":"A","code":"invalid"}]}"#, paths: path, codes: ["R+invalid"]))
    #expect(!dead(#"{"errors":[{"code":"invalid"}]}"#, paths: path, codes: ["invalid", "R+invalid", "+invalid"]))
  }

  /// Goal: I8 and no trap, whatever bytes an endpoint sends. Method: 5 000 mutations of a success.
  @Test("mutated answers never trap, and 200 without a code is a success or unknown")
  func mutations() {
    var scatter = Scatter(state: 7)
    for _ in 0..<5000 {
      var bytes = Array(goodBody.utf8)
      for _ in 0..<Int.random(in: 1...3, using: &scatter) {
        bytes[Int.random(in: 0..<bytes.count, using: &scatter)] = .random(in: .min ... .max, using: &scatter)
      }
      let reply = TokenEndpointReply.answer(status: 200, serverDate: nil, retryAfter: nil, body: bytes)
      switch classify(reply) {
      case .success, .unknown: break
      case .dead, .configurationFault, .notSent, .knownNotSucceeded: Issue.record("\(bytes)")
      }
    }
  }
}
