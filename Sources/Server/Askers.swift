import ProxyCore
import Transport

/// Somebody who asked for a token, and where the answer is to be told.
struct Asker: Sendable {
  /// nil: the keeper's queue.
  let loop: EventLoop?
  let answer: SessionKeeper.Answer

  func tell(_ slot: Int?, _ update: BearerUpdate?, _ bearer: BearerAnswer) {
    if let loop { loop.post { answer(slot, update, bearer) } } else { answer(slot, update, bearer) }
  }
}

/// What is told on one occasion: each loop is woken once for many who wait there, not for each of them.
///
/// Where they share a processor, a loop that is woken may take it at once, and 64 answers cost as many changes of context
/// and looks for events, while all of them wait (1.5 ms, traced).
struct Answers {
  private var ofLoops: [ObjectIdentifier: (loop: EventLoop, calls: [@Sendable () -> Void])] = [:]

  /// A loop looks for events after so many.
  private static let callsMax = 128

  /// Who asked without a loop is told at once.
  mutating func add(_ slot: Int?, _ update: BearerUpdate?, _ bearer: BearerAnswer, to asker: Asker) {
    guard let loop = asker.loop else { return asker.tell(slot, update, bearer) }
    let id = ObjectIdentifier(loop)
    ofLoops[id, default: (loop, [])].calls.append { asker.answer(slot, update, bearer) }
    if ofLoops[id]?.calls.count == Self.callsMax { ofLoops.removeValue(forKey: id).map(Self.post) }
  }

  consuming func tell() {
    for entry in ofLoops.values { Self.post(entry) }
  }

  private static func post(_ entry: (loop: EventLoop, calls: [@Sendable () -> Void])) {
    entry.loop.post { for call in entry.calls { call() } }
  }
}
