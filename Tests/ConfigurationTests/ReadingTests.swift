import Chronology
import Configuration
import Testing

@Suite("SPEC §11 amounts carry units") struct AmountTests {
  @Test(
    "a duration is a whole number and one unit",
    arguments: [
      ("250ms", Interval.milliseconds(250)), ("30s", .seconds(30)), ("5min", .seconds(300)), ("1h", .seconds(3600)),
      ("1d", .seconds(86_400)), ("007s", .seconds(7)),
    ])
  func durations(_ text: String, _ expected: Interval) throws {
    #expect(try configuration("[timeouts]\nheader = \"\(text)\"").timeouts.header == expected)
  }

  @Test(
    "every other spelling of a duration is refused",
    arguments: [
      "\"30\"", "\"s\"", "\"\"", "\"5m\"", "\"1.5s\"", "\"30 s\"", "\" 30s\"", "\"-1s\"", "\"+1s\"", "\"30S\"",
      "\"1min30s\"", "\"99999999999999999999s\"", "\"9223372036854775807d\"", "\"2d\"", "\"0s\"", "30", "1.5",
      "true",
      "\"٣s\"",
    ])
  func badDurations(_ value: String) {
    let found = errors("[timeouts]\nheader = \(value)")
    #expect(found.count == 1)
    #expect(
      found.first?.hasSuffix("expected a duration from 1ms to 1d with its unit (ms, s, min, h, d)") == true,
      "\(found)")
  }

  @Test(
    "a size is a whole number and one unit",
    arguments: [("0B", 0), ("512B", 512), ("64KiB", 65_536), ("1MiB", 1 << 20), ("1GiB", 1 << 30)])
  func sizes(_ text: String, _ expected: Int) throws {
    let text = "[replay]\nmax_body = \"\(text)\"\nmemory = \"2GiB\""
    #expect(try configuration(text).replay.maxBodyBytes == expected)
  }

  @Test(
    "every other spelling of a size is refused",
    arguments: [
      "\"64\"", "\"64KB\"", "\"64kib\"", "\"64 KiB\"", "\"-1B\"", "\"2GiB\"", "\"9999999999999GiB\"", "65536",
    ])
  func badSizes(_ value: String) {
    let found = errors("[replay]\nmax_body = \(value)\nmemory = \"4GiB\"")
    #expect(found.count == 1)
    #expect(
      found.first?.hasSuffix("expected a size from 0B to 1GiB with its unit (B, KiB, MiB, GiB)") == true, "\(found)"
    )
  }
}

@Suite("SPEC §11 unknown keys are errors with a suggestion") struct UnknownKeyTests {
  @Test(
    "the error names the key path and what was probably meant",
    arguments: [
      Refusal(upstream("orgin = \"x\""), "unknown key `upstream.api.orgin`: did you mean `origin`?"),
      Refusal("loop = 2", "unknown key `loop`: did you mean `loops`?"),
      Refusal("lopos = 2", "unknown key `lopos`: did you mean `loops`?"),
      Refusal("[timeout]\nheader = \"1s\"", "unknown key `timeout`: did you mean `timeouts`?"),
      Refusal("[log]\nlevle = \"info\"", "unknown key `log.levle`: did you mean `level`?"),
      Refusal("colour = \"blue\"", "unknown key `colour`"),
      Refusal(
        "[[listener]]\ntcp = \"127.0.0.1:1\"\nmod = 1", "unknown key `listener[0].mod`: did you mean `mode`?"),
      Refusal(
        upstream("[[upstream.api.path]]\nprefix = \"/\"\nretyr = \"never\""),
        "unknown key `upstream.api.path[0].retyr`: did you mean `retry`?"),
      Refusal(upstream("tls.cafile = \"/x\""), "unknown key `upstream.api.tls.cafile`: did you mean `ca_file`?"),
      Refusal(provider("rotations = \"never\""), "unknown key `provider.p.rotations`: did you mean `rotation`?"),
      Refusal(provider("response.acess = \"x\""), "unknown key `provider.p.response.acess`"),
      Refusal("\"a b.c\" = 1", "unknown key `\"a b.c\"`"),
      Refusal(
        upstream("insecure = true"),
        "unknown key `upstream.api.insecure` (certificates are always verified: set `tls.ca_file` to trust another "
          + "authority)"),
    ])
  func suggestions(_ refusal: Refusal) { #expect(errors(refusal.text) == [refusal.error]) }

  @Test("an inline secret is refused without being shown (I10)")
  func inlineSecret() {
    let found = errors(provider("client_secret = \"hunter2\""))
    #expect(
      found == ["unknown key `provider.p.client_secret` (secrets come only from files: set `client_secret_file`)"])
  }

