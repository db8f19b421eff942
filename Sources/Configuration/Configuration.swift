public import BearerPolicy
public import Chronology

/// Everything the daemon is told, read once from one TOML text and validated as a whole (SPEC §11).
///
/// A value: a reload makes a new one. Nothing reads the environment or the configuration's files after `parse`,
/// except the certificates that the TLS settings name. Initial values here are the defaults.
public struct Configuration: Equatable, Sendable {
  /// Event loops, 0 to 1 024; 0 means one for each CPU the process may use.
  public var loops = 0
  /// Absolute path of the directory that holds `sessions/`.
  public var stateDirectory = Configuration.defaultStateDirectory
  public var store = Store()
  /// The name in `Via` and `Proxy-Status` by which a request that comes back is recognised: a token
  /// (RFC 9110 §7.6.3).
  public var pseudonym = "bearerd"
  /// Never empty.
  public var listeners: [Listener] = [.tcp(HostPort(host: "127.0.0.1", port: 8180), allowsRemote: false)]
  /// Where health, metrics and status are served; nil: nowhere. Always loopback.
  public var admin: HostPort? = HostPort(host: "127.0.0.1", port: 8181)
  public var log = Log()
  /// Who may use the proxy, in the order of their names; empty: whoever can connect.
  public var clients: [Client] = []
  public var forward = Forward()
  public var browserGuard = BrowserGuard()
  public var limits = Limits()
  public var timeouts = Timeouts()
  public var replay = Replay()
  public var uploads = Uploads()
  public var refresh = Refresh()
  /// In the order of their names.
  public var upstreams: [Upstream] = []
  /// By name: the configuration's entries, and every preset that needs no further setting.
  public var providers: [String: Provider] = [:]
  /// How each provider's token endpoint is reached, under the same names as `providers`.
  public var providerConnections: [String: ProviderConnection] = [:]

  public static let defaultStateDirectory = "/var/lib/bearerd"
  /// Where `bearerd` looks when `--config` is not given.
  public static let defaultPath = "/etc/bearerd/bearerd.toml"

  public init() {}
}

extension Configuration {
  /// Where clients connect.
  public enum Listener: Equatable, Sendable {
    /// Port 0 lets the kernel choose. Beyond loopback only where `allowsRemote`, and then there are clients.
    case tcp(HostPort, allowsRemote: Bool)
    /// A Unix socket at an absolute path, created with `mode`; `allowedUIDs` are checked by `SO_PEERCRED`, nil
    /// admits whoever may open it.
    case unix(path: String, mode: UInt16, allowedUIDs: [UInt32]?)
    /// A socket that the service manager passes in: the one with this `FileDescriptorName`, or every one.
    case systemd(name: String?, allowsRemote: Bool)
  }

  /// How sessions are kept (SPEC §5).
  public struct Store: Equatable, Sendable {
    /// Absolute path of the key that session files are encrypted with; nil: they are plain text.
    public var keyFile: String?
    /// The file lies in `$CREDENTIALS_DIRECTORY`, where the service manager decides on owner and mode.
    public var isKeyCredential = false
    public init() {}
  }

  public struct Log: Equatable, Sendable {
    public var level = Level.info
    public var format = Format.auto
    /// One line for each request.
    public var accessLog = true
    public init() {}

    /// swift-log's levels, by its names.
    public enum Level: String, Sendable, CaseIterable { case trace, debug, info, notice, warning, error, critical }
    /// `auto` is logfmt on a terminal and JSON otherwise.
    public enum Format: String, Sendable, CaseIterable { case auto, logfmt, json }
  }

  /// A program that authenticates (SPEC §1).
  public struct Client: Equatable, Sendable {
    /// Its user name in `Proxy-Authorization`.
    public var name: String
    /// Its password there, and the value of `Bearerd-Client-Secret` in gateway mode. Never empty, and no other client's.
    public var secret: Secret
    /// Absolute path of the file that the secret was read from.
    public var secretFile: String
    /// Names and patterns of the sessions that it may use; nil: any that the upstream accepts.
    public var sessions: [String]?

    public init(name: String, secret: Secret, secretFile: String, sessions: [String]? = nil) {
      self.name = name
      self.secret = secret
      self.secretFile = secretFile
      self.sessions = sessions
    }
  }

  /// Absolute-form targets that no upstream claims, and CONNECT (SPEC §1).
  public struct Forward: Equatable, Sendable {
    public var unmatched = Unmatched.deny
    /// Loopback and link-local destinations that `pass` may reach all the same: `host` or `host:port`, lower case.
    public var passAllow: [String] = []
    public var connect = Connect.deny
    /// Where CONNECT may lead: `host:port`, or `host` for port 443, lower case.
    public var connectAllow: [String] = []
    public init() {}

