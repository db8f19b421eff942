public import BearerPolicy
internal import CLinux
internal import Glibc
internal import Synchronization

/// Sessions as files, one JSON file each, shared by every process that opens the same state directory (SPEC §5).
///
/// ```
/// <state_dir>/sessions/<2 hex>/<name>.json     the session, 0600, replaced by write, fsync, rename, fsync(dir);
///                                             plain, or with a key encrypted (`SealedRecord`)
///                             <name>.lock     held through a refresh, an add or a remove; never unlinked
///                             <name>.new      being written by the lock's holder
///                             <name>.result   room reserved for the answer of a refresh
/// <state_dir>/fingerprints/<2 hex>/<SHA-256>   which session holds or has spent a refresh token
/// ```
///
/// Nothing is read ahead and nothing is kept: starting costs the same with one session as with 100 000, and what
/// others write is seen by the next call. Every call blocks on the disk: never call from an event loop.
/// Writing needs the session's `SessionLock`; a call with another session's lock, or a released one, traps.
public final class FileSessionStore: Sendable {
  /// `<state_dir>/sessions`: what a watcher of outside changes watches, with its subdirectories.
  public let sessionsDirectory: String
  let disk: Disk
  let index: FingerprintIndex
  private let currentForms: Mutex<StoreForms>

  /// Largest session file read: an answer of a token endpoint is at most 1 MiB, JSON's escapes may multiply it.
  static let fileBytesMax = 8 << 20

  /// Makes what is missing (0700) and checks what is there as ssh does: the state directory must belong to this
  /// user or root and be writable by its owner only, what is below to this user, closed to everybody else.
  /// - Parameter key: with it files are written encrypted and only encrypted ones are read (`StoreConversion`
  ///   changes those that are there); without it only plain ones are.
  public convenience init(stateDirectory: String, key: StoreKey? = nil) throws(StoreFault) {
    try self.init(stateDirectory: stateDirectory, disk: Disk(), forms: StoreForms(key))
  }

  package convenience init(stateDirectory: String, disk: Disk, key: StoreKey? = nil) throws(StoreFault) {
    try self.init(stateDirectory: stateDirectory, disk: disk, forms: StoreForms(key))
  }

  init(stateDirectory: String, disk: Disk, forms: StoreForms) throws(StoreFault) {
    var base = stateDirectory
    while base.utf8.count > 1, base.utf8.last == UInt8(ascii: "/") { base.removeLast() }
    self.disk = disk
    currentForms = Mutex(forms)
    sessionsDirectory = base + "/sessions"
    index = FingerprintIndex(directory: base + "/fingerprints", disk: disk)
    try DirectoryCheck(disk: disk).prepare(base: base, closed: [sessionsDirectory, index.directory])
  }

  var forms: StoreForms { currentForms.withLock { $0 } }

  /// From now on files are read and written with this key, or as plain text: the store has been converted, or its key
  /// rotated, beside a process that serves. A call that is under way ends with the key that it began with.
  public func adopt(key: StoreKey?) { currentForms.withLock { $0 = StoreForms(key) } }

  /// Whose store it is: root's commands become that user before they touch it. nil where there is none.
  public static func owner(of stateDirectory: String) -> UInt32? {
    let disk = Disk()
    let own = try? disk.status(stateDirectory + "/sessions", followsLinks: true)
    return (own ?? (try? disk.status(stateDirectory, followsLinks: true)))?.st_uid
  }
}

// MARK: - reading

extension FileSessionStore {
  /// The session as it is on disk now.
  ///
  /// A file that is there but cannot be understood is `unparsable` (or `futureVersion`, `undecryptable`,
  /// `notEncrypted`), never `missing`; nor is any while the sessions' directory itself is gone.
  public func load(_ name: String) throws(StoreFault) -> SessionRecord {
    try load(SessionName(name))
  }

  func load(_ name: SessionName) throws(StoreFault) -> SessionRecord { try loadWithForm(name).record }

  func loadWithForm(_ name: SessionName) throws(StoreFault) -> (record: SessionRecord, form: StoreForms.Form) {
    let path = sessionPath(name)
    let file = try openChecked(path, name)
    var bytes: [UInt8]
    do {
      bytes = try disk.read(file, bytesMax: Self.fileBytesMax)
    } catch {
      throw .reading(path, error)
    }
    defer { wipe(&bytes) }
    guard bytes.count <= Self.fileBytesMax else {
      throw .unparsable(path: path, detail: "it is larger than \(Self.fileBytesMax) bytes")
    }
    return try parse(bytes, name, path)
  }

  /// Owner and mode are judged on what was opened, not on what the path leads to later.
  private func openChecked(_ path: String, _ name: SessionName) throws(StoreFault) -> Descriptor {
    let refused: StoreFault
    do {
      let file = try disk.open(path, O_RDONLY)
      let status = try disk.status(file)
      guard let fault = DirectoryCheck.fault(path, status, kind: S_IFREG, owners: [geteuid()], closed: 0o077)
      else { return file }
      refused = fault
    } catch {
      guard error.code == ENOENT else { throw .reading(path, error) }
      throw isDirectoryGone() ? .reading(sessionsDirectory, error) : .missing(session: name.text)
    }
    throw refused
  }

  /// Without the directory nothing is known of any session: it may be on a file system that is not mounted.
  private func isDirectoryGone() -> Bool {
    do throws(DiskError) {
      _ = try disk.status(sessionsDirectory, followsLinks: true)
      return false
    } catch {
      return error.code == ENOENT
    }
  }

