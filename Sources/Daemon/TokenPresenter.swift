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
  private let routes: Mutex<[String: Route]>

  private struct Route: Sendable {
    var tls: TLSClientContext
    var serverName: String?
  }

  init(_ configuration: Configuration, resolver: Resolver, loop: EventLoop) throws(StartFault) {
    self.resolver = resolver
    self.loop = loop
    routes = Mutex(try Self.makeRoutes(configuration))
  }

  func adopt(_ configuration: Configuration) throws(StartFault) {
    let made = try Self.makeRoutes(configuration)
    routes.withLock { $0 = made }
  }

  private static func makeRoutes(_ configuration: Configuration) throws(StartFault) -> [String: Route] {
    var routes: [String: Route] = [:]
    // Most presets have no TLS settings of their own: one context serves them all.
    var plain: TLSClientContext?
    for name in configuration.providers.keys.sorted() {
      let tls = configuration.providerConnections[name]?.tls ?? Configuration.TLS()
      do throws(TLSContextFault) {
        let settings = TLSClientSettings(tls)
        if settings == TLSClientSettings() {
          if plain == nil { plain = try TLSClientContext(settings) }
          if let plain { routes[name] = Route(tls: plain, serverName: tls.serverName) }
        } else {
          routes[name] = Route(tls: try TLSClientContext(settings), serverName: tls.serverName)
        }
      } catch {
        throw StartFault("provider \(name): \(error.description)")
      }
    }
    return routes
  }

  @Sendable func present(
    _ request: TokenRequest, _ provider: Provider, _ answer: @escaping @Sendable (TokenEndpointReply) -> Void
  ) {
    let route = routes.withLock { $0[provider.name] }
    let isTLS = URLParts(request.url)?.origin.scheme == .https
    loop.post { [loop, resolver] in
      TokenEndpointClient.present(
        request, tls: isTLS ? route?.tls : nil, serverName: route?.serverName, timeout: provider.timeout,
        resolver: resolver, on: loop, clock: { WallClock.now }, completion: answer)
    }
  }
}
