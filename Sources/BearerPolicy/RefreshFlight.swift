public import Chronology

/// One refresh of one session, from taking its lock to waking those who wait (SPEC §3, single flight).
///
///     idle → locking → loading ─┬→ reserving → sending → recording ─┬→ releasing → finished
///                               └→ settling ─┘                      ├→ releasingTold → finished
///                                                                   └→ keeping ─┘
///
/// The caller carries out each action and hands its outcome back; it holds the lock from `lockAcquired` to
/// `releaseLock`, and one flight per session exists at a time. Nothing here reads a clock. The order is what keeps
/// I1: nothing is presented before the intent is durable, and the lock is not given back before the result is.
///
/// If the caller goes away at any point (a crash), the intent stays in the session's file, and the next flight
/// finds it and classifies the outcome as unknown.
public struct RefreshFlight: Sendable {
  public enum Input: Equatable, Sendable {
    case lockAcquired
    case lockUnavailable(StoreTrouble)
    /// The session as it is on disk now, read under the lock, and the fingerprint of its refresh token if it has one.
    case loaded(SessionRecord, Fingerprint?)
    case loadFailed(StoreTrouble)
    /// The intent is durable, and so is the room that the result will need.
    case intentDurable
    /// `isLeft`: the intent may stand in the session's file all the same. Nothing has been sent, so it must not stay.
    case intentFailed(StoreTrouble, isLeft: Bool)
    /// `at` is when the answer was complete. A deadline that passed is `.noAnswer(.timedOut)`.
    case replied(TokenEndpointReply, at: WallTime)
    case resultDurable
    case resultFailed(StoreTrouble)
    case lockReleased
  }

  public enum Action: Equatable, Sendable {
    case acquireLock
    case load
    case writeIntent(SessionRecord)
    /// Over a fresh connection, once.
    case send(TokenRequest)
    case writeResult(SessionRecord)
    case releaseLock
    /// The flight is over: wake everybody.
    case finish(FlightResult)
    /// The result is durable: wake everybody, and only then put away what its writing left, and release the lock.
    case finishAndRelease(FlightResult)
    /// The result is in memory only, or an intent that was not sent is in the file. Wake everybody with the result
    /// now, keep the lock, and write `retry` again after the interval (I7).
    case finishKeepingLock(FlightResult, retry: SessionRecord, after: Interval)
    /// Still not durable; nobody waits any more.
    case retryWriteResult(SessionRecord, after: Interval)
    /// Everybody has been woken before, and the lock is free again.
    case end
    /// The input does not belong to this point (an answer that comes after its deadline): do nothing.
    case ignore
  }

  private enum State: Sendable {
    /// Made; ends by `start`.
    case idle
    case locking
    /// The lock is ours; it is from here to `releasing`.
    case loading
    /// What was found has to be written before anything else: an abandoned intent classified, a grace that is over.
    case settling(SessionRecord, Fingerprint?)
    /// The intent is being written; nothing has been sent.
    case reserving(SessionRecord, TokenRequest, Fingerprint)
    /// Sent, or about to be; ends by the reply only.
    case sending(SessionRecord, Fingerprint)
    /// The result is being written; those who wait are told `FlightResult` afterwards.
    case recording(SessionRecord, FlightResult)
    /// They have been told, and the result is still being written; the count is of failed writes.
    case keeping(SessionRecord, failures: UInt32)
    case releasing(FlightResult)
    /// They have been told.
    case releasingTold
    case finished
  }

  public let trigger: RefreshTrigger
  private let terms: Terms
  private var state: State = .idle

  /// `seenGeneration` is the generation that was found stale, or that was rejected: any other one in the file means
  /// that somebody else refreshed, or signed in, meanwhile (I5). `settings` is the digest of
  /// `Provider.feedSettings`.
  /// `seenObtainedAt` is when that generation was obtained.
  public init(
    provider: Provider, trigger: RefreshTrigger, seenGeneration: UInt64, seenObtainedAt: WallTime, settings: String
  ) {
    self.trigger = trigger
    terms = Terms(
      provider: provider, trigger: trigger, seenGeneration: seenGeneration, seenObtainedAt: seenObtainedAt,
      settings: settings)
  }

  /// The first action. Later calls are ignored.
  public mutating func start() -> Action {
    guard case .idle = state else { return .ignore }
    state = .locking
    return .acquireLock
  }

  /// Whether what was found in the file may be new to whoever started the flight: then it is made durable before it is
  /// used, for its writer may have died between the rename and the directory's fsync (I7).
  ///
  /// By generation and time: a session that was removed and added again counts its generations anew.
  public func isNews(_ record: SessionRecord) -> Bool {
    record.generation != terms.seenGeneration || record.obtainedAt != terms.seenObtainedAt
  }

  /// Whether the flight needs nothing more: its record in memory may be let go.
  public var isOver: Bool { phase == .finished }

