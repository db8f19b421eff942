import Chronology
import Dispatch

/// One timer for all refreshes ahead of time: it is armed for the earliest, and no session is ever searched for.
///
/// Touched on the keeper's queue only.
final class AheadSchedule {
  private var entries = DeadlineHeap<Int>()
  private let timer: any DispatchSourceTimer
  private var armedFor = Instant.never

  /// `due` is called on `queue` when a slot's time has come, with the instant it was entered for.
  var due: (_ slot: Int, _ at: Instant, _ now: Instant) -> Void = { _, _, _ in }

  init(on queue: DispatchQueue) {
    timer = DispatchSource.makeTimerSource(queue: queue)
    timer.setEventHandler { [weak self] in self?.fire() }
    timer.activate()
  }

  deinit { timer.cancel() }

  func enter(_ slot: Int, at instant: Instant) {
    entries.insert(instant, slot)
    arm()
  }

  private func arm() {
    guard let (instant, _) = entries.first, instant < armedFor else { return }
    armedFor = instant
    timer.schedule(
      deadline: .now() + .nanoseconds(Int(clamping: max(0, instant.since(BootClock.now).nanoseconds))),
      leeway: .milliseconds(20))
  }

  private func fire() {
    armedFor = .never
    let now = BootClock.now
    while let (instant, slot) = entries.first, instant <= now {
      entries.removeFirst()
      due(slot, instant, now)
    }
    arm()
  }
}
