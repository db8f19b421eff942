internal import Chronology
internal import HTTPSyntax

extension Configuration {
  /// Reads and validates a whole configuration.
  ///
  /// - Parameters:
  ///   - environment: `STATE_DIRECTORY` and `CREDENTIALS_DIRECTORY` (systemd.exec(5)) and the variables that
  ///     `client_secret_env` names are looked up here.
  ///   - readFile: called with an absolute path for each secret that a file holds; `Configuration.readFile` for
  ///     real files.
  /// - Returns: the configuration, or everything that is wrong with it.
  public static func parse(
    _ text: String, environment: [String: String], readFile: (String) -> Result<[UInt8], FileProblem>
  ) -> Result<Configuration, ConfigurationErrors> {
    let (configuration, diagnostics) = read(text, environment: environment, readFile: readFile)
    guard diagnostics.errors.isEmpty else { return .failure(ConfigurationErrors(diagnostics.errors)) }
    return .success(configuration)
  }

  /// The keys that exist, as far as the text opens the tables they stand in: names and indices are `*` or left out.
  package static func knownKeys(exercisedBy text: String) -> Set<String> {
    read(text, environment: [:], readFile: { _ in .success([]) }).diagnostics.knownKeys
  }

  private static func read(
    _ text: String, environment: [String: String], readFile: (String) -> Result<[UInt8], FileProblem>
  ) -> (configuration: Configuration, diagnostics: Diagnostics) {
    let diagnostics = Diagnostics(environment: environment)
    var configuration = Configuration()
    switch TOMLNode.parse(text) {
    case .failure(let error):
      diagnostics.report(error.key, error.problem)
    case .success(let entries):
      let root = TableReader(path: "", pattern: "", entries: entries, diagnostics: diagnostics)
      configuration.readProcess(root)
      configuration.readListeners(root)
      configuration.readClients(root, readFile: readFile)
      configuration.readLimits(root)
      configuration.readUpstreams(root)
      configuration.readProviders(root, readFile: readFile)
      configuration.checkUpstreamsTogether(diagnostics)
      diagnostics.reportUnknownKeys()
    }
    return (configuration, diagnostics)
  }
}

extension Configuration {
  private mutating func readProcess(_ root: TableReader) {
    root.read("loops", into: &loops, .integer(0...1024))
    root.read("pseudonym", into: &pseudonym, .token)
    if let directory = root.path(at: "state_directory") {
      stateDirectory = directory
    } else if let inherited = root.diagnostics.environment["STATE_DIRECTORY"]?.split(separator: ":").first {
      stateDirectory = String(inherited)
    }
    readStore(root)
    let log = root.table("log")
    log.read("level", into: &self.log.level, .oneOf(Log.Level.self))
    log.read("format", into: &self.log.format, .oneOf(Log.Format.self))
    log.read("access", into: &self.log.accessLog, .boolean)
    let forward = root.table("forward")
    forward.read("unmatched", into: &self.forward.unmatched, .oneOf(Forward.Unmatched.self))
    forward.read("pass_allow", into: &self.forward.passAllow, listOf: .hostWithOptionalPort)
    if self.forward.unmatched == .deny, !self.forward.passAllow.isEmpty {
      forward.conflict("pass_allow", "has no effect unless `forward.unmatched` is \"pass\"")
    }
    forward.read("connect", into: &self.forward.connect, .oneOf(Forward.Connect.self))
    forward.read("connect_allow", into: &self.forward.connectAllow, listOf: .hostWithOptionalPort)
    switch self.forward.connect {
    case .deny where !self.forward.connectAllow.isEmpty:
      forward.conflict("connect_allow", "has no effect unless `forward.connect` is \"tunnel\"")
    case .tunnel where self.forward.connectAllow.isEmpty && !forward.has("connect_allow"):
      forward.report("connect_allow", .missing(expected: "the hosts that tunnels may lead to, such as [\"example.com\"]"))
    case .deny, .tunnel: break
    }
    let browser = root.table("browser_guard")
    browser.read("allowed_origins", into: &browserGuard.allowedOrigins, listOf: .serializedOrigin)
    browser.read("host_names", into: &browserGuard.hostNames, listOf: .hostName)
  }

  private mutating func readStore(_ root: TableReader) {
    let store = root.table("store")
    guard let path = store.path(at: "key_file") else { return }
    self.store.keyFile = path
    if let directory = root.diagnostics.environment["CREDENTIALS_DIRECTORY"] {
      self.store.isKeyCredential = path.hasPrefix(directory + "/")
    }
  }

