import BearerPolicy
import Configuration
import HTTPSyntax
import ProxyCore

/// What bearerd says when it answers itself: what happened, and what to do (SPEC §6).
enum ProblemTexts {
  static let noSession = BearerRefusal(
    code: .sessionMissing, detail: "No session is chosen for this request.")

  static func refusal(_ refusal: BearerRefusal, plan: RequestPlan) -> Problem {
    let remedy: String
    switch refusal.code {
    case .sessionExpired: remedy = "Sign in again and store the new tokens with 'bearerd session add'."
    case .sessionMissing: remedy = "Store its tokens with 'bearerd session add', or name another session."
    case .refreshUnavailable, .overloaded: remedy = "Try again later."
    case .refreshMisconfigured:
      remedy = "Correct the provider's settings, then reload bearerd or run 'bearerd session refresh'."
    case .storeUnwritable: remedy = "Nothing was sent; make the state directory writable."
    case .upstreamUnreachable, .upstreamTLS, .upstreamTimeout, .upstreamProtocol, .routeDenied, .connectDenied,
      .crossSiteDenied, .clientUnauthenticated, .misdirected, .loopDetected, .badRequest, .expectationFailed, .headerTooLarge, .targetTooLong,
      .bodyTooLarge, .requestTimeout:
      remedy = ""
    }
    let isOver = refusal.code == .sessionExpired || refusal.code == .sessionMissing
    return Problem(
      refusal.code, detail: refusal.detail, remedy: remedy, retryAfterSeconds: refusal.retryAfterSeconds,
      loginURL: isOver ? plan.upstream?.settings.loginURL : nil,
      status: isOver ? plan.upstream?.settings.expiredStatus ?? 401 : nil)
  }

  static func upstream(_ failure: UpstreamFailure, plan: RequestPlan) -> Problem {
    switch failure {
    case .unreachable(let reason):
      Problem(
        .upstreamUnreachable, detail: "The upstream could not be reached: \(reason).",
        remedy: "Check that it runs and that its address is right.")
    case .tls(let reason):
      Problem(
        .upstreamTLS, detail: "The TLS handshake with the upstream failed: \(reason).",
        remedy: "Check its certificate and the upstream's tls settings.",
        proxyStatusError: reason.contains("certificate") ? "tls_certificate_error" : nil)
    case .connectTimedOut:
      Problem(
        .upstreamTimeout, detail: "No connection to the upstream came about in time.",
        remedy: "Check that it runs, or raise timeouts.connect.", proxyStatusError: "connection_timeout")
    case .poolExhausted:
      Problem(
        .overloaded, detail: "All connections to the upstream are in use.",
        remedy: "Try again, or raise limits.upstream_connections.", retryAfterSeconds: 1,
        proxyStatusError: "connection_limit_reached")
    case .outOfDescriptors: outOfDescriptors
    case .addressNotAllowed:
      Problem(
        .routeDenied, detail: "The host leads to an address of this machine or its link.",
        remedy: "List it in forward.pass_allow if that is meant.", proxyStatusError: "destination_ip_prohibited")
    case .closedBeforeResponse(let reused):
      Problem(
        .upstreamProtocol,
        detail: "The upstream closed \(reused ? "an idle" : "the") connection without a response.",
        remedy: "The request may or may not have been executed; check before repeating it.",
        proxyStatusError: "connection_terminated")
    case .malformedResponse(let reason):
      Problem(
        .upstreamProtocol, detail: "The upstream's response was refused: \(reason).",
        remedy: "The upstream must be mended; nothing of its answer was passed on.")
    case .responseTimedOut:
      Problem(
        .upstreamTimeout, detail: "The upstream did not begin a response in time.",
        remedy: "The request may have been executed; check before repeating it, or raise timeouts.response_header.")
    }
  }

  static func clientBody(_ code: ProblemCode) -> Problem {
    if code == .requestTimeout {
      return Problem(
        code, detail: "The request's content stopped arriving.", remedy: "Send it without long pauses.")
    }
    return Problem(
      code, detail: "The request's content is not framed as HTTP/1.1 requires.",
      remedy: "Correct the chunked coding.")
  }

