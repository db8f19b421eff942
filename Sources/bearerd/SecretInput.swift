import BearerPolicy
import Glibc

/// Where tokens come in: files, standard input, a question on the terminal. Never arguments, which every user of
/// the machine can list (I10).
enum SecretInput {
  /// An answer of a token endpoint is at most that long; a token is far below it.
  static let bytesMax = 1 << 20

  /// The bytes of a file of any kind, for a shell's `<(…)` is a pipe; `-` is standard input.
  static func read(_ path: String) -> Result<Secret, InputProblem> {
    if path == "-" {
      return isatty(STDIN_FILENO) == 1
        ? .failure(InputProblem(reason: "standard input is a terminal, which would show what is typed"))
        : readAll(STDIN_FILENO)
    }
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return .failure(InputProblem(reason: Output.reason(errno))) }
    defer { close(descriptor) }
    return readAll(descriptor)
  }

  private static func readAll(_ descriptor: Int32) -> Result<Secret, InputProblem> {
    // Made once, one byte longer than allowed: growing would leave copies that nobody zeroes.
    var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
    defer { wipe(&bytes) }
    var count = 0
    while count < bytes.count {
      let (got, code) = bytes.withUnsafeMutableBytes { buffer in
        let got = Glibc.read(descriptor, buffer.baseAddress?.advanced(by: count), buffer.count - count)
        return (got, got < 0 ? errno : 0)
      }
      if code == EINTR { continue }
      if code != 0 { return .failure(InputProblem(reason: Output.reason(code))) }
      if got == 0 { break }
      count += got
    }
    if count > bytesMax { return .failure(InputProblem(reason: "is larger than 1 MiB")) }
    return .success(Secret(bytes: bytes[..<count]))
  }

  private static func wipe(_ bytes: inout [UInt8]) {
    for index in bytes.indices { bytes[index] = 0 }
  }

  /// The line that is typed, which the terminal does not show; nil where Enter alone was pressed.
  ///
  /// Read byte by byte without the terminal's line editing, whose lines end at 4095 bytes: a token may be longer.
  /// - Throws: when the question is broken off (Ctrl-C, Ctrl-D) or the terminal goes away.
  static func prompt(_ question: String) throws(CommandFailure) -> Secret? {
    var settings = termios()
    guard tcgetattr(STDIN_FILENO, &settings) == 0 else {
      throw CommandFailure(Sysexit.inputOutput, "cannot use the terminal: \(Output.reason(errno))")
    }
    let before = settings
    // ISIG too: a signal's end would leave the terminal mute.
    settings.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
    // Before the question: what is typed at once would be shown, or lost. Nothing is flushed, for two lines may be
    // pasted together.
    tcsetattr(STDIN_FILENO, TCSADRAIN, &settings)
    Output.ask(question)
    var line: [UInt8] = []
    line.reserveCapacity(RefreshOutcome.tokenBytesMax + 2)
    defer {
      var original = before
      tcsetattr(STDIN_FILENO, TCSADRAIN, &original)
      Output.ask("\n")
      wipe(&line)
    }
    while true {
      var byte: UInt8 = 0
      let count = Glibc.read(STDIN_FILENO, &byte, 1)
      if count < 0, errno == EINTR { continue }
      guard count == 1 else {
        throw CommandFailure(Sysexit.inputOutput, "the terminal went away: nothing was stored")
      }
      switch byte {
      case 0x0A, 0x0D: return line.isEmpty ? nil : Secret(bytes: line)
      case 0x03, 0x04, 0x1C: throw CommandFailure(130, "broken off: nothing was stored")
      case 0x08, 0x7F: if !line.isEmpty { line.removeLast() }
      case 0x15: line.removeAll(keepingCapacity: true)
      default:
        guard line.count <= RefreshOutcome.tokenBytesMax else {
          throw CommandFailure(
            Sysexit.dataError, "this is longer than a token may be (16 KiB): nothing was stored")
        }
        line.append(byte)
      }
    }
  }
}

/// Why an input could not be read, in words.
struct InputProblem: Error, Equatable {
  var reason: String
}

/// Judges bytes as a token, by the bounds that a token endpoint's answer has to keep (SPEC §3).
enum TokenText {
  /// RFC 6750 §2.1 sends it in a header field: 1 to 16 Ki bytes of visible ASCII.
  static func accessToken(_ given: Secret) -> Result<Secret, InputProblem> {
    judge(given, "visible ASCII characters") { $0 > 0x20 && $0 < 0x7F }
  }

  /// 1 to 16 Ki bytes of UTF-8 without control characters.
  static func refreshToken(_ given: Secret) -> Result<Secret, InputProblem> {
    judge(given, "characters other than control characters") { $0 >= 0x20 && $0 != 0x7F }
  }

  /// The line end that editors and `echo` add is no part of it.
  private static func judge(
    _ given: Secret, _ kind: String, _ allowed: (UInt8) -> Bool
  ) -> Result<Secret, InputProblem> {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(given.count)
    given.append(to: &bytes)
    while let last = bytes.last, last == 0x0A || last == 0x0D {
      bytes[bytes.count - 1] = 0
      bytes.removeLast()
    }
    guard !bytes.isEmpty else { return .failure(InputProblem(reason: "is empty")) }
    guard bytes.count <= RefreshOutcome.tokenBytesMax else {
      return .failure(InputProblem(reason: "has \(bytes.count) bytes; a token has at most 16 KiB"))
    }
    // What is not UTF-8 could not be written to the session's file as it is.
    guard bytes.allSatisfy(allowed), String(validating: bytes, as: UTF8.self) != nil else {
      return .failure(InputProblem(reason: "is not one token: it must consist of \(kind), on one line"))
    }
    return .success(Secret(taking: &bytes))
  }
}
