import BearerPolicy
import FoundationEssentials
import Glibc
import SessionStore
import Testing

/// Writes a key's file, closed to everybody else.
func makeKey(_ directory: TemporaryDirectory, _ name: String = "key") throws -> StoreKey {
  try StoreKey.generate(to: "\(directory.path)/\(name)")
}

@Suite("SPEC §5 the store's key") struct KeyTests {
  private let directory = TemporaryDirectory()
  private var path: String { directory.path + "/key" }
  /// 00 01 … 1f and its forms.
  private static let raw = [UInt8](0..<32)
  private static let hexadecimal = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
  private static let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
  /// SHA-256 of the 32 bytes begins so.
  private static let id = "630dcd29"

  private func put(_ bytes: [UInt8], mode: UInt32 = 0o600) {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    precondition(write(file, bytes, bytes.count) == bytes.count && fchmod(file, mode) == 0)
    close(file)
  }

  @Test(
    "32 raw bytes, 64 hexadecimal digits and base64 are the same key, with or without a line end",
    arguments: [
      raw, Array(hexadecimal.utf8), Array("\(hexadecimal.uppercased())\n".utf8), Array(base64.utf8),
      Array("\(base64)\r\n".utf8),
    ])
  func forms(_ bytes: [UInt8]) throws {
    put(bytes)
    let key = try StoreKey(file: path)
    #expect(key.id == Self.id)
  }

  @Test(
    "What is no key of 256 bits is refused with a remedy, and nothing of it is shown",
    arguments: [
      [], Array(raw.dropLast()), raw + [0x0A], Array(hexadecimal.dropLast().utf8),
      Array("\(hexadecimal)0".utf8),
      Array("g\(hexadecimal.dropFirst())".utf8), Array("AAEC".utf8), Array(base64.dropLast(2).utf8),
      Array("0123456789abcdef0123456789abcdef".utf8), Array("correct horse battery staple 012".utf8),
      [UInt8](repeating: 0x41, count: 100_000),
    ])
  func noKeys(_ bytes: [UInt8]) {
    put(bytes)
    let fault = #expect(throws: StoreFault.self) { try StoreKey(file: path) }
    guard case .badKey(path, let detail)? = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
    #expect(detail.contains("bearerd store generate-key"))
    #expect(bytes.isEmpty || !detail.contains(String(decoding: bytes.prefix(8), as: UTF8.self)))
    #expect(fault?.trouble.kind == .undecryptable)
  }

  @Test("A generated key reads back, is closed to everybody else, and is another one each time")
  func generated() throws {
    let one = try StoreKey.generate(to: path)
    let two = try StoreKey.generate(to: directory.path + "/two")
    #expect(try StoreKey(file: path) == one)
    #expect(one != two && one.id != two.id)
    #expect(mode(path) == 0o600)
    #expect(fileBytes(path).count == 65)
  }

  @Test("A key is never overwritten")
  func neverOverwritten() throws {
    _ = try StoreKey.generate(to: path)
    let before = fileBytes(path)
    let fault = #expect(throws: StoreFault.self) { try StoreKey.generate(to: path) }
    #expect(fault?.detail.contains("exists already") == true)
    #expect(fileBytes(path) == before)
  }

  @Test(
    "A file that others can read is refused; in the credentials directory a group may be given leave",
    arguments: [
      (0o600, false, true), (0o400, false, true), (0o440, false, false), (0o604, false, false),
      (0o620, false, false), (0o440, true, true), (0o444, true, false), (0o460, true, false),
    ] as [(UInt32, Bool, Bool)])
  func modes(_ mode: UInt32, _ isCredential: Bool, _ isGood: Bool) throws {
    put(Self.raw, mode: mode)
    if isGood {
      #expect(try StoreKey(file: path, isCredential: isCredential).id == Self.id)
    } else {
      let fault = #expect(throws: StoreFault.self) { try StoreKey(file: path, isCredential: isCredential) }
      guard case .wrongMode(path, _)? = fault else {
        Issue.record("\(String(describing: fault))")
        return
      }
    }
  }

  @Test("Another user's file is refused, unless the store is that user's", .enabled(if: geteuid() == 0))
  func owner() throws {
    put(Self.raw)
    chown(path, 12_345, 12_345)
    let fault = #expect(throws: StoreFault.self) { try StoreKey(file: path) }
    guard case .wrongOwner(path, _)? = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
    #expect(try StoreKey(file: path, storeOwner: 12_345).id == Self.id)
  }

  @Test("A link is followed, as containers mount keys; a directory or nothing at all is named")
  func links() throws {
    put(Self.raw)
    symlink(path, directory.path + "/link")
    #expect(try StoreKey(file: directory.path + "/link").id == Self.id)
    for wrong in [directory.path, directory.path + "/absent"] {
      let fault = #expect(throws: StoreFault.self) { try StoreKey(file: wrong) }
      guard case .badKey(wrong, let detail)? = fault else {
        Issue.record("\(String(describing: fault))")
        return
      }
      #expect(detail.contains("store.key_file"))
    }
  }

  @Test("I10: no description shows the key")
  func redacted() throws {
    put(Array(Self.hexadecimal.utf8))
    let key = try StoreKey(file: path)
    var dumped = ""
    dump(key, to: &dumped)
    for text in ["\(key)", String(reflecting: key), dumped] {
      #expect(!text.contains("0102") && !text.contains("1, 2, 3"))
    }
  }
}