  private mutating func readListeners(_ root: TableReader) {
    let tables = root.tables("listener")
    if let tables {
      let read = tables.compactMap(Self.readListener)
      if tables.isEmpty {
        root.report("listener", .invalid(found: "no listener", expected: "at least one, or no `listener` at all"))
      } else {
        listeners = read
      }
      for (index, listener) in read.enumerated()
      where read[..<index].contains(listener) && !Self.mayRepeat(listener) {
        root.conflict("listener", "\(TOMLText.quoted(Self.spelled(listener))) is listed twice")
      }
    }
    let admin = root.table("admin")
    let expected = "a loopback address and port such as \"127.0.0.1:8181\", or \"off\""
    guard
      let address = admin.value(
        "address",
        .text(expected) { text in
          if text == "off" { return AdminAddress.off }
          guard let (host, port) = Host.split(text, allowsZero: true), let port, Host.isLoopback(host) else {
            return nil
          }
          return .at(HostPort(host: host, port: port))
        })
    else { return }
    switch address {
    case .off: self.admin = nil
    case .at(let address): self.admin = address
    }
  }

  private enum AdminAddress {
    case off
    case at(HostPort)
  }

  private static func mayRepeat(_ listener: Listener) -> Bool {
    switch listener {
    case .tcp(let address, _): address.port == 0
    case .unix, .systemd: false
    }
  }

  static func spelled(_ listener: Listener) -> String {
    switch listener {
    case .tcp(let address, _): address.description
    case .unix(let path, _, _): path
    case .systemd(let name, _): name ?? "systemd"
    }
  }

  /// nil where something is wrong, which is then reported.
  private static func readListener(_ reader: TableReader) -> Listener? {
    let tcp = reader.value("tcp", .hostPort(allowsZero: true))
    let path = reader.path(at: "unix")
    let mode = reader.value("mode", .fileMode)
    let allowed = reader.list("allowed_uids", of: .uid)
    let systemd = reader.value("systemd", .systemdName)
    let allowsRemote = reader.value("allow_remote", .boolean) ?? false
    let kinds = ["tcp", "unix", "systemd"].filter { reader.has($0) }
    guard kinds.count == 1 else {
      reader.diagnostics.report(
        reader.path,
        .invalid(
          found: kinds.isEmpty ? "none of them" : kinds.joined(separator: " and "),
          expected: "one of `tcp`, `unix`, `systemd`"))
      return nil
    }
    if !reader.has("unix") {
      for key in ["mode", "allowed_uids"] where reader.has(key) {
        reader.conflict(key, "belongs to a `unix` listener")
      }
    }
    if reader.has("unix"), reader.has("allow_remote") {
      reader.conflict("allow_remote", "has no effect on a Unix socket, which is always local")
    }
    if let path, path.utf8.count > 107 {
      reader.report("unix", .invalid(found: "\(path.utf8.count) bytes", expected: "a path of at most 107 bytes"))
    }
    if let tcp {
      guard Host.isLoopback(tcp.host) || allowsRemote else {
        reader.report(
          "tcp", .invalid(found: TOMLText.quoted(tcp.description), expected: "a loopback address"),
          hint: "`allow_remote = true` and a [client.NAME] open it to programs that authenticate")
        return nil
      }
      guard Host.isLoopback(tcp.host) || Host.isAddress(tcp.host) else {
        reader.report(
          "tcp", .invalid(found: TOMLText.quoted(tcp.description), expected: "an IP address to listen on, not a name"))
        return nil
      }
      return .tcp(tcp, allowsRemote: allowsRemote)
    }
    if let path { return .unix(path: path, mode: mode ?? 0o660, allowedUIDs: allowed) }
    return systemd.map { .systemd(name: $0.isEmpty ? nil : $0, allowsRemote: allowsRemote) }
  }

