import FerryCore
import Postgres

/// An attempt that waits until the database knows that it may have sent a request that must not be sent
/// twice.
struct RequestMark: Sendable {
    let lease: Lease
    /// As in `RequestMarker`.
    let reply: @Sendable (Bool) -> Void
}

/// Marks that have gathered. Used on the dispatcher's thread only.
struct RequestMarks {
    /// Marks of one statement at most.
    private static let countMax = 500

    private var waiting: [RequestMark] = []

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ mark: RequestMark) { waiting.append(mark) }

    /// Commits the marks, and replies. After an error they wait for the next call.
    mutating func write(_ database: ReconnectingConnection, of node: NodeID) throws(PostgresError) {
        while !waiting.isEmpty {
            let marks = Array(waiting.prefix(Self.countMax))
            var parameters = Parameters()
            parameters.append(node)
            parameters.appendArray(.uuid, marks) { $0.append($1.lease.job) }
            parameters.appendArray(.int32, marks) { $0.append(int32: $1.lease.attempt) }
            let rows = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.execute(Statements.markRequests, parameters)
            }
            let noted: Set<JobID> = Set(rows.identifiers())
            waiting.removeFirst(marks.count)
            for mark in marks { mark.reply(noted.contains(mark.lease.job)) }
        }
    }
}
