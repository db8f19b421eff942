import HTTPSyntax
import Testing

/// Parses a whole request head and lets `body` look at it; nil, and a failed test, where it is refused.
func withRequest<Result>(
  _ bytes: [UInt8], limits: HeadLimits = HeadLimits(), sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (RequestHead, RawSpan) -> Result
) -> Result? {
  let head = RequestHead(limits: limits)
  let parsed = head.parse(bytes.span.bytes)
  guard case .complete = parsed else {
    Issue.record("the request is \(parsed)", sourceLocation: sourceLocation)
    return nil
  }
  return body(head, bytes.span.bytes)
}

func withResponse<Result>(
  _ bytes: [UInt8], to method: HTTPSyntax.Method = .get, limits: HeadLimits = HeadLimits(),
  sourceLocation: SourceLocation = #_sourceLocation, _ body: (ResponseHead, RawSpan) -> Result
) -> Result? {
  let head = ResponseHead(limits: limits)
  let parsed = head.parse(bytes.span.bytes, requestMethod: method)
  guard case .complete = parsed else {
    Issue.record("the response is \(parsed)", sourceLocation: sourceLocation)
    return nil
  }
  return body(head, bytes.span.bytes)
}

/// A head from its lines, with the empty line at its end.
func head(_ lines: String...) -> [UInt8] { Array(lines.map { $0 + "\r\n" }.joined().utf8) + [13, 10] }

/// A field line as a test compares it; bytes, because values may hold more than ASCII.
struct Line: Equatable, CustomStringConvertible {
  var name: [UInt8]
  var value: [UInt8]

  var description: String {
    "\(String(decoding: name, as: UTF8.self)): \(String(decoding: value, as: UTF8.self))"
  }
}

/// The field lines in their order.
func lines(_ fields: [FieldLine], _ bytes: RawSpan, where include: (FieldLine) -> Bool = { _ in true })
  -> [Line]
{
  fields.filter(include).map { line in
    Line(
      name: content(bytes.extracting(line.name.offsets)), value: content(bytes.extracting(line.value.offsets))
    )
  }
}

func content(_ bytes: RawSpan) -> [UInt8] { (0..<bytes.byteCount).map { bytes.byte(at: $0) } }

extension ByteBuffer {
  var contentBytes: [UInt8] { Array(readable) }
  var contentText: String { String(decoding: readable, as: UTF8.self) }
}

/// Numbers that look random and are the same in every run.
struct Sequence64: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return (state ^ (state >> 33)) &* 0xff51_afd7_ed55_8ccd
  }

  mutating func next(below bound: Int) -> Int { Int(next() >> 33) % bound }
  mutating func pick<Element>(_ choices: [Element]) -> Element { choices[next(below: choices.count)] }
}
