/// A session's name that has been checked, with the place its files have.
///
/// 1 to 200 bytes of UTF-8 without control characters. In file names every byte but RFC 3986 §2.3's unreserved
/// ones is percent-encoded, and so is a leading dot: no name can leave its directory or hide in it.
struct SessionName {
  let text: String
  let encoded: String
  /// Two hexadecimal digits: the first byte of the name's SHA-256, so that 100 000 sessions are 400 to a directory.
  let shard: String

  static let bytesMax = 200
  /// NAME_MAX (255) less the longest suffix, `.result`.
  static let encodedBytesMax = 248

  init(_ text: String) throws(StoreFault) {
    let count = text.utf8.count
    guard count > 0 else { throw .badName(detail: "it is empty") }
    guard count <= Self.bytesMax else {
      throw .badName(detail: "it has \(count) bytes, at most \(Self.bytesMax) are allowed")
    }
    guard !text.unicodeScalars.contains(where: Self.isControl) else {
      throw .badName(detail: "it contains a control character")
    }
    let encoded = Self.encode(text)
    guard encoded.utf8.count <= Self.encodedBytesMax else {
      throw .badName(
        detail:
          "percent-encoded it has \(encoded.utf8.count) bytes, at most \(Self.encodedBytesMax) fit "
          + "a file's name; use fewer characters other than letters, digits and “-._~”")
    }
    self.text = text
    self.encoded = encoded
    shard = Self.shard(of: text)
  }

  /// The session whose files have this encoded name; nil for a name no session's files have.
  init?(encoded: some StringProtocol) {
    guard let text = Self.decode(encoded), let name = try? SessionName(text), name.encoded == encoded else {
      return nil
    }
    self = name
  }

  static func encode(_ text: String) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes = [UInt8]()
    for (index, byte) in text.utf8.enumerated() {
      if isUnreserved(byte), !(index == 0 && byte == UInt8(ascii: ".")) {
        bytes.append(byte)
      } else {
        bytes.append(UInt8(ascii: "%"))
        bytes.append(digits[Int(byte >> 4)])
        bytes.append(digits[Int(byte & 15)])
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// What the name would be if it is one; far cheaper than finding out.
  static func decode(_ encoded: some StringProtocol) -> String? {
    var bytes = [UInt8]()
    var rest = encoded.utf8[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let high = rest.popFirst().flatMap(value(ofDigit:)),
        let low = rest.popFirst().flatMap(value(ofDigit:))
      else { return nil }
      bytes.append(high << 4 | low)
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func value(ofDigit byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x41 + 10
    default: nil
    }
  }

  /// Unicode's category Cc, which is these and no others; asking for the category costs more than all the rest of
  /// listing a name.
  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
  }

  private static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
    default: false
    }
  }

  private static func shard(of text: String) -> String {
    String(sha256Hexadecimal(Array(text.utf8).span.bytes).prefix(2))
  }
}

extension String {
  /// Whether both have the same bytes; `==` also equates different spellings of the same characters, which are
  /// different sessions.
  func hasSameBytes(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}
