// The importer attributes pthread_mutex_t to the first C module that declares it.
import COpenSSL
import Glibc

/// A value behind a POSIX mutex.
///
/// Not `Synchronization.Mutex`: the thread sanitizer does not see that one's futex (the standard library is not
/// instrumented) and reports every guarded access as a race, which would hide the real ones.
final class Guarded<Value>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private var value: Value

  init(_ value: Value) {
    self.value = value
    mutex = .allocate(capacity: 1)
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  /// Not recursive: `body` must not come back here.
  func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body(&value)
  }
}
