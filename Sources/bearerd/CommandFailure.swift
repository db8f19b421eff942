import BearerPolicy
import Configuration
import Glibc
import SessionStore

/// Why a command stops: what is said on standard error, and the exit code. Holds no secret (I10).
struct CommandFailure: Error, Equatable {
  var code: Int32
  /// One for each thing that is wrong, each with what to do.
  var messages: [String]

  init(_ code: Int32, _ message: String) { self.init(code, [message]) }

  init(_ code: Int32, _ messages: [String]) {
    self.code = code
    self.messages = messages
  }

  func report() {
    for message in messages { Output.complain(message) }
  }
}

/// The codes of sysexits.h that the commands end with.
enum Sysexit {
  static let usage: Int32 = 64
  static let dataError: Int32 = 65
  static let noInput: Int32 = 66
  static let inputOutput: Int32 = 74
  static let temporaryFailure: Int32 = 75
  /// Refused: by the file system, or because the session is over.
  static let noPermission: Int32 = 77
  static let configuration: Int32 = 78
}

extension CommandFailure {
  init(_ fault: StoreFault) {
    if case .badName = fault {
      self.init(Sysexit.usage, fault.detail)
      return
    }
    let code =
      switch fault.trouble.kind {
      case .missing: Sysexit.noInput
      case .alreadyExists: Sysexit.dataError
      case .insecure: Sysexit.noPermission
      case .lockTimeout: Sysexit.temporaryFailure
      case .undecryptable: Sysexit.configuration
      case .unreadable, .unparsable, .unwritable, .full, .lockUnavailable: Sysexit.inputOutput
      }
    self.init(code, fault.detail)
  }

  init(_ failure: AddFailure) {
    switch failure {
    case .refused(let refusal): self.init(Sysexit.dataError, refusal.detail)
    case .store(let fault): self.init(fault)
    }
  }

  /// Every error, after one line that counts them.
  init(_ errors: [ConfigurationError], path: String) {
    let count = errors.count == 1 ? "1 error" : "\(errors.count) errors"
    self.init(Sysexit.configuration, ["\(path): \(count)"] + errors.map(\.description))
  }
}
