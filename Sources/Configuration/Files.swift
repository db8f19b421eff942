internal import Glibc

extension Configuration {
  /// Reads a regular file of at most 1 MiB: the `readFile` for real configurations.
  public static func readFile(_ path: String) -> Result<[UInt8], FileProblem> {
    // Without O_NONBLOCK opening a FIFO would wait for a writer.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return .failure(problem(errno)) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return .failure(problem(errno)) }
    guard status.st_mode & S_IFMT == S_IFREG else { return .failure(FileProblem(reason: "is not a regular file")) }
    var bytes: [UInt8] = []
    while bytes.count <= fileBytesMax {
      var failure: Int32 = 0
      let chunk = [UInt8](unsafeUninitializedCapacity: 16 * 1024) { buffer, count in
        let got = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
        failure = got < 0 ? errno : 0
        count = max(0, got)
      }
      if failure == EINTR { continue }
      if failure != 0 { return .failure(problem(failure)) }
      if chunk.isEmpty { return .success(bytes) }
      bytes += chunk
    }
    return .failure(FileProblem(reason: "is larger than 1MiB"))
  }

  private static let fileBytesMax = 1024 * 1024

  /// The store's key and the files that the TLS settings name: each one that is not a readable regular file, as this
  /// process sees it now.
  ///
  /// Apart from `parse`, because a configuration may be checked where it does not run. Secret files were read by
  /// `parse` already.
  public func checkFiles() -> [ConfigurationError] {
    var errors: [ConfigurationError] = []
    if let path = store.keyFile, case .failure(let problem) = Self.readFile(path) {
      errors.append(ConfigurationError(key: "store.key_file", problem: .file(path: path, reason: problem.reason)))
    }
    func check(_ tls: TLS, _ owner: String) {
      for (key, path) in [
        ("ca_file", tls.caFile), ("client_certificate_file", tls.clientCertificateFile),
        ("client_key_file", tls.clientKeyFile),
      ] {
        guard let path, case .failure(let problem) = Self.readFile(path) else { continue }
        errors.append(
          ConfigurationError(key: "\(owner).tls.\(key)", problem: .file(path: path, reason: problem.reason)))
      }
    }
    for upstream in upstreams { check(upstream.tls, "upstream.\(TOMLText.key(upstream.name))") }
    for (name, connection) in providerConnections.sorted(by: { $0.key < $1.key }) {
      check(connection.tls, "provider.\(TOMLText.key(name))")
    }
    return errors
  }

  private static func problem(_ number: Int32) -> FileProblem {
    // strerror's text is one of a fixed table for every number that a file operation gives.
    FileProblem(reason: strerror(number).map { String(cString: $0) } ?? "error \(number)")
  }
}
