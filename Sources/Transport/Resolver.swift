import CLinux
import Dispatch
import Glibc
import Synchronization

/// Looks names up with the system's resolver, off the loops (getaddrinfo blocks).
public final class Resolver: Sendable {
  private let state = Mutex(State())

  private struct State {
    /// Serial ones, because each of those has a thread of its own: a concurrent queue would have as many as there are
    /// processors, and two hung look-ups would hold up all others.
    var idle = (0..<runningMax).map { DispatchQueue(label: "bearerd.resolver.\($0)") }
    var waiting: [@Sendable (DispatchQueue) -> Void] = []
  }

  /// A hung name server must not eat all threads.
  private static let runningMax = 8
  /// Past this a look-up fails at once (I12).
  private static let waitingMax = 4096

  private let lookUp: @Sendable (_ host: String, _ port: UInt16) -> Answer

  public convenience init() { self.init(lookUp: Self.askSystem) }

  /// For tests: `lookUp` blocks like the system's and is called on several threads.
  init(lookUp: @escaping @Sendable (_ host: String, _ port: UInt16) -> Answer) { self.lookUp = lookUp }

  public enum Answer: Sendable {
    /// Not empty; in the system's order of preference (RFC 6724).
    case addresses([SocketAddress])
    /// One line for people.
    case failed(String)
  }

  /// Answers on `loop`'s queue: literals at once, names later.
  public func resolve(
    _ host: String, port: UInt16, on loop: EventLoop, completion: @escaping @Sendable (Answer) -> Void
  ) {
    if let literal = SocketAddress(literal: host, port: port) {
      completion(.addresses([literal]))
      return
    }
    let work: @Sendable (DispatchQueue) -> Void = { [self] queue in
      queue.async { [self] in
        let answer = lookUp(host, port)
        loop.post { completion(answer) }
        startNext(on: queue)
      }
    }
    enum Start {
      case now(DispatchQueue)
      case later, refused
    }
    let start: Start = state.withLock { state in
      if let queue = state.idle.popLast() { return .now(queue) }
      if state.waiting.count >= Self.waitingMax { return .refused }
      state.waiting.append(work)
      return .later
    }
    switch start {
    case .now(let queue): work(queue)
    case .later: break
    case .refused: loop.post { completion(.failed("\(host): too many name look-ups are waiting")) }
    }
  }

  private func startNext(on queue: DispatchQueue) {
    let next: (@Sendable (DispatchQueue) -> Void)? = state.withLock { state in
      if state.waiting.isEmpty {
        state.idle.append(queue)
        return nil
      }
      return state.waiting.removeFirst()
    }
    next?(queue)
  }

  @Sendable private static func askSystem(_ host: String, _ port: UInt16) -> Answer {
    var hints = addrinfo()
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_NUMERICSERV
    var list: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, String(port), &hints, &list)
    guard code == 0 else { return .failed("\(host): \(String(cString: gai_strerror(code)))") }
    defer { freeaddrinfo(list) }
    var addresses: [SocketAddress] = []
    var entry = list
    while let current = entry {
      if let pointer = current.pointee.ai_addr,
        let address = SocketAddress(pointer, length: current.pointee.ai_addrlen), !addresses.contains(address) {
        addresses.append(address)
      }
      entry = current.pointee.ai_next
    }
    return addresses.isEmpty ? .failed("\(host): no address") : .addresses(addresses)
  }
}
