/// A point on the machine's monotonic clock that also counts suspend (`CLOCK_BOOTTIME`), in nanoseconds since boot.
///
/// Deadlines and the expiry of tokens in memory are judged on this clock, because the wall clock may jump
/// and a clock that stops in suspend would keep an expired token alive. Eight bytes, where the standard
/// library's `Duration` is sixteen. Nothing here reads a clock: `now` is always an argument.
public struct Instant: Comparable, Hashable, Sendable {
  public var nanoseconds: UInt64

  public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  /// Later than every deadline.
  public static let never = Instant(nanoseconds: .max)

  public static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

  /// Saturates at `never`, and at boot for a negative interval.
  public static func + (instant: Instant, interval: Interval) -> Instant {
    if interval.nanoseconds >= 0 {
      let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(UInt64(interval.nanoseconds))
      return overflow ? .never : Instant(nanoseconds: sum)
    }
    let back = interval.nanoseconds.magnitude
    return Instant(nanoseconds: back > instant.nanoseconds ? 0 : instant.nanoseconds - back)
  }

  /// Signed distance from `earlier` to here, saturating.
  public func since(_ earlier: Instant) -> Interval {
    if nanoseconds >= earlier.nanoseconds {
      return Interval(nanoseconds: Int64(clamping: nanoseconds - earlier.nanoseconds))
    }
    return Interval(nanoseconds: -Int64(clamping: earlier.nanoseconds - nanoseconds))
  }
}

/// A signed length of time in nanoseconds (±292 years). Arithmetic saturates instead of trapping, because
/// lengths come from peers (`expires_in`, `Retry-After`).
public struct Interval: Comparable, Hashable, Sendable {
  public var nanoseconds: Int64

  public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  public static let zero = Interval(nanoseconds: 0)

  public static func seconds(_ count: Int64) -> Interval { Interval(saturating: count, times: 1_000_000_000) }
  public static func milliseconds(_ count: Int64) -> Interval { Interval(saturating: count, times: 1_000_000) }
  public static func microseconds(_ count: Int64) -> Interval { Interval(saturating: count, times: 1_000) }

  /// Fractions of a second are kept to the nanosecond; a value out of range saturates and NaN is zero.
  public static func fractionalSeconds(_ count: Double) -> Interval {
    if count.isNaN { return .zero }
    let nanoseconds = count * 1e9
    if nanoseconds >= 9.2e18 { return Interval(nanoseconds: .max) }
    if nanoseconds <= -9.2e18 { return Interval(nanoseconds: .min) }
    return Interval(nanoseconds: Int64(nanoseconds))
  }

  private init(saturating count: Int64, times unit: Int64) {
    let (product, overflow) = count.multipliedReportingOverflow(by: unit)
    nanoseconds = overflow ? (count < 0 ? .min : .max) : product
  }

  public static func < (left: Interval, right: Interval) -> Bool { left.nanoseconds < right.nanoseconds }

  public static func + (left: Interval, right: Interval) -> Interval {
    let (sum, overflow) = left.nanoseconds.addingReportingOverflow(right.nanoseconds)
    return Interval(nanoseconds: overflow ? (right.nanoseconds < 0 ? .min : .max) : sum)
  }

  public static func - (left: Interval, right: Interval) -> Interval {
    let (difference, overflow) = left.nanoseconds.subtractingReportingOverflow(right.nanoseconds)
    return Interval(nanoseconds: overflow ? (right.nanoseconds < 0 ? .max : .min) : difference)
  }

  public static func / (interval: Interval, divisor: Int64) -> Interval {
    Interval(nanoseconds: interval.nanoseconds / divisor)
  }

  /// Whole milliseconds, rounded towards zero.
  public var milliseconds: Int64 { nanoseconds / 1_000_000 }

  /// Whole seconds, rounded up: what a `Retry-After` must say so that the client is not early.
  public var secondsRoundedUp: Int64 {
    let whole = nanoseconds / 1_000_000_000
    return nanoseconds % 1_000_000_000 > 0 ? whole + 1 : whole
  }

  public var inSeconds: Double { Double(nanoseconds) / 1e9 }
}
