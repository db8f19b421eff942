public import BearerPolicy
import Chronology

/// One session as the keeper sees it, for people and metrics.
public struct SessionView: Sendable {
  public var name: String
  public var record: SessionRecord?
  public var trouble: StoreTrouble?
  public var isRefreshing: Bool
  public var isDegraded: Bool
  public var waiterCount: Int
  public var isUsable: Bool

  init(_ ledger: SessionLedger, now: WallTime) {
    name = ledger.name
    record = ledger.record
    trouble = ledger.trouble
    isRefreshing = ledger.isRefreshing
    isDegraded = ledger.isDegraded
    waiterCount = ledger.waiterCount
    isUsable = ledger.readiness(now: now) != .unusable
  }
}
