import HTTPSyntax
import Testing

/// What a test compares of a parsed field line.
struct ParsedLine: Equatable {
  var name: String
  var value: String
  var field: KnownField
  var isConnectionOption: Bool
}

struct ParsedRequest: Equatable {
  var result: HeadParse
  var method = Method.other
  var methodText = ""
  var target = ""
  var minorVersion: UInt8 = 0
  var lines: [ParsedLine] = []
  var framing = MessageFraming.none
  var isPersistent = false
  var expectsContinue = false
  var hasUnknownExpectation = false
  var connectionHasUpgrade = false
  var teTrailers = false
  var host: String?

  static func parse(_ text: String, limits: HeadLimits = HeadLimits()) -> ParsedRequest {
    sameAtEverySplit(text) { bytes, arrivals in
      read(RequestHead(limits: limits), bytes, arrivals)
    }
  }

  static func read(_ head: RequestHead, _ bytes: [UInt8], _ arrivals: [Int]) -> ParsedRequest {
    head.reset()
    var result = HeadParse.incomplete
    for count in arrivals where result == .incomplete { result = bytes.withPrefix(count) { head.parse($0) } }
    guard case .complete = result else { return ParsedRequest(result: result) }
    return ParsedRequest(
      result: result, method: head.method, methodText: bytes.text(head.methodRange.offsets),
      target: bytes.text(head.target.offsets), minorVersion: head.minorVersion,
      lines: parsedLines(head.lines, bytes), framing: head.framing, isPersistent: head.isPersistent,
      expectsContinue: head.expectsContinue, hasUnknownExpectation: head.hasUnknownExpectation,
      connectionHasUpgrade: head.connectionHasUpgrade, teTrailers: head.teTrailers,
      host: head.hostAuthority.map { bytes.text($0.host.offsets) })
  }
}

struct ParsedResponse: Equatable {
  var result: HeadParse
  var status = 0
  var reason = ""
  var minorVersion: UInt8 = 0
  var lines: [ParsedLine] = []
  var framing = MessageFraming.none
  var contentLength: UInt64?
  var isPersistent = false

  static func parse(_ text: String, to method: Method = .get, limits: HeadLimits = HeadLimits()) -> ParsedResponse {
    sameAtEverySplit(text) { bytes, arrivals in
      read(ResponseHead(limits: limits), bytes, arrivals, to: method)
    }
  }

  static func read(_ head: ResponseHead, _ bytes: [UInt8], _ arrivals: [Int], to method: Method) -> ParsedResponse {
    head.reset()
    var result = HeadParse.incomplete
    for count in arrivals where result == .incomplete {
      result = bytes.withPrefix(count) { head.parse($0, requestMethod: method) }
    }
    guard case .complete = result else { return ParsedResponse(result: result) }
    return ParsedResponse(
      result: result, status: head.status, reason: bytes.text(head.reason.offsets),
      minorVersion: head.minorVersion, lines: parsedLines(head.lines, bytes), framing: head.framing,
      contentLength: head.contentLength, isPersistent: head.isPersistent)
  }
}

func parsedLines(_ lines: [FieldLine], _ bytes: [UInt8]) -> [ParsedLine] {
  lines.map {
    ParsedLine(
      name: bytes.text($0.name.offsets), value: bytes.text($0.value.offsets), field: $0.field,
      isConnectionOption: $0.isConnectionOption)
  }
}
