import FerryCore
import Postgres
import Testing

@testable import FerryStore

/// The log as the rows have it, in the order of the identifiers.
struct EventLog {
    let rows: [EventRow]
    var events: [Event] { rows.flatMap(\.events) }

    init(_ url: String) throws {
        var connection = try Connection(url: url)
        let found = try connection.execute(
            Statement(
                "read_log",
                """
                SELECT id, tenant, session, first_sequence, packed, not_before FROM events ORDER BY id
                """))
        rows = (0..<found.rowCount).map { row in
            EventRow(
                id: found.identifier(row, 0), tenant: found.text(row, 1), session: found.text(row, 2),
                firstSequence: found.int64(row, 3), packed: found.bytes(row, 4),
                notBefore: found.instantOrNil(row, 5))
        }
    }

    /// Of one session.
    func events(of session: String) -> [Event] { events.filter { $0.session == session } }

    /// Whether each session's numbers begin at 1, have no gap and are in the order of the identifiers.
    var isGapFree: Bool {
        Dictionary(grouping: events) { [$0.tenant, $0.session] }.values.allSatisfy { events in
            events.map(\.sequence) == Array(1...Int64(events.count))
        }
    }
}

/// A node that has been silent for a minute. Returns its identifier.
func silentNode(_ connection: inout Connection) throws -> String {
    let id = (TestNode.identifiers.make() as NodeID).uuidText
    try connection.execute(
        script: """
            INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker)
            VALUES ('\(id)', 'dead', '0', now(), now() - interval '60 seconds', 1, false, true)
            """)
    return id
}

extension TestNode {
    /// Waits for so many heartbeats. With each of them the node looks for who is silent.
    func waitForBeats(_ count: Int, _ url: String) throws {
        var connection = try Connection(url: url)
        let sql = "SELECT heartbeat_at FROM nodes WHERE id = '\(id.uuidText)'"
        let statement = Statement("last_beat", sql)
        var last = try connection.execute(statement).instant(0, 0)
        for _ in 0..<count {
            var next = last
            try eventually("it beats") {
                next = try connection.execute(statement).instant(0, 0)
                return next != last
            }
            last = next
        }
    }
}
