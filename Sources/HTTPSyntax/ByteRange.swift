/// A part of the caller's bytes, as offsets from their start: how a parsed head refers to the text it was
/// parsed from, without copying it. Valid as long as the same bytes stand at the same place.
///
/// Sixteen bits suffice because `HeadLimits` keeps every head below 64 KiB.
public struct ByteRange: Equatable, Sendable {
  public var offset: UInt16
  public var count: UInt16

  public init(offset: UInt16, count: UInt16) {
    self.offset = offset
    self.count = count
  }

  /// Traps outside 0...65535: callers stay below by `HeadLimits`.
  public init(_ offsets: Range<Int>) {
    offset = UInt16(offsets.lowerBound)
    count = UInt16(offsets.upperBound - offsets.lowerBound)
  }

  public static let empty = ByteRange(offset: 0, count: 0)

  public var isEmpty: Bool { count == 0 }
  public var start: Int { Int(offset) }
  /// Offset after the last byte.
  public var end: Int { Int(offset) + Int(count) }
  /// For `RawSpan.extracting`.
  public var offsets: Range<Int> { start..<end }

  /// The text, replacing what is not UTF-8; allocates, for cold paths.
  public func string(in bytes: RawSpan) -> String { bytes.extracting(offsets).string }
}

extension RawSpan {
  /// One byte; traps outside the view.
  @inline(always)
  public func byte(at offset: Int) -> UInt8 { unsafe unsafeLoad(fromByteOffset: offset, as: UInt8.self) }

  /// The text, replacing what is not UTF-8; allocates, for cold paths.
  public var string: String {
    unsafe withUnsafeBytes { pointer in unsafe String(decoding: pointer, as: UTF8.self) }
  }
}