  /// Where the flight is, without what it carries.
  public enum Phase: Sendable, CaseIterable {
    case idle, locking, loading, settling, reserving, sending, recording, keeping, releasing, releasingTold, finished
  }

  public var phase: Phase {
    switch state {
    case .idle: .idle
    case .locking: .locking
    case .loading: .loading
    case .settling: .settling
    case .reserving: .reserving
    case .sending: .sending
    case .recording: .recording
    case .keeping: .keeping
    case .releasing: .releasing
    case .releasingTold: .releasingTold
    case .finished: .finished
    }
  }

  /// `jitter` is at least 0 and below 1.
  public mutating func handle(_ input: Input, now: WallTime, jitter: Double) -> Action {
    let moment = Moment(now: now, jitter: jitter)
    let (next, action) = Self.transition(from: state, on: input, terms: terms, moment: moment)
    state = next
    return action
  }

  private struct Terms: Sendable {
    let provider: Provider
    let trigger: RefreshTrigger
    let seenGeneration: UInt64
    let seenObtainedAt: WallTime
    let settings: String
  }

  private struct Moment {
    let now: WallTime
    let jitter: Double
  }

  private static func transition(
    from state: State, on input: Input, terms: Terms, moment: Moment
  ) -> (State, Action) {
    switch state {
    case .idle, .finished: return (state, .ignore)
    case .locking: return whileLocking(input) ?? (state, .ignore)
    case .loading: return whileLoading(input, terms, moment) ?? (state, .ignore)
    case .settling(let record, let fingerprint):
      return whileSettling(record, fingerprint, input, terms, moment) ?? (state, .ignore)
    case .reserving(let record, let request, let fingerprint):
      return whileReserving(record, request, fingerprint, input, moment) ?? (state, .ignore)
    case .sending(let record, let fingerprint):
      return whileSending(record, fingerprint, input, terms, moment) ?? (state, .ignore)
    case .recording(let record, let result):
      return whileRecording(record, result, input) ?? (state, .ignore)
    case .keeping(let record, let failures):
      return whileKeeping(record, failures, input) ?? (state, .ignore)
    case .releasing(let result):
      return input == .lockReleased ? (.finished, .finish(result)) : (state, .ignore)
    case .releasingTold:
      return input == .lockReleased ? (.finished, .end) : (state, .ignore)
    }
  }

  private static func whileLocking(_ input: Input) -> (State, Action)? {
    switch input {
    case .lockAcquired: (.loading, .load)
    case .lockUnavailable(let trouble): (.finished, .finish(.failed(nil, FlightFailure(trouble))))
    case .loaded, .loadFailed, .intentDurable, .intentFailed, .replied, .resultDurable, .resultFailed,
      .lockReleased:
      nil
    }
  }

  private static func whileLoading(_ input: Input, _ terms: Terms, _ moment: Moment) -> (State, Action)? {
    switch input {
    case .loaded(let record, let fingerprint): decide(on: record, fingerprint, terms, moment)
    case .loadFailed(let trouble): release(.failed(nil, FlightFailure(trouble)))
    case .lockAcquired, .lockUnavailable, .intentDurable, .intentFailed, .replied, .resultDurable,
      .resultFailed, .lockReleased:
      nil
    }
  }

  /// The fixed order: newer generation, dead or fenced, back-off, abandoned intent, and only then the presentation.
  private static func decide(
    on record: SessionRecord, _ fingerprint: Fingerprint?, _ terms: Terms, _ moment: Moment
  ) -> (State, Action) {
    if record.generation != terms.seenGeneration, record.accessToken != nil, moment.now < record.expiresAt {
      return release(.alreadyNewer(record))
    }
    let settled = record.classifyingAbandonedIntent(
      provider: terms.provider, now: moment.now, jitter: moment.jitter, settings: terms.settings
    ).settled(at: moment.now)
    guard settled == record else {
      return (.settling(settled, fingerprint), .writeResult(settled))
    }
    return present(record, fingerprint, terms, moment)
  }

  private static func whileSettling(
    _ record: SessionRecord, _ fingerprint: Fingerprint?, _ input: Input, _ terms: Terms, _ moment: Moment
  ) -> (State, Action)? {
    switch input {
    case .resultDurable: present(record, fingerprint, terms, moment)
    // Nothing has been sent, and the file still holds what led here: the next flight does the same again.
    case .resultFailed(let trouble): release(.failed(record, FlightFailure(trouble)))
    case .lockAcquired, .lockUnavailable, .loaded, .loadFailed, .intentDurable, .intentFailed, .replied,
      .lockReleased:
      nil
    }
  }

