/// What one loop has counted since it began. Plain numbers: only its loop writes them, and they are copied out there.
public struct Counters: Sendable {
  public var clientsAccepted: UInt64 = 0
  public var clientsRefused: UInt64 = 0
  public var clientsOpen: Int = 0
  public var requests: UInt64 = 0
  public var requestsWithBearer: UInt64 = 0
  public var refusedHeads: UInt64 = 0
  /// Final responses by status class, 1xx to 5xx at 1 to 5; 0 is what no class has.
  public var responsesByClass: [6 of UInt64] = .init(repeating: 0)
  public var held401: UInt64 = 0
  public var replays: UInt64 = 0
  /// Answers of our own.
  public var problems: UInt64 = 0
  public var abortedResponses: UInt64 = 0
  public var abortedByClient: UInt64 = 0
  /// Filled in when they are copied out.
  public var upstreamConnectionsOpen: Int = 0
  public var upstreamConnectionsIdle: Int = 0
  public var bufferBytes: Int = 0
  public var replayBytes: Int = 0

  public init() {}

  mutating func count(status: Int) {
    let index = status / 100
    responsesByClass[(1...5).contains(index) ? index : 0] += 1
  }

  public static func + (left: Counters, right: Counters) -> Counters {
    var sum = left
    sum.clientsAccepted += right.clientsAccepted
    sum.clientsRefused += right.clientsRefused
    sum.clientsOpen += right.clientsOpen
    sum.requests += right.requests
    sum.requestsWithBearer += right.requestsWithBearer
    sum.refusedHeads += right.refusedHeads
    for index in sum.responsesByClass.indices { sum.responsesByClass[index] += right.responsesByClass[index] }
    sum.held401 += right.held401
    sum.replays += right.replays
    sum.problems += right.problems
    sum.abortedResponses += right.abortedResponses
    sum.abortedByClient += right.abortedByClient
    sum.upstreamConnectionsOpen += right.upstreamConnectionsOpen
    sum.upstreamConnectionsIdle += right.upstreamConnectionsIdle
    sum.bufferBytes += right.bufferBytes
    sum.replayBytes += right.replayBytes
    return sum
  }
}
