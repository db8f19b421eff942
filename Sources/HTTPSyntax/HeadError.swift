/// Why a head, a trailer section or a request-target was refused. Nothing after the offending byte was
/// interpreted; the connection it came on cannot be used again.
public enum HeadError: Error, Equatable, CaseIterable, Sendable {
  // Lines
  case bareCR, bareLF, obsFold, spaceBeforeColon, invalidFieldName, invalidFieldValue, lineUnterminated
  // Limits
  case requestLineTooLong, targetTooLong, statusLineTooLong, sectionTooLong, tooManyFields
  // Start lines
  case version, malformedRequestLine, malformedStatusLine
  // Target and Host
  case invalidTarget, targetFragment, targetUserInfo, unsupportedScheme, invalidAuthority
  case missingHost, repeatedHost, invalidHost
  // Framing
  case contentLengthMalformed, contentLengthDiffers, contentLengthRepeated, contentLengthWithTransferEncoding
  case transferEncodingNotChunked, transferEncodingMalformed, transferEncodingInHTTP10, unsupportedTransferCoding

  /// One line for people.
  public var explanation: StaticString {
    switch self {
    case .bareCR: "a carriage return stands without a line feed"
    case .bareLF: "a line ends with a line feed alone"
    case .obsFold: "a field line is continued on the next line (obsolete line folding)"
    case .spaceBeforeColon: "white space stands between a field name and its colon"
    case .invalidFieldName: "a field name is empty or has a byte that names may not have"
    case .invalidFieldValue: "a field value has a control character"
    case .lineUnterminated: "the last field line does not end"
    case .requestLineTooLong: "the request method is longer than the request line may be"
    case .targetTooLong: "the request-target is too long"
    case .statusLineTooLong: "the status line is too long"
    case .sectionTooLong: "the header section is too long"
    case .tooManyFields: "the header section has too many field lines"
    case .version: "the HTTP version is not 1.x"
    case .malformedRequestLine: "the request line is not METHOD target HTTP/1.x"
    case .malformedStatusLine: "the status line is not HTTP/1.x code reason"
    case .invalidTarget: "the request-target is malformed or has a form that this method may not have"
    case .targetFragment: "the request-target has a fragment"
    case .targetUserInfo: "the request-target has user information before the host"
    case .unsupportedScheme: "the request-target's scheme is neither http nor https"
    case .invalidAuthority: "the host or port is malformed"
    case .missingHost: "an HTTP/1.1 request has no Host field"
    case .repeatedHost: "the request has more than one Host field"
    case .invalidHost: "the Host field's value is malformed"
    case .contentLengthMalformed: "Content-Length is not a decimal number within bounds"
    case .contentLengthDiffers: "several Content-Length values differ"
    case .contentLengthRepeated: "Content-Length is given more than once"
    case .contentLengthWithTransferEncoding: "Content-Length and Transfer-Encoding are both given"
    case .transferEncodingNotChunked: "Transfer-Encoding does not end in chunked"
    case .transferEncodingMalformed: "Transfer-Encoding is malformed or names chunked twice"
    case .transferEncodingInHTTP10: "Transfer-Encoding stands in an HTTP/1.0 message"
    case .unsupportedTransferCoding: "Transfer-Encoding names a coding other than chunked"
    }
  }

  /// The status code that answers a request refused so (RFC 9110 §15.5, §15.6; RFC 6585 §5).
  public var requestStatus: Int {
    switch self {
    case .targetTooLong: 414
    case .sectionTooLong, .tooManyFields: 431
    case .unsupportedTransferCoding, .requestLineTooLong: 501
    case .version: 505
    case .bareCR, .bareLF, .obsFold, .spaceBeforeColon, .invalidFieldName, .invalidFieldValue,
      .lineUnterminated, .statusLineTooLong, .malformedRequestLine, .malformedStatusLine,
      .invalidTarget, .targetFragment, .targetUserInfo, .unsupportedScheme, .invalidAuthority, .missingHost,
      .repeatedHost, .invalidHost, .contentLengthMalformed, .contentLengthDiffers, .contentLengthRepeated,
      .contentLengthWithTransferEncoding, .transferEncodingNotChunked, .transferEncodingMalformed,
      .transferEncodingInHTTP10:
      400
    }
  }
}

/// What one call of a head's `parse` found.
public enum HeadParse: Equatable, Sendable {
  /// Call again when more bytes stand behind these.
  case incomplete
  /// The head is the first `bytes` bytes, its final empty line included.
  case complete(bytes: Int)
  case failed(HeadError)
}

/// How large a head may be. At a limit the head is refused, never cut.
public struct HeadLimits: Equatable, Sendable {
  /// Of the request line or status line, its CRLF included.
  public let requestLineBytes: Int
  /// Of all field lines together, the final empty line included.
  public let sectionBytes: Int
  /// Field lines. 1 to 255.
  public let fields: Int

  /// The sum of both lengths stays below 65 000, because offsets into a head have sixteen bits.
  public init(requestLineBytes: Int = 8192, sectionBytes: Int = 32_768, fields: Int = 128) {
    precondition(requestLineBytes >= 16 && sectionBytes >= 2, "a head needs room for its lines")
    precondition(requestLineBytes + sectionBytes <= Self.headBytesMax, "offsets into a head have sixteen bits")
    precondition((1...255).contains(fields), "field lines are numbered in eight bits")
    self.requestLineBytes = requestLineBytes
    self.sectionBytes = sectionBytes
    self.fields = fields
  }

  /// Bound of `requestLineBytes + sectionBytes`; what is left of 65 535 holds the empty lines that may precede.
  public static let headBytesMax = 65_000
}
