public import BearerPolicy
internal import COpenSSL

/// SHA-256 (FIPS 180-4) as lower-case hexadecimal digits.
func sha256Hexadecimal(_ bytes: RawSpan) -> String {
  var digest = [UInt8](repeating: 0, count: 32)
  bytes.withUnsafeBytes { input in
    // A null start is allowed only with OpenSSL's own idea of "nothing", so an empty span hashes one unread byte.
    var unread: UInt8 = 0
    if let start = input.baseAddress {
      COpenSSL.SHA256(start, input.count, &digest)
    } else {
      COpenSSL.SHA256(&unread, 0, &digest)
    }
  }
  let digits = Array("0123456789abcdef".utf8)
  var text = [UInt8]()
  text.reserveCapacity(64)
  for byte in digest {
    text.append(digits[Int(byte >> 4)])
    text.append(digits[Int(byte & 15)])
  }
  return String(decoding: text, as: UTF8.self)
}

extension FileSessionStore {
  /// What stands for a refresh token in `spent`, in an intent and in the index: it cannot be turned back.
  public static func fingerprint(of secret: Secret) -> Fingerprint {
    Fingerprint(hexadecimal: secret.withBytes { sha256Hexadecimal($0) })
  }
}

extension Fingerprint {
  /// 64 lower-case hexadecimal digits: anything else must not become part of a path.
  var isWellFormed: Bool {
    hexadecimal.utf8.count == 64
      && hexadecimal.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }
}
