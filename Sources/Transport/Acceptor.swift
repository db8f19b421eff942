import Chronology

/// Accepts on one loop and hands each connection to the next loop in turn.
///
/// One loop accepts for all, because EPOLLEXCLUSIVE does nothing for an epoll set that a dispatch source watches
/// (one connection woke four of four loops), and a listener per loop with SO_REUSEPORT would let a second
/// daemon take the same port unnoticed and cannot be had for Unix and inherited sockets.
public final class Acceptor: LoopMember {
  private let loop: EventLoop
  private let socket: ListeningSocket
  private let targets: [EventLoop]
  private let accepted: @Sendable (consuming Descriptor, EventLoop) -> Void
  private var token: MemberToken?
  private var nextTarget = 0

  /// Descriptors may come back at any time, and nothing tells: try again after this.
  private static let exhaustionPause = Interval.milliseconds(100)
  /// A turn takes one connection for each such time since the turn before: where turns are short the next one is near, and
  /// a look for more would mostly be in vain; where they are long, with large transfers, nobody waits for many of them.
  private static let connectionTime = Interval.microseconds(100)
  /// So that a flood does not starve those already here.
  private static let batchMax: Int64 = 64

  /// - Parameter accepted: called on the connection's own loop.
  public init(
    _ socket: ListeningSocket, on loop: EventLoop, handingTo targets: [EventLoop],
    accepted: @escaping @Sendable (consuming Descriptor, EventLoop) -> Void
  ) {
    self.loop = loop
    self.socket = socket
    self.targets = targets
    self.accepted = accepted
  }

  /// Call on the loop's queue.
  public func start() throws(SocketFault) {
    let token = loop.enroll(self)
    self.token = token
    try loop.watchListener(socket.descriptor, for: token)
  }

  /// No connection is accepted any more; the socket closes with its last owner.
  public func stop() {
    guard let token else { return }
    loop.unwatch(socket.descriptor)
    loop.dismiss(token)
    self.token = nil
  }

  public func ready(_ readiness: Readiness) {
    do throws(SocketFault) {
      let due = loop.turnInterval.nanoseconds / Self.connectionTime.nanoseconds
      for _ in 0..<min(max(due, 1), Self.batchMax) {
        guard let descriptor = try socket.accept() else { return }
        handOut(descriptor)
      }
    } catch {
      pause()
    }
  }

  /// EMFILE and the like: what waits would be told of in every turn.
  private func pause() {
    guard let token else { return }
    loop.unwatch(socket.descriptor)
    loop.setDeadline(loop.now + Self.exhaustionPause, for: token)
  }

  public func deadlinePassed() {
    guard let token else { return }
    do throws(SocketFault) { try loop.watchListener(socket.descriptor, for: token) } catch { pause() }
  }

  private func handOut(_ descriptor: consuming Descriptor) {
    let target = targets[nextTarget]
    nextTarget = (nextTarget + 1) % targets.count
    if target === loop { return accepted(descriptor, loop) }
    let raw = descriptor.release()
    let accepted = accepted
    target.post { accepted(Descriptor(raw), target) }
  }
}
