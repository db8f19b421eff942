public import BearerPolicy
internal import Glibc

/// Why the store could not do what was asked: each case names the file it is about, none carries a token (I10).
public enum StoreFault: Error, Equatable, Sendable {
  /// No session of that name is stored.
  case missing(session: String)
  /// The name cannot be a session's; `detail` says which rule it breaks.
  case badName(detail: String)
  /// The file is there and is not a session's; it is left as it is. `detail` names the member, never a value.
  case unparsable(path: String, detail: String)
  /// Encrypted, and the key does not open it; it is left as it is. `detail` says which key is wanted, or that the
  /// content was changed.
  case undecryptable(path: String, detail: String)
  /// A key is configured and the file is plain text, as nobody but the convert command may read it; left as it is.
  case notEncrypted(path: String)
  /// The key's file cannot be used; `detail` says why and what to do.
  case badKey(path: String, detail: String)
  /// The cryptographic library failed: nothing was written.
  case encryptionFailed(path: String)
  /// Written by a later bearerd; it is left as it is.
  case futureVersion(path: String, version: Int)
  /// Somebody else owns the path; `detail` says who and what to do.
  case wrongOwner(path: String, detail: String)
  /// Others may read or change the path; `detail` gives the mode and what to do.
  case wrongMode(path: String, detail: String)
  case unreadable(path: String, errno: Int32)
  /// Nothing that was durable before is lost.
  case unwritable(path: String, errno: Int32)
  /// No room, or the quota is used up. Nothing that was durable before is lost.
  case full(path: String)
  /// Another flight or process held the lock until the deadline.
  case lockTimeout(path: String)
  /// The lock's file was deleted or replaced by somebody while it was in use, so holding it proves nothing.
  case lockReplaced(path: String)
  /// What was written could not be read back as it was, in three attempts.
  case readBackDiffers(path: String)

  /// One line for people: what happened and what to do. Holds no token.
  public var detail: String {
    switch self {
    case .missing(let session):
      "no session named “\(session)”: add it with `bearerd session add`"
    case .badName(let detail):
      "this cannot be a session's name: \(detail)"
    case .unparsable(let path, let detail):
      "\(path) is not a readable session file (\(detail)): repair it, or move it away and sign in again"
    case .undecryptable(let path, let detail), .badKey(let path, let detail):
      "\(path) \(detail)"
    case .notEncrypted(let path):
      "\(path) is not encrypted though the store has a key: run `bearerd store encrypt`"
    case .encryptionFailed(let path):
      "cannot encrypt \(path): the cryptographic library failed; nothing was written"
    case .futureVersion(let path, let version):
      "\(path) has format version \(version), newer than this bearerd reads: upgrade bearerd"
    case .wrongOwner(let path, let detail), .wrongMode(let path, let detail):
      "\(path) \(detail)"
    case .unreadable(let path, let code):
      "cannot read \(path): \(Self.explain(code))"
    case .unwritable(let path, let code):
      "cannot write \(path): \(Self.explain(code))"
    case .full(let path):
      "no room to write \(path): free disk space or raise the quota, then try again"
    case .lockTimeout(let path):
      "another process still holds \(path): wait for it to finish, then try again"
    case .lockReplaced(let path):
      "\(path) was deleted or replaced while in use: leave lock files alone, then try again"
    case .readBackDiffers(let path):
      "\(path) reads back differently from what was written: check the disk, then try again"
    }
  }

  static func explain(_ code: Int32) -> String {
    switch code {
    case EACCES, EPERM: "permission denied; make it belong to uid \(geteuid()) (chown) or run as its owner"
    case ENOENT: "it, or its directory, is gone; put it back, or mount its file system"
    case EROFS: "the file system is read-only; remount it or set another state_dir"
    case EIO: "input/output error; check the disk"
    case ELOOP: "it is a symbolic link; put the file itself there"
    case EMFILE, ENFILE: "too many open files; raise the descriptor limit"
    default: "\(String(cString: strerror(code))) (errno \(code))"
    }
  }
}

extension StoreFault {
  /// The same in the words of the refresh flight, which knows no files.
  public var trouble: StoreTrouble {
    let kind: StoreTrouble.Kind =
      switch self {
      case .missing: .missing
      case .unparsable, .futureVersion: .unparsable
      case .undecryptable, .notEncrypted, .badKey: .undecryptable
      case .wrongOwner, .wrongMode: .insecure
      case .unreadable, .badName: .unreadable
      case .unwritable, .readBackDiffers, .encryptionFailed: .unwritable
      case .full: .full
      case .lockTimeout: .lockTimeout
      case .lockReplaced: .lockUnavailable
      }
    return StoreTrouble(kind: kind, detail: detail)
  }

  static func reading(_ path: String, _ error: DiskError) -> StoreFault {
    .unreadable(path: path, errno: error.code)
  }

  static func writing(_ path: String, _ error: DiskError) -> StoreFault {
    switch error.code {
    case ENOSPC, EDQUOT: .full(path: path)
    default: .unwritable(path: path, errno: error.code)
    }
  }
}
