import BearerPolicy
import Testing

@Suite("I10 nothing shows a secret") struct SecretTests {
  /// Goal: whatever prints a value that holds a token prints none of it. Method: every way the standard library has.
  @Test("no description, dump or interpolation of a holder shows it")
  func redacts() throws {
    let secret = Secret("s3cr3t-value")
    let request = try TokenRequest.make(
      provider: provider { $0.encoding = .query }, refreshToken: secret
    ).get()
    var record = session()
    record.refreshToken = secret
    record.accessToken = secret
    let tokens = NewTokens(
      accessToken: secret, refreshToken: secret, obtainedAt: noon, expiresAt: noon, expirySource: .jwt)
    let tree = try #require(JSONValue.parse(Array(#"{"a":["s3cr3t-value"]}"#.utf8)))
    #expect(request.url.contains("s3cr3t-value"))
    let holders: [Any] = [
      secret, request, record, tokens, tree, RefreshOutcome.success(tokens), FlightResult.alreadyNewer(record),
      RefreshFlight.Action.send(request), RefreshFlight.Action.writeIntent(record),
    ]
    for holder in holders {
      var dumped = ""
      dump(holder, to: &dumped)
      for text in ["\(holder)", String(describing: holder), String(reflecting: holder), dumped] {
        #expect(!text.contains("s3cr3t"))
      }
    }
  }

  @Test("two are equal exactly when their bytes are")
  func compares() {
    #expect(Secret("abc") == Secret("abc"))
    #expect(Secret("abc") != Secret("abd"))
    #expect(Secret("abc") != Secret("abcd"))
    #expect(Secret("") == Secret(bytes: [UInt8]()))
  }

  @Test("taking bytes leaves the source empty, and a view sees them all")
  func takes() {
    var bytes = Array("abc".utf8)
    let secret = Secret(taking: &bytes)
    #expect(bytes.isEmpty)
    #expect(secret.count == 3)
    #expect(secret.withBytes { $0.byteCount } == 3)
    #expect(secret.reveal() == "abc")
    var copy = Array("x".utf8)
    secret.append(to: &copy)
    #expect(copy == Array("xabc".utf8))
  }
}
