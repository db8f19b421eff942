import Chronology
import HTTPSyntax
import ProxyCore

/// Puts one of our own answers on a client's wire.
enum ProblemWriter {
  static func write(
    _ problem: Problem, to wire: HTTP1Wire, isHead: Bool, closes: Bool, keepsHTTP10Alive: Bool = false, now: WallTime
  ) {
    let content = problem.content
    var head = "HTTP/1.1 \(problem.status) \(reasonPhrase(problem.status))\r\n"
    head += "Content-Type: application/problem+json\r\nContent-Length: \(content.utf8.count)\r\n"
    head += "Cache-Control: no-store\r\nDate: \(HTTPDate.format(now))\r\nProxy-Status: \(problem.proxyStatus)\r\n"
    if let challenge = problem.challenge { head += "\(challenge.field): \(challenge.value)\r\n" }
    if let seconds = problem.retryAfterSeconds { head += "Retry-After: \(seconds)\r\n" }
    if closes {
      head += "Connection: close\r\n"
    } else if keepsHTTP10Alive {
      head += "Connection: keep-alive\r\n"
    }
    head += "\r\n"
    if !isHead { head += content }
    wire.makeRoom(head.utf8.count)
    wire.output.append(utf8: head)
  }

  /// The 200 that ends a TRACE, with its content, or an OPTIONS whose `Max-Forwards` says that it ends here.
  static func writeFinal(trace: [UInt8]?, to wire: HTTP1Wire, closes: Bool, keepsHTTP10Alive: Bool, now: WallTime) {
    var head = "HTTP/1.1 200 OK\r\nContent-Length: \(trace?.count ?? 0)\r\nDate: \(HTTPDate.format(now))\r\n"
    if trace != nil { head += "Content-Type: message/http\r\n" }
    if closes {
      head += "Connection: close\r\n"
    } else if keepsHTTP10Alive {
      head += "Connection: keep-alive\r\n"
    }
    wire.makeRoom(head.utf8.count + 2 + (trace?.count ?? 0))
    wire.output.append(utf8: head + "\r\n")
    if let trace { wire.output.append(array: trace) }
  }

  /// RFC 9110 §15; only for what bearerd itself can answer, and the statuses a configuration may choose.
  static func reasonPhrase(_ status: Int) -> String {
    switch status {
    case 400: "Bad Request"
    case 401: "Unauthorized"
    case 403: "Forbidden"
    case 407: "Proxy Authentication Required"
    case 408: "Request Timeout"
    case 413: "Content Too Large"
    case 414: "URI Too Long"
    case 417: "Expectation Failed"
    case 421: "Misdirected Request"
    case 431: "Request Header Fields Too Large"
    case 501: "Not Implemented"
    case 502: "Bad Gateway"
    case 503: "Service Unavailable"
    case 504: "Gateway Timeout"
    case 505: "HTTP Version Not Supported"
    case 508: "Loop Detected"
    case _: "Error"
    }
  }
}
