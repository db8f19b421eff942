import HTTPSyntax
import ProxyCore
import Testing

/// What a writer has left in a head's table for the next time must not show when other things are to be written.
@Suite("A head is written by its settings, whatever it was written by before") struct RepeatedWritingTests {
  private static let requests = [
    head("GET /x HTTP/1.1", "Host: a", "A: b", "C: d"),
    head("GET /x HTTP/1.1", "A: b", "Host: a", "C: d"),
    head("GET /x HTTP/1.1", "Host: a"),
    head("GET /x HTTP/1.1", "Host: a", "A: b", "Authorization: Basic YTpi", "C: d"),
    head("GET /x HTTP/1.1", "Host: a", "Authorization: Basic YTpi"),
    head("OPTIONS /x HTTP/1.1", "Host: a", "Max-Forwards: 3", "C: d"),
    head("GET /x HTTP/1.1", "Host: a", "A:b", "C: d"),
    head("GET /x HTTP/1.1", "Host: a", "Connection: c", "A: b", "C: d"),
  ]

  private typealias RequestChange = @Sendable (inout ForwardedRequest) -> Void
  private static let requestChanges: [RequestChange] = [
    { _ in }, { $0.keepsClientAuthorization = true }, { $0.maxForwards = 2 }, { $0.sendsExpect = true },
    { $0.idempotencyLine = Array("Idempotency-Key: k\r\n".utf8) },
  ]

  private func write(_ table: RequestHead, _ bytes: [UInt8], _ change: RequestChange) -> [UInt8] {
    table.reset()
    guard case .complete = table.parse(bytes.span.bytes) else { return [] }
    var plan = ForwardedRequest(path: table.target, via: ViaLine(pseudonym: Array("here".utf8)), framing: table.framing)
    change(&plan)
    var out = ByteBuffer(capacity: 4096)
    plan.write(table, bytes.span.bytes, hostLine: Array("Host: api.test\r\n".utf8), into: &out)
    return out.contentBytes
  }

  @Test("requests")
  func requestsInTurns() {
    let table = RequestHead(limits: HeadLimits())
    for (one, other) in Self.requests.flatMap({ one in Self.requests.map { (one, $0) } }) {
      for change in Self.requestChanges {
        _ = write(table, one, change)
        for next in Self.requestChanges {
          let wanted = write(RequestHead(limits: HeadLimits()), other, next)
          #expect(!wanted.isEmpty && write(table, other, next) == wanted)
        }
      }
    }
  }

  private static let responses = [
    head("HTTP/1.1 200 OK", "Content-Length: 5", "A: b"),
    head("HTTP/1.0 200 OK", "Content-Length: 5", "A: b"),
    head("HTTP/1.1 200 OK", "A: b", "Connection: a", "Date: now"),
    head("HTTP/1.1 302 Found", "Location: http://api.test/x", "Content-Length: 0"),
    head("HTTP/1.1 200 OK", "Content-Length: 5, 5"),
    head("HTTP/1.1 200 OK", "Connection: content-length, a", "Content-Length: 5", "A: b"),
    head("HTTP/1.1 200 OK", "Connection: content-length", "Content-Length: 5"),
    head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "A: b"),
    head("HTTP/1.1 304 Not Modified", "Content-Length: 9"),
  ]

  private typealias ResponseChange = @Sendable (inout ForwardedResponse) -> Void
  private static let responseChanges: [ResponseChange] = [
    { _ in }, { $0.closes = true }, { $0.note = "why" }, { $0.keepsHTTP10Alive = true }, { $0.framing = .untilClose },
    { $0.dateLine = Array("Date: then\r\n".utf8) },
    { $0.rewrite = LocationRewrite(from: Array("http://api.test".utf8), to: Array("http://localhost".utf8)) },
  ]

  private func write(_ table: ResponseHead, _ bytes: [UInt8], _ change: ResponseChange) -> [UInt8] {
    table.reset()
    guard case .complete = table.parse(bytes.span.bytes, requestMethod: .get) else { return [] }
    var plan = ForwardedResponse(framing: table.framing, via: ViaLine(pseudonym: Array("here".utf8)))
    change(&plan)
    var out = ByteBuffer(capacity: 4096)
    plan.write(table, bytes.span.bytes, into: &out)
    return out.contentBytes
  }

  @Test("responses")
  func responsesInTurns() {
    let table = ResponseHead(limits: HeadLimits())
    for (one, other) in Self.responses.flatMap({ one in Self.responses.map { (one, $0) } }) {
      for change in Self.responseChanges {
        _ = write(table, one, change)
        for next in Self.responseChanges {
          let wanted = write(ResponseHead(limits: HeadLimits()), other, next)
          #expect(!wanted.isEmpty && write(table, other, next) == wanted)
        }
      }
    }
  }
}
