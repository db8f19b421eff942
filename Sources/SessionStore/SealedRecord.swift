internal import BearerPolicy
internal import COpenSSL
internal import FoundationEssentials

/// A session's file as it is with a key: JSON that says which key opens it, the whole record encrypted within.
///
/// ```
/// {
///   "encrypted" : { "ciphertext" : base64, "key" : "1a2b3c4d", "nonce" : base64 },
///   "version" : 1
/// }
/// ```
/// AES-256-GCM (NIST SP 800-38D) with a random nonce of 96 bits for every write; the ciphertext ends with its tag of
/// 128 bits, and the session's name is the associated data, so that one session's file does not open as another's.
/// Random nonces are good for 2^32 writes under one key (§8.3): at 10 refreshes a second, six years.
struct SealedRecord: Codable {
  var version: Int
  var encrypted: Part

  struct Part: Codable {
    var key: String
    var nonce: Data
    var ciphertext: Data
  }

  static let nonceBytesCount = 12
  static let tagBytesCount = 16

  static func associatedData(_ name: SessionName) -> [UInt8] { Array("bearerd session 1\0\(name.text)".utf8) }
}

extension SealedRecord {
  /// The encrypted part of a session's file; nil where it is plain text.
  static func part(of fileBytes: [UInt8]) throws(RecordFault) -> Part? {
    var data = Data(fileBytes)
    // It may be plain text.
    defer { data.resetBytes(in: data.startIndex..<data.endIndex) }
    // The version first: a later one's encrypted part may be anything.
    let head = try SessionRecord.decode(Head.self, from: data)
    switch head.version {
    case SessionRecord.fileVersion: break
    case ...0: throw .member("version", problem: "is below 1")
    default: throw .futureVersion(head.version)
    }
    return head.isEncrypted ? try SessionRecord.decode(SealedRecord.self, from: data).encrypted : nil
  }

  private struct Head: Decodable {
    var version: Int
    var isEncrypted: Bool

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      version = try container.decode(Int.self, forKey: .version)
      isEncrypted = container.contains(.encrypted)
    }
  }

  /// nil where the cryptographic library fails.
  static func fileBytes(sealing plain: [UInt8], of name: SessionName, with key: StoreKey) -> [UInt8]? {
    var nonce = [UInt8](repeating: 0, count: nonceBytesCount)
    guard RAND_bytes(&nonce, Int32(nonceBytesCount)) == 1,
      let ciphertext = GCM.seal(plain, nonce: nonce, associated: associatedData(name), key)
    else { return nil }
    let sealed = SealedRecord(
      version: SessionRecord.fileVersion,
      encrypted: Part(key: key.id, nonce: Data(nonce), ciphertext: Data(ciphertext)))
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return (try? encoder.encode(sealed)).map { Array($0) + [UInt8(ascii: "\n")] }
  }
}

extension SealedRecord.Part {
  /// The record's bytes, which the caller wipes; nil where it was changed, or is another session's.
  func open(_ name: SessionName, with key: StoreKey) -> [UInt8]? {
    GCM.open(
      Array(ciphertext), nonce: Array(nonce), associated: SealedRecord.associatedData(name), key)
  }
}

/// AES-256-GCM by OpenSSL, in one piece.
private enum GCM {
  /// The ciphertext with its tag at the end; nil where the library fails.
  static func seal(_ plain: [UInt8], nonce: [UInt8], associated: [UInt8], _ key: StoreKey) -> [UInt8]? {
    withContext { context in
      var output = [UInt8](repeating: 0, count: plain.count + SealedRecord.tagBytesCount)
      var written: Int32 = 0
      var tag = [UInt8](repeating: 0, count: SealedRecord.tagBytesCount)
      let isReady = key.withPointer { EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, $0, nonce) } == 1
      guard isReady, EVP_EncryptUpdate(context, nil, &written, associated, Int32(associated.count)) == 1,
        EVP_EncryptUpdate(context, &output, &written, plain, Int32(plain.count)) == 1,
        Int(written) == plain.count, EVP_EncryptFinal_ex(context, &tag, &written) == 1,
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tag.count), &tag) == 1
      else { return nil }
      output.replaceSubrange(plain.count..., with: tag)
      return output
    }
  }

  /// nil where the tag does not fit the rest.
  static func open(_ sealed: [UInt8], nonce: [UInt8], associated: [UInt8], _ key: StoreKey) -> [UInt8]? {
    guard nonce.count == SealedRecord.nonceBytesCount, sealed.count > SealedRecord.tagBytesCount else {
      return nil
    }
    return withContext { context in
      let count = sealed.count - SealedRecord.tagBytesCount
      var output = [UInt8](repeating: 0, count: count)
      var written: Int32 = 0
      var tag = Array(sealed[count...])
      var rest = [UInt8](repeating: 0, count: 16)
      let isReady = key.withPointer { EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, $0, nonce) } == 1
      guard isReady, EVP_DecryptUpdate(context, nil, &written, associated, Int32(associated.count)) == 1,
        EVP_DecryptUpdate(context, &output, &written, sealed, Int32(count)) == 1, Int(written) == count,
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tag.count), &tag) == 1,
        EVP_DecryptFinal_ex(context, &rest, &written) == 1
      else {
        // Decrypted, though not proved: nobody may see it.
        wipe(&output)
        return nil
      }
      return output
    }
  }

  private static func withContext(_ body: (OpaquePointer) -> [UInt8]?) -> [UInt8]? {
    guard let context = EVP_CIPHER_CTX_new() else { return nil }
    // Zeroes the expanded key, too.
    defer { EVP_CIPHER_CTX_free(context) }
    return body(context)
  }
}

extension StoreKey {
  fileprivate func withPointer(_ body: (UnsafePointer<UInt8>?) -> Int32) -> Int32 {
    secret.withBytes { span in
      span.withUnsafeBytes { body($0.baseAddress?.assumingMemoryBound(to: UInt8.self)) }
    }
  }
}
