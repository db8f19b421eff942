import BearerPolicy
import Glibc
import SessionStore
import Testing

@Suite("SPEC §5 session names as file names") struct SessionNameTests {
  static let table: [(name: String, file: String)] = [
    ("alice", "alice.json"),
    ("A-z_0~9.x", "A-z_0~9.x.json"),
    (".", "%2E.json"),
    ("..", "%2E..json"),
    (".hidden", "%2Ehidden.json"),
    ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd.json"),
    ("a/b", "a%2Fb.json"),
    ("a b+c@d", "a%20b%2Bc%40d.json"),
    ("100%", "100%25.json"),
    ("a%2Fb", "a%252Fb.json"),
    ("x.json", "x.json.json"),
    ("x.lock", "x.lock.json"),
    ("zoë", "zo%C3%AB.json"),
    ("zoe\u{308}", "zoe%CC%88.json"),
    ("日本", "%E6%97%A5%E6%9C%AC.json"),
    (String(repeating: "n", count: 200), String(repeating: "n", count: 200) + ".json"),
  ]

  @Test("A name becomes one file inside its directory and is found again", arguments: table)
  func encodes(_ row: (name: String, file: String)) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord(row.name, refresh: nil))
    let parts = try #require(directory.files().first).split(separator: "/")
    #expect(directory.files().count == 1)
    #expect(parts.count == 3)
    #expect(parts[0] == "sessions")
    #expect(String(parts[2]) == row.file)
    #expect(FileSessionStore.sessionName(fileName: row.file).map { Array($0.utf8) } == Array(row.name.utf8))
    #expect(try store.load(row.name) == makeRecord(row.name, refresh: nil))
    #expect(try store.names(limit: 9).map { Array($0.utf8) } == [Array(row.name.utf8)])
  }

  @Test("Spellings of the same characters by other bytes are other sessions")
  func canonicalEquivalents() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord("zoë", refresh: "ONE"))
    #expect(throws: StoreFault.self) { try store.load("zoe\u{308}") }
    try store.seed(makeRecord("zoe\u{308}", refresh: "TWO"))
    #expect(try store.load("zoë").refreshToken == Secret("ONE"))
  }

  @Test(
    "A name outside the rules is refused, with the rule",
    arguments: [
      ("", "empty"), (String(repeating: "n", count: 201), "201 bytes"), ("a\nb", "control"),
      ("a\u{0}b", "control"),
      ("a\u{7F}", "control"), ("\u{85}", "control"), (String(repeating: "é", count: 100), "percent-encoded"),
    ])
  func refuses(_ name: String, _ rule: String) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    for attempt in [{ _ = try store.load(name) }, { _ = try store.tryLock(name) }] {
      let fault = #expect(throws: StoreFault.self) { try attempt() }
      guard case .badName(let detail)? = fault else {
        Issue.record("\(String(describing: fault))")
        return
      }
      #expect(detail.contains(rule))
    }
    #expect(store.stamp(name) == nil)
    #expect(directory.files() == [])
  }

  @Test(
    "A file name no session has is nobody's",
    arguments: [
      "alice", "alice.lock", ".json", "a%2fb.json", "a%2.json", "%61.json", ".x.json", "a/b.json", "%FF.json",
    ])
  func foreignFiles(_ file: String) {
    #expect(FileSessionStore.sessionName(fileName: file) == nil)
  }
}

@Suite("SPEC §5 sessions in pages") struct PagingTests {
  @Test("Pages come in byte order, follow one another, and pass over what is no session")
  func pages() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let names = ["b", "a", "B", "a/x", "..", "ä", "a.json", "load-10", "load-9", "日本"]
    for name in names { try store.seed(makeRecord(name, refresh: nil)) }
    let sorted = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    for limit in [1, 2, 3, 9, 10, 11, Int.max] {
      var seen = [String]()
      while true {
        let page = try store.names(after: seen.last, limit: limit)
        #expect(page.count <= limit)
        if page.isEmpty { break }
        seen += page
      }
      #expect(seen == sorted, "limit \(limit)")
    }
    #expect(try store.names(after: "a0", limit: 1) == ["b"])
    #expect(try store.names(limit: 0) == [])
    #expect(try store.names(limit: -1) == [])
  }

  private func name(_ number: Int) -> String { "load-" + String(String(100_000 + number).dropFirst()) }

  @Test("20 000 sessions: start, listing and one load leave the others unread")
  func many() throws {
    let directory = TemporaryDirectory()
    try FileSessionStore(stateDirectory: directory.path).seed(makeRecord(name(0), refresh: nil))
    let text = String(decoding: fileBytes(directory.sessionPath()), as: UTF8.self)
    for number in 1..<20_000 {
      let shard = "\(directory.path)/sessions/\(fingerprint(name(number)).hexadecimal.prefix(2))"
      mkdir(shard, 0o700)
      makeFile("\(shard)/\(name(number)).json", text.replacingOnce(name(0), name(number)))
    }
    let script = FaultScript()
    script.start()
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    #expect(script.events.count < 20)
    #expect(try store.names(after: "load-19989", limit: 100) == (19_990..<20_000).map(name))
    #expect(try store.names(limit: 3) == (0..<3).map(name))
    #expect(!script.events.contains { $0.call == .read })
    #expect(try store.load(name(12_345)).name == name(12_345))
    #expect(script.events.filter { $0.call == .open && $0.path.hasSuffix(".json") }.count == 1)
  }
}
