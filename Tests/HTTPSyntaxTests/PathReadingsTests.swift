import HTTPSyntax
import Testing

@Suite("RFC 3986 §5.2.4, §6.2.2: how origins may read a path") struct PathReadingsTests {
  private static func readings(_ path: String) -> [String]? {
    let bytes = Array(path.utf8)
    return bytes.withUnsafeBytes { PathReadings.of($0.bytes)?.map { String(decoding: $0, as: UTF8.self) } }
  }

  @Test("a path that all read alike is not read at all", arguments: ["/", "", "*", "/a/b", "/a/b/", "/a?b=%2f/../;x", "/a.b/c.."])
  func plain(_ path: String) { #expect(Self.readings(path) == nil) }

  @Test(
    "the standard's reading comes first, then those that differ",
    arguments: [
      ("/%61%2e%7E", ["/a.~"]), ("/a/./b", ["/a/b"]), ("/a/../b", ["/b"]), ("/a/%2e%2E/b", ["/b"]), ("/..", ["/"]),
      ("/a/..", ["/"]), ("/a/../../b", ["/b"]), ("/a/.", ["/a/"]), ("/.a/..b", ["/.a/..b"]), ("/a%", ["/a%"]),
      ("/a%4", ["/a%4"]), ("/%25%34%31", ["/%41"]), ("/%3f", ["/?"]), ("/%00", ["/\0"]),
      ("//", ["//", "/"]), ("/a//b/", ["/a//b/", "/a/b/"]), ("/a//../b", ["/a/b", "/b"]),
      ("/a%2fb", ["/a%2Fb", "/a/b"]), ("/x%2Fy/../b", ["/b", "/x/b"]), ("/a%5Cb", ["/a\\b", "/a/b"]),
      ("/a;b/c", ["/a;b/c", "/a/c"]), ("/a/..;/b", ["/a/..;/b", "/b"]), ("/a/;", ["/a/;", "/a/"]),
      ("/a%3Bb", ["/a;b"]), ("%41", ["/A"]),
    ])
  func readings(_ path: String, _ expected: [String]) { #expect(Self.readings(path) == expected) }

  @Test("no reading of any path but a plain one has a dot segment", arguments: 0..<300)
  func noDotSegments(_ seed: UInt64) {
    var state = seed &* 0x9e37_79b9_7f4a_7c15 | 1
    let pieces = ["/", "/", "..", ".", "%2e", "%2F", ";x", "a", "\\", "%", "%5c", "?", "%25"]
    let path = "/" + (0..<12).map { _ -> String in
      state = state &* 6_364_136_223_846_793_005 &+ 1
      return pieces[Int(state >> 33) % pieces.count]
    }.joined()
    for reading in Self.readings(path) ?? [] {
      #expect(reading.hasPrefix("/"))
      #expect(!reading.split(separator: "/").contains { $0 == "." || $0 == ".." }, "\(path) → \(reading)")
    }
  }
}
