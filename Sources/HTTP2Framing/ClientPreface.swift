/// The 24 bytes by which a client with prior knowledge begins HTTP/2 (RFC 9113 §3.4).
public enum ClientPreface {
  public enum Match: Equatable, Sendable {
    case no
    /// All the bytes that there are agree; more must come. So says no byte at all.
    case partial
    /// The bytes begin with the whole preface; what follows are frames.
    case yes
  }

  private static let text: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

  /// Compares the first bytes of a connection. No HTTP/1 request that the head parser accepts is ever `partial`
  /// beyond `PRI * HTTP/`.
  public static func match(_ bytes: RawSpan) -> Match {
    let compared = min(bytes.byteCount, text.utf8CodeUnitCount)
    for offset in 0..<compared {
      let byte = unsafe bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
      let expected = unsafe text.utf8Start[offset]
      if byte != expected { return .no }
    }
    return compared == text.utf8CodeUnitCount ? .yes : .partial
  }
}
