import CLinux
import Configuration
import Glibc
import SessionStore

/// Root on another user's store becomes that user, so that no file in it comes to belong to root.
enum StoreOwner {
  /// Call after everything that only the caller may read was read, and before the store is touched. For good: the
  /// process cannot go back.
  static func become(ownerOf stateDirectory: String) throws(CommandFailure) {
    guard geteuid() == 0, let owner = FileSessionStore.owner(of: stateDirectory), owner != 0 else { return }
    let account = Self.account(of: owner, stateDirectory)
    var group = account.group
    guard setgroups(1, &group) == 0, setgid(group) == 0, setuid(owner) == 0 else {
      let code = errno
      throw CommandFailure(
        Sysexit.noPermission,
        "cannot act as uid \(owner), which owns \(stateDirectory): \(Output.reason(code)); run as that user")
    }
    // Changing the user makes a process dumpable again on kernels that are set up so (prctl(2)).
    _ = bearerd_not_dumpable()
    Output.complain("acting as \(account.name), which owns \(stateDirectory)")
  }

  /// Opens the store as its owner; its key is read before, for it may be root's.
  static func open(_ configuration: Configuration) throws(CommandFailure) -> FileSessionStore {
    let key = try configuration.store.keyFile.map { path throws(CommandFailure) in
      try self.key(path, configuration)
    }
    try become(ownerOf: configuration.stateDirectory)
    do {
      return try FileSessionStore(stateDirectory: configuration.stateDirectory, key: key)
    } catch {
      throw CommandFailure(error)
    }
  }

  /// A key of this store, as whoever called the command may read it.
  static func key(_ path: String, _ configuration: Configuration) throws(CommandFailure) -> StoreKey {
    do {
      return try StoreKey(
        file: path, isCredential: path == configuration.store.keyFile && configuration.store.isKeyCredential,
        storeOwner: FileSessionStore.owner(of: configuration.stateDirectory))
    } catch {
      throw CommandFailure(error)
    }
  }

  /// A user that the system has no entry for (a container's) has its directory's group.
  private static func account(of owner: uid_t, _ stateDirectory: String) -> (name: String, group: gid_t) {
    if let entry = getpwuid(owner) {
      return ("user “\(printable(String(cString: entry.pointee.pw_name)))”", entry.pointee.pw_gid)
    }
    var status = stat()
    let group = stat(stateDirectory, &status) == 0 ? status.st_gid : owner
    return ("uid \(owner)", group)
  }
}