  private func parse(
    _ bytes: [UInt8], _ name: SessionName, _ path: String
  ) throws(StoreFault) -> (record: SessionRecord, form: StoreForms.Form) {
    let sealed = try understood(path) { () throws(RecordFault) in try SealedRecord.part(of: bytes) }
    let form = try forms.form(sealed, at: path)
    var plain = try forms.plain(bytes, sealed, form, name, at: path)
    defer { wipe(&plain) }
    let record = try understood(path) { () throws(RecordFault) in try SessionRecord(fileBytes: plain) }
    // A copy of another session's file would put one refresh token into two sessions.
    guard record.name.hasSameBytes(as: name.text) else {
      throw .unparsable(path: path, detail: "“name” is another session's, as in a copied file")
    }
    return (record, form)
  }

  private func understood<Part>(_ path: String, _ read: () throws(RecordFault) -> Part) throws(StoreFault)
    -> Part
  {
    do {
      return try read()
    } catch {
      switch error {
      case .futureVersion(let version): throw .futureVersion(path: path, version: version)
      case .notJSON, .member: throw .unparsable(path: path, detail: error.detail)
      }
    }
  }

  /// Names in the order of their bytes, at most `limit`, those after `after` (which need not exist).
  ///
  /// Reads directories, not sessions; memory is bounded by `limit`. Files that are no session's are passed over.
  public func names(after: String? = nil, limit: Int) throws(StoreFault) -> [String] {
    guard limit > 0 else { return [] }
    var page = NamePage(after: after, limit: limit)
    for shard in try shards() {
      try listSessions(in: shard, where: { page.admits($0) }, { page.insert($0.text) })
    }
    return page.sorted()
  }

  /// The names of the directories that hold sessions, in no order.
  func shards() throws(StoreFault) -> [String] {
    var shards = [String]()
    do throws(DiskError) {
      try disk.list(sessionsDirectory) { if Self.isShard($0) { shards.append($0) } }
    } catch {
      throw .reading(sessionsDirectory, error)
    }
    return shards
  }

  static func isShard(_ name: String) -> Bool {
    name.utf8.count == 2 && name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }

  /// - Parameter isWanted: asked first with the decoded text, which need not be a name.
  func listSessions(
    in shard: String, suffix: String = ".json", where isWanted: (String) -> Bool = { _ in true },
    _ body: (SessionName) -> Void
  ) throws(StoreFault) {
    try list("\(sessionsDirectory)/\(shard)") { file in
      guard file.hasSuffix(suffix), let text = SessionName.decode(file.dropLast(suffix.utf8.count)),
        isWanted(text)
      else { return }
      // Another shard's file would be listed but not found.
      if let name = Self.session(ofFile: file, suffix: suffix), name.shard == shard { body(name) }
    }
  }

  private func list(_ directory: String, _ body: (String) -> Void) throws(StoreFault) {
    do {
      try disk.list(directory, body)
    } catch {
      // Something that is not a directory, or went away meanwhile, holds no session.
      if error.code != ENOENT, error.code != ENOTDIR { throw .reading(directory, error) }
    }
  }

  /// What changes whenever the session's file does; nil where there is none.
  public func stamp(_ name: String) -> FileStamp? {
    guard let place = try? SessionName(name), let status = try? disk.status(sessionPath(place)) else {
      return nil
    }
    return FileStamp(status)
  }

  /// The session whose file has this name in its directory (`ci%20bot.json`): what a watcher is told.
  public static func sessionName(fileName: String) -> String? { session(ofFile: fileName)?.text }

  static func session(ofFile file: String, suffix: String = ".json") -> SessionName? {
    guard file.hasSuffix(suffix) else { return nil }
    return SessionName(encoded: file.dropLast(suffix.utf8.count))
  }
}

/// Tells one state of a file from another: replaced (inode), written in place (time), cut (size).
public struct FileStamp: Equatable, Hashable, Sendable {
  public var inode: UInt64
  public var modifiedNanoseconds: Int64
  public var byteCount: Int64

  init(_ status: stat) {
    inode = UInt64(status.st_ino)
    modifiedNanoseconds = Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec)
    byteCount = Int64(status.st_size)
  }
}

/// The smallest names after a given one, without keeping all that were seen.
private struct NamePage {
  let after: String?
  let limit: Int
  private var names: [String] = []
  /// The last name of the page, once it is full: later ones have no place.
  private var last: String?

  init(after: String?, limit: Int) {
    self.after = after
    self.limit = limit
  }

  func admits(_ name: String) -> Bool {
    if let last, !name.utf8.lexicographicallyPrecedes(last.utf8) { return false }
    guard let after else { return true }
    return after.utf8.lexicographicallyPrecedes(name.utf8)
  }

  /// A name that is admitted.
  mutating func insert(_ name: String) {
    names.append(name)
    // Cut at twice the size, so that the sorting is paid once per page of names.
    if names.count >= limit &* 2 && names.count > limit { cut() }
  }

  private mutating func cut() {
    names.sort { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    if names.count > limit { names.removeLast(names.count - limit) }
    if names.count == limit { last = names.last }
  }

  consuming func sorted() -> [String] {
    cut()
    return names
  }
}

// MARK: - paths

extension FileSessionStore {
  func shardPath(_ name: SessionName) -> String { "\(sessionsDirectory)/\(name.shard)" }
  func sessionPath(_ name: SessionName) -> String { "\(shardPath(name))/\(name.encoded).json" }
  func lockPath(_ name: SessionName) -> String { "\(shardPath(name))/\(name.encoded).lock" }
  func newPath(_ name: SessionName) -> String { "\(shardPath(name))/\(name.encoded).new" }
  func resultPath(_ name: SessionName) -> String { "\(shardPath(name))/\(name.encoded).result" }
}
