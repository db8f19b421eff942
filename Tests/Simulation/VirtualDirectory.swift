import BearerPolicy

/// What a disk call came to.
enum DiskFault: Error, Equatable {
  case full, broken, missing

  var trouble: StoreTrouble {
    switch self {
    case .full: StoreTrouble(kind: .full, detail: "no room")
    case .broken: StoreTrouble(kind: .unwritable, detail: "input/output error")
    case .missing: StoreTrouble(kind: .missing, detail: "no such file")
    }
  }
}

/// One session's directory on a disk that forgets: what was not synced may be lost or torn when the power goes.
///
/// Names change at once for those who look, and for good with `syncDirectory`; before that a power loss keeps the
/// changes up to any point, in their order, as a journal does. A content is safe once its file was synced. After a
/// sync that failed the disk takes what it lost for written: later syncs of that file succeed and change nothing.
struct VirtualDirectory {
  enum Name: Int, CaseIterable { case session, new, result }

  enum Content: Equatable {
    case nothing
    /// Allocated: a write into it cannot fail for lack of room.
    case room
    case whole(SessionRecord)
    case torn
  }

  private struct File {
    var content = Content.nothing
    var synced = Content.nothing
    var hasLostWrites = false
  }

  private enum Change {
    case link(Name, Int)
    case unlink(Name)
  }

  private var files: [File] = []
  private var names: [Name: Int] = [:]
  private var durableNames: [Name: Int] = [:]
  private var pending: [[Change]] = []

  /// Of the session's file: differs whenever its content does. nil where there is none.
  var stamp: Int? { names[.session] }

  /// The session as whoever looks now sees it.
  var record: SessionRecord? { record(names) }

  /// The session that is left whatever the power does: nil where that is not certain.
  var certainRecord: SessionRecord? {
    var seen: SessionRecord?
    var names = durableNames
    for round in 0...pending.count {
      if round > 0 { Self.apply(pending[round - 1], to: &names) }
      guard let index = names[.session], files[index].content == files[index].synced,
        case .whole(let record) = files[index].synced
      else { return nil }
      if let seen, seen.generation <= record.generation { continue }
      seen = record
    }
    return seen
  }

  /// Whether a file of that name is there now.
  func holds(_ name: Name) -> Bool { names[name] != nil }

  /// A damaged file is no session, and is not a missing one either.
  var isDamaged: Bool { names[.session] != nil && record == nil }

  private func record(_ names: [Name: Int]) -> SessionRecord? {
    guard let index = names[.session], case .whole(let record) = files[index].content else { return nil }
    return record
  }

  mutating func unlink(_ name: Name) {
    if names[name] != nil { change([.unlink(name)]) }
  }

  mutating func create(_ name: Name) {
    files.append(File())
    change([.link(name, files.count - 1)])
  }

  mutating func allocate(_ name: Name) { put(.room, name) }

  func hasRoom(_ name: Name) -> Bool { names[name].map { files[$0].content == .room } ?? false }

  mutating func write(_ record: SessionRecord, _ name: Name) { put(.whole(record), name) }

  mutating func tear(_ name: Name) { put(.torn, name) }

  mutating func sync(_ name: Name) {
    guard let index = names[name], !files[index].hasLostWrites else { return }
    files[index].synced = files[index].content
  }

  mutating func failSync(_ name: Name) {
    if let index = names[name] { files[index].hasLostWrites = true }
  }

  mutating func rename(_ from: Name, to: Name) {
    if let index = names[from] { change([.unlink(from), .link(to, index)]) }
  }

  mutating func syncDirectory() {
    durableNames = names
    pending = []
  }

  /// The power goes, and comes back.
  mutating func losePower(_ chance: inout Chance) {
    for change in pending.prefix(chance.number(0...pending.count)) { Self.apply(change, to: &durableNames) }
    pending = []
    names = durableNames
    for index in files.indices where files[index].content != files[index].synced {
      let survives = chance.number(0...2)
      if survives == 0 { files[index].content = files[index].synced }
      if survives == 1 { files[index].content = .torn }
      files[index].synced = files[index].content
    }
  }

  private mutating func put(_ content: Content, _ name: Name) {
    if let index = names[name] { files[index].content = content }
  }

  private mutating func change(_ changes: [Change]) {
    Self.apply(changes, to: &names)
    pending.append(changes)
  }

  private static func apply(_ changes: [Change], to names: inout [Name: Int]) {
    for change in changes {
      switch change {
      case .link(let name, let index): names[name] = index
      case .unlink(let name): names[name] = nil
      }
    }
  }
}
