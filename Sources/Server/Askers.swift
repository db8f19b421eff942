import ProxyCore
import Transport

/// Somebody who asked for a token, and where the answer is to be told.
struct Asker: Sendable {
  /// nil: the keeper's queue.
  let loop: EventLoop?
  let answer: SessionKeeper.Answer
}

/// What is told on one occasion: each loop is woken once for many who wait there, not for each of them.
///
/// Where they share a processor, a loop that is woken may take it at once, and 64 answers cost as many changes of context
/// and looks for events, while all of them wait (1.5 ms, traced).
struct Answers {
  private var ofLoops: [ObjectIdentifier: (loop: EventLoop, calls: [@Sendable () -> Void])] = [:]
  private var ownCalls: [@Sendable () -> Void] = []

  /// A loop looks for events after so many.
  private static let callsMax = 128

  mutating func add(_ slot: Int?, _ update: BearerUpdate?, _ answer: BearerAnswer, to asker: Asker) {
    let call = { @Sendable in asker.answer(slot, update, answer) }
    guard let loop = asker.loop else { return ownCalls.append(call) }
    let id = ObjectIdentifier(loop)
    ofLoops[id, default: (loop, [])].calls.append(call)
    if ofLoops[id]?.calls.count == Self.callsMax { ofLoops.removeValue(forKey: id).map(Self.post) }
  }

  consuming func tell() {
    for call in ownCalls { call() }
    for entry in ofLoops.values { Self.post(entry) }
  }

  private static func post(_ entry: (loop: EventLoop, calls: [@Sendable () -> Void])) {
    entry.loop.post { for call in entry.calls { call() } }
  }
}
