internal import BearerPolicy
internal import COpenSSL
internal import FoundationEssentials
internal import Glibc

/// The key that session files are encrypted with: 256 bits, out of a file.
///
/// Descriptions show the `id` only; the bytes are zeroed when the last copy goes (I10).
public struct StoreKey: Sendable, Equatable {
  /// The first 8 hexadecimal digits of the key's SHA-256: names it in files and messages, reveals nothing of it.
  public let id: String
  let secret: Secret

  /// AES-256.
  static let bytesCount = 32
  /// Larger is no key: text forms have 64 digits and a line end.
  private static let fileBytesMax = 256

  /// - Parameter secret: `bytesCount` bytes.
  private init(_ secret: Secret) {
    self.secret = secret
    id = String(secret.withBytes { sha256Hexadecimal($0) }.prefix(8))
  }

  public static func == (left: StoreKey, right: StoreKey) -> Bool { left.secret == right.secret }
}

extension StoreKey {
  /// Reads a key: 32 raw bytes, 64 hexadecimal digits or base64 of 32 bytes, the texts with or without a line end.
  ///
  /// The file must be closed to everybody else and belong to this user, to root, or to `storeOwner` (whom root acts
  /// for). A symbolic link is followed: what it leads to is judged.
  /// - Parameter isCredential: the file lies in `$CREDENTIALS_DIRECTORY`, where the service manager may give a group
  ///   leave to read it (systemd.exec(5)).
  /// - Throws: `badKey`, `wrongOwner`, `wrongMode`, `unreadable`; none holds anything of the content.
  public init(file path: String, isCredential: Bool = false, storeOwner: UInt32? = nil) throws(StoreFault) {
    let disk = Disk()
    var bytes: [UInt8]
    let refused: StoreFault?
    do {
      let file = try disk.open(path, O_RDONLY, followsLinks: true)
      let owners = [geteuid(), 0] + (storeOwner.map { [$0] } ?? [])
      let closed: UInt32 = isCredential ? 0o037 : 0o077
      refused = DirectoryCheck.fault(path, try disk.status(file), kind: S_IFREG, owners: owners, closed: closed)
      bytes = refused == nil ? try disk.read(file, bytesMax: Self.fileBytesMax) : []
    } catch {
      throw .badKey(path: path, detail: "(`store.key_file`) cannot be read: \(StoreFault.explain(error.code))")
    }
    defer { wipe(&bytes) }
    if let refused { throw refused.ofKey(path) }
    self.init(try Self.parse(bytes, path))
  }

  /// Makes a new key and a file for it (0600), which must not exist: 64 hexadecimal digits and a line end.
  public static func generate(to path: String) throws(StoreFault) -> StoreKey {
    var bytes = [UInt8](repeating: 0, count: bytesCount)
    guard RAND_bytes(&bytes, Int32(bytesCount)) == 1 else { throw .encryptionFailed(path: path) }
    let key = StoreKey(Secret(taking: &bytes))
    var text = key.secret.withBytes { hexadecimal($0) } + [UInt8(ascii: "\n")]
    defer { wipe(&text) }
    let disk = Disk()
    let file: Descriptor
    do {
      file = try disk.open(path, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
    } catch {
      guard error.code == EEXIST else { throw .writing(path, error) }
      throw .badKey(path: path, detail: "exists already: a key is never overwritten, name another file")
    }
    do {
      try disk.write(file, text)
      try disk.sync(file)
      try disk.syncDirectory(DirectoryCheck.parent(of: path) ?? ".")
    } catch {
      _ = try? disk.unlink(path)
      throw .writing(path, error)
    }
    return key
  }

  private static func parse(_ bytes: [UInt8], _ path: String) throws(StoreFault) -> Secret {
    if bytes.count == bytesCount {
      // Of 10^13 random keys one would be taken for text; of passwords and 128-bit keys in digits every one is.
      guard bytes.contains(where: { !(0x20...0x7E).contains($0) }) else {
        throw .badKey(path: path, detail: "holds 32 characters of text, which are no 256-bit key: \(remedy)")
      }
      return Secret(bytes: bytes)
    }
    var end = bytes.count
    while end > 0, [0x0A, 0x0D, 0x20].contains(bytes[end - 1]) { end -= 1 }
    var key = decode(hexadecimal: bytes[..<end]) ?? decode(base64: bytes[..<end]) ?? []
    defer { wipe(&key) }
    guard key.count == bytesCount else {
      throw .badKey(
        path: path,
        detail: "holds neither 32 raw bytes nor 64 hexadecimal digits nor base64 of 32 bytes: \(remedy)")
    }
    return Secret(bytes: key)
  }

  private static let remedy = "make one with `bearerd store generate-key`"

  private static func hexadecimal(_ bytes: RawSpan) -> [UInt8] {
    let digits = Array("0123456789abcdef".utf8)
    var text = [UInt8]()
    text.reserveCapacity(2 * bytes.byteCount + 1)
    for index in bytes.byteOffsets {
      let byte = bytes.unsafeLoad(fromByteOffset: index, as: UInt8.self)
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    return text
  }

  private static func decode(hexadecimal text: ArraySlice<UInt8>) -> [UInt8]? {
    guard text.count == 2 * bytesCount else { return nil }
    var bytes = [UInt8]()
    bytes.reserveCapacity(bytesCount)
    var half: UInt8?
    for character in text {
      guard let digit = Character(Unicode.Scalar(character)).hexDigitValue.flatMap({ UInt8(exactly: $0) })
      else {
        return nil
      }
      if let high = half {
        bytes.append(high << 4 | digit)
        half = nil
      } else {
        half = digit
      }
    }
    return bytes
  }

  private static func decode(base64 text: ArraySlice<UInt8>) -> [UInt8]? {
    guard var data = Data(base64Encoded: Data(text)) else { return nil }
    defer { data.resetBytes(in: data.startIndex..<data.endIndex) }
    return Array(data)
  }
}

extension StoreFault {
  /// What is wrong with a file in general, said of the key's.
  fileprivate func ofKey(_ path: String) -> StoreFault {
    if case .unparsable(_, let detail) = self {
      return .badKey(path: path, detail: "(`store.key_file`): \(detail)")
    }
    return self
  }
}