    public enum Connect: String, Sendable, CaseIterable { case deny, tunnel }
    public enum Unmatched: String, Sendable, CaseIterable { case deny, pass }
  }

  /// Who may call from a web page (SPEC §1).
  public struct BrowserGuard: Equatable, Sendable {
    /// Serialised origins (RFC 6454 §6.2), lower case, besides the loopback ones.
    public var allowedOrigins: [String] = []
    /// Names by which a browser may address bearerd, lower case, without a port, besides loopback names.
    public var hostNames: [String] = []
    public init() {}
  }

  /// Bounds (SPEC §9, §3). Past one the client gets the answer that SPEC §6 names.
  public struct Limits: Equatable, Sendable {
    /// Longest request line. Together with `headerSectionBytes` at most 65 000: a head is addressed by 16-bit
    /// offsets.
    public var requestLineBytes = 8 * 1024
    public var headerSectionBytes = 32 * 1024
    /// At most 255.
    public var headerFields = 128
    /// For the process.
    public var clientConnections = 16_384
    /// For each origin, on each loop.
    public var upstreamConnections = 256
    /// Requests parked on one session's refresh.
    public var waitersPerSession = 10_000
    public init() {}
  }

  /// Deadlines (SPEC §9). Each one ends in one final response or an abort the client can detect (I11).
  public struct Timeouts: Equatable, Sendable {
    /// From the first byte of a request to the end of its header section.
    public var header = Interval.seconds(10)
    /// A client's connection with no request on it.
    public var clientIdle = Interval.seconds(60)
    /// Resolving and connecting, over all addresses (RFC 8305).
    public var connect = Interval.seconds(5)
    public var tlsHandshake = Interval.seconds(5)
    /// From the request sent to the end of the response's header section.
    public var responseHeader = Interval.seconds(60)
    /// Between two reads of a response body.
    public var responseBodyIdle = Interval.seconds(300)
    /// Between two reads of a request body.
    public var requestBodyIdle = Interval.seconds(60)
    /// A write that makes no progress.
    public var writeStalled = Interval.seconds(60)
    /// An upstream connection kept for the next request.
    public var poolIdle = Interval.seconds(30)
    /// After it the tokens of a session that nobody uses leave memory; its next request reads its file.
    public var sessionIdle = Interval.seconds(60)
    /// What requests in flight get after SIGTERM.
    public var drain = Interval.seconds(30)
    public init() {}
  }

  /// Copies of request bodies kept for a replay (SPEC §4).
  public struct Replay: Equatable, Sendable {
    /// For one body; a byte past it turns replay off for that request. 0 keeps no copy.
    public var maxBodyBytes = 1024 * 1024
    /// For all bodies of the process.
    public var memoryBytes = 64 * 1024 * 1024
    public init() {}
  }

  /// Bodies that could not be sent again after a 401 (SPEC §4).
  public struct Uploads: Equatable, Sendable {
    public var probe = Probe.off
    /// How long such a body waits for the upstream's answer to `Expect: 100-continue`.
    public var probeWait = Interval.seconds(1)
    public init() {}

    /// `expect`: bearerd asks before the body leaves.
    public enum Probe: String, Sendable, CaseIterable { case off, expect }
  }

  /// What governs refreshes of every session (SPEC §3); the rest belongs to the provider.
  public struct Refresh: Equatable, Sendable {
    /// Sessions used within it are refreshed ahead of time; the others wait for their next request.
    public var aheadWindow = Interval.seconds(3600)
    /// After a brand-new token was refused too: a 401 passes through without a refresh.
    public var coolDown = Interval.seconds(30)
    public init() {}
  }

  /// Where a provider's settings come from and how its token endpoint is reached.
  public struct ProviderConnection: Equatable, Sendable {
    /// The preset that the provider's entry was laid over.
    public var preset: String
    public var tls = TLS()
    /// The endpoint and `validateURL` may be plain `http` beyond loopback (I6).
    public var allowPlaintext = false
    /// Where secret values were read from, by their key (`client_secret`, `headers.apikey`).
    public var secretFiles: [String: String] = [:]
    public init(preset: String) { self.preset = preset }
  }

  /// Files and names for one TLS peer; every path is absolute.
  public struct TLS: Equatable, Sendable {
    /// PEM bundle that replaces the system's authorities.
    public var caFile: String?
    /// PEM chain, leaf first; present exactly when `clientKeyFile` is.
    public var clientCertificateFile: String?
    public var clientKeyFile: String?
    /// Name to send in SNI and to verify, instead of the origin's host.
    public var serverName: String?
    public init() {}
  }
}
