import BearerPolicy
import Chronology
import FoundationEssentials
import Glibc
import SessionStore
import Synchronization

/// A directory of one test, removed with the value.
final class TemporaryDirectory: Sendable {
  let path: String

  init() {
    var template = Array("/tmp/bearerd-store-XXXXXX".utf8CString)
    template.withUnsafeMutableBufferPointer { buffer in
      precondition(mkdtemp(buffer.baseAddress!) != nil, "mkdtemp: errno \(errno)")
    }
    path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// Every file below, relative to the state directory, but for lock files; sorted.
  func files() -> [String] {
    let all = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? []
    return all.filter { name in
      var status = stat()
      return lstat("\(path)/\(name)", &status) == 0 && status.st_mode & S_IFMT != S_IFDIR
        && !name.hasSuffix(".lock")
    }.sorted()
  }

  /// The only session file.
  func sessionPath() -> String {
    let found = files().filter { $0.hasPrefix("sessions/") && $0.hasSuffix(".json") }
    precondition(found.count == 1, "one session file, not \(found)")
    return "\(path)/\(found[0])"
  }
}

func fileBytes(_ path: String) -> [UInt8] {
  (FileManager.default.contents(atPath: path)).map { Array($0) } ?? []
}

func overwrite(_ path: String, _ text: String) { write(text, to: path, O_TRUNC) }

func makeFile(_ path: String, _ text: String) { write(text, to: path, O_CREAT | O_EXCL) }

private func write(_ text: String, to path: String, _ flags: Int32) {
  let file = open(path, O_WRONLY | flags, 0o600)
  precondition(file >= 0, "open \(path): errno \(errno)")
  let bytes = Array(text.utf8)
  precondition(write(file, bytes, bytes.count) == bytes.count)
  close(file)
}

func mode(_ path: String) -> UInt32 {
  var status = stat()
  return stat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
}

/// Fails calls by a rule, and keeps what was called. A sync that does not fail is not done.
final class FaultScript: Sendable {
  struct Event: Equatable {
    var call: Disk.Call
    var path: String
  }
  private let state: Mutex<(events: [Event], isOn: Bool)> = Mutex(([], false))
  private let rule: @Sendable (_ number: Int, _ event: Event) -> Int32?

  /// `number` counts the calls since `start()`, from 0.
  init(_ rule: @escaping @Sendable (_ number: Int, _ event: Event) -> Int32? = { _, _ in nil }) {
    self.rule = rule
  }

  func start() { state.withLock { $0 = ([], true) } }
  func stop() { state.withLock { $0.isOn = false } }
  var events: [Event] { state.withLock { $0.events } }

  var disk: Disk {
    Disk { [self] call, path in
      let place = state.withLock { state -> (Int, Event)? in
        guard state.isOn else { return nil }
        let event = Event(call: call, path: path)
        state.events.append(event)
        return (state.events.count - 1, event)
      }
      if let code = place.flatMap({ rule($0.0, $0.1) }) { return code }
      // Nothing here outlives the test, so nothing waits for the disk.
      return call == .sync || call == .syncDirectory ? 0 : nil
    }
  }
}

/// For a lock that nobody else holds: a process that another test is just starting has copies of our descriptors until
/// its exec, and of their locks with them.
let inTime = Instant.never

/// Every instant is later: one try, no wait.
let atOnce = Instant(nanoseconds: 0)

func makeRecord(
  _ name: String = "alice", generation: UInt64 = 1, access: String? = "ACCESS-1",
  refresh: String? = "REFRESH-1",
  standing: SessionRecord.Standing = .active, intent: SessionRecord.Intent? = nil, spent: [String] = []
) -> SessionRecord {
  SessionRecord(
    name: name, provider: "acme", generation: generation, accessToken: access.map { Secret($0) },
    refreshToken: refresh.map { Secret($0) }, obtainedAt: WallTime(milliseconds: 1_700_000_000_123),
    expiresAt: WallTime(seconds: 1_700_000_900), expirySource: .expiresIn, isImported: true, standing: standing,
    intent: intent, spent: spent.map(fingerprint))
}

func fingerprint(_ token: String) -> Fingerprint { FileSessionStore.fingerprint(of: Secret(token)) }

func makeIntent(_ token: String = "REFRESH-1") -> SessionRecord.Intent {
  SessionRecord.Intent(
    fingerprint: fingerprint(token), startedAt: WallTime(milliseconds: 1_700_000_800_001),
    trigger: .unauthorized)
}

extension FileSessionStore {
  /// Stores a session as the commands do, without the rules of `add`.
  func seed(_ record: SessionRecord) throws {
    let lock = try lock(record.name, until: inTime)
    try create(record, lock: lock)
    lock.release()
  }
}
