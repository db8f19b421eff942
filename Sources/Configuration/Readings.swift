internal import Chronology
internal import HTTPSyntax

extension Reading where Value == Bool {
  static var boolean: Reading {
    Reading(expected: "true or false") { node in
      if case .boolean(let flag) = node { flag } else { nil }
    }
  }
}

extension Reading where Value == Int {
  static func integer(_ range: ClosedRange<Int>) -> Reading {
    Reading(expected: "an integer from \(range.lowerBound) to \(range.upperBound)") { node in
      if case .integer(let number) = node, range.contains(number) { number } else { nil }
    }
  }

  /// Bytes, as `64KiB`.
  static func size(_ range: ClosedRange<Int>) -> Reading {
    let from = Quantity.size(bytes: range.lowerBound)
    let to = Quantity.size(bytes: range.upperBound)
    return text("a size from \(from) to \(to) with its unit (B, KiB, MiB, GiB)") { text in
      Quantity.bytes(text).flatMap { range.contains($0) ? $0 : nil }
    }
  }
}

extension Reading where Value == UInt32 {
  static var uid: Reading {
    Reading(expected: "a numeric user id") { node in
      if case .integer(let number) = node { UInt32(exactly: number) } else { nil }
    }
  }
}

extension Reading where Value == Interval {
  static func duration(_ range: ClosedRange<Interval>) -> Reading {
    let from = Quantity.duration(range.lowerBound)
    let to = Quantity.duration(range.upperBound)
    return text("a duration from \(from) to \(to) with its unit (ms, s, min, h, d)") { text in
      Quantity.interval(text).flatMap { range.contains($0) ? $0 : nil }
    }
  }
}

extension Reading where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
  static func oneOf(_ type: Value.Type, except: [Value] = []) -> Reading where Value: Equatable {
    let allowed = type.allCases.filter { !except.contains($0) }
    let names = allowed.map { TOMLText.quoted($0.rawValue) }.joined(separator: ", ")
    return text("one of \(names)") { text in allowed.first { $0.rawValue == text } }
  }
}

extension Reading where Value == Origin {
  static var origin: Reading {
    url("an origin such as \"https://api.example.com\" or \"https://api.example.com:8443\", without a path") {
      url, _ in
      url.pathAndQuery == "/" ? url.origin : nil
    }
  }
}

extension Reading where Value == Configuration.HostPort {
  /// Port 0 only where the kernel may choose one.
  static func hostPort(allowsZero: Bool) -> Reading {
    text("a host and port such as \"127.0.0.1:8180\" or \"[::1]:8180\"") { text in
      guard let (host, port) = Host.split(text, allowsZero: allowsZero), let port else { return nil }
      return Configuration.HostPort(host: host, port: port)
    }
  }
}

extension Reading where Value == String {
  /// Not empty, no control character, at most 1 024 bytes.
  static func words(_ expected: String) -> Reading { text(expected) { isPlain($0) ? $0 : nil } }

  /// A session's name, or a pattern of names where `*` is allowed.
  static func sessionName(isPattern: Bool) -> Reading {
    let expected =
      isPattern
      ? "a session name or a pattern such as \"load-*\", at most 200 bytes"
      : "a session name without `*`, at most 200 bytes"
    return text(expected) { text in
      isPlain(text) && text.utf8.count <= 200 && (isPattern || !text.contains("*")) ? text : nil
    }
  }

  /// Stays a string, because what is sent must be what was written.
  static var url: Reading {
    url("an absolute http or https URL without user information and fragment") { _, text in text }
  }

  static var serializedOrigin: Reading {
    url("an origin such as \"https://app.example.com\"") { url, text in
      url.pathAndQuery == "/" && !text.hasSuffix("/") ? url.origin.description : nil
    }
  }

  static var hostName: Reading {
    text("a host name without a port") { text in
      Host.split(text).flatMap { $0.port == nil ? Host.bracketed($0.host) : nil }
    }
  }

  static var hostWithOptionalPort: Reading {
    text("a host, or a host and port") { text in
      guard let (host, port) = Host.split(text) else { return nil }
      return Host.bracketed(host) + (port.map { ":\($0)" } ?? "")
    }
  }

  /// Bytes that may stand in a path (RFC 3986 §3.3); nothing that one server reads differently from another.
  static var pathPrefix: Reading {
    text("a path prefix that starts with `/`, without query, fragment, dot segments, `//` and encoded slashes") { text in
      let segments = text.split(separator: "/")
      let lower = text.lowercased()
      if ["//", "\\", "%2f", "%5c", "%2e"].contains(where: { lower.contains($0) }) { return nil }
      let isPath = text.hasPrefix("/") && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
      return isPath && !text.contains { $0 == "?" || $0 == "#" } && !segments.contains(".")
        && !segments.contains("..")
        ? text : nil
    }
  }

  /// RFC 9110 §5.6.2.
  static var token: Reading {
    text("a token of letters, digits and !#$%&'*+-.^_`|~") { text in isToken(text) ? text : nil }
  }

  static func isToken(_ text: String) -> Bool {
    (1...256).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
      }
  }

  /// Dotted members of a JSON document; the empty text where `allowsEmpty`.
  static func jsonPath(allowsEmpty: Bool) -> Reading {
    let expected = "a dotted path such as \"data.accessToken\"" + (allowsEmpty ? ", or \"\" for none" : "")
    return text(expected) { text in
      if text.isEmpty { return allowsEmpty ? text : nil }
      return isPlain(text) && !text.split(separator: ".", omittingEmptySubsequences: false).contains("")
        ? text : nil
    }
  }

  private static func isPlain(_ text: String) -> Bool {
    (1...1024).contains(text.utf8.count) && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
  }
}

extension Reading {
  static func text(_ expected: String, isSensitive: Bool = false, _ parse: @escaping (String) -> Value?) -> Reading
  {
    Reading(expected: expected, isSensitive: isSensitive) { node in
      if case .string(let text) = node { parse(text) } else { nil }
    }
  }

  private static func url(_ expected: String, _ parse: @escaping (URLParts, String) -> Value?) -> Reading {
    text(expected) { text in URLParts(text).flatMap { parse($0, text) } }
  }
}