  /// - Parameter isForward: the client uses bearerd as a proxy, not as the origin.
  static func unauthenticated(_ isMissing: Bool, isForward: Bool) -> Problem {
    Problem(
      .clientUnauthenticated,
      detail: isMissing ? "The request does not say which client it comes from." : "No client has this name and secret.",
      remedy: isForward
        ? "Send Proxy-Authorization: Basic with the name and the secret of a [client.NAME] (http_proxy=http://NAME:SECRET@…)."
        : "Send the secret of a [client.NAME] in the field Bearerd-Client-Secret.",
      status: isForward ? 407 : 401)
  }

  static func sessionNotForClient(_ name: String) -> Problem {
    Problem(
      .sessionMissing, detail: "This client may not use the session '\(name)'.",
      remedy: "Add it to the client's sessions, or name another.", status: 403)
  }

  static let connectWithContent = Problem(
    .badRequest, detail: "A CONNECT request cannot have content.", remedy: "Correct the program that sent it.")

  static let traceWithContent = Problem(
    .badRequest, detail: "A TRACE request cannot have content.", remedy: "Correct the program that sent it.")

  static let malformedMaxForwards = Problem(
    .badRequest, detail: "Max-Forwards is not one whole number.", remedy: "Correct the program that sent it.")

  static let outOfDescriptors = Problem(
    .overloaded, detail: "The process has no free file descriptor for a connection to the upstream.",
    remedy: "Try again; raise the limit of open files (LimitNOFILE).", retryAfterSeconds: 1)

  static let tooManyClients = Problem(
    .overloaded, detail: "The limit of client connections is reached.",
    remedy: "Try again; close idle connections, or raise limits.client_connections.", retryAfterSeconds: 1)

  static let unknownExpectation = Problem(
    .expectationFailed, detail: "The request has an expectation other than 100-continue.",
    remedy: "Leave the Expect field out.")

  static func denied(_ denial: RouteDenial) -> Problem {
    switch denial {
    case .malformedTarget(let error): refusedHead(error)
    case .noUpstream:
      Problem(
        .routeDenied, detail: "No upstream claims the host and port of this request.",
        remedy: "Add an [upstream.NAME] for it, or set forward.unmatched = \"pass\" to let it through without a token.")
    case .ambiguousPath:
      Problem(
        .badRequest, detail: "The path can be read in several ways (%2F, //, ..), which lead to different upstreams.",
        remedy: "Send the path without encoded slashes, empty segments and dot segments.")
    case .connect:
      Problem(
        .connectDenied, detail: "A CONNECT tunnel hides the request, so no token could be added to it.",
        remedy: "Let the program ask for http:// instead of https:// through this proxy; bearerd itself speaks TLS "
          + "to the upstream.")
    case .connectHost:
      Problem(
        .connectDenied, detail: "forward.connect_allow does not list this host and port.",
        remedy: "Add it there, if programs may reach it without a token and unseen.")
    case .foreignHost:
      Problem(
        .misdirected, detail: "The Host field is neither a configured name nor a loopback name.",
        remedy: "Use localhost, or add the name to browser_guard.host_names.")
    case .foreignOrigin:
      Problem(
        .crossSiteDenied, detail: "A web page of another site sent this request.",
        remedy: "Add its origin to browser_guard.allowed_origins if it may use the token.")
    case .loop:
      Problem(
        .loopDetected, detail: "The Via field shows that this request has passed through this bearerd before.",
        remedy: "Check that no upstream leads back here.")
    }
  }

  static func refusedHead(_ error: HeadError) -> Problem {
    let code: ProblemCode
    switch error {
    case .targetTooLong: code = .targetTooLong
    case .sectionTooLong, .tooManyFields: code = .headerTooLarge
    case _: code = .badRequest
    }
    return Problem(
      code, detail: "The request was refused: \(error.explanation).", remedy: "Correct the program that sent it.",
      status: code == .badRequest ? error.requestStatus : nil)
  }

  static func sessionNotAccepted(_ name: String, _ upstream: String) -> Problem {
    Problem(
      .sessionMissing, detail: "Upstream '\(upstream)' does not accept the session that the request names.",
      remedy: "Add it to the upstream's sessions, or name another.", status: 403)
  }

  static func controlField(_ field: KnownField) -> Problem {
    Problem(
      .badRequest, detail: "A Bearerd control field has a value that is not known, or came twice.",
      remedy: "Bearerd-Auth takes required, optional or none; Bearerd-Retry allow or deny; Bearerd-Replayable true or "
        + "false; Bearerd-Session a session's name.")
  }
}
