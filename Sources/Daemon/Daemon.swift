import Admin
import CLinux
import Chronology
public import Configuration
import Dispatch
import Glibc
import HTTPSyntax
import Logging
import Server
import Synchronization

/// `bearerd run`: from a configuration's path to a serving process, and to its end.
public enum Daemon {
  /// Blocks until the process has been told to stop; returns its exit code (sysexits(3)).
  public static func run(
    configurationPath: String, environment: [String: String], logFormat: Configuration.Log.Format?, version: String
  ) -> Int32 {
    prepareProcess()
    let configuration: Configuration
    switch ConfigurationLoader.load(path: configurationPath, environment: environment) {
    case .success(let loaded): configuration = loaded
    case .failure(let errors):
      complain(errors.description)
      return 78
    }
    let lines = LineLog(descriptor: 2)
    let form = LogForm(logFormat ?? configuration.log.format)
    let logger = makeLogger(lines, form, configuration.log.level)
    let manager = ServiceManager(environment: environment)
    do throws(StartFault) {
      let accessLog: @Sendable (AccessRecord) -> Void = {
        lines.write(AccessLog.line($0, form: form, now: WallClock.now))
      }
      let server = try ProxyServer(
        configuration, inherited: manager.sockets, logger: logger,
        accessLog: configuration.log.accessLog ? accessLog : nil)
      try server.start()
      warnOfPlaintext(configuration, logger)
      let running = RunningDaemon(
        server: server, manager: manager, logger: logger, lines: lines, configuration: configuration,
        load: { ConfigurationLoader.load(path: configurationPath, environment: environment) })
      logger.notice(
        "ready", metadata: ["version": "\(version)", "pid": "\(getpid())", "loops": "\(server.loopCount)"])
      manager.notify("READY=1\nSTATUS=serving\nMAINPID=\(getpid())")
      StartMemory.releaseSoon()
      return running.waitForEnd()
    } catch {
      complain(error.description)
      lines.flush()
      return 71
    }
  }

  /// No core dump and no debugger may show a token (I10); a write to a closed socket is an error, not a signal.
  public static func prepareProcess() {
    bearerd_ignore_sigpipe()
    _ = bearerd_not_dumpable()
  }

  private static func complain(_ text: String) {
    for line in text.split(separator: "\n") {
      let message = Array("bearerd: \(line)\n".utf8)
      _ = write(2, message, message.count)
    }
  }

  private static func makeLogger(_ lines: LineLog, _ form: LogForm, _ level: Configuration.Log.Level) -> Logger {
    Logger(label: "bearerd") { _ in
      EventLog(lines, form: form, level: Logger.Level(level), clock: { WallClock.now })
    }
  }

  /// A token in plaintext is the user's own decision; it is said once, loudly (SPEC §10).
  private static func warnOfPlaintext(_ configuration: Configuration, _ logger: Logger) {
    for upstream in configuration.upstreams where upstream.allowPlaintext && upstream.origin.scheme == .http {
      logger.warning(
        "access tokens are sent to this upstream without TLS, because allow_plaintext is set",
        metadata: ["upstream": "\(upstream.name)"])
    }
  }
}

extension LogForm {
  init(_ format: Configuration.Log.Format) {
    switch format {
    case .logfmt: self = .logfmt
    case .json: self = .json
    case .auto: self = isatty(2) == 1 ? .logfmt : .json
    }
  }
}

extension Logger.Level {
  init(_ level: Configuration.Log.Level) { self = Logger.Level(rawValue: level.rawValue) ?? .info }
}

/// The signals' side of a serving process.
private final class RunningDaemon: @unchecked Sendable {
  private let server: ProxyServer
  private let manager: ServiceManager
  private let logger: Logger
  private let lines: LineLog
  private let load: () -> Result<Configuration, ConfigurationErrors>
  private let queue = DispatchQueue(label: "bearerd.signals")
  private let ended = DispatchSemaphore(value: 0)
  private var sources: [any DispatchSourceProtocol] = []
  // Touched on `queue` only.
  private var drainTime: Interval
  private var isStopping = false

  init(
    server: ProxyServer, manager: ServiceManager, logger: Logger, lines: LineLog, configuration: Configuration,
    load: @escaping () -> Result<Configuration, ConfigurationErrors>
  ) {
    self.server = server
    self.manager = manager
    self.logger = logger
    self.lines = lines
    self.load = load
    drainTime = configuration.timeouts.drain
    watch(SIGTERM) { [unowned self] in stop("SIGTERM") }
    watch(SIGINT) { [unowned self] in stop("SIGINT") }
    watch(SIGHUP) { [unowned self] in reload() }
    startWatchdog()
  }

  func waitForEnd() -> Int32 {
    ended.wait()
    lines.flush()
    return 0
  }

  private func watch(_ number: Int32, _ handler: @escaping @Sendable () -> Void) {
    signal(number, SIG_IGN)
    let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
    source.setEventHandler(handler: handler)
    source.activate()
    sources.append(source)
  }

  /// Half the interval that systemd waits; told only while every loop still answers.
  private func startWatchdog() {
    guard let interval = manager.watchdogMicroseconds, interval > 1 else { return }
    let timer = DispatchSource.makeTimerSource(queue: queue)
    timer.schedule(deadline: .now(), repeating: .microseconds(Int(interval / 2)))
    timer.setEventHandler { [unowned self] in
      _ = server.snapshot()
      manager.notify("WATCHDOG=1")
    }
    timer.activate()
    sources.append(timer)
  }

  /// A bad file keeps the old configuration, and says so.
  private func reload() {
    manager.notify("RELOADING=1\nMONOTONIC_USEC=\(monotonicMicroseconds)")
    switch load() {
    case .failure(let errors):
      for error in errors.errors { logger.error("reload refused: \(error)") }
      manager.notify("READY=1\nSTATUS=serving by the old configuration: the new one has errors")
    case .success(let configuration):
      do throws(StartFault) {
        try server.reload(configuration)
        drainTime = configuration.timeouts.drain
        logger.notice("configuration reloaded")
        manager.notify("READY=1\nSTATUS=serving")
      } catch {
        logger.error("reload refused: \(error)")
        manager.notify("READY=1\nSTATUS=serving by the old configuration: the new one cannot be used")
      }
    }
  }

  /// systemd compares it with its own clock (sd_notify(3)).
  private var monotonicMicroseconds: UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000 + UInt64(time.tv_nsec) / 1000
  }

  private func stop(_ signal: String) {
    if isStopping {
      logger.notice("stopping at once: told twice")
      server.prepareForEnd()
      ended.signal()
      return
    }
    isStopping = true
    manager.notify("STOPPING=1\nSTATUS=draining")
    logger.notice("draining", metadata: ["signal": "\(signal)"])
    server.drain { [self] in
      logger.notice("stopped")
      ended.signal()
    }
    queue.asyncAfter(deadline: .now() + .milliseconds(Int(clamping: drainTime.milliseconds))) { [self] in
      logger.warning("the time to drain is over: connections that are still open are cut")
      server.prepareForEnd()
      ended.signal()
    }
  }
}
