import BearerPolicy
import Chronology
import MockBackend

/// What one seed plays: the provider, the size of the world, and how often each thing goes wrong.
struct Scenario {
  /// What the provider declares about a refresh token whose fate is unknown.
  enum Declaration: String, CaseIterable {
    case quarantine, clear
    case graceOfSeconds, graceUnlimited, graceMissing
    case neverRotates
  }

  var declaration: Declaration
  var provider = Provider(name: "simulated")
  var backend = BackendSettings()
  var backendSeed: UInt64
  var processCount: Int
  var sessionCount: Int
  var requestCount: Int
  /// How far the server's clock is ahead of ours at the start.
  var serverAhead: Interval
  var sendsDate: Bool
  var hasRefreshToken: Bool
  var rates: Rates
  var crashTarget: CrashTarget?

  static let start = WallTime(milliseconds: 1_800_000_000_000)
  /// Sessions belong to two providers in turn, which differ in nothing but their names and endpoints.
  static func providerName(of session: Int) -> String { "provider\(session % 2)" }
  static func endpoint(of session: Int) -> String { "https://id\(session % 2).sim.example/oauth/token" }

  func provider(of session: Int) -> Provider {
    var named = provider
    named.name = Self.providerName(of: session)
    if provider.endpoint != nil { named.endpoint = Self.endpoint(of: session) }
    return named
  }

  /// As a configuration's table of providers gives it.
  func provider(named name: String) -> Provider {
    provider(of: name == Self.providerName(of: 1) ? 1 : 0)
  }

  static let graceSeconds = 20
  static let bodyPieceBytes = 100
  /// Bodies of more pieces are not kept for a replay.
  static let keptPiecesMax = 3

  /// Probabilities, each of one event.
  struct Rates {
    var refreshNotSent = 0.0
    var refreshFault = 0.0
    /// The request or its answer is lost on the way.
    var refreshLost = 0.0
    var apiUnreachable = 0.0
    var apiFault = 0.0
    var apiStale = 0.0
    var apiLost = 0.0
    var apiTruncated = 0.0
    var clientGone = 0.0
    var diskFault = 0.0
    var readFault = 0.0
    var slowDisk = 0.0
    var crash = 0.0
    /// Of the crashes, those that take all processes and what the disk has not synced.
    var powerShare = 0.0
    /// Per request: somebody sets the clock, revokes tokens, ends a login, or types a command.
    var clockStep = 0.0
    var revocation = 0.0
    var logout = 0.0
    var command = 0.0
    /// Per request: the session's tokens leave the memory of processes that do not need them.
    var letGo = 0.0
    /// Per request: the disk stays full, or broken, for some seconds.
    var diskOutage = 0.0
  }

  /// One crash at one step, so that every step is reached in a thousand seeds.
  struct CrashTarget {
    var step: DiskStep
    var isBefore: Bool
    var takesPower: Bool
    /// So many passes of that step are left alone first.
    var passesLeft: Int
  }

  init(seed: UInt64) {
    var chance = Chance(seed: seed)
    declaration = chance.pick(Declaration.allCases)
    backendSeed = chance.next()
    processCount = chance.number(1...3)
    sessionCount = chance.number(1...2)
    requestCount = chance.number(12...36)
    serverAhead = chance.happens(0.5) ? .zero : .seconds(Int64(chance.number(-120...120)))
    sendsDate = chance.happens(0.7)
    hasRefreshToken = !chance.happens(0.04)
    rates = Self.rates(&chance)
    if chance.happens(0.75) {
      let step = chance.pick(DiskStep.allCases)
      crashTarget = CrashTarget(
        step: step, isBefore: chance.happens(0.5), takesPower: chance.happens(0.5),
        passesLeft: step.isAfterFault ? 0 : chance.number(0...3))
      if step.isAfterFault { rates.diskFault = max(rates.diskFault, 0.06) }
    }
    declareProvider(&chance)
  }

