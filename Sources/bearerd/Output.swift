import CLinux
import Chronology
import Glibc

/// What the commands say: results on standard output, everything else on standard error.
enum Output {
  /// - Throws: when standard output takes no more. A reader that has gone (`| head`) has what it wanted.
  static func write(_ text: String) throws(CommandFailure) {
    let code = put(text, on: STDOUT_FILENO)
    if code != 0, code != EPIPE {
      throw CommandFailure(Sysexit.inputOutput, "cannot write to standard output: \(reason(code))")
    }
  }

  /// A line on standard error that names the program.
  static func complain(_ message: String) { _ = put("bearerd: \(message)\n", on: STDERR_FILENO) }

  /// Text on standard error as it is: questions and their answers.
  static func ask(_ text: String) { _ = put(text, on: STDERR_FILENO) }

  static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

  static func reason(_ code: Int32) -> String { strerror(code).map { String(cString: $0) } ?? "error \(code)" }

  /// 0, or the number of the error that stopped it.
  private static func put(_ text: String, on descriptor: Int32) -> Int32 {
    var text = text
    return text.withUTF8 { bytes in
      var rest = UnsafeRawBufferPointer(bytes)
      while !rest.isEmpty {
        let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
        if count < 0 {
          if errno == EINTR { continue }
          return errno
        }
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
      }
      return 0
    }
  }
}

/// Text out of a file or from a peer: control characters could move a terminal's cursor or forge a line.
func printable(_ text: String) -> String {
  var shown = ""
  for scalar in text.unicodeScalars {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: shown.unicodeScalars.append("\u{FFFD}")
    default: shown.unicodeScalars.append(scalar)
    }
  }
  return shown
}

/// Columns as wide as their widest cell, two spaces between; the last one is not padded.
struct TextTable {
  private var rows: [[String]]

  init(_ header: String...) { rows = [header] }

  mutating func add(_ cells: String...) { rows.append(cells) }

  var text: String {
    var widths: [Int] = []
    for row in rows {
      for (column, cell) in row.enumerated() {
        if column == widths.count { widths.append(0) }
        widths[column] = max(widths[column], cell.count)
      }
    }
    var text = ""
    for row in rows {
      var line = ""
      for (column, cell) in row.enumerated() {
        line += cell
        if column < row.count - 1 { line += String(repeating: " ", count: widths[column] - cell.count + 2) }
      }
      while line.last == " " { line.removeLast() }
      text += line + "\n"
    }
    return text
  }
}

extension WallTime {
  static var now: WallTime { WallTime(milliseconds: bearerd_walltime()) }

  /// `in 12 min`, `3 h ago`: in the largest unit of which there are at least two.
  func relative(to now: WallTime) -> String {
    let distance = since(now)
    if distance.milliseconds.magnitude < 1000 { return "now" }
    let length = (distance < .zero ? Interval.zero - distance : distance).roughly
    return distance < .zero ? "\(length) ago" : "in \(length)"
  }

  /// The moment and how far it is.
  func described(at now: WallTime) -> String { "\(rfc3339) (\(relative(to: now)))" }
}

extension Interval {
  /// Rounded down to one unit: `90 s`, `59 min`, `3 h`, `12 d`.
  var roughly: String {
    let seconds = max(nanoseconds, 0) / 1_000_000_000
    for (unit, length) in [("d", Int64(86_400)), ("h", 3600), ("min", 60)] where seconds >= 2 * length {
      return "\(seconds / length) \(unit)"
    }
    return "\(seconds) s"
  }
}
