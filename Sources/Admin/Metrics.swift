import BearerPolicy
public import Chronology
public import Server

/// What the admin listener tells of the process at one moment.
public struct AdminSnapshot: Sendable {
  public var counters: Counters
  public var sessions: SessionKeeper.Snapshot
  public var now: WallTime

  public init(counters: Counters, sessions: SessionKeeper.Snapshot, now: WallTime) {
    self.counters = counters
    self.sessions = sessions
    self.now = now
  }
}

/// The Prometheus text format, version 0.0.4. No label holds a token or a name given by a peer, but the sessions' names.
public enum Metrics {
  public static func render(_ snapshot: AdminSnapshot) -> String {
    var page = Page()
    let counters = snapshot.counters
    page.add("bearerd_client_connections_total", "counter", "Client connections accepted.", counters.clientsAccepted)
    page.add("bearerd_client_connections_refused_total", "counter", "Refused at the limit.", counters.clientsRefused)
    page.add("bearerd_client_connections", "gauge", "Client connections open.", UInt64(clamping: counters.clientsOpen))
    page.add("bearerd_requests_total", "counter", "Requests begun.", counters.requests)
    page.add("bearerd_requests_with_token_total", "counter", "Attempts sent with a token.", counters.requestsWithBearer)
    page.add("bearerd_request_heads_refused_total", "counter", "Heads that are not valid HTTP.", counters.refusedHeads)
    page.head("bearerd_responses_total", "counter", "Final responses by status class.")
    for index in 1...5 {
      page.line("bearerd_responses_total{class=\"\(index)xx\"}", counters.responsesByClass[index])
    }
    page.add("bearerd_own_answers_total", "counter", "Answers made by bearerd itself.", counters.problems)
    page.add("bearerd_held_401_total", "counter", "401s that led to a question for a newer token.", counters.held401)
    page.add("bearerd_replays_total", "counter", "Requests sent again after a 401.", counters.replays)
    page.add(
      "bearerd_responses_cut_total", "counter", "Responses that the upstream cut.", counters.abortedResponses)
    page.add("bearerd_clients_gone_total", "counter", "Requests given up by their client.", counters.abortedByClient)
    page.add(
      "bearerd_upstream_connections", "gauge", "Upstream connections open.",
      UInt64(clamping: counters.upstreamConnectionsOpen))
    page.add(
      "bearerd_upstream_connections_idle", "gauge", "Of those, idle.", UInt64(clamping: counters.upstreamConnectionsIdle))
    page.add("bearerd_buffer_bytes", "gauge", "Bytes of buffers in use.", UInt64(clamping: counters.bufferBytes))
    page.add("bearerd_replay_bytes", "gauge", "Bytes of request copies.", UInt64(clamping: counters.replayBytes))
    page.head("bearerd_refreshes_total", "counter", "Refresh flights by trigger and outcome.")
    for (labels, count) in snapshot.sessions.tallies.refreshes.sorted(by: { $0.key < $1.key }) {
      page.line("bearerd_refreshes_total{\(labels)}", count)
    }
    page.add(
      "bearerd_refresh_waiters_refused_total", "counter", "Requests beyond the limit of waiters.",
      snapshot.sessions.tallies.waitersRefused)
    addSessions(snapshot, &page)
    return page.text
  }

  private static func addSessions(_ snapshot: AdminSnapshot, _ page: inout Page) {
    page.add(
      "bearerd_sessions_known", "gauge", "Sessions that the process has heard of.", UInt64(snapshot.sessions.count))
    page.add(
      "bearerd_sessions_in_memory", "gauge", "Of these, the ones whose tokens are in memory.",
      UInt64(snapshot.sessions.liveCount))
    let told = snapshot.sessions.first
    page.head("bearerd_session_usable", "gauge", "1 where the session can serve.")
    for session in told {
      page.line("bearerd_session_usable{session=\"\(escaped(session.name))\"}", session.isUsable ? 1 : 0)
    }
    page.head("bearerd_session_expires_in_seconds", "gauge", "Until the access token expires.")
    for session in told {
      guard let record = session.record, record.accessToken != nil else { continue }
      page.text +=
        "bearerd_session_expires_in_seconds{session=\"\(escaped(session.name))\"} "
        + "\(record.expiresAt.since(snapshot.now).milliseconds / 1000)\n"
    }
    page.head("bearerd_session_generation", "gauge", "Counts the session's access tokens.")
    for session in told {
      page.line("bearerd_session_generation{session=\"\(escaped(session.name))\"}", session.record?.generation ?? 0)
    }
  }

  private static func escaped(_ label: String) -> String {
    label.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
  }

  private struct Page {
    var text = ""

    mutating func head(_ name: String, _ type: String, _ help: String) {
      text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    mutating func line(_ series: String, _ value: UInt64) { text += "\(series) \(value)\n" }

    mutating func add(_ name: String, _ type: String, _ help: String, _ value: UInt64) {
      head(name, type, help)
      line(name, value)
    }
  }
}
