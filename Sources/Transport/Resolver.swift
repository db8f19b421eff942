import CLinux
import Dispatch
import Glibc
import Synchronization

/// Looks names up with the system's resolver, off the loops (getaddrinfo blocks).
public final class Resolver: Sendable {
  private let queue = DispatchQueue(label: "bearerd.resolver", attributes: .concurrent)
  private let state = Mutex(State())

  private struct State {
    var runningCount = 0
    var waiting: [@Sendable () -> Void] = []
  }

  /// A hung name server must not eat all threads.
  private static let runningMax = 8
  /// Past this a look-up fails at once (I12).
  private static let waitingMax = 4096

  public init() {}

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
    let work: @Sendable () -> Void = { [self] in
      let answer = Self.lookUp(host, port)
      loop.post { completion(answer) }
      let next: (@Sendable () -> Void)? = state.withLock { state in
        if state.waiting.isEmpty {
          state.runningCount -= 1
          return nil
        }
        return state.waiting.removeFirst()
      }
      if let next { queue.async(execute: next) }
    }
    enum Start { case now, later, refused }
    let start: Start = state.withLock { state in
      if state.runningCount < Self.runningMax {
        state.runningCount += 1
        return .now
      }
      if state.waiting.count >= Self.waitingMax { return .refused }
      state.waiting.append(work)
      return .later
    }
    switch start {
    case .now: queue.async(execute: work)
    case .later: break
    case .refused: loop.post { completion(.failed("\(host): too many name look-ups are waiting")) }
    }
  }

  private static func lookUp(_ host: String, _ port: UInt16) -> Answer {
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
