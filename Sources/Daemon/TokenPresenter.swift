import BearerPolicy
import Chronology
import Configuration
import HTTPSyntax
import Server
import Synchronization
import Transport

/// Sends refresh requests with each provider's own TLS settings.
final class TokenPresenter: Sendable {
  private let resolver: Resolver
  private let loop: EventLoop
  private let contexts: Mutex<Contexts>

  private struct Route: Sendable {
    var serverName: String?
    /// nil: the provider has no TLS settings of its own.
    var tls: TLSClientContext?
  }

  private struct Contexts: Sendable {
    var routes: [String: Route]
    /// For all without settings of their own. Made when one of them is first asked: reading the system's authorities
    /// takes longer than all the rest of the start.
    var common: TLSClientContext?

    mutating func context(for provider: String) throws(TLSContextFault) -> TLSClientContext {
      if let own = routes[provider]?.tls ?? common { return own }
      let made = try TLSClientContext(TLSClientSettings())
      common = made
      return made
    }
  }

  init(_ configuration: Configuration, resolver: Resolver, loop: EventLoop) throws(StartFault) {
    self.resolver = resolver
    self.loop = loop
    contexts = Mutex(Contexts(routes: try Self.makeRoutes(configuration)))
  }

  func adopt(_ configuration: Configuration) throws(StartFault) {
    let made = Contexts(routes: try Self.makeRoutes(configuration))
    contexts.withLock { $0 = made }
  }

  private static func makeRoutes(_ configuration: Configuration) throws(StartFault) -> [String: Route] {
    var routes: [String: Route] = [:]
    for name in configuration.providers.keys.sorted() {
      let tls = configuration.providerConnections[name]?.tls ?? Configuration.TLS()
      let settings = TLSClientSettings(tls)
      do throws(TLSContextFault) {
        routes[name] = Route(
          serverName: tls.serverName, tls: settings == TLSClientSettings() ? nil : try TLSClientContext(settings))
      } catch {
        throw StartFault("provider \(name): \(error.description)")
      }
    }
    return routes
  }

  @Sendable func present(
    _ request: TokenRequest, _ provider: Provider, _ answer: @escaping @Sendable (TokenEndpointReply) -> Void
  ) {
    let serverName = contexts.withLock { $0.routes[provider.name]?.serverName }
    var tls: TLSClientContext?
    if URLParts(request.url)?.origin.scheme == .https {
      do throws(TLSContextFault) {
        tls = try contexts.withLock { contexts throws(TLSContextFault) in try contexts.context(for: provider.name) }
      } catch {
        return answer(.notSent(.tls(error.description)))
      }
    }
    loop.post { [loop, resolver, tls] in
      TokenEndpointClient.present(
        request, tls: tls, serverName: serverName, timeout: provider.timeout, resolver: resolver, on: loop,
        clock: { WallClock.now }, completion: answer)
    }
  }
}
