import BearerPolicy
import Chronology
import Testing

@Suite("SPEC §3 ceiling of refreshes per provider") struct RefreshPacerTests {
  private let start = Instant(nanoseconds: 1_000_000_000_000)

  @Test("a second's worth goes at once, the rest follows at even distances")
  func spreads() {
    var pacer = RefreshPacer()
    let waits = (0..<30).map { _ in pacer.admit(perSecond: 10, at: start) }
    #expect(waits.prefix(10).allSatisfy { $0 == .zero })
    #expect(Array(waits.dropFirst(10)) == (1...20).map { .milliseconds($0 * 100) })
  }

  @Test("never more than the ceiling and one burst in any time", arguments: [1, 3, 50])
  func keepsCeiling(_ perSecond: Int) {
    var pacer = RefreshPacer()
    var starts: [Instant] = []
    for step in 0..<500 {
      let now = start + .milliseconds(Int64(step) * 7)
      starts.append(now + pacer.admit(perSecond: perSecond, at: now))
    }
    for (index, begin) in starts.enumerated() {
      let within = starts[index...].filter { $0.since(begin) < .seconds(1) }.count
      #expect(within <= 2 * perSecond)
    }
  }

  @Test("after silence nobody waits")
  func recovers() {
    var pacer = RefreshPacer()
    for _ in 0..<100 { _ = pacer.admit(perSecond: 5, at: start) }
    #expect(pacer.admit(perSecond: 5, at: start + .seconds(60)) == .zero)
  }
}
