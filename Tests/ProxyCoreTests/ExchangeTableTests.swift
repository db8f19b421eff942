import BearerPolicy
import ProxyCore
import Testing

/// Where an exchange can stand, and the inputs that bring a GET of a route with `required` there.
enum Standing: String, CaseIterable, Codable, Sendable {
  case idle, bearer, opening, exchanging, judging, relaying, ended

  var way: [Exchange.Input] {
    switch self {
    case .idle: []
    case .bearer: Standing.idle.way + [.began]
    case .opening: Standing.bearer.way + [.bearer(.ready(generation: 1))]
    case .exchanging: Standing.opening.way + [.upstreamOpened]
    case .judging: Standing.exchanging.way + [.responseHead(status: 401)]
    case .relaying: Standing.exchanging.way + [.responseHead(status: 200)]
    case .ended: Standing.relaying.way + [.responseEnded]
    }
  }
}

/// Every kind of input, and more than one of those whose content decides.
enum Event: String, CaseIterable, Codable, Sendable {
  case began, bearerNewer, bearerSame, bearerUnavailable, upstreamOpened, unreachable, pooledWasDead,
    freshDied
  case head200, head401, head403, responseEnded, responseBroke, clientAborted, clientBodyFailed

  static let refusal = BearerRefusal(code: .sessionExpired, detail: "over")

  var input: Exchange.Input {
    switch self {
    case .began: .began
    case .bearerNewer: .bearer(.ready(generation: 2))
    case .bearerSame: .bearer(.ready(generation: 1))
    case .bearerUnavailable: .bearer(.unavailable(Event.refusal))
    case .upstreamOpened: .upstreamOpened
    case .unreachable: .upstreamFailed(.unreachable("refused"))
    case .pooledWasDead: .upstreamFailed(.closedBeforeResponse(reused: true))
    case .freshDied: .upstreamFailed(.closedBeforeResponse(reused: false))
    case .head200: .responseHead(status: 200)
    case .head401: .responseHead(status: 401)
    case .head403: .responseHead(status: 403)
    case .responseEnded: .responseEnded
    case .responseBroke: .responseBroke
    case .clientAborted: .clientAborted
    case .clientBodyFailed: .clientBodyFailed(.requestTimeout)
    }
  }

  /// Exhaustive on purpose: an input that is added must be added to the table.
  static func represents(_ input: Exchange.Input) -> [Event] {
    switch input {
    case .began: [.began]
    case .bearer: [.bearerNewer, .bearerSame, .bearerUnavailable]
    case .upstreamOpened: [.upstreamOpened]
    case .upstreamFailed: [.unreachable, .pooledWasDead, .freshDied]
    case .responseHead: [.head200, .head401, .head403]
    case .responseEnded: [.responseEnded]
    case .responseBroke: [.responseBroke]
    case .clientAborted: [.clientAborted]
    case .clientBodyFailed: [.clientBodyFailed]
    }
  }
}

let plainGET = ExchangeFacts(
  auth: .required, method: .getHeadOptions, hasIdempotencyKey: false, clientRetry: nil, pathRetry: .default,
  writes: .idempotencyKey, hasBody: false, isSafe: true)

let noBody = Exchange.BodyStanding(isReplayable: true, hasLeft: false)

/// The actions in answer to `inputs`, one for each.
@discardableResult
func drive(
  _ exchange: inout Exchange, _ inputs: [Exchange.Input], body: Exchange.BodyStanding = noBody
) -> [Exchange.Action] {
  inputs.map { exchange.handle($0, body: body) }
}

private typealias Row = (standing: Standing, event: Event, action: Exchange.Action?)

/// Goal: the whole table of a plain GET. `nil` is a pair that cannot come and traps.
@Suite("Exchange: every state and input") struct ExchangeTableTests {
  private static let unreachable = Exchange.Action.answerUpstreamFailure(.unreachable("refused"))
  private static let reused = Exchange.Action.answerUpstreamFailure(.closedBeforeResponse(reused: true))
  private static let fresh = Exchange.Action.answerUpstreamFailure(.closedBeforeResponse(reused: false))

