/// What the `Connection` fields of a head say (RFC 9110 §7.6.1, RFC 9112 §9.3).
struct ConnectionOptions: Equatable {
  var close = false
  var keepAlive = false
  var upgrade = false

  /// RFC 9112 §9.3: the options decide, then the version.
  func isPersistent(minorVersion: UInt8) -> Bool { !close && (minorVersion >= 1 || keepAlive) }
}

extension FieldSection {
  /// Reads the options and marks the lines that they name.
  ///
  /// `Host` and `Content-Length` are never marked: a request must not be able to have the fields removed
  /// that say where it goes and where it ends.
  mutating func readConnectionOptions(_ bytes: RawSpan) -> ConnectionOptions {
    var options = ConnectionOptions()
    guard let first = firstIndex(of: .connection) else { return options }
    for index in first..<lines.count where lines[index].field == .connection {
      var elements = ListElements(lines[index].value)
      while let element = elements.next(in: bytes) {
        if bytes.equalsIgnoringCase(element, "keep-alive") {
          options.keepAlive = true
        } else if bytes.equalsIgnoringCase(element, "close") {
          options.close = true
        } else if bytes.equalsIgnoringCase(element, "upgrade") {
          options.upgrade = true
        } else {
          markLines(named: element, in: bytes)
        }
      }
    }
    return options
  }

  private mutating func markLines(named option: ByteRange, in bytes: RawSpan) {
    for index in lines.indices {
      let line = lines[index]
      if line.name.count == option.count, !line.isConnectionOption, line.field != .host,
        line.field != .contentLength, bytes.equalsIgnoringCase(line.name, option)
      {
        markConnectionOption(at: index)
      }
    }
  }
}