  @Test("values of the wrong type name the key, what was found and what was expected")
  func wrongTypes() {
    let text = """
      loops = "four"
      log = 5
      upstream.api = 1
      provider = []
      listener = { tcp = "127.0.0.1:1" }
      [forward]
      unmatched = "maybe"
      pass_allow = "localhost"
      [browser_guard]
      allowed_origins = ["http://a.example", "ftp://b.example", 3]
      """
    #expect(
      errors(text) == [
        "`loops`: found \"four\", expected an integer from 0 to 1024",
        "`log`: found 5, expected a table",
        "`forward.unmatched`: found \"maybe\", expected one of \"deny\", \"pass\"",
        "`forward.pass_allow`: found \"localhost\", expected an array, each element a host, or a host and port",
        "`browser_guard.allowed_origins[1]`: found \"ftp://b.example\", expected an origin such as "
          + "\"https://app.example.com\"",
        "`browser_guard.allowed_origins[2]`: found 3, expected an origin such as \"https://app.example.com\"",
        "`listener`: found a table, expected an array of tables (write `[[listener]]`)",
        "`upstream.api`: found 1, expected a table",
        "`provider`: found an array, expected a table",
      ])
  }
}

@Suite("SPEC §11 every error at once") struct SyntaxTests {
  @Test("a text that is not TOML is one error with line and column")
  func syntaxError() {
    guard case .failure(let errors) = parse("loops = 1\n[log]\nlevel = = 3\n") else {
      Issue.record("accepted")
      return
    }
    #expect(errors.errors.count == 1)
    guard case .syntax(let message, let line, let column)? = errors.errors.first?.problem else {
      Issue.record("\(errors)")
      return
    }
    #expect(line == 3)
    #expect(column == 9)
    #expect(!message.isEmpty)
    #expect(errors.description.hasPrefix("line 3, column 9: "))
  }

  @Test(
    "a table header without a key is an error, not the end of the process",
    arguments: [("[=", 2), ("[ .a]", 3), ("[[", 3), ("[", 2), ("[[=]]", 3), ("[\u{e9}]", 2)])
  func headerWithoutKey(_ header: String, _ column: Int) {
    guard case .failure(let errors) = parse("loops = 1\n\(header)\n"),
      case .syntax(let message, let line, let found)? = errors.errors.first?.problem
    else {
      Issue.record("no syntax error")
      return
    }
    #expect(message == "a table header without a key")
    #expect(line == 2 && found == column)
  }