  /// In the order of `Event.allCases`.
  private static func expected(_ standing: Standing) -> [Exchange.Action?] {
    switch standing {
    case .idle:
      [
        .resolveBearer(rejected: nil), nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
        .abortUpstream, nil,
      ]
    case .bearer:
      [
        nil, .openUpstream(fresh: false), .openUpstream(fresh: false), .answer(Event.refusal), nil, nil, nil,
        nil,
        nil, nil, nil, nil, nil, .abortUpstream, .answerClientFault(.requestTimeout),
      ]
    case .opening:
      [
        nil, nil, nil, nil, .sendRequest(generation: 1), unreachable, reused, fresh, nil, nil, nil, nil, nil,
        .abortUpstream, .answerClientFault(.requestTimeout),
      ]
    case .exchanging:
      [
        nil, nil, nil, nil, nil, unreachable, .openUpstream(fresh: true), fresh, .relayResponse(note: nil),
        .holdResponse(rejected: 1), .relayResponse(note: nil), nil, nil, .abortUpstream,
        .answerClientFault(.requestTimeout),
      ]
    case .judging:
      [
        nil, .discardAndReopen, .relayResponse(note: nil), .answer(Event.refusal), nil, .nothing, .nothing,
        .nothing,
        nil, nil, nil, .nothing, .nothing, .abortUpstream, .answerClientFault(.requestTimeout),
      ]
    case .relaying:
      [
        nil, nil, nil, nil, nil, .abortClient, .abortClient, .abortClient, nil, nil, nil, .finish,
        .abortClient,
        .abortUpstream, .abortClient,
      ]
    case .ended: Event.allCases.map { _ in .nothing }
    }
  }

  private static let table: [Row] = Standing.allCases.flatMap { standing in
    zip(Event.allCases, expected(standing)).map { (standing, $0, $1) }
  }

  @Test("the table is whole: seven states, fifteen inputs")
  func isWhole() {
    #expect(Self.table.count == 7 * 15)
    for standing in Standing.allCases { #expect(Self.expected(standing).count == Event.allCases.count) }
    for event in Event.allCases { #expect(Event.represents(event.input).contains(event)) }
  }

  @Test(
    "what each input leads to", arguments: table.filter { $0.action != nil }.map { ($0.standing, $0.event) })
  func possible(_ standing: Standing, _ event: Event) {
    var exchange = Exchange(plainGET)
    drive(&exchange, standing.way)
    let row = Self.table.first { $0.standing == standing && $0.event == event }
    #expect(exchange.handle(event.input, body: noBody) == row?.action)
    #expect(exchange.hasEnded == Self.ends(row?.action, standing))
    if exchange.hasEnded { #expect(!exchange.mayStillAnswer) }
  }

  private static func ends(_ action: Exchange.Action?, _ standing: Standing) -> Bool {
    switch action {
    case .answer, .answerUpstreamFailure, .answerClientFault, .abortClient, .abortUpstream, .finish: true
    case .nothing: standing == .ended
    case .resolveBearer, .openUpstream, .sendRequest, .holdResponse, .discardAndReopen, .relayResponse,
      .resendUnprobed, .openTunnel, nil:
      false
    }
  }

  @Test(
    "a pair that no peer can cause traps",
    arguments: table.filter { $0.action == nil }.map { ($0.standing, $0.event) })
  func impossible(_ standing: Standing, _ event: Event) async {
    await #expect(processExitsWith: .failure) { [standing, event] in
      var exchange = Exchange(plainGET)
      drive(&exchange, standing.way)
      drive(&exchange, [event.input])
    }
  }

  @Test(
    "an answer of our own is possible until a response's head is relayed, and a 401 held back is told apart")
  func answerable() {
    for standing in Standing.allCases {
      var exchange = Exchange(plainGET)
      drive(&exchange, standing.way)
      #expect(exchange.mayStillAnswer == (standing != .relaying && standing != .ended))
      #expect(exchange.isJudging == (standing == .judging))
      #expect(exchange.hasEnded == (standing == .ended))
    }
  }
}
