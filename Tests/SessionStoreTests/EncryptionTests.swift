import BearerPolicy
import FoundationEssentials
import Glibc
import SessionStore
import Testing

@Suite("SPEC §5 encryption at rest") struct EncryptionTests {
  private let directory = TemporaryDirectory()

  private func store(_ key: StoreKey?) throws -> FileSessionStore {
    try FileSessionStore(stateDirectory: directory.path, key: key)
  }

  @Test("What is written comes back, and no word of it stands in the file")
  func roundTrip() throws {
    let key = try makeKey(directory)
    let store = try store(key)
    let record = makeRecord(intent: makeIntent(), spent: ["OLD"])
    try store.seed(record)
    #expect(try store.load("alice") == record)
    let text = String(decoding: fileBytes(directory.sessionPath()), as: UTF8.self)
    for word in ["alice", "ACCESS", "REFRESH", "acme", fingerprint("OLD").hexadecimal] {
      #expect(!text.contains(word), "\(word)")
    }
    #expect(text.contains(#""version" : 1"#) && text.contains(#""key" : "\#(key.id)""#))
    #expect(mode(directory.sessionPath()) == 0o600)
  }

  @Test("No two writes have the same nonce, nor the same ciphertext")
  func freshNonce() throws {
    let store = try store(try makeKey(directory))
    try store.seed(makeRecord())
    let lock = try store.lock("alice", until: inTime)
    var seen = Set<String>()
    for _ in 0..<50 {
      try store.replace(makeRecord(), lock: lock)
      let fields = String(decoding: fileBytes(directory.sessionPath()), as: UTF8.self).split(separator: "\"")
      let nonce = try #require(fields.firstIndex(of: "nonce").map { fields[$0 + 2] })
      let cipher = try #require(fields.firstIndex(of: "ciphertext").map { fields[$0 + 2] })
      #expect(nonce.utf8.count == 16)
      seen.insert(String(nonce))
      seen.insert(String(cipher))
    }
    #expect(seen.count == 100)
  }

