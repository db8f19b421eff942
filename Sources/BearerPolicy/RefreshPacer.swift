public import Chronology

/// Keeps a provider's refreshes below its ceiling: each one gets the next free moment, at even distances (SPEC §3).
///
/// Thousands of sessions that expire together then refresh one after another, instead of being refused together.
public struct RefreshPacer: Sendable {
  private var nextFree = Instant(nanoseconds: 0)

  public init() {}

  /// How long this refresh has to wait; zero or more.
  ///
  /// - Parameter perSecond: the ceiling; as many may go at once after a second's silence.
  public mutating func admit(perSecond: Int, at now: Instant) -> Interval {
    let distance = Interval.seconds(1) / Int64(max(1, perSecond))
    // A second's worth may be caught up, so that the first of many need not wait for each other.
    let earliest = now + (.zero - (.seconds(1) - distance))
    let slot = max(nextFree, earliest)
    nextFree = slot + distance
    return max(.zero, slot.since(now))
  }
}
