/// In which form a store writes its session files, and which ones it reads.
///
/// A store in service reads what it writes and nothing else: with a key, a plain file could have been slipped in by
/// somebody who has no key. Only a conversion reads two forms.
struct StoreForms: Sendable {
  enum Form: Equatable {
    case plain
    case encrypted(StoreKey)
  }

  let written: Form
  /// `written` is one of them.
  private let read: [Form]

  init(written: Form, alsoRead: [Form] = []) {
    self.written = written
    read = [written] + alsoRead
  }

  init(_ key: StoreKey?) { self.init(written: key.map { .encrypted($0) } ?? .plain) }

  /// What files are written with; nil: as plain text.
  var key: StoreKey? {
    switch written {
    case .plain: nil
    case .encrypted(let key): key
    }
  }

  /// The form of a file.
  /// - Throws: where this store does not read it.
  func form(_ sealed: SealedRecord.Part?, at path: String) throws(StoreFault) -> Form {
    guard let sealed else {
      guard read.contains(.plain) else { throw .notEncrypted(path: path) }
      return .plain
    }
    var ids = [String]()
    for form in read {
      guard case .encrypted(let key) = form else { continue }
      if key.id == sealed.key { return form }
      ids.append(key.id)
    }
    // Shown to people, who would otherwise be shown whatever stands there.
    let wanted =
      sealed.key.utf8.count == 8 && sealed.key.allSatisfy(\.isHexDigit) ? "key \(sealed.key)" : "another key"
    let detail =
      ids.isEmpty
      ? "is encrypted with \(wanted): set `store.key_file` to it"
      : "is encrypted with \(wanted), not with \(ids.map { "key \($0)" }.joined(separator: " or ")): "
        + "set `store.key_file` to the right one"
    throw .undecryptable(path: path, detail: detail)
  }

  /// The record's JSON; holds tokens, so the caller wipes it.
  func plain(
    _ fileBytes: [UInt8], _ sealed: SealedRecord.Part?, _ form: Form, _ name: SessionName, at path: String
  ) throws(StoreFault) -> [UInt8] {
    switch form {
    case .plain: return fileBytes
    case .encrypted(let key):
      guard let plain = sealed?.open(name, with: key) else {
        throw .undecryptable(
          path: path, detail: "was changed, or is another session's file: restore it, or sign in again")
      }
      return plain
    }
  }
}
