import CLinux
// The importer attributes pthread_attr_t to the first C module that declares it.
import COpenSSL
import Glibc

/// A POSIX thread that is joined exactly once.
struct JoinableThread: @unchecked Sendable {
  private let handle: pthread_t

  private final class Body {
    let run: @Sendable () -> Void
    init(run: @escaping @Sendable () -> Void) { self.run = run }
  }

  init(_ run: @escaping @Sendable () -> Void) throws(MockServerError) {
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    // Thousands of connections: the default of 8 MiB of address space each is not needed.
    pthread_attr_setstacksize(&attributes, 512 * 1024)
    var handle = pthread_t()
    let body = Unmanaged.passRetained(Body(run: run))
    let code = pthread_create(
      &handle, &attributes,
      { raw in
        guard let raw else { return nil }
        Unmanaged<Body>.fromOpaque(raw).takeRetainedValue().run()
        return nil
      }, body.toOpaque())
    guard code == 0 else {
      body.release()
      throw .thread(errno: code)
    }
    self.handle = handle
  }

  func join() { pthread_join(handle, nil) }
}

/// The live connections: each has a descriptor and a thread, and both end here.
///
/// A descriptor is closed under the lock under which `stop` shuts descriptors down, so a number that the kernel has
/// handed out again is never shut down by mistake.
final class ConnectionRegistry: Sendable {
  private struct State {
    var isStopping = false
    var live: [Int: (descriptor: Int32, thread: JoinableThread)] = [:]
    var finished: [JoinableThread] = []
    var nextIdentifier = 0
  }
  private let state = Guarded(State())

  var liveCount: Int { state.withLock { $0.live.count } }

  /// Takes the descriptor over and runs `body` on a thread of its own. Closes it at once when that cannot be done.
  func run(_ descriptor: Int32, _ body: @escaping @Sendable (Int32) -> Void) {
    let finished = state.withLock { state in
      let identifier = state.nextIdentifier
      state.nextIdentifier += 1
      let done = state.finished
      state.finished = []
      guard !state.isStopping, let thread = try? JoinableThread({ [self] in
        body(descriptor)
        end(identifier)
      })
      else {
        close(descriptor)
        return done
      }
      state.live[identifier] = (descriptor, thread)
      return done
    }
    for thread in finished { thread.join() }
  }

  /// Ends every connection and waits for their threads; later ones are refused.
  func stop() {
    let threads = state.withLock { state in
      state.isStopping = true
      for connection in state.live.values { shutdown(connection.descriptor, Int32(SHUT_RDWR)) }
      let threads = state.live.values.map(\.thread) + state.finished
      state.finished = []
      return threads
    }
    for thread in threads { thread.join() }
  }

  /// Breaks every live connection and goes on.
  func dropConnections() {
    state.withLock { state in
      for connection in state.live.values { shutdown(connection.descriptor, Int32(SHUT_RDWR)) }
    }
  }

  /// The last thing a connection's thread does. While stopping, `stop` already holds the thread and joins it.
  private func end(_ identifier: Int) {
    state.withLock { state in
      guard let connection = state.live.removeValue(forKey: identifier) else { return }
      close(connection.descriptor)
      if !state.isStopping { state.finished.append(connection.thread) }
    }
  }
}
