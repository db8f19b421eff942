public import BearerPolicy
public import HTTPSyntax

/// The programs that may use bearerd, and how each proves who it is (SPEC §1): in forward mode by `Proxy-Authorization:
/// Basic` (RFC 7617), in gateway mode, where bearerd is the origin to its clients and `Authorization` is the upstream's,
/// by the field `Bearerd-Client-Secret`.
public struct ClientTable: Sendable {
  public struct Client: Sendable {
    /// The user name, as bytes.
    public var name: [UInt8]
    public var secret: Secret

    public init(name: [UInt8], secret: Secret) {
      self.name = name
      self.secret = secret
    }
  }

  public var clients: [Client]

  public init(_ clients: [Client] = []) { self.clients = clients }

  public enum Verdict: Equatable, Sendable {
    /// Index into `clients`.
    case client(Int)
    /// The field is missing, or not what its scheme asks for.
    case missing
    /// No client has this name and secret.
    case wrong
  }

  public func judge(_ head: RequestHead, _ bytes: RawSpan, isForward: Bool) -> Verdict {
    isForward ? judgeBasic(head, bytes) : judgeSecret(head, bytes)
  }

  private func judgeBasic(_ head: RequestHead, _ bytes: RawSpan) -> Verdict {
    guard let credentials = BasicCredentials.read(head, bytes) else { return .missing }
    var found: Int?
    for index in clients.indices {
      // Each secret is compared, whatever the name: the time does not tell which names there are.
      let isRight = Self.matches(clients[index].secret, credentials.password)
      if isRight && clients[index].name == credentials.userName { found = index }
    }
    return found.map { .client($0) } ?? .wrong
  }

  private func judgeSecret(_ head: RequestHead, _ bytes: RawSpan) -> Verdict {
    guard let index = head.firstIndex(of: .bearerdClientSecret), head.count(of: .bearerdClientSecret) == 1 else {
      return .missing
    }
    let value = bytes.extracting(head.lines[index].value.offsets)
    var presented: [UInt8] = []
    for offset in 0..<value.byteCount { presented.append(value.byte(at: offset)) }
    var found: Int?
    for index in clients.indices where Self.matches(clients[index].secret, presented[...]) { found = index }
    return found.map { .client($0) } ?? .wrong
  }

  /// Takes a time that depends on the length of what was presented alone.
  static func matches(_ secret: Secret, _ presented: ArraySlice<UInt8>) -> Bool {
    secret.withBytes { bytes in
      guard bytes.byteCount > 0 else { return false }
      var difference: UInt8 = bytes.byteCount == presented.count ? 0 : 1
      var index = 0
      for byte in presented {
        difference |= byte ^ bytes.byte(at: index)
        index = index + 1 == bytes.byteCount ? 0 : index + 1
      }
      return difference == 0
    }
  }
}

/// What `Proxy-Authorization: Basic` says (RFC 7617 §2).
public struct BasicCredentials: Equatable, Sendable {
  public var userName: [UInt8]
  public var password: ArraySlice<UInt8>

  /// nil where the field is absent, repeated, of another scheme, or malformed.
  public static func read(_ head: RequestHead, _ bytes: RawSpan) -> BasicCredentials? {
    guard let index = head.firstIndex(of: .proxyAuthorization), head.count(of: .proxyAuthorization) == 1 else {
      return nil
    }
    let value = bytes.extracting(head.lines[index].value.offsets)
    guard value.hasPrefix("basic ") else { return nil }
    var encoded: [UInt8] = []
    for offset in 6..<value.byteCount where value.byte(at: offset) != 0x20 || !encoded.isEmpty {
      encoded.append(value.byte(at: offset))
    }
    guard let decoded = Base64.decode(encoded[...]), let colon = decoded.firstIndex(of: UInt8(ascii: ":")) else {
      return nil
    }
    return BasicCredentials(userName: Array(decoded[..<colon]), password: decoded[(colon + 1)...])
  }
}
