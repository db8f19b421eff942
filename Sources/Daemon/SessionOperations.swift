public import BearerPolicy
import CLinux
import Chronology
public import Configuration
import Dispatch
import HTTPSyntax
public import Logging
import Server
public import SessionStore
import Synchronization
import Transport

/// What a provider says of an access token.
public enum VerifyResult: Sendable {
  case accepted(status: Int)
  case rejected(status: Int)
  case noValidateURL
  case unreachable(String)
  /// The session has no token that could be sent; says why.
  case noToken(String)
}

/// What the commands do with sessions beyond reading files: the daemon's own machinery for one call.
public final class SessionOperations: Sendable {
  private let configuration: Configuration
  private let store: FileSessionStore
  private let loop: EventLoop
  private let presenter: TokenPresenter
  private let keeper: SessionKeeper
  private let resolver = Resolver()

  /// - Parameter store: opened already, because its key may be readable by another user than the one who now acts.
  public init(
    configuration: Configuration, store: FileSessionStore,
    logger: Logger = Logger(label: "bearerd") { _ in SwiftLogNoOpLogHandler() }
  ) throws(StartFault) {
    self.configuration = configuration
    self.store = store
    do throws(SocketFault) {
      loop = try EventLoop(index: 0)
    } catch {
      throw StartFault("event loop: \(error)")
    }
    presenter = try TokenPresenter(configuration, resolver: resolver, loop: loop)
    keeper = SessionKeeper(
      store: store, providers: configuration.providers,
      settings: .init(configuration), logger: logger, present: presenter.present)
  }

  /// Refreshes now; waits for the outcome.
  public func refresh(_ name: String) -> FlightResult {
    wait { [keeper] done in keeper.refreshByCommand(name, answer: done) }
  }

  /// Sends the session's access token to the provider's `validate_url`; waits for the answer.
  public func verify(_ name: String) -> VerifyResult {
    let record: SessionRecord
    do throws(StoreFault) {
      record = try store.load(name)
    } catch {
      return .noToken(error.detail)
    }
    guard let provider = configuration.providers[record.provider] else {
      return .noToken("its provider “\(record.provider)” is not configured")
    }
    guard let url = provider.validateURL else { return .noValidateURL }
    guard let accessToken = record.accessToken else { return .noToken("it holds no access token") }
    return send(accessToken, to: url, provider: provider)
  }

  private func send(_ accessToken: Secret, to url: String, provider: Provider) -> VerifyResult {
    var value = Array("Bearer ".utf8)
    accessToken.append(to: &value)
    let request = TokenRequest(
      method: "GET", url: url,
      headers: [("Authorization", Secret(taking: &value)), ("Accept", Secret("application/json"))],
      body: Secret(""))
    let reply = wait { [presenter] done in presenter.present(request, provider, done) }
    switch reply {
    case .notSent(let cause): return .unreachable(cause.reason)
    case .noAnswer(let cause): return .unreachable(cause.rawValue)
    case .answer(let status, _, _, _): return (200...299).contains(status) ? .accepted(status: status) : .rejected(status: status)
    }
  }

  private func wait<Result: Sendable>(_ start: (@escaping @Sendable (Result) -> Void) -> Void) -> Result {
    let semaphore = DispatchSemaphore(value: 0)
    let box = Box<Result>()
    start { result in
      box.value.withLock { $0 = result }
      semaphore.signal()
    }
    semaphore.wait()
    guard let result = box.value.withLock({ $0 }) else { preconditionFailure("signalled without a result") }
    return result
  }

  private final class Box<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
  }
}
