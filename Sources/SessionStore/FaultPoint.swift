#if FAULT_POINTS
  internal import Glibc
#endif

/// Named places where a debug build can be killed, so that the end-to-end tests see what a crash there leaves.
///
/// `BEARERD_FAULT=after-intent` kills the process with SIGKILL when that point is reached. The points:
/// - `after-intent`: the intent is durable, nothing is sent;
/// - `after-answer`: the token endpoint has answered, nothing of it is written;
/// - `before-rename`: the result is durable under its temporary name;
/// - `after-rename`: the result has its name, which is not yet durable.
///
/// A release build has none of it.
public enum FaultPoint {
  public static func reached(_ name: StaticString) {
    #if FAULT_POINTS
      if name.description == armed { kill(getpid(), SIGKILL) }
    #endif
  }

  /// Whether this build has fault points.
  public static var areCompiledIn: Bool {
    #if FAULT_POINTS
      true
    #else
      false
    #endif
  }

  #if FAULT_POINTS
    private static let armed: String? = getenv("BEARERD_FAULT").map { String(cString: $0) }
  #endif
}