  private mutating func readLimits(_ root: TableReader) {
    let limits = root.table("limits")
    limits.read("request_line", into: &self.limits.requestLineBytes, .size(256...60 * 1024))
    limits.read("header_section", into: &self.limits.headerSectionBytes, .size(1024...60 * 1024))
    limits.read("header_fields", into: &self.limits.headerFields, .integer(8...255))
    limits.read("client_connections", into: &self.limits.clientConnections, .integer(1...1_000_000))
    limits.read("upstream_connections", into: &self.limits.upstreamConnections, .integer(1...65_535))
    limits.read("waiters_per_session", into: &self.limits.waitersPerSession, .integer(1...1_000_000))
    let head = self.limits.requestLineBytes + self.limits.headerSectionBytes
    if head > HeadLimits.headBytesMax {
      limits.report(
        "header_section",
        .invalid(
          found: "\(head) bytes with `limits.request_line`",
          expected: "at most \(HeadLimits.headBytesMax) bytes together"))
    }
    let timeouts = root.table("timeouts")
    let request = Reading<Interval>.duration(.milliseconds(1) ... .seconds(86_400))
    timeouts.read("header", into: &self.timeouts.header, request)
    timeouts.read("client_idle", into: &self.timeouts.clientIdle, request)
    timeouts.read("connect", into: &self.timeouts.connect, request)
    timeouts.read("tls_handshake", into: &self.timeouts.tlsHandshake, request)
    timeouts.read("response_header", into: &self.timeouts.responseHeader, request)
    timeouts.read("response_body_idle", into: &self.timeouts.responseBodyIdle, request)
    timeouts.read("request_body_idle", into: &self.timeouts.requestBodyIdle, request)
    timeouts.read("write_stalled", into: &self.timeouts.writeStalled, request)
    timeouts.read("pool_idle", into: &self.timeouts.poolIdle, request)
    timeouts.read("session_idle", into: &self.timeouts.sessionIdle, request)
    timeouts.read("drain", into: &self.timeouts.drain, .duration(.zero ... .seconds(3600)))
    let replay = root.table("replay")
    replay.read("max_body", into: &self.replay.maxBodyBytes, .size(0...1 << 30))
    replay.read("memory", into: &self.replay.memoryBytes, .size(0...1 << 36))
    if self.replay.maxBodyBytes > self.replay.memoryBytes {
      replay.conflict("max_body", "is more than `replay.memory`, which holds all bodies")
    }
    let uploads = root.table("uploads")
    uploads.read("probe", into: &self.uploads.probe, .oneOf(Uploads.Probe.self))
    uploads.read("probe_wait", into: &self.uploads.probeWait, .duration(.milliseconds(1) ... .seconds(60)))
    let refresh = root.table("refresh")
    refresh.read("ahead_window", into: &self.refresh.aheadWindow, .duration(.zero ... .seconds(30 * 86_400)))
    refresh.read("cool_down", into: &self.refresh.coolDown, .duration(.zero ... .seconds(3600)))
  }
}

extension Reading where Value == UInt16 {
  /// An integer, because TOML has octal ones: 0o660.
  fileprivate static var fileMode: Reading {
    Reading(expected: "file permissions such as 0o660") { node in
      if case .integer(let mode) = node, (0...0o777).contains(mode) { UInt16(mode) } else { nil }
    }
  }
}

extension Reading where Value == String {
  /// Empty for every inherited socket.
  fileprivate static var systemdName: Reading {
    Reading(expected: "true for every inherited socket, or a `FileDescriptorName`") { node in
      switch node {
      case .boolean(true): ""
      case .string(let name) where !name.isEmpty && name.utf8.count <= 255 && !name.contains(":"): name
      case .boolean, .string, .integer, .float, .time, .array, .table: nil
      }
    }
  }
}

extension TableReader {
  /// An absolute path, in which a leading `$CREDENTIALS_DIRECTORY` is filled in (systemd's `LoadCredential`).
  func path(at key: String) -> String? {
    value(key, .words("an absolute path")).flatMap { absolutePath($0, at: key) }
  }

  func absolutePath(_ text: String, at key: String) -> String? {
    let variable = "$CREDENTIALS_DIRECTORY"
    var path = text
    if text.hasPrefix(variable + "/") {
      guard let directory = diagnostics.environment["CREDENTIALS_DIRECTORY"] else {
        report(key, .invalid(found: TOMLText.quoted(text), expected: "a path; `CREDENTIALS_DIRECTORY` is not set"))
        return nil
      }
      path = directory + text.dropFirst(variable.count)
    }
    guard path.hasPrefix("/") else {
      report(key, .invalid(found: TOMLText.quoted(text), expected: "an absolute path"))
      return nil
    }
    return path
  }

  /// The `tls` table of an upstream or a provider.
  func tls() -> Configuration.TLS {
    var tls = Configuration.TLS()
    let reader = table("tls")
    tls.caFile = reader.path(at: "ca_file")
    tls.clientCertificateFile = reader.path(at: "client_certificate_file")
    tls.clientKeyFile = reader.path(at: "client_key_file")
    tls.serverName = reader.value("server_name", .hostName)
    for (present, absent) in [
      ("client_certificate_file", "client_key_file"), ("client_key_file", "client_certificate_file"),
    ] where reader.has(present) && !reader.has(absent) {
      reader.report(absent, .missing(expected: "a path, because `\(present)` is given"))
    }
    return tls
  }
}
