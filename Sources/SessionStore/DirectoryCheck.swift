internal import Glibc

/// Who may own and reach the store's directories and files, in ssh's manner: refuse, say why and what to do.
struct DirectoryCheck {
  let disk: Disk

  /// Makes `base` (with its parents) and the `closed` directories where they are missing, and checks them all.
  func prepare(base: String, closed: [String]) throws(StoreFault) {
    try makeWithParents(base)
    // Root may own it: /var/lib/bearerd made by a package. Who can write to it could swap what is inside.
    try check(base, owners: [geteuid(), 0], closed: 0o022)
    for directory in closed {
      try make(directory)
      try check(directory, owners: [geteuid()], closed: 0o077)
    }
  }

  private func makeWithParents(_ path: String) throws(StoreFault) {
    if (try? disk.status(path, followsLinks: true)) != nil { return }
    if let parent = Self.parent(of: path), parent != "/" { try makeWithParents(parent) }
    try make(path)
  }

  private func make(_ path: String) throws(StoreFault) {
    // A look first: a directory that is there must be usable on a file system that is read-only now.
    if (try? disk.status(path, followsLinks: true)) != nil { return }
    do {
      if try disk.makeDirectory(path) { try disk.syncDirectory(Self.parent(of: path) ?? ".") }
    } catch {
      throw .writing(path, error)
    }
  }

  private func check(_ path: String, owners: [uid_t], closed: UInt32) throws(StoreFault) {
    let status: stat
    do {
      status = try disk.status(path, followsLinks: true)
    } catch {
      throw .reading(path, error)
    }
    if let fault = Self.fault(path, status, kind: S_IFDIR, owners: owners, closed: closed) { throw fault }
  }

  /// nil where `path` is of this kind, owned by one of `owners`, and has none of the mode bits `closed`.
  static func fault(
    _ path: String, _ status: stat, kind: mode_t, owners: [uid_t], closed: UInt32
  ) -> StoreFault? {
    let isDirectory = kind == S_IFDIR
    guard status.st_mode & S_IFMT == kind else {
      return .unparsable(path: path, detail: isDirectory ? "it is not a directory" : "it is not a regular file")
    }
    guard owners.contains(status.st_uid) else {
      return .wrongOwner(
        path: path,
        detail: "belongs to uid \(status.st_uid), not to uid \(owners[0]): run as its owner, or "
          + "`chown \(isDirectory ? "-R " : "")\(owners[0])` it if it is yours")
    }
    guard status.st_mode & closed == 0 else {
      let mode = String(status.st_mode & 0o7777, radix: 8)
      let remedy = closed & 0o044 == 0 ? "chmod go-w" : "chmod \(isDirectory ? "700" : "600")"
      let others = closed & 0o044 == 0 ? "others can change it" : "others could read its tokens"
      return .wrongMode(path: path, detail: "has mode \(mode), so \(others): `\(remedy)` it")
    }
    return nil
  }

  static func parent(of path: String) -> String? {
    guard let slash = path.lastIndex(of: "/") else { return nil }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }
}