  @Test("A whole refresh works, and nothing it leaves on the way is plain")
  func refresh() throws {
    let seen = Box([[UInt8]]())
    let script = FaultScript { _, event in
      if event.call == .rename { seen.value.append(fileBytes(event.path)) }
      if event.call == .sync { seen.value.append(fileBytes(event.path)) }
      return nil
    }
    let key = try makeKey(directory)
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk, key: key)
    try store.seed(makeRecord())
    script.start()
    let lock = try store.lock("alice", until: inTime)
    let reserved = try store.writeIntent(makeRecord(intent: makeIntent()), lock: lock)
    let result = makeRecord(generation: 2, access: "ACCESS-2", refresh: String(repeating: "R", count: 40_000))
    try store.writeResult(result, into: reserved, lock: lock)
    script.stop()
    #expect(try self.store(key).load("alice") == result)
    #expect(seen.value.count > 4)
    for bytes in seen.value {
      let text = String(decoding: bytes, as: UTF8.self)
      #expect(!text.contains("ACCESS") && !text.contains("RRRR"))
    }
  }

  /// Everything a store may be asked to do with a session that is not its own to read.
  private static let operations: [(name: String, run: @Sendable (FileSessionStore) throws -> Void)] = [
    ("load", { _ = try $0.load("alice") }),
    (
      "add",
      { _ = try $0.add(makeRecord(refresh: "N"), refreshTokenFingerprint: fingerprint("N"), force: true) }
    ),
    ("replace", { try $0.replace(makeRecord(generation: 9), lock: try $0.lock("alice", until: atOnce)) }),
    ("create", { try $0.create(makeRecord(generation: 9), lock: try $0.lock("alice", until: atOnce)) }),
    (
      "intent",
      { _ = try $0.writeIntent(makeRecord(intent: makeIntent()), lock: try $0.lock("alice", until: atOnce)) }
    ),
    ("remove", { try $0.remove("alice", lock: try $0.lock("alice", until: atOnce)) }),
  ]

  private func expectUntouched(
    _ index: Int, _ store: FileSessionStore, _ matches: (StoreFault) -> Bool
  ) throws {
    let path = directory.sessionPath()
    let before = fileBytes(path)
    let files = directory.files()
    var fault: StoreFault?
    do {
      try Self.operations[index].run(store)
    } catch let error as StoreFault {
      fault = error
    } catch AddFailure.store(let error) {
      fault = error
    }
    let found = try #require(fault, "\(Self.operations[index].name) went through")
    #expect(matches(found), "\(found)")
    #expect(found.trouble.kind == .undecryptable)
    #expect(fileBytes(path) == before)
    #expect(directory.files() == files)
  }

  @Test("Wrong key: every operation says which one is wanted, and the file stays as it is", arguments: 0..<6)
  func wrongKey(_ index: Int) throws {
    let right = try makeKey(directory, "right")
    let wrong = try makeKey(directory, "wrong")
    try store(right).seed(makeRecord())
    try expectUntouched(index, try store(wrong)) { fault in
      guard case .undecryptable(_, let detail) = fault else { return false }
      return detail.contains(right.id) && detail.contains(wrong.id) && detail.contains("store.key_file")
    }
  }

  @Test("No key: every operation asks for one, and the file stays as it is", arguments: 0..<6)
  func noKey(_ index: Int) throws {
    let key = try makeKey(directory)
    try store(key).seed(makeRecord())
    try expectUntouched(index, try store(nil)) { fault in
      guard case .undecryptable(_, let detail) = fault else { return false }
      return detail.contains(key.id) && detail.contains("set `store.key_file`")
    }
  }

  @Test("With a key a plain file is refused, so that nobody slips one in, and stays as it is", arguments: 0..<6)
  func plainFile(_ index: Int) throws {
    try store(nil).seed(makeRecord())
    let path = directory.sessionPath()
    try expectUntouched(index, try store(try makeKey(directory))) { fault in
      fault == .notEncrypted(path: path) && fault.detail.contains("bearerd store encrypt")
    }
  }

  @Test("Sessions' files that changed places do not open")
  func swapped() throws {
    let store = try store(try makeKey(directory))
    try store.seed(makeRecord("alice"))
    try store.seed(makeRecord("bob"))
    let paths = directory.files().filter { $0.hasSuffix(".json") }.map { "\(directory.path)/\($0)" }
    try #require(paths.count == 2)
    let contents = paths.map(fileBytes)
    overwrite(paths[0], String(decoding: contents[1], as: UTF8.self))
    overwrite(paths[1], String(decoding: contents[0], as: UTF8.self))
    for name in ["alice", "bob"] {
      let fault = #expect(throws: StoreFault.self) { try store.load(name) }
      guard case .undecryptable(_, let detail)? = fault else {
        Issue.record("\(String(describing: fault))")
        continue
      }
      #expect(detail.contains("another session's"))
    }
  }

  @Test("Every bit of nonce, ciphertext and tag counts")
  func bitFlips() throws {
    struct Sealed: Codable {
      struct Part: Codable {
        var key: String
        var nonce: Data
        var ciphertext: Data
      }
      var version: Int
      var encrypted: Part
    }
    let store = try store(try makeKey(directory))
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    let good = try JSONDecoder().decode(Sealed.self, from: Data(fileBytes(path)))
    var changed = [Sealed]()
    for bit in 0..<good.encrypted.nonce.count * 8 {
      var bad = good
      bad.encrypted.nonce[bit / 8] ^= 1 << UInt8(bit % 8)
      changed.append(bad)
    }
    // The tag, and every 29th bit of the rest.
    let bits = good.encrypted.ciphertext.count * 8
    for bit in Array(stride(from: 0, to: bits - 128, by: 29)) + Array(bits - 128..<bits) {
      var bad = good
      bad.encrypted.ciphertext[bit / 8] ^= 1 << UInt8(bit % 8)
      changed.append(bad)
    }
    for count in [0, 1, 15, 16, 17, good.encrypted.ciphertext.count - 1] {
      var bad = good
      bad.encrypted.ciphertext = good.encrypted.ciphertext.prefix(count)
      changed.append(bad)
    }
    for count in [0, 11] {
      var bad = good
      bad.encrypted.nonce = good.encrypted.nonce.prefix(count)
      changed.append(bad)
    }
    for bad in changed {
      overwrite(path, String(decoding: try JSONEncoder().encode(bad), as: UTF8.self))
      let fault = #expect(throws: StoreFault.self) { try store.load("alice") }
      #expect(fault?.trouble.kind == .undecryptable)
    }
    overwrite(path, String(decoding: try JSONEncoder().encode(good), as: UTF8.self))
    #expect(try store.load("alice") == makeRecord())
  }

  @Test(
    "A damaged envelope is unparsable, and a later version of it is that",
    arguments: [
      (#"{"version":1,"encrypted":{}}"#, "encrypted.key"), (#"{"version":1,"encrypted":7}"#, "encrypted"),
      (#"{"version":1,"encrypted":{"key":"k","nonce":"*","ciphertext":""}}"#, "encrypted.nonce"), ("{", "JSON"),
    ])
  func envelope(_ text: String, _ word: String) throws {
    let store = try store(try makeKey(directory))
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    overwrite(path, text)
    let fault = #expect(throws: StoreFault.self) { try store.load("alice") }
    guard case .unparsable(path, let detail)? = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
    #expect(detail.contains(word))
    overwrite(path, #"{"version":2,"encrypted":{}}"#)
    #expect(throws: StoreFault.futureVersion(path: path, version: 2)) { try store.load("alice") }
  }

  @Test("A key's name in a file that is no name is not repeated")
  func forgedKeyName() throws {
    let store = try store(nil)
    try store.seed(makeRecord())
    overwrite(
      directory.sessionPath(), #"{"version":1,"encrypted":{"key":"\u001b[2J","nonce":"","ciphertext":""}}"#)
    let fault = #expect(throws: StoreFault.self) { try store.load("alice") }
    #expect(fault?.detail.contains("another key") == true && fault?.detail.contains("\u{1b}") == false)
  }
}
