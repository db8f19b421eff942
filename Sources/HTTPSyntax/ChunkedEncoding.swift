/// The chunked transfer coding, written (RFC 9112 §7.1): header, the caller's content, end; then the last chunk.
public enum ChunkedEncoding {
  /// The last chunk and an empty trailer section.
  public static let lastChunk: StaticString = "0\r\n\r\n"
  /// The last chunk alone: trailer field lines and a CRLF follow.
  public static let lastChunkBeforeTrailers: StaticString = "0\r\n"
  public static let chunkEnd: StaticString = "\r\n"
  /// Bytes of the longest chunk header: 16 digits and CRLF.
  public static let chunkHeaderBytesMax = 18

  /// Bytes of a header for that many bytes of content (at least 1).
  public static func chunkHeaderBytes(size: Int) -> Int {
    precondition(size > 0, "a chunk of no content would end the body")
    return (UInt64.bitWidth - UInt64(size).leadingZeroBitCount + 3) / 4 + 2
  }
}

extension ByteBuffer {
  /// Before `size` (at least 1) bytes of content.
  public mutating func appendChunkHeader(size: Int) {
    precondition(size > 0, "a chunk of no content would end the body")
    append(hexadecimal: UInt64(size))
    append(ChunkedEncoding.chunkEnd)
  }

  /// After a chunk's content.
  public mutating func appendChunkEnd() { append(ChunkedEncoding.chunkEnd) }

  /// The end of a body without trailers.
  public mutating func appendLastChunk() { append(ChunkedEncoding.lastChunk) }
}
