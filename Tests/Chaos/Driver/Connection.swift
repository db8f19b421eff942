import Foundation

/// One client's keep-alive connection: a GET at a time, with blocking calls.
final class Connection {
  private let descriptor: Int32
  private var buffer: [UInt8] = []
  /// Longer than every deadline of a request that the tests provoke.
  private static let patienceSeconds = 60

  struct Answer {
    var status: Int
    /// Status line and field section.
    var head: String
    var body: String

    func field(_ name: String) -> String? {
      for line in head.split(separator: "\r\n").dropFirst() {
        guard let colon = line.firstIndex(of: ":"), line[..<colon].lowercased() == name else { continue }
        return line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
      }
      return nil
    }

    /// The code of a problem that bearerd tells of itself; nil for an upstream's answer.
    var code: String? {
      guard field("content-type") == "application/problem+json",
        let problem = try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
      else { return nil }
      return problem["code"] as? String
    }
  }

  /// The connection ended, or said nothing, before a whole answer was there.
  struct Broken: Error { var description: String }

  init(port: UInt16) throws(Broken) {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var limit = timeval(tv_sec: Self.patienceSeconds, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard code == 0 else {
      throw Broken(description: "connect: \(String(cString: strerror(errno)))")
    }
  }

  deinit { close(descriptor) }

  func get(_ path: String, session: String) throws(Broken) -> Answer {
    try send(path, session: session)
    return try receive()
  }

  /// Sends a request whose answer `receive` takes, so that one thread can have many under way.
  func send(_ path: String, session: String) throws(Broken) {
    let text = "GET \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nBearerd-Session: \(session)\r\n\r\n"
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count > 0 else { throw Broken(description: "send: \(String(cString: strerror(errno)))") }
      rest = rest.dropFirst(count)
    }
  }

  func receive() throws(Broken) -> Answer {
    var search = 0
    while true {
      if let end = headEnd(from: search) {
        return try answer(headCount: end)
      }
      search = max(0, buffer.count - 3)
      try fill()
    }
  }

  /// Where the empty line's end is, seen from the buffer's start.
  private func headEnd(from start: Int) -> Int? {
    guard buffer.count >= 4 else { return nil }
    for index in start...(buffer.count - 4) where buffer[index..<index + 4].elementsEqual([13, 10, 13, 10]) {
      return index + 4
    }
    return nil
  }

  private func answer(headCount: Int) throws(Broken) -> Answer {
    let head = String(decoding: buffer[..<headCount], as: UTF8.self)
    var answer = Answer(status: Int(head.dropFirst(9).prefix(3)) ?? 0, head: head, body: "")
    guard let length = answer.field("content-length").flatMap({ Int($0) }) else {
      throw Broken(description: "an answer without a length: \(head)")
    }
    while buffer.count < headCount + length { try fill() }
    answer.body = String(decoding: buffer[headCount..<headCount + length], as: UTF8.self)
    buffer.removeFirst(headCount + length)
    return answer
  }

  private func fill() throws(Broken) {
    var piece = [UInt8](repeating: 0, count: 8192)
    let count = recv(descriptor, &piece, piece.count, 0)
    guard count > 0 else {
      throw Broken(description: count == 0 ? "closed by the daemon" : "recv: \(String(cString: strerror(errno)))")
    }
    buffer += piece[..<count]
  }
}
