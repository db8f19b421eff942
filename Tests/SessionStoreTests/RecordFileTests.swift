import BearerPolicy
import Chronology
import SessionStore
import Testing

@Suite("SPEC §5 session file format") struct RecordFileTests {
  static let records: [SessionRecord] = {
    var all = [makeRecord(), makeRecord(access: nil, refresh: nil)]
    for source in ExpirySource.allCases {
      var record = makeRecord()
      record.expirySource = source
      all.append(record)
    }
    for trigger in RefreshTrigger.allCases {
      var record = makeRecord(intent: makeIntent(), spent: ["a", "b"])
      record.intent?.trigger = trigger
      all.append(record)
    }
    let since = WallTime(milliseconds: 1_600_000_000_009)
    all.append(makeRecord(refresh: nil, standing: .fenced(reason: "outcome_unknown", since: since)))
    all.append(makeRecord(access: nil, refresh: nil, standing: .dead(reason: "invalid_grant", since: since)))
    for milliseconds in [Int64.min, -1, 0, 1, 999, 253_402_300_799_999, 253_402_300_800_000, .max] {
      var record = makeRecord(generation: .max)
      record.expiresAt = WallTime(milliseconds: milliseconds)
      record.isImported = false
      record.graceUsed = true
      record.unknownCause = "http_502"
      record.graceUntil = WallTime(milliseconds: milliseconds)
      record.backoff = .init(
        failures: .max, since: since, until: WallTime(milliseconds: milliseconds), reason: "503 \"busy\" \\ / é")
      record.configurationFault = .init(code: "http_404", since: since, settings: "abc")
      all.append(record)
    }
    return all
  }()

