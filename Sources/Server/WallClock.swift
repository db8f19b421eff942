public import Chronology
import CLinux

/// The two clocks, read at the edge.
public enum WallClock {
  public static var now: WallTime { WallTime(milliseconds: bearerd_walltime()) }
}

public enum BootClock {
  public static var now: Instant { Instant(nanoseconds: bearerd_boottime()) }

  /// The instant at which the wall clock will show `time` if nobody sets it.
  public static func instant(of time: WallTime) -> Instant { now + time.since(WallClock.now) }
}
