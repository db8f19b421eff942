/// What the configuration has still to give, the endpoint with its parameters filled in, and the settings as bytes.
extension Provider {
  /// Keys of the settings that no request can be made without and that are not there, each once, in order.
  public var missingSettings: [String] {
    var keys: [String] = []
    func need(_ key: String, _ isThere: Bool) {
      if !isThere, !keys.contains(key) { keys.append(key) }
    }
    let hasID = oauthClientID?.isEmpty == false
    let hasSecret = oauthClientSecret?.isEmpty == false
    need("endpoint", endpoint?.isEmpty == false)
    for name in parameterNames where usesParameter(name) { need(name, parameters[name]?.isEmpty == false) }
    for key in required {
      switch key {
      case "client_id": need(key, hasID)
      case "client_secret": need(key, hasSecret)
      // The endpoint and the parameters in use are asked for above.
      default: break
      }
    }
    switch clientAuthentication {
    case .none: break
    case .basic:
      need("client_id", hasID)
      need("client_secret", hasSecret)
    case .body, .mtls: need("client_id", hasID)
    }
    return keys
  }

  /// The endpoint with its parameters; nil where it is not an absolute `http` or `https` URL with a host.
  ///
  /// A parameter's bytes that would end the path or the URL are percent-encoded.
  public var resolvedEndpoint: String? {
    guard let endpoint else { return nil }
    var url = endpoint
    for name in parameterNames {
      guard let value = parameters[name] else { continue }
      var encoded: [UInt8] = []
      for byte in value.reveal().utf8 {
        if FormEncoding.isAlphanumeric(byte) || "-._~:/[]@!$&'()*+,;=%".utf8.contains(byte) {
          encoded.append(byte)
        } else {
          FormEncoding.appendPercent(byte, to: &encoded)
        }
      }
      url = url.replacing("{\(name)}", with: String(decoding: encoded, as: UTF8.self))
    }
    return Self.isAbsolute(url) ? url : nil
  }

  /// The header fields with their parameters.
  public var resolvedHeaders: [Field] {
    guard !parameterNames.isEmpty else { return headers }
    return headers.map { header in
      var value = header.value.reveal()
      guard value.contains("{") else { return header }
      for name in parameterNames {
        guard let given = parameters[name] else { continue }
        value = value.replacing("{\(name)}", with: given.reveal())
      }
      return Field(name: header.name, value: Secret(value))
    }
  }

  /// Feeds every setting that shapes a refresh or its judgement to a hash, secrets included, each with its length
  /// before it. The digest is `SessionRecord.ConfigurationFault.settings`: another digest ends the fault.
  public func feedSettings(to hash: ([UInt8]) -> Void) {
    func feed(_ secret: Secret?) {
      // Absent and empty differ.
      var bytes = Array("\(secret.map { "\($0.count)" } ?? "-"):".utf8)
      secret?.append(to: &bytes)
      hash(bytes)
      for index in bytes.indices { bytes[index] = 0 }
    }
    func feed(_ text: String?) { feed(text.map { Secret($0) }) }
    func feed(_ texts: [String]) {
      feed("\(texts.count)")
      for text in texts { feed(text) }
    }
    func feed(_ fields: [Field]) {
      feed("\(fields.count)")
      for field in fields {
        feed(field.name)
        feed(field.value)
      }
    }
    feed(resolvedEndpoint ?? endpoint)
    feed([method.rawValue, encoding.rawValue, tokenField, clientAuthentication.rawValue, rotation.rawValue])
    feed(staticFields)
    feed(resolvedHeaders)
    feed(oauthClientID)
    feed(oauthClientSecret)
    feed([clientIDField, clientSecretField, response.bearer])
    feed(response.refresh)
    feed(response.tokenType)
    feed(codePaths)
    feed(deadCodes)
    feed(configCodes)
    feed(knownCodes)
    feed((deadStatuses + [0] + knownStatuses).map { "\($0)" })
    feed(everyOtherStatusIsKnown ? "all" : "listed")
  }

  private func usesParameter(_ name: String) -> Bool {
    endpoint?.contains("{\(name)}") == true || headers.contains { $0.value.reveal().contains("{\(name)}") }
  }

  /// RFC 3986 §4.3 for these two schemes: a host, perhaps a port, no user information.
  private static func isAbsolute(_ url: String) -> Bool {
    let rest: Substring
    if url.lowercased().hasPrefix("https://") {
      rest = url.dropFirst(8)
    } else if url.lowercased().hasPrefix("http://") {
      rest = url.dropFirst(7)
    } else {
      return false
    }
    guard url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !"\"<>\\^`{|}#".utf8.contains($0) }) else { return false }
    let authority = rest.prefix { $0 != "/" && $0 != "?" }
    let isLiteral = authority.hasPrefix("[")
    let host = isLiteral ? authority.prefix { $0 != "]" }.dropFirst() : authority.prefix { $0 != ":" }
    let after = authority.dropFirst(isLiteral ? host.count + 2 : host.count)
    guard !host.isEmpty, !isLiteral || authority.contains("]") else { return false }
    let hostBytes = isLiteral ? "0123456789abcdefABCDEF:." : "-._"
    guard host.utf8.allSatisfy({ (!isLiteral && FormEncoding.isAlphanumeric($0)) || hostBytes.utf8.contains($0) })
    else { return false }
    return after.isEmpty || (after.first == ":" && UInt16(after.dropFirst()).map { $0 > 0 } == true)
  }
}
