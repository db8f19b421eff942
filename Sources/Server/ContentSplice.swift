import Transport

/// Content on its way from one connection to another inside the kernel. What the sink has not taken yet waits in a pipe
/// of the loop's.
///
/// Loop-owned, one for each direction of an exchange; it holds a pipe only while something waits.
struct ContentSplice {
  private let pipes: PipePool
  private var waiting: SplicePipe?

  init(_ pipes: PipePool) { self.pipes = pipes }

  enum Step {
    case moved
    /// One of the two has to be waited for.
    case blocked
    case sourceEnded(inOrder: Bool)
    case sinkFailed
  }

  /// Nothing else of the content may be moved before what waits.
  var isUnderway: Bool { waiting != nil }

  /// Moves once; nil where the content at hand does not go this way.
  mutating func step(from source: HTTP1Wire, to sink: HTTP1Wire) -> Step? {
    let pipe: SplicePipe
    if let waiting {
      pipe = waiting
    } else {
      guard source.givesLargeContent, sink.takesSplicedContent, let borrowed = pipes.borrow() else { return nil }
      waiting = borrowed
      pipe = borrowed
      switch source.fill(pipe) {
      case .bytes: break
      case .blocked, .full: return ended(.blocked)
      case .ended: return ended(.sourceEnded(inOrder: true))
      case .failed: return ended(.sourceEnded(inOrder: false))
      }
    }
    switch sink.offer(pipe) {
    case .accepted(0): return .blocked
    case .accepted: return pipe.isEmpty ? ended(.moved) : .moved
    case .failed: return .sinkFailed
    }
  }

  private mutating func ended(_ step: Step) -> Step {
    end()
    return step
  }

  /// Lets go of what waits.
  mutating func end() {
    if let pipe = waiting.take() { pipes.giveBack(pipe) }
  }
}
