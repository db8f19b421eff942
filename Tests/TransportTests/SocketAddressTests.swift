import Testing
import Transport

@Suite("Socket addresses") struct SocketAddressTests {
  @Test(
    "which literals are loopback",
    arguments: [
      ("127.0.0.1", true), ("127.255.0.9", true), ("128.0.0.1", false), ("0.0.0.0", false), ("::1", true),
      ("::", false),
      ("::ffff:127.0.0.1", true), ("::ffff:10.0.0.1", false), ("fe80::1", false),
    ])
  func loopback(_ literal: String, _ expected: Bool) throws {
    let address = try #require(SocketAddress(literal: literal, port: 80))
    #expect(address.isLoopback == expected)
    #expect(address.port == 80)
  }

  @Test(
    "which literals lead to this host or its link",
    arguments: [
      ("169.254.169.254", true), ("0.0.0.0", true), ("::", true), ("fe80::1", true),
      ("::ffff:169.254.0.1", true),
      ("10.0.0.1", false), ("2001:db8::1", false),
    ])
  func linkLocal(_ literal: String, _ expected: Bool) throws {
    #expect(try #require(SocketAddress(literal: literal, port: 1)).isLinkLocalOrUnspecified == expected)
  }

  @Test("what is no literal is none", arguments: ["localhost", "127.1", "1.2.3.4.5", "", "[::1]", "::1%lo"])
  func notLiteral(_ text: String) { #expect(SocketAddress(literal: text, port: 1) == nil) }
}
