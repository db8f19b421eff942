/// What a session store could not do. Made by the store, read by the flight and by people.
public struct StoreTrouble: Error, Equatable, Sendable {
  public enum Kind: String, Sendable, CaseIterable {
    /// No session of that name.
    case missing
    /// There is one, and it could not be read.
    case unreadable
    /// It was read and is no session's file of a known format.
    case unparsable
    /// It is encrypted and the key does not open it.
    case undecryptable
    /// Owner or mode let others read or change it.
    case insecure
    case unwritable
    /// No room on the disk, or a quota.
    case full
    /// Another flight held the lock for as long as this one could wait.
    case lockTimeout = "lock_timeout"
    /// The lock could not be asked for.
    case lockUnavailable = "lock_unavailable"
    /// A session of that name is there already.
    case alreadyExists = "already_exists"
  }

  public var kind: Kind
  /// One line for people; no secret.
  public var detail: String
  public init(kind: Kind, detail: String) {
    self.kind = kind
    self.detail = detail
  }
}
