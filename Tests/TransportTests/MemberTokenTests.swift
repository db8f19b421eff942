import Testing

@testable import Transport

@Suite("A place in a loop as one number") struct MemberTokenTests {
  @Test("packing keeps index and generation", arguments: [UInt32(0), 1, 0x7fff_ffff, .max])
  func packing(_ number: UInt32) {
    for token in [MemberToken(index: number, generation: 7), MemberToken(index: 7, generation: number)] {
      #expect(MemberToken(packed: token.packed) == token)
    }
  }
}
