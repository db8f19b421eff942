/// Bytes that must not be seen: an access token, a refresh token, a client secret, a key (I10).
///
/// Every description is `[redacted]`, a mirror shows nothing, and its own storage is zeroed when the last
/// reference goes. Copies share one storage. What `withBytes` or `reveal` hands out is the caller's to keep
/// out of logs and errors.
public struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  private let storage: Storage

  public init(_ text: String) { self.init(bytes: text.utf8) }

  public init(bytes: some Collection<UInt8>) { storage = Storage(bytes) }

  /// Takes the bytes over without a copy that nobody would zero, and leaves `bytes` empty.
  public init(taking bytes: inout [UInt8]) {
    var taken: [UInt8] = []
    swap(&taken, &bytes)
    storage = Storage(taken)
  }

  public var count: Int { storage.bytes.count }
  public var isEmpty: Bool { storage.bytes.isEmpty }

  /// The view is valid during the call only.
  public func withBytes<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
    // `Span.bytes` is marked unsafe for general elements; bytes of bytes are safe.
    let bytes = storage.bytes
    return try body(unsafe bytes.span.bytes)
  }

  /// The text, for the one place that must write it out: a request, a session's file, a prompt's answer.
  public func reveal() -> String { String(decoding: storage.bytes, as: UTF8.self) }

  /// Copies the bytes to the end of `destination`, which is then as secret as this.
  public func append(to destination: inout [UInt8]) { destination.append(contentsOf: storage.bytes) }

  public var description: String { "[redacted]" }
  public var debugDescription: String { "[redacted]" }
  public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }

  private final class Storage: @unchecked Sendable {
    // Written in deinit only, when nobody else can hold it.
    var bytes: [UInt8]

    init(_ source: some Collection<UInt8>) { bytes = Array(source) }

    deinit {
      for index in bytes.indices { bytes[index] = 0 }
    }
  }
}

extension Secret: Equatable {
  /// Takes the same time wherever the two differ, so that a comparison tells nothing of its content.
  public static func == (left: Secret, right: Secret) -> Bool {
    guard left.count == right.count else { return false }
    var difference: UInt8 = 0
    for index in left.storage.bytes.indices { difference |= left.storage.bytes[index] ^ right.storage.bytes[index] }
    return difference == 0
  }
}