  /// Each ended the process in the parser (an assertion), or is a neighbour of one that did.
  @Test(
    "a date is an error, not the end of the process",
    arguments: [
      "a = 1979-05-27t:", "a = 1979-05-27tp://x", "a = 1979-05-27 0", "a = 1979-05-27_ 0", "a = 1979-05-27",
      "a = 1979-05-27T07:32:00Z", "a=1979-", "a = [1979-05-27t:]", "a = [ 1, # b\n 1979-05-27t: ]",
      "a = {b = 1979-05-27t:}", "a =\t1979-05-27tT:",
    ])
  func date(_ text: String) throws {
    let found = errors("loops = 1\n" + text)
    let lines = text.split(separator: "\n")
    let last = try #require(lines.last)
    let column = last.distance(from: last.startIndex, to: try #require(last.firstRange(of: "1979")).lowerBound) + 1
    #expect(found == ["line \(lines.count + 1), column \(column): a date: no setting is one"])
  }

  @Test(
    "what only looks like a date is none",
    arguments: [
      "# 1979-05-27t:", "\"a = 1979-05-27t:\" = 1", "1979-05-27t = 1", "a = \"1979-05-27t:\"", "[x.1979-05-27t]",
      "a = {b = 1, 1979-05-27t = 2}", "a = 1979", "a = '''\n= 1979-05-27t:'''",
    ])
  func noDate(_ text: String) {
    let found = errors("loops = 1\n" + text)
    #expect(!found.isEmpty == (text.first != "#") && !found.contains { $0.contains("a date") }, "\(found)")
  }

  @Test(
    "a bracket that closes nothing is an error, not the end of the process",
    arguments: [
      ("x = [}", "}", 6), ("x = [1, }", "}", 9), ("x = [[]}", "}", 8), ("x = {a = [}}", "}", 11), ("x = 1]", "]", 6),
      ("x = { a = 1 ]", "]", 13), ("x = [\"]\", '}', }", "}", 16), ("x = [ # ]", nil, 0),
      ("x = \"\"\"]\"\"\"\"\"}", "}", 14),
    ])
  func strayBracket(_ text: String, _ bracket: Character?, _ column: Int) {
    let found = errors("loops = 1\n\(text)\n")
    #expect(found.count == 1)
    guard let bracket else { return }
    #expect(found.first == "line 2, column \(column): '\(bracket)' closes nothing here", "\(found)")
  }

  @Test("brackets in strings and comments are text")
  func bracketsInText() {
    let text = """
      # ] }
      pseudonym = "a]" # }
      x = '}'
      y = \"\"\"
      ] \\\" }\"\"\"
      z = '''
      ]\\'''
      """
    let found = errors(text)
    #expect(!found.contains { $0.contains("closes nothing") }, "\(found)")
  }

  @Test("a syntax error is one line, whatever the file holds where the parser stops")
  func oneLine() {
    let found = errors("loops = t\u{1}\u{7F}\u{B}\n")
    #expect(found.count == 1 && !found[0].unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F })
  }

  @Test("the same key twice is a syntax error")
  func duplicateKey() {
    let found = errors("loops = 1\nloops = 2\n")
    #expect(found.count == 1)
    #expect(found.first?.hasPrefix("line 2, column ") == true, "\(found)")
  }

  /// The parser returns C strings: a NUL would shorten `good.example\\u0000.evil.example` to another host unseen.
  @Test(
    "a NUL is refused wherever it stands, written out or as an escape",
    arguments: [
      ("loops = 1\npseudonym = \"a\0b\"", 2, 15), ("pseudonym = \"a\\u0000b\"", 1, 15),
      ("pseudonym = \"a\\U00000000b\"", 1, 15), ("loops = 1 # \0", 1, 13),
    ])
  func nul(_ text: String, _ line: Int, _ column: Int) {
    #expect(errors(text) == ["line \(line), column \(column): a NUL character"])
  }

  @Test("errors of all sections come together, in one line each")
  func collected() {
    let text = """
      loops = -1
      [timeouts]
      header = "soon"
      [upstream.a]
      origin = "http://api.example.com"
      auth = "always"
      [provider.p]
      preset = "oauth3"
      """
    let found = errors(text)
    #expect(found.count == 7, "\(found)")
    for key in [
      "`loops`", "`timeouts.header`", "`upstream.a.auth`", "`upstream.a.session`", "`upstream.a.origin`",
      "`provider.p.preset`", "`provider.p.endpoint`",
    ] {
      #expect(found.contains { $0.hasPrefix(key) }, "\(key) in \(found)")
    }
    #expect(!found.contains { $0.contains("\n") })
  }

  @Test("the empty text is a configuration of defaults only") func empty() throws {
    var expected = Configuration()
    let read = try configuration("")
    expected.providers = read.providers
    expected.providerConnections = read.providerConnections
    #expect(read == expected)
    #expect(read.upstreams.isEmpty)
    #expect(read.listeners == [.tcp(Configuration.HostPort(host: "127.0.0.1", port: 8180), allowsRemote: false)])
  }

  @Test("defaults are those of SPEC §9, §4 and §3") func defaults() throws {
    let read = try configuration("")
    #expect(read.limits.requestLineBytes == 8192)
    #expect(read.limits.headerSectionBytes == 32_768)
    #expect(read.limits.headerFields == 128)
    #expect(read.limits.clientConnections == 16_384)
    #expect(read.limits.upstreamConnections == 256)
    #expect(read.limits.waitersPerSession == 10_000)
    let seconds = [
      read.timeouts.header, read.timeouts.clientIdle, read.timeouts.connect, read.timeouts.tlsHandshake,
      read.timeouts.responseHeader, read.timeouts.responseBodyIdle, read.timeouts.requestBodyIdle,
      read.timeouts.writeStalled, read.timeouts.poolIdle, read.timeouts.drain, read.refresh.aheadWindow,
      read.refresh.coolDown,
    ].map(\.secondsRoundedUp)
    #expect(seconds == [10, 60, 5, 5, 60, 300, 60, 60, 30, 30, 3600, 30])
    #expect(read.replay.maxBodyBytes == 1_048_576)
    #expect(read.replay.memoryBytes == 67_108_864)
    #expect(read.forward.unmatched == .deny)
    #expect(read.stateDirectory == "/var/lib/bearerd")
  }
}