  private static func present(
    _ record: SessionRecord, _ fingerprint: Fingerprint?, _ terms: Terms, _ moment: Moment
  ) -> (State, Action) {
    let permission = record.refreshPermission(
      provider: terms.provider, now: moment.now, trigger: terms.trigger, settings: terms.settings)
    if let failure = FlightFailure(permission) { return release(.failed(record, failure)) }
    guard let refreshToken = record.refreshToken, let fingerprint else {
      return release(.failed(record, .noRefreshToken))
    }
    switch TokenRequest.make(provider: terms.provider, refreshToken: refreshToken) {
    case .failure(let fault):
      return release(.failed(record, .noEndpoint(missing: fault.detail)))
    case .success(let request):
      var intended = record
      intended.intent = SessionRecord.Intent(
        fingerprint: fingerprint, startedAt: moment.now, trigger: terms.trigger)
      return (.reserving(intended, request, fingerprint), .writeIntent(intended))
    }
  }

  private static func whileReserving(
    _ record: SessionRecord, _ request: TokenRequest, _ fingerprint: Fingerprint, _ input: Input,
    _ moment: Moment
  ) -> (State, Action)? {
    switch input {
    case .intentDurable:
      // A slow disk may have outlasted the grace: then the token stays here.
      if let until = record.graceUntil, moment.now >= until {
        var unsent = record
        unsent.intent = nil
        unsent = unsent.settled(at: moment.now)
        let failure = FlightFailure.fenced(reason: SessionRecord.graceOver)
        return (.recording(unsent, .failed(unsent, failure)), .writeResult(unsent))
      }
      var bounded = request
      bounded.sendBefore = record.graceUntil
      return (.sending(record, fingerprint), .send(bounded))
    case .intentFailed(let trouble, let isLeft):
      var unsent = record
      unsent.intent = nil
      let result = FlightResult.failed(unsent, FlightFailure(trouble))
      // Were the lock given back now, whoever finds the intent would take the outcome for unknown.
      guard isLeft else { return release(result) }
      let action = Action.finishKeepingLock(result, retry: unsent, after: retryInterval(after: 1))
      return (.keeping(unsent, failures: 1), action)
    case .lockAcquired, .lockUnavailable, .loaded, .loadFailed, .replied, .resultDurable, .resultFailed,
      .lockReleased:
      return nil
    }
  }

  private static func whileSending(
    _ record: SessionRecord, _ fingerprint: Fingerprint, _ input: Input, _ terms: Terms, _ moment: Moment
  ) -> (State, Action)? {
    switch input {
    case .replied(let reply, let receivedAt):
      let outcome = RefreshOutcome.classify(reply, provider: terms.provider, receivedAt: receivedAt)
      let next = record.applying(
        outcome, provider: terms.provider, fingerprint: fingerprint, now: moment.now, jitter: moment.jitter,
        settings: terms.settings)
      let result: FlightResult =
        if let failure = FlightFailure(outcome) { .failed(next, failure) } else { .refreshed(next, isDurable: true) }
      return (.recording(next, result), .writeResult(next))
    case .lockAcquired, .lockUnavailable, .loaded, .loadFailed, .intentDurable, .intentFailed, .resultDurable,
      .resultFailed, .lockReleased:
      return nil
    }
  }

  private static func whileRecording(
    _ record: SessionRecord, _ result: FlightResult, _ input: Input
  ) -> (State, Action)? {
    switch input {
    case .resultDurable:
      switch result {
      case .refreshed: return (.releasingTold, .finishAndRelease(result))
      case .alreadyNewer, .failed: return release(result)
      }
    case .resultFailed:
      let told: FlightResult =
        switch result {
        case .refreshed(let tokens, _): .refreshed(tokens, isDurable: false)
        case .alreadyNewer, .failed: result
        }
      let action = Action.finishKeepingLock(told, retry: record, after: retryInterval(after: 1))
      return (.keeping(record, failures: 1), action)
    case .lockAcquired, .lockUnavailable, .loaded, .loadFailed, .intentDurable, .intentFailed, .replied,
      .lockReleased:
      return nil
    }
  }

  private static func whileKeeping(
    _ record: SessionRecord, _ failures: UInt32, _ input: Input
  ) -> (State, Action)? {
    switch input {
    case .resultDurable: return (.releasingTold, .releaseLock)
    case .resultFailed:
      let count = failures == .max ? .max : failures + 1
      return (.keeping(record, failures: count), .retryWriteResult(record, after: retryInterval(after: count)))
    case .lockAcquired, .lockUnavailable, .loaded, .loadFailed, .intentDurable, .intentFailed, .replied,
      .lockReleased:
      return nil
    }
  }

  private static func release(_ result: FlightResult) -> (State, Action) { (.releasing(result), .releaseLock) }

  /// 1 s, doubled by each failure, up to 32 s: a full disk is freed by people, in minutes.
  private static func retryInterval(after failures: UInt32) -> Interval {
    .seconds(Int64(1) << Int64(min(failures, 6) - 1))
  }
}
