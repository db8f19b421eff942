public import HTTPSyntax

extension Configuration {
  /// One origin that gets a token, and by which requests it is meant (SPEC §1, §2, §4).
  public struct Upstream: Equatable, Sendable {
    public var name: String
    /// The only place this upstream's access tokens go (I6).
    public var origin: Origin
    /// Connect there instead of the origin's host and port; the certificate is still the origin's.
    public var dial: HostPort?
    /// Gateway mode: further `Host` values that choose this upstream, `host` or `host:port`, lower case.
    public var hosts: [String] = []
    /// Gateway mode: starts with `/`; nil claims no path.
    public var pathPrefix: String?
    /// Remove `pathPrefix` before the request leaves.
    public var stripPrefix = false
    /// Gateway mode: takes what no host and no prefix claims; at most one upstream does.
    public var isDefault = false
    public var auth = Auth.required
    public var authorization = ClientAuthorization.replace
    public var session: String?
    /// Sessions a client may name here, patterns with `*`; see `acceptedSessions`.
    public var sessions: [String] = []
    /// Pattern of the sessions that requests are spread over; never together with `session`.
    public var pool: String?
    public var poolPick = PoolPick.connection
    public var writes = Writes.idempotencyKey
    /// Add an `Idempotency-Key` to writes that have none.
    public var idempotencyInject = false
    /// Longest prefix first: the first that matches decides.
    public var paths: [PathRule] = []
    public var tls = TLS()
    /// Plain `http` beyond loopback is wanted (I6).
    public var allowPlaintext = false
    /// Status of the answer to a request whose session is over, 400 to 599.
    public var expiredStatus = 401
    /// Where a person signs in again; shown in that answer.
    public var loginURL: String?
    /// Path prefixes that never carry a token.
    public var loginPaths: [String] = []

    public init(name: String, origin: Origin) {
      self.name = name
      self.origin = origin
    }
  }
}

extension Configuration.Upstream {
  /// `optional` sends without a token where none is usable; `none` lets the client's own `Authorization` pass.
  public enum Auth: String, Sendable, CaseIterable { case required, optional, none }
  /// What becomes of a client's own `Authorization`; `keep` means no refresh and no replay for that request.
  public enum ClientAuthorization: String, Sendable, CaseIterable { case replace, keep }
  /// How often a pool picks a session.
  public enum PoolPick: String, Sendable, CaseIterable { case connection, request }
  /// Which writes may be replayed after a 401: with `Idempotency-Key`, or all.
  public enum Writes: String, Sendable, CaseIterable {
    case idempotencyKey = "idempotency-key"
    case always
  }
  /// `default` leaves it to SPEC §4.
  public enum Retry: String, Sendable, CaseIterable { case `default`, never, always }

  /// Overrides for requests whose path starts with `prefix`.
  public struct PathRule: Equatable, Sendable {
    public var prefix: String
    /// nil: the upstream's.
    public var auth: Auth?
    public var session: String?
    public var retry = Retry.default

    public init(prefix: String, auth: Auth? = nil, session: String? = nil, retry: Retry = .default) {
      self.prefix = prefix
      self.auth = auth
      self.session = session
      self.retry = retry
    }
  }

  /// Names and patterns of every session that may serve here: `sessions`, else only the upstream's own.
  public var acceptedSessions: [String] {
    var own: [String] = []
    for name in sessions + [session, pool].compactMap(\.self) + paths.compactMap(\.session)
    where !own.contains(name) {
      own.append(name)
    }
    return own
  }

  /// Whether the session may serve this upstream: a client cannot steer another one's token to it.
  public func accepts(session name: String) -> Bool {
    acceptedSessions.contains { SessionPattern.matches($0, name) }
  }
}

/// Session names with `*` for any run of bytes, the empty one included; nothing else is special.
public enum SessionPattern {
  public static func matches(_ pattern: String, _ name: String) -> Bool {
    let pattern = Array(pattern.utf8)
    let name = Array(name.utf8)
    var (p, n) = (0, 0)
    // Where to go on when a literal fails: behind the last star, one byte further in the name.
    var resume: (pattern: Int, name: Int)?
    while n < name.count {
      if p < pattern.count, pattern[p] == UInt8(ascii: "*") {
        p += 1
        resume = (p, n)
      } else if p < pattern.count, pattern[p] == name[n] {
        p += 1
        n += 1
      } else if let (star, from) = resume {
        p = star
        n = from + 1
        resume = (star, n)
      } else {
        return false
      }
    }
    return pattern[p...].allSatisfy { $0 == UInt8(ascii: "*") }
  }
}
