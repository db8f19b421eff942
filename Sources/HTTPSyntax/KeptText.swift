/// The text of the head that a table holds from before.
///
/// Who polls, and who puts load on, sends the same head again and again: what was concluded from the text holds for the
/// same text. To compare costs a hundredth of reading it anew.
///
/// Not kept is a head with a field that is known to carry a secret: it would stay in memory for longer than its exchange,
/// and the time that a comparison takes could tell another client how much of it was guessed. What other fields, or a
/// query, may hold stays until the table reads another head; then it is overwritten.
struct KeptText: ~Copyable {
  private var text = ByteBuffer()

  /// Longer heads are read anew, so that the tables that are kept for later stay small.
  static let bytesMax = 1024

  /// Keeps what has been read, or nothing where it must not be kept.
  mutating func keep(_ head: RawSpan, _ section: borrowing FieldSection) {
    text.zero()
    text.reset()
    if head.byteCount > Self.bytesMax || section.holdsSecret { return }
    if !text.hasMemory { text = ByteBuffer(capacity: Self.bytesMax) }
    text.append(head)
  }

  deinit { text.zero() }

  /// Bytes; 0 where nothing is kept.
  var count: Int { text.count }

  /// Whether this text, and there is one, is the beginning of `bytes`.
  func begins(_ bytes: RawSpan) -> Bool {
    guard !text.isEmpty, bytes.byteCount >= text.count else { return false }
    return text.withReadable { bytes.extracting(first: $0.byteCount).equals($0) }
  }
}

extension FieldSection {
  /// A request's credentials, or what a response makes one of.
  fileprivate var holdsSecret: Bool { lines.contains { $0.field.isCredential || $0.field == .setCookie } }
}
