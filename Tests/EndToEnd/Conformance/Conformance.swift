import Foundation
import Testing

/// One row of a table: what the client sends and what the upstream must get, byte for byte; what the upstream answers
/// and what the client must get.
struct Passing: Sendable {
  /// The section of the RFC, and what it asks for.
  var title: String
  var request: String
  var forwarded: String
  var answer: String
  var answered: String
  /// The client's connection ends behind the answer.
  var closes: Bool

  init(
    _ title: String, _ request: String, forwarded: String, answer: String = Wire.noContent,
    answered: String = Wire.noContentAnswered, closes: Bool = false
  ) {
    self.title = title
    self.request = request
    self.forwarded = forwarded
    self.answer = answer
    self.answered = answered
    self.closes = closes
  }
}

/// Messages and parts of them. `@HOST@` stands for the upstream's host and port, `@DATE@` for the present `Date` line.
enum Wire {
  static let noContent = "HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n"
  static let noContentAnswered = "HTTP/1.1 204 No Content\r\nDate: now\r\nVia: 1.1 here\r\n\r\n"

  /// A request's head with the field that HTTP/1.1 demands.
  static func request(_ line: String = "GET / HTTP/1.1", _ fields: String..., content: String = "") -> String {
    line + "\r\n" + (["Host: localhost"] + fields).map { $0 + "\r\n" }.joined() + "\r\n" + content
  }

  /// As the upstream gets it.
  static func forwarded(
    _ line: String = "GET / HTTP/1.1", _ fields: String..., version: String = "1.1", content: String = ""
  ) -> String {
    line + "\r\n" + (["Host: @HOST@"] + fields + ["Via: \(version) here"]).map { $0 + "\r\n" }.joined() + "\r\n" + content
  }

  static func response(_ line: String = "HTTP/1.1 200 OK", _ fields: String..., content: String = "") -> String {
    line + "\r\n" + (["Date: now"] + fields).map { $0 + "\r\n" }.joined() + "\r\n" + content
  }

  static func answered(
    _ line: String = "HTTP/1.1 200 OK", _ fields: String..., version: String = "1.1", behind: String = "",
    content: String = ""
  ) -> String {
    line + "\r\n" + (["Date: now"] + fields + ["Via: \(version) here"]).map { $0 + "\r\n" }.joined() + behind + "\r\n"
      + content
  }
}

extension RawScene {
  /// Sends the row through, once whole and once cut into pieces.
  func check(_ row: Passing, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let title = row.title
    for isCut in [false, true] {
      let client = try client()
      if isCut {
        client.sendInPieces(row.request)
      } else {
        client.send(row.request)
      }
      let peer = try origin.accept()
      let wanted = Array(row.forwarded.replacing("@HOST@", with: "127.0.0.1:\(origin.port)").utf8)
      let got = peer.receiveMessage(like: wanted, isCut: isCut)
      #expect(got == wanted, "\(title): forwarded: \(String(decoding: got, as: UTF8.self).debugDescription)", sourceLocation: sourceLocation)
      if isCut {
        peer.sendInPieces(row.answer)
      } else {
        peer.send(row.answer)
      }
      // No byte more than the row says, unless the upstream is still wanted.
      if !row.answer.contains("Content-Length") && !row.answer.contains("204") { peer.finishSending() }
      let wantedAnswer = Array(row.answered.utf8)
      let gotAnswer = client.receiveMessage(like: wantedAnswer, isCut: isCut)
      #expect(
        gotAnswer == wantedAnswer, "\(title): answered: \(String(decoding: gotAnswer, as: UTF8.self).debugDescription)",
        sourceLocation: sourceLocation)
      if row.closes {
        #expect(client.receive() == ("", .closed), "\(title): the connection ends", sourceLocation: sourceLocation)
      } else {
        #expect(client.isSilent(for: 0.02), "\(title): nothing more comes", sourceLocation: sourceLocation)
      }
      // Whatever else has come: it was not part of the message.
      client.leave()
      peer.finishSending()
      let (rest, _) = peer.receive()
      #expect(rest.isEmpty, "\(title): forwarded behind the message: \(rest.debugDescription)", sourceLocation: sourceLocation)
    }
  }
}

extension RawClient {
  /// As many bytes as `wanted` has. Of chunks whose content came in pieces, which may stand in chunks of their own, as
  /// many as make the same message; they are then joined.
  func receiveMessage(like wanted: [UInt8], isCut: Bool) -> [UInt8] {
    let text = String(decoding: wanted, as: UTF8.self)
    guard isCut, text.contains("Transfer-Encoding: chunked"), let head = text.firstRange(of: "\r\n\r\n") else {
      return receive(count: wanted.count)
    }
    let headBytes = text[..<head.upperBound].utf8.count
    let received = receive(count: headBytes)
    var content = ""
    var trailers = ""
    while true {
      guard let size = Int(receiveLine(), radix: 16) else { break }
      if size == 0 {
        while case let line = receiveLine(), !line.isEmpty { trailers += line + "\r\n" }
        break
      }
      content += String(decoding: receive(count: size), as: UTF8.self)
      _ = receive(count: 2)
    }
    let joined = content.isEmpty ? "" : String(content.utf8.count, radix: 16) + "\r\n" + content + "\r\n"
    return received + Array("\(joined)0\r\n\(trailers)\r\n".utf8)
  }

  private func receiveLine() -> String {
    var line: [UInt8] = []
    while !line.suffix(2).elementsEqual([13, 10]) {
      let byte = receive(count: 1)
      if byte.isEmpty { break }
      line += byte
    }
    return String(decoding: line.dropLast(2), as: UTF8.self)
  }

  /// One byte after another for a short text, else a few cuts: each a segment of its own.
  func sendInPieces(_ text: String) {
    let bytes = Array(text.utf8)
    let step = max(1, bytes.count / 40)
    var start = 0
    while start < bytes.count {
      let end = min(bytes.count, start + step)
      send(Array(bytes[start..<end]))
      usleep(300)
      start = end
    }
  }
}

/// A request that must not reach any upstream.
struct Refused: Sendable {
  var title: String
  var request: String
  var status: Int

  init(_ title: String, _ request: String, status: Int = 400) {
    self.title = title
    self.request = request
    self.status = status
  }
}

/// A response that must not look whole to the client.
struct Faulty: Sendable {
  var title: String
  var answer: String
  /// The head may have gone before the fault was seen; then the connection is cut.
  var isCut: Bool

  init(_ title: String, _ answer: String, isCut: Bool = false) {
    self.title = title
    self.answer = answer
    self.isCut = isCut
  }
}
