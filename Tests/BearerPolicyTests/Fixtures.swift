import BearerPolicy
import Chronology
import FoundationEssentials

/// 2025-01-28T12:00:00Z.
let noon = WallTime(seconds: 1_738_065_600)

func after(_ seconds: Int64) -> WallTime { noon + .seconds(seconds) }

let fingerprintA = Fingerprint(hexadecimal: String(repeating: "a", count: 64))
let fingerprintB = Fingerprint(hexadecimal: String(repeating: "b", count: 64))

/// A compact JWS with this payload and a signature nobody checks.
func jwt(_ payload: String) -> Secret {
  func base64url(_ text: String) -> String {
    Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
      "=", with: "")
  }
  return Secret("\(base64url("{\"alg\":\"RS256\"}")).\(base64url(payload)).c2ln")
}

func answer(
  _ status: Int, _ body: String, serverDate: WallTime? = nil, retryAfter: Interval? = nil
) -> TokenEndpointReply {
  .answer(status: status, serverDate: serverDate, retryAfter: retryAfter, body: Array(body.utf8))
}

/// A provider of the plain kind with an endpoint.
func provider(_ change: (inout Provider) -> Void = { _ in }) -> Provider {
  var provider = Provider(name: "test")
  provider.endpoint = "https://id.example.com/token"
  change(&provider)
  return provider
}

/// A login made 10 minutes before noon that lasts an hour.
func session(_ change: (inout SessionRecord) -> Void = { _ in }) -> SessionRecord {
  var record = SessionRecord(
    name: "alice", provider: "test", generation: 7, accessToken: Secret("access-7"),
    refreshToken: Secret("refresh-7"), obtainedAt: after(-600), expiresAt: after(3000), expirySource: .expiresIn,
    isImported: false)
  change(&record)
  return record
}

let newTokens = NewTokens(
  accessToken: Secret("access-8"), refreshToken: Secret("refresh-8"), obtainedAt: noon, expiresAt: after(3600),
  expirySource: .expiresIn)

let goodBody = #"{"access_token":"access-8","refresh_token":"refresh-8","expires_in":3600,"token_type":"Bearer"}"#

/// A fixed sequence for tables that would be long to write out (SplitMix64).
struct Scatter: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
