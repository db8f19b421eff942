import BearerPolicy
import Testing

@Suite("SPEC §4 whether a request is sent again") struct ReplayGateTests {
  private static func facts(_ change: (inout ReplayFacts) -> Void) -> ReplayFacts {
    var facts = ReplayFacts(
      alreadyReplayed: false, clientRetry: nil, pathRetry: .default, isBodyReplayable: true, hasBodyLeft: true,
      method: .other, hasIdempotencyKey: false, writes: .idempotencyKey)
    change(&facts)
    return facts
  }

  @Test("each row, with everything below it saying the opposite")
  func rows() {
    let rows: [(ReplayFacts, ReplayVerdict)] = [
      (
        Self.facts {
          $0.alreadyReplayed = true
          $0.clientRetry = .allow
          $0.pathRetry = .always
          $0.method = .getHeadOptions
        }, .pass(.alreadyReplayed)
      ),
      (
        Self.facts {
          $0.clientRetry = .deny
          $0.pathRetry = .always
          $0.method = .getHeadOptions
        }, .pass(.clientDenies)
      ),
      (
        Self.facts {
          $0.clientRetry = .allow
          $0.pathRetry = .never
          $0.method = .getHeadOptions
        }, .pass(.pathDenies)
      ),
      (
        Self.facts {
          $0.isBodyReplayable = false
          $0.clientRetry = .allow
          $0.pathRetry = .always
          $0.hasIdempotencyKey = true
        }, .pass(.bodyHasLeft)
      ),
      // None of it has left yet (Expect: 100-continue): the later rows decide.
      (
        Self.facts {
          $0.isBodyReplayable = false
          $0.hasBodyLeft = false
          $0.hasIdempotencyKey = true
        }, .replay
      ),
      (Self.facts { $0.clientRetry = .allow }, .replay),
      (Self.facts { $0.pathRetry = .always }, .replay),
      (Self.facts { $0.method = .getHeadOptions }, .replay),
      (Self.facts { $0.hasIdempotencyKey = true }, .replay),
      (Self.facts { $0.writes = .always }, .replay),
      (Self.facts { _ in }, .pass(.noIdempotencyKey)),
    ]
    for (facts, verdict) in rows { #expect(ReplayGate.verdict(facts) == verdict) }
  }

  /// Goal: I2 and I3 hold for every combination. Method: all 576 of them.
  @Test("in no combination is a replayed request or a lost body sent again")
  func everyCombination() {
    let flags = [false, true]
    var count = 0
    for replayed in flags {
      for client in [nil] + ReplayFacts.ClientRetry.allCases.map(Optional.some) {
        for path in ReplayFacts.PathRetry.allCases {
          for (kept, left) in [(true, true), (true, false), (false, true), (false, false)] {
            for method in ReplayFacts.MethodKind.allCases {
              for key in flags {
                for writes in ReplayFacts.Writes.allCases {
                  count += 1
                  let verdict = ReplayGate.verdict(
                    ReplayFacts(
                      alreadyReplayed: replayed, clientRetry: client, pathRetry: path, isBodyReplayable: kept,
                      hasBodyLeft: left, method: method, hasIdempotencyKey: key, writes: writes))
                  let isForbidden = replayed || client == .deny || path == .never || (!kept && left)
                  let isWanted =
                    client == .allow || path == .always || method == .getHeadOptions || key || writes == .always
                  #expect((verdict == .replay) == (!isForbidden && isWanted))
                }
              }
            }
          }
        }
      }
    }
    #expect(count == 576)
  }

  @Test("each reason is one sf-string that begins alike (RFC 9209 §2.1.3)", arguments: PassReason.allCases)
  func details(_ reason: PassReason) {
    let text = reason.detail.description
    #expect(text.hasPrefix("not replayed: "))
    #expect(
      text.utf8.allSatisfy { (0x20..<0x7F).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") })
    if reason == .noIdempotencyKey { #expect(text == "not replayed: no Idempotency-Key") }
  }
}
