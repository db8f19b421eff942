public import BearerPolicy
internal import CLinux
public import Chronology

/// What `session add` did.
public enum AddResult: Equatable, Sendable {
  case added
  /// `ifAbsent`, and a session is there that this token has nothing to add to.
  case keptExisting
}

/// Why `session add` refused a refresh token; `force` overrides each.
public enum AddRefusal: Error, Equatable, Sendable {
  /// It was presented before: a server that rotates would take a second presentation for theft.
  case spent(session: String)
  /// Another session holds it: two sessions would present it.
  case held(session: String)

  /// One line that says what to do; holds no token.
  public var detail: String {
    switch self {
    case .spent(let session):
      "this refresh token was already used by session “\(session)” and would be refused, or end the login: "
        + "sign in again for a new one (`--force` adds it all the same)"
    case .held(let session):
      "session “\(session)” holds this refresh token: use that session, or sign in again for a token of its own "
        + "(`--force` adds it all the same)"
    }
  }
}

/// Everything that ends `session add` without a session.
public enum AddFailure: Error, Equatable, Sendable {
  case refused(AddRefusal)
  case store(StoreFault)

  public var detail: String {
    switch self {
    case .refused(let refusal): refusal.detail
    case .store(let fault): fault.detail
    }
  }
}

extension FileSessionStore {
  /// How long `add` waits for a refresh under way: its deadline [10 s], and as much again for the disk.
  private static let addPatience = Interval.seconds(20)

  /// Stores a login a person, or a container at its start, hands in.
  ///
  /// Takes the session's lock. An existing session is replaced, its generation counted on and its spent tokens
  /// kept. With `ifAbsent` a session that can go on (active) is kept whatever is handed in, and one that cannot
  /// (dead, fenced) is kept where it has known this token: so a container that imports the same token at every
  /// start does not burn it.
  /// - Parameters:
  ///   - refreshTokenFingerprint: `fingerprint(of:)` the record's refresh token; nil where it has none.
  ///   - deadline: until when to wait for locks, on the monotonic clock; nil: 20 s.
  public func add(
    _ record: SessionRecord, refreshTokenFingerprint: Fingerprint?, ifAbsent: Bool = false, force: Bool = false,
    until deadline: Instant? = nil
  ) throws(AddFailure) -> AddResult {
    let limit = deadline ?? Instant(nanoseconds: bearerd_boottime()) + Self.addPatience
    let outcome: AddOutcome
    do {
      outcome = try addLocked(
        record, refreshTokenFingerprint, ifAbsent: ifAbsent, force: force, until: limit)
    } catch {
      throw .store(error)
    }
    switch outcome {
    case .added: return .added
    case .keptExisting: return .keptExisting
    case .refused(let refusal): throw .refused(refusal)
    }
  }

  private enum AddOutcome {
    case added, keptExisting
    case refused(AddRefusal)
  }

  private func addLocked(
    _ record: SessionRecord, _ fingerprint: Fingerprint?, ifAbsent: Bool, force: Bool, until limit: Instant
  ) throws(StoreFault) -> AddOutcome {
    let name = try SessionName(record.name)
    let lock = try lock(record.name, until: limit)
    defer { lock.release() }
    let existing = try loadIfPresent(name)
    if ifAbsent, let existing, try isKept(existing, against: fingerprint) { return .keptExisting }
    let merged = record.following(existing, taking: fingerprint)
    if let fingerprint {
      if let refusal = try claim(fingerprint, for: name, existing, merged, force: force, until: limit) {
        return .refused(refusal)
      }
    } else {
      try putAndCompare(merged, name)
    }
    index.follow(from: existing, to: merged, name)
    return .added
  }

  /// Enters the token in the index, then writes the session: no token is held that the index does not know.
  private func claim(
    _ fingerprint: Fingerprint, for name: SessionName, _ existing: SessionRecord?, _ merged: SessionRecord,
    force: Bool, until limit: Instant
  ) throws(StoreFault) -> AddRefusal? {
    // From the look until the session is written: another add of the same token must not pass in between.
    let indexLock = try index.lock(fingerprint, until: limit)
    if !force, let refusal = try refusal(of: fingerprint, for: name, existing) { return refusal }
    try index.put(.init(standing: .imported, session: name), for: fingerprint, lock: indexLock)
    try putAndCompare(merged, name)
    _ = consume indexLock
    return nil
  }

  private func loadIfPresent(_ name: SessionName) throws(StoreFault) -> SessionRecord? {
    do {
      return try load(name)
    } catch {
      if case .missing = error { return nil }
      throw error
    }
  }

  private func isKept(_ existing: SessionRecord, against fingerprint: Fingerprint?) throws(StoreFault) -> Bool {
    switch existing.standing {
    case .active: return true
    case .fenced, .dead:
      guard let fingerprint else { return false }
      if existing.knownFingerprints.contains(fingerprint) { return true }
      // Fallen out of the session's own list, or spent by an earlier one of that name.
      return try index.entry(fingerprint)?.standing == .spent
    }
  }

  private func refusal(
    of fingerprint: Fingerprint, for name: SessionName, _ existing: SessionRecord?
  ) throws(StoreFault) -> AddRefusal? {
    if let existing, existing.hasSpent(fingerprint) { return .spent(session: existing.name) }
    guard let entry = try index.entry(fingerprint) else { return nil }
    if entry.standing == .spent { return .spent(session: entry.session.text) }
    if entry.session.encoded == name.encoded { return nil }
    guard let other = try loadIfPresent(entry.session) else { return nil }
    if other.hasSpent(fingerprint) { return .spent(session: other.name) }
    if let token = other.refreshToken, Self.fingerprint(of: token) == fingerprint {
      return .held(session: other.name)
    }
    return nil
  }
}

extension SessionRecord {
  /// This login in the place of `existing`: its past is kept, its troubles are not.
  fileprivate func following(_ existing: SessionRecord?, taking fingerprint: Fingerprint?) -> SessionRecord {
    guard let existing else { return self }
    var merged = self
    // Whoever has a generation cached must see that this is a newer one (I5).
    merged.generation = max(generation, existing.generation == .max ? .max : existing.generation + 1)
    var spent = existing.spent
    if let intent = existing.intent, !spent.contains(intent.fingerprint) { spent.append(intent.fingerprint) }
    for own in self.spent where !spent.contains(own) { spent.append(own) }
    // Only forced can it be among them: then it counts as unused, else it could not be presented.
    if let fingerprint { spent.removeAll { $0 == fingerprint } }
    merged.spent = Array(spent.suffix(Self.spentMax))
    if let token = existing.refreshToken, token == refreshToken {
      merged.graceUsed = existing.graceUsed
      merged.graceUntil = existing.graceUntil
    }
    return merged
  }
}
