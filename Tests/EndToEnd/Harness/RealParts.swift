import Foundation
import Testing

/// An OAuth server and a TLS front that were written by others: django-oauth-toolkit behind nginx.
final class RealParts {
  let scratch: Scratch
  /// nginx, with TLS for `api.test` and `idp.test`.
  let tlsPort: UInt16
  let tokens: [String: Any]
  private let site: Program
  private let front: Program

  init(tokenLifetime: Int) throws {
    scratch = try Scratch()
    try FileManager.default.createDirectory(atPath: scratch("site"), withIntermediateDirectories: false)
    let started = try Program(
      Self.python(), [Binaries.peer("oauth_site.py"), scratch("site"), "\(tokenLifetime)"], in: scratch)
    site = started
    let line = try awaited("the OAuth server", within: 60) { () -> String? in
      guard started.isRunning else { throw TimedOut(description: "the OAuth server ended: \(started.error)") }
      return started.output.contains("\n") ? started.output : nil
    }
    let told = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    tokens = try #require(told["tokens"] as? [String: Any])
    tlsPort = try FreePort.take()
    try Self.makeCertificate(in: scratch)
    try scratch.write(
      Self.frontConfiguration(port: tlsPort, site: try #require(told["port"] as? Int), in: scratch), to: "nginx.conf")
    let front = try Program("nginx", ["-p", scratch.path, "-c", scratch("nginx.conf")], in: scratch)
    self.front = front
    let port = tlsPort
    _ = try awaited("nginx", within: 20) { () -> Bool? in
      guard front.isRunning else { throw TimedOut(description: "nginx ended: \(front.error)") }
      return (try? RawClient(port: port)) == nil ? nil : true
    }
  }

  /// What the token endpoint and the API have seen.
  func stats() throws -> [String: Int] {
    let answer = try Transfer(
      [
        "--cacert", scratch("ca.pem"), "--resolve", "api.test:\(tlsPort):127.0.0.1",
        "https://api.test:\(tlsPort)/stats",
      ], in: scratch
    ).finish()
    return try #require(try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Int])
  }

  /// An environment with django-oauth-toolkit, made once and kept with the build's products.
  static func python() throws -> String {
    let home = Binaries.packagePath(".build/peers/oauth-site")
    let python = home + "/bin/python"
    if FileManager.default.isExecutableFile(atPath: home + "/complete") { return python }
    let scratch = try Scratch()
    let environment = ProcessInfo.processInfo.environment
    let made = try Program.run(
      "python3", ["-m", "venv", "--clear", home], in: scratch, environment: environment, within: 120)
    #expect(made.exit == 0, "\(made.error)")
    let installed = try Program.run(
      python,
      ["-m", "pip", "install", "-q", "django-oauth-toolkit==3.*", "Django==5.2.*", "waitress==3.*", "requests"],
      in: scratch, environment: environment, within: 300)
    #expect(installed.exit == 0, "\(installed.error)")
    _ = FileManager.default.createFile(
      atPath: home + "/complete", contents: nil, attributes: [.posixPermissions: 0o755])
    return python
  }

  private static func makeCertificate(in scratch: Scratch) throws {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    let commands = [
      ["req", "-x509", "-subj", "/CN=test authority", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"] + key,
      [
        "req", "-subj", "/CN=api.test", "-addext", "subjectAltName=DNS:api.test,DNS:idp.test", "-keyout", "site.key",
        "-out", "site.csr",
      ] + key,
      [
        "x509", "-req", "-in", "site.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-copy_extensions", "copy", "-out", "site.pem",
      ],
    ]
    for command in commands {
      let made = try Program.run("openssl", command, in: scratch)
      #expect(made.exit == 0, "\(made.error)")
    }
  }

  /// One process, so that nothing is left when it is killed.
  private static func frontConfiguration(port: UInt16, site: Int, in scratch: Scratch) -> String {
    """
    daemon off;
    master_process off;
    pid \(scratch("nginx.pid"));
    error_log stderr warn;
    events { worker_connections 256; }
    http {
      access_log off;
      client_body_temp_path \(scratch("body"));
      proxy_temp_path \(scratch("proxy"));
      fastcgi_temp_path \(scratch("fastcgi"));
      uwsgi_temp_path \(scratch("uwsgi"));
      scgi_temp_path \(scratch("scgi"));
      server {
        listen 127.0.0.1:\(port) ssl;
        server_name api.test idp.test;
        ssl_certificate \(scratch("site.pem"));
        ssl_certificate_key \(scratch("site.key"));
        location / {
          proxy_pass http://127.0.0.1:\(site);
          proxy_set_header Host $host;
        }
      }
    }
    """
  }
}