  @Test("What is written is what is read", arguments: records)
  func roundTrip(_ record: SessionRecord) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(record)
    #expect(try FileSessionStore(stateDirectory: directory.path).load(record.name) == record)
  }

  @Test("A back-off that was written without its beginning is read as one of the longest")
  func backoffWithoutBeginning() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    let until = WallTime(milliseconds: 1_700_000_600_000)
    var record = makeRecord()
    record.backoff = .init(failures: 2, since: until, until: until, reason: "connect")
    try store.seed(record)
    let text = String(decoding: fileBytes(directory.sessionPath()), as: UTF8.self)
    let older = text.split(separator: "\n").filter { !$0.contains("\"since\" : \"2023-11-14T22:23:20Z\"") }
    #expect(older.count == text.split(separator: "\n").count - 1)
    overwrite(directory.sessionPath(), older.joined(separator: "\n"))
    let backoff = try FileSessionStore(stateDirectory: directory.path).load(record.name).backoff
    #expect(backoff?.since == WallTime(milliseconds: 1_700_000_000_000) && backoff?.until == until)
  }

  @Test("A person can read it: named members, calendar times, the version")
  func readable() throws {
    let directory = TemporaryDirectory()
    try FileSessionStore(stateDirectory: directory.path).seed(makeRecord(intent: makeIntent()))
    let text = String(decoding: fileBytes(directory.sessionPath()), as: UTF8.self)
    for member in [
      #""version" : 1"#, #""name" : "alice""#, #""access_token" : "ACCESS-1""#, #""state" : "active""#,
      #""obtained_at" : "2023-11-14T22:13:20.123Z""#, #""expires_at" : "2023-11-14T22:28:20Z""#,
      #""trigger" : "401""#,
    ] {
      #expect(text.contains(member))
    }
    #expect(text.hasSuffix("}\n"))
  }

  /// Each takes a good file's text and damages it; the word is what the fault must name.
  static let damages: [(word: String, damage: @Sendable (String) -> String)] = [
    ("JSON", { _ in "" }),
    ("JSON", { _ in "[]" }),
    ("JSON", { _ in "null" }),
    ("JSON", { String($0.prefix($0.count / 2)) }),
    ("JSON", { $0 + "\u{0}\u{0}" }),
    ("version", { $0.replacingOnce(#""version" : 1"#, #""version" : "1""#) }),
    ("version", { $0.replacingOnce(#""version" : 1"#, #""version" : 0"#) }),
    ("version", { $0.replacingOnce(#""version" : 1"#, #""other" : 1"#) }),
    ("generation", { $0.replacingOnce(#""generation" : 1"#, #""generation" : "1""#) }),
    ("JSON", { $0.replacingOnce(#""generation" : 1"#, #""generation" : -1"#) }),
    ("access_token", { $0.replacingOnce(#""ACCESS-1""#, "7") }),
    ("obtained_at", { $0.replacingOnce("2023-11-14T22:13:20.123Z", "2023-13-14T22:13:20Z") }),
    ("obtained_at", { $0.replacingOnce("2023-11-14T22:13:20.123Z", "yesterday") }),
    ("expiry_source", { $0.replacingOnce(#""expires_in""#, #""tea leaves""#) }),
    ("standing", { $0.replacingOnce(#""active""#, #""asleep""#) }),
    ("standing", { $0.replacingOnce(#""active""#, #""dead""#) }),
    ("intent.trigger", { $0.replacingOnce(#""401""#, #""402""#) }),
    ("intent.fingerprint", { $0.replacingOnce(#""fingerprint" : ""#, #""fingerprint" : "../"#) }),
    ("spent", { $0.replacingOnce(#""spent" : ["#, #""spent" : ["XYZ","#) }),
    ("name", { $0.replacingOnce(#""name" : "alice""#, #""name" : "bob""#) }),
  ]

  @Test(
    "A file that does not parse is refused, named by member without any token, and left as it is",
    arguments: damages.indices)
  func unparsable(_ index: Int) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord(intent: makeIntent(), spent: ["x"]))
    let path = directory.sessionPath()
    let good = String(decoding: fileBytes(path), as: UTF8.self)
    let bad = Self.damages[index].damage(good)
    #expect(bad != good)
    overwrite(path, bad)
    let fault = #expect(throws: StoreFault.self) { try store.load("alice") }
    guard case .unparsable(let named, let detail)? = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
    #expect(named == path)
    #expect(detail.contains(Self.damages[index].word), "\(detail)")
    for token in ["ACCESS-1", "REFRESH-1"] { #expect(!fault!.detail.contains(token)) }
    // Nor does adding over it take it for an absent session.
    let add = #expect(throws: AddFailure.self) {
      try store.add(makeRecord(refresh: "NEW"), refreshTokenFingerprint: fingerprint("NEW"), force: true)
    }
    #expect(add == .store(fault!))
    #expect(fileBytes(path) == Array(bad.utf8))
  }

  @Test("A later format version is refused as such and left as it is")
  func future() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    overwrite(path, #"{"version": 2, "sealed": "…"}"#)
    #expect(throws: StoreFault.futureVersion(path: path, version: 2)) { try store.load("alice") }
    #expect(String(decoding: fileBytes(path), as: UTF8.self) == #"{"version": 2, "sealed": "…"}"#)
  }

  @Test(
    "Times written by hand are read as RFC 3339 or as milliseconds",
    arguments: [
      (#""2023-11-14T22:13:20Z""#, 1_700_000_000_000), (#""2023-11-14t22:13:20.5z""#, 1_700_000_000_500),
      (#""2023-11-14T23:13:20.0129+01:00""#, 1_700_000_000_012),
      (#""2023-11-14T16:43:20-05:30""#, 1_700_000_000_000),
      ("1700000000123", 1_700_000_000_123), ("-5", -5),
    ] as [(String, Int64)])
  func times(_ text: String, _ milliseconds: Int64) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    let good = String(decoding: fileBytes(path), as: UTF8.self)
    overwrite(path, good.replacingOnce(#""2023-11-14T22:13:20.123Z""#, text))
    #expect(try store.load("alice").obtainedAt == WallTime(milliseconds: milliseconds))
  }

  @Test(
    "What only looks like a time is none",
    arguments: [
      "2023-11-14", "2023-11-14T22:13Z", "2023-11-14T22:13:20", "2023-11-14T22:13:20.Z", "2023-02-29T00:00:00Z",
      "2023-11-14T24:13:20Z", "2023-11-14T22:13:20+1:00", "2023-11-14T22:13:20ZZ", "02023-11-14T22:13:20Z",
    ])
  func noTimes(_ text: String) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    overwrite(
      path, String(decoding: fileBytes(path), as: UTF8.self).replacingOnce("2023-11-14T22:13:20.123Z", text))
    #expect(throws: StoreFault.unparsable(path: path, detail: "“obtained_at” is malformed")) {
      try store.load("alice")
    }
  }
}

@Suite("FIPS 180-4 SHA-256 fingerprints") struct FingerprintTests {
  @Test(
    "Known digests",
    arguments: [
      ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
      ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ])
  func digests(_ text: String, _ digest: String) {
    #expect(FileSessionStore.fingerprint(of: Secret(text)).hexadecimal == digest)
  }
}

extension String {
  func replacingOnce(_ old: String, _ new: String) -> String {
    guard let range = firstRange(of: old) else { return self }
    return replacingCharacters(in: range, new)
  }

  private func replacingCharacters(in range: Range<String.Index>, _ new: String) -> String {
    var copy = self
    copy.replaceSubrange(range, with: new)
    return copy
  }
}
