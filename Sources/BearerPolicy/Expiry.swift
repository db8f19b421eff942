public import Chronology

/// Decides when an access token ends (SPEC §3): the earliest of the sources that are present.
public enum Expiry {
  /// What an answer, or a person, says about the lifetime.
  public struct Members: Equatable, Sendable {
    /// Absolute, on the authorization server's clock.
    public var expiresAt: WallTime?
    /// Relative to the moment the answer arrived.
    public var expiresIn: Interval?
    public init(expiresAt: WallTime? = nil, expiresIn: Interval? = nil) {
      self.expiresAt = expiresAt
      self.expiresIn = expiresIn
    }

    /// `expires_in` is a number or a numeric string of seconds; `expires_at` seconds or milliseconds since the
    /// epoch, or an RFC 3339 date.
    public init(of answer: JSONValue, provider: Provider) {
      expiresIn = provider.response.expiresIn.flatMap { answer[$0]?.int64Value }.map { .seconds($0) }
      expiresAt = provider.response.expiresAt.flatMap { answer[$0] }.flatMap(Expiry.absolute)
    }
  }

  /// An answer that promises more is taken to promise this: 100 years.
  public static let lifetimeMax = Interval.seconds(100 * 365 * 86_400)

  /// `serverDate` is the answer's `Date`. Without one, `iat` of a token that was `issuedNow` tells the server's
  /// clock; an imported token's `iat` tells its age instead and is not used.
  ///
  /// A source that calls a token expired which was `issuedNow` is no source: some servers say 0 for "never", and a
  /// token that is stale from the start would be refreshed by every request. An imported token may well have expired.
  /// No lifetime is longer than `lifetimeMax`.
  public static func decide(
    answer members: Members, bearer: Secret, provider: Provider, receivedAt: WallTime, serverDate: WallTime?,
    issuedNow: Bool = true
  ) -> (expiresAt: WallTime, source: ExpirySource) {
    let claims = JWT.claims(of: bearer)
    let serverNow = serverDate ?? (issuedNow ? claims?.issuedAt : nil) ?? receivedAt
    let latest = receivedAt + lifetimeMax
    var earliest: (expiresAt: WallTime, source: ExpirySource)?
    for source in provider.expirySources {
      let time: WallTime? =
        switch source {
        case .expiresAt: members.expiresAt.map { receivedAt + $0.since(serverNow) }
        case .expiresIn: members.expiresIn.map { receivedAt + max($0, .zero) }
        case .jwt: claims?.expiresAt.map { receivedAt + $0.since(serverNow) }
        case .fallback: nil
        }
      guard let time else { continue }
      if issuedNow, time <= receivedAt { continue }
      let bounded = min(max(time, WallTime(milliseconds: 0)), latest)
      if let found = earliest, found.expiresAt <= bounded { continue }
      earliest = (bounded, source)
    }
    return earliest ?? (receivedAt + min(max(provider.fallbackLifetime, .zero), lifetimeMax), .fallback)
  }

  /// Seconds since the epoch pass 10^11 in the year 5138: a larger number is meant in milliseconds.
  private static func absolute(_ value: JSONValue) -> WallTime? {
    if let number = value.int64Value {
      return number >= 100_000_000_000 ? WallTime(milliseconds: number) : WallTime(seconds: number)
    }
    return value.stringValue.flatMap(WallTime.init(rfc3339:))
  }
}

extension WallTime {
  /// RFC 3339 §5.6 `date-time`; fractions of a second are dropped. nil for anything else.
  public init?(rfc3339 text: String) {
    let bytes = Array(text.utf8)
    guard bytes.count >= 20, bytes.count <= 40 else { return nil }
    func number(_ range: Range<Int>) -> Int? {
      var value = 0
      for byte in bytes[range] {
        guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
        value = value * 10 + Int(byte - UInt8(ascii: "0"))
      }
      return value
    }
    let separators: [(Int, String)] = [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")]
    guard separators.allSatisfy({ $0.1.utf8.contains(bytes[$0.0]) }),
      let year = number(0..<4), let month = number(5..<7), let day = number(8..<10),
      let hour = number(11..<13), let minute = number(14..<16), let second = number(17..<19),
      let local = WallTime(year: Int64(year), month: month, day: day, hour: hour, minute: minute, second: second)
    else { return nil }
    var rest = bytes[19...]
    if rest.first == UInt8(ascii: ".") {
      let digits = rest.dropFirst().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      guard !digits.isEmpty else { return nil }
      rest = rest[digits.endIndex...]
    }
    if rest.count == 1, let zulu = rest.first, zulu == UInt8(ascii: "Z") || zulu == UInt8(ascii: "z") {
      self = local
      return
    }
    let start = rest.startIndex
    guard rest.count == 6, rest[start] == UInt8(ascii: "+") || rest[start] == UInt8(ascii: "-"),
      rest[start + 3] == UInt8(ascii: ":"), let hours = number(start + 1..<start + 3), hours < 24,
      let minutes = number(start + 4..<start + 6), minutes < 60
    else { return nil }
    let offset = Interval.seconds(Int64(hours * 3600 + minutes * 60))
    self = rest[start] == UInt8(ascii: "+") ? local + (.zero - offset) : local + offset
  }
}