  private static func rates(_ chance: inout Chance) -> Rates {
    var rates = Rates()
    rates.refreshNotSent = chance.rate(0.5)
    rates.refreshFault = chance.rate(0.8)
    rates.refreshLost = chance.rate(0.4)
    rates.apiUnreachable = chance.rate(0.2)
    rates.apiFault = chance.rate(0.4)
    rates.apiStale = chance.rate(0.5)
    rates.apiLost = chance.rate(0.2)
    rates.apiTruncated = chance.rate(0.2)
    rates.clientGone = chance.rate(0.2)
    rates.diskFault = chance.rate(0.1)
    rates.readFault = chance.rate(0.1)
    rates.slowDisk = chance.rate(0.1)
    rates.crash = chance.rate(0.02)
    rates.powerShare = chance.fraction()
    rates.clockStep = chance.rate(0.1)
    rates.revocation = chance.rate(0.4)
    rates.logout = chance.rate(0.05)
    rates.command = chance.rate(0.3)
    rates.diskOutage = chance.rate(0.1)
    rates.letGo = chance.rate(0.4)
    return rates
  }

  private mutating func declareProvider(_ chance: inout Chance) {
    provider.endpoint = chance.happens(0.03) ? nil : Self.endpoint(of: 0)
    provider.staticFields = [Provider.Field(name: "grant_type", value: Secret("refresh_token"))]
    provider.leeway = .seconds(Int64(chance.number(0...10)))
    provider.refreshAhead = chance.happens(0.6) ? .seconds(15) : nil
    provider.everyOtherStatusIsKnown = chance.happens(0.2)
    backend.accessTokenLifetimeMilliseconds = Int64(chance.number(8...90)) * 1000
    backend.accessTokenShape = chance.pick(BackendSettings.AccessTokenShape.allCases)
    backend.lifetimeField = chance.pick(BackendSettings.LifetimeField.allCases)
    if backend.lifetimeField == .absent, backend.accessTokenShape == .opaque {
      provider.fallbackLifetime = .milliseconds(backend.accessTokenLifetimeMilliseconds)
    }
    backend.refreshRevokesOldAccessTokens = chance.happens(0.4)
    backend.rejectsBeforeBody = chance.happens(0.5)
    switch declaration {
    case .quarantine, .clear:
      provider.onUnknown = declaration == .clear ? .clear : .quarantine
      provider.rotation = chance.pick([.always, .sometimes])
      backend.rotates = provider.rotation == .always || chance.happens(0.7)
    case .graceOfSeconds:
      provider.onUnknown = .replayInGrace
      provider.grace = .seconds(Self.graceSeconds)
      backend.reuseGraceMilliseconds = Int64(Self.graceSeconds) * 1000
    case .graceUnlimited:
      provider.onUnknown = .replayInGrace
      provider.grace = .unlimited
      backend.reuseGraceMilliseconds = 1_000_000_000
    case .graceMissing:
      provider.onUnknown = .replayInGrace
    case .neverRotates:
      provider.rotation = .never
      backend.rotates = false
    }
  }

  /// Whether the provider lets a refresh token be presented after an outcome that is unknown.
  var permitsReuse: Bool {
    switch declaration {
    case .quarantine, .clear, .graceMissing: false
    case .graceOfSeconds, .graceUnlimited, .neverRotates: true
    }
  }
}

/// Each point of a flight, or of another write, at which a process may die.
enum DiskStep: String, CaseIterable {
  case lock, sweepNew, sweepResult, load, syncFound
  case unlinkResult, createResult, allocateResult, syncResult, discardResult
  case unlinkNew, createNew, writeNew, syncNew, renameNew, syncNamed, discardNew
  case send, receive
  case writeResult, syncWritten, renameResult, syncRenamed
  case release

  /// Taken only where another step has failed.
  var isAfterFault: Bool { self == .discardResult || self == .discardNew }

  /// Whether a disk's fault may strike: `lock` stands for opening its file.
  var mayFail: Bool {
    switch self {
    case .sweepNew, .sweepResult, .discardResult, .discardNew, .send, .receive, .release, .load: false
    case .lock, .syncFound, .unlinkResult, .createResult, .allocateResult, .syncResult, .unlinkNew, .createNew,
      .writeNew, .syncNew, .renameNew, .syncNamed, .writeResult, .syncWritten, .renameResult, .syncRenamed:
      true
    }
  }

  /// Whether the step asks the disk for room.
  var needsRoom: Bool {
    switch self {
    case .createResult, .allocateResult, .createNew, .writeNew: true
    case .lock, .sweepNew, .sweepResult, .load, .syncFound, .unlinkResult, .syncResult, .discardResult, .unlinkNew,
      .syncNew, .renameNew, .syncNamed, .discardNew, .send, .receive, .writeResult, .syncWritten, .renameResult,
      .syncRenamed, .release:
      false
    }
  }
}
