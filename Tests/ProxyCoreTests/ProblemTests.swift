import ProxyCore
import Testing

@Suite("Answers of our own (RFC 9457, RFC 9209)") struct ProblemTests {
  @Test(
    "every code has a status of the 4xx or 5xx classes, a title and a Proxy-Status error",
    arguments: ProblemCode.allCases)
  func codeIsComplete(_ code: ProblemCode) {
    #expect((400...599).contains(code.status))
    #expect(!code.title.isEmpty)
    #expect(code.proxyStatusError != nil)
  }

  @Test("nothing a peer said can split a header or a JSON string")
  func escapes() {
    let problem = Problem(.upstreamTLS, detail: "bad \"quote\"\r\nInjected: yes \\ é", remedy: "none")
    #expect(
      problem.proxyStatus
        == #"bearerd; error=tls_protocol_error; details="bad \"quote\"??Injected: yes \\ ?""#)
    #expect(problem.content.contains(#""detail": "bad \"quote\"\r\nInjected: yes \\ é none""#))
  }

  @Test("a 401 carries the challenge of RFC 6750 §3, other statuses none")
  func challenge() {
    #expect(
      Problem(.sessionExpired, detail: "over", remedy: "").challenge?.value.hasPrefix(
        "Bearer realm=\"bearerd\", error=\"invalid_token\"") == true)
    #expect(Problem(.sessionExpired, detail: "over", remedy: "", status: 511).challenge == nil)
    #expect(Problem(.upstreamTimeout, detail: "late", remedy: "").challenge == nil)
  }
}
