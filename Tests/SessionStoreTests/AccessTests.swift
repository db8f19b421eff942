import FoundationEssentials
import Glibc
import SessionStore
import Testing

@Suite("SPEC §5 owner and mode") struct AccessTests {
  @Test("What the store makes is closed to everybody else, whatever the umask allows")
  func modes() throws {
    let directory = TemporaryDirectory()
    let state = directory.path + "/deep/state"
    let store = try FileSessionStore(stateDirectory: state + "//")
    _ = try store.add(makeRecord(), refreshTokenFingerprint: fingerprint("REFRESH-1"))
    let all = try FileManager.default.subpathsOfDirectory(atPath: directory.path)
    #expect(all.count >= 9)
    for path in all {
      var status = stat()
      #expect(lstat("\(directory.path)/\(path)", &status) == 0)
      #expect(status.st_mode & 0o7777 == (status.st_mode & S_IFMT == S_IFDIR ? 0o700 : 0o600), "\(path)")
    }
    #expect(store.sessionsDirectory == state + "/sessions")
  }

  @Test(
    "A directory that others can reach is refused at the start, with the remedy",
    arguments: [
      ("", 0o770, "chmod go-w"), ("", 0o702, "chmod go-w"), ("/sessions", 0o755, "chmod 700"),
      ("/sessions", 0o710, "chmod 700"), ("/fingerprints", 0o704, "chmod 700"),
    ] as [(String, UInt32, String)])
  func openDirectories(_ below: String, _ bits: UInt32, _ remedy: String) throws {
    let directory = TemporaryDirectory()
    _ = try FileSessionStore(stateDirectory: directory.path)
    chmod(directory.path + below, bits)
    let fault = #expect(throws: StoreFault.self) { try FileSessionStore(stateDirectory: directory.path) }
    guard case .wrongMode(directory.path + below, let detail)? = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
    #expect(detail.contains(remedy) && detail.contains(String(bits, radix: 8)))
    #expect(mode(directory.path + below) == bits)
  }

  @Test("A state directory that others can only read is accepted: nothing in it is readable")
  func readableState() throws {
    let directory = TemporaryDirectory()
    chmod(directory.path, 0o755)
    _ = try FileSessionStore(stateDirectory: directory.path)
  }

  @Test("A session file that others can read is refused", arguments: [0o640, 0o604, 0o620] as [UInt32])
  func openFile(_ bits: UInt32) throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    chmod(path, bits)
    let fault = #expect(throws: StoreFault.self) { try store.load("alice") }
    guard case .wrongMode(path, let detail)? = fault else {
      Issue.record("\(String(describing: fault))")
      return
    }
    #expect(detail.contains("chmod 600"))
    chmod(path, 0o600)
    #expect(try store.load("alice") == makeRecord())
  }

  @Test("Another user's files and directories are refused, naming both", .enabled(if: geteuid() == 0))
  func foreignOwner() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    chown(path, 12_345, 12_345)
    let ofFile = #expect(throws: StoreFault.self) { try store.load("alice") }
    #expect(ofFile?.detail.contains("uid 12345, not to uid 0") == true)
    chown(store.sessionsDirectory, 12_345, 12_345)
    let ofDirectory = #expect(throws: StoreFault.self) { try FileSessionStore(stateDirectory: directory.path) }
    guard case .wrongOwner(store.sessionsDirectory, _)? = ofDirectory else {
      Issue.record("\(String(describing: ofDirectory))")
      return
    }
    #expect(FileSessionStore.owner(of: directory.path) == 12_345)
  }

  @Test("The owner is known for a store, for a bare directory, and for none")
  func owner() throws {
    let directory = TemporaryDirectory()
    #expect(FileSessionStore.owner(of: directory.path) == geteuid())
    _ = try FileSessionStore(stateDirectory: directory.path)
    #expect(FileSessionStore.owner(of: directory.path) == geteuid())
    #expect(FileSessionStore.owner(of: directory.path + "/none") == nil)
  }

  @Test("What is no regular file is not followed and not read")
  func links() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let path = directory.sessionPath()
    rename(path, directory.path + "/elsewhere")
    symlink(directory.path + "/elsewhere", path)
    #expect(throws: StoreFault.unreadable(path: path, errno: ELOOP)) { try store.load("alice") }
    unlink(path)
    mkfifo(path, 0o600)
    #expect(throws: StoreFault.unparsable(path: path, detail: "it is not a regular file")) {
      try store.load("alice")
    }
  }

  @Test("A file where a directory belongs is refused")
  func notADirectory() throws {
    let directory = TemporaryDirectory()
    close(open(directory.path + "/sessions", O_CREAT | O_WRONLY, 0o600))
    #expect(throws: StoreFault.unparsable(path: directory.path + "/sessions", detail: "it is not a directory"))
    {
      try FileSessionStore(stateDirectory: directory.path)
    }
  }

  @Test("A store on a file system that is read-only now still opens and reads")
  func readOnly() throws {
    let directory = TemporaryDirectory()
    try FileSessionStore(stateDirectory: directory.path).seed(makeRecord())
    let script = FaultScript { _, event in
      switch event.call {
      case .makeDirectory, .write, .rename, .unlink, .truncate, .allocate, .syncDirectory: EROFS
      case .open, .lock, .read, .sync, .status, .list: nil
      }
    }
    script.start()
    let store = try FileSessionStore(stateDirectory: directory.path, disk: script.disk)
    #expect(try store.load("alice") == makeRecord())
    #expect(try store.names(limit: 1) == ["alice"])
  }

  @Test("A missing session is missing, and has no stamp")
  func missing() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    #expect(throws: StoreFault.missing(session: "alice")) { try store.load("alice") }
    #expect(store.stamp("alice") == nil)
  }

  @Test("The stamp changes with each replacement and with an edit in place")
  func stamps() throws {
    let directory = TemporaryDirectory()
    let store = try FileSessionStore(stateDirectory: directory.path)
    try store.seed(makeRecord())
    let first = try #require(store.stamp("alice"))
    #expect(store.stamp("alice") == first)
    try store.seed(makeRecord(generation: 2))
    let second = try #require(store.stamp("alice"))
    #expect(second != first)
    overwrite(directory.sessionPath(), "edited")
    #expect(store.stamp("alice") != second)
  }
}
