public import Chronology

/// What a loop needs to know of a session to serve a request without asking anybody.
public struct BearerUpdate: Sendable {
  public var generation: UInt64
  /// `Authorization: Bearer …\r\n`, formatted once.
  public var line: [UInt8]
  /// Until then the token is attached without a question.
  public var freshUntil: Instant
  /// From then on the first request asks for a refresh ahead of time, without waiting for it.
  public var aheadAt: Instant
}

/// One loop's copies of the sessions' tokens, by slot.
final class BearerCache {
  /// All but the line, which lies apart: a look at these counts no references.
  struct Entry {
    var generation: UInt64
    var freshUntil: Instant
    var aheadAt: Instant
    /// An upstream has answered other than 401 to it.
    var isAccepted = false
  }

  private var entries: [Entry?] = []
  private var lines: [[UInt8]] = []
  private var uses: [Instant?] = []

  func entry(_ slot: Int) -> Entry? { slot < entries.count ? entries[slot] : nil }

  /// `Authorization: Bearer …\r\n` of a slot that has an entry.
  func line(_ slot: Int) -> [UInt8] { lines[slot] }

  func fresh(_ slot: Int, now: Instant) -> Entry? {
    guard slot < entries.count, let entry = entries[slot], now < entry.freshUntil else { return nil }
    uses[slot] = now
    return entry
  }

  /// The token that a request has waited for.
  func awaited(_ slot: Int, now: Instant) -> Entry? {
    guard let entry = entry(slot) else { return nil }
    uses[slot] = now
    return entry
  }

  /// When a request last took the slot's token; nil: none has.
  func lastUse(_ slot: Int) -> Instant? { slot < uses.count ? uses[slot] : nil }

  func update(_ slot: Int, _ update: BearerUpdate, now: Instant) {
    while entries.count <= slot {
      entries.append(nil)
      lines.append([])
      uses.append(nil)
    }
    // Updates come in the keeper's order; a session removed and added again begins at generation 1.
    let isAccepted = entries[slot].map { $0.generation == update.generation && $0.isAccepted } ?? false
    entries[slot] = Entry(
      generation: update.generation, freshUntil: update.freshUntil, aheadAt: update.aheadAt, isAccepted: isAccepted)
    lines[slot] = update.line
  }

  /// The next request must ask: the session was removed, ended, or its token rejected.
  func invalidate(_ slot: Int) {
    guard slot < entries.count else { return }
    entries[slot] = nil
    lines[slot] = []
  }

  /// True the first time only.
  func takeAhead(_ slot: Int, now: Instant) -> Bool {
    guard slot < entries.count, let entry = entries[slot], now >= entry.aheadAt else { return false }
    entries[slot]?.aheadAt = .never
    return true
  }

  /// True the first time only.
  func markAccepted(_ slot: Int, generation: UInt64) -> Bool {
    guard slot < entries.count, let entry = entries[slot], entry.generation == generation, !entry.isAccepted else {
      return false
    }
    entries[slot]?.isAccepted = true
    return true
  }
}
