import FerryCore
import Postgres

/// A note of the database about the requests of an attempt: it may have sent one that must not be sent twice,
/// or its server keeps the upload.
struct RequestMark: Sendable {
    let lease: Lease
    /// The sealed `NextRequest` that continues the upload; empty if the server keeps none any more; `nil`: as
    /// it is.
    var nextRequest: [UInt8]?
    /// The job whose upload this one continues from now on; `nil` if it is its own.
    var formerJob: JobID?
    /// As in `RequestMarker`.
    let reply: @Sendable (Bool) -> Void
}

extension RequestMark {
    /// Keeps the upload of another job from being removed. Does nothing without such an upload.
    fileprivate func takeOver(_ node: NodeID, _ connection: inout Connection) throws(PostgresError) {
        guard let formerJob else { return }
        var parameters = Parameters()
        parameters.append(node)
        parameters.append(lease.job)
        parameters.append(int32: lease.attempt)
        parameters.append(formerJob)
        _ = try connection.execute(Statements.takeOverUpload, parameters)
    }
}

/// Marks that have gathered. Used on the dispatcher's thread only.
struct RequestMarks {
    /// Marks of one statement at most.
    private static let countMax = 500

    private var waiting: [RequestMark] = []

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ mark: RequestMark) { waiting.append(mark) }

    /// The next marks, one of each job at most: a statement changes a row once.
    private var batch: [RequestMark] {
        var jobs: Set<JobID> = []
        return Array(waiting.prefix(Self.countMax).prefix { jobs.insert($0.lease.job).inserted })
    }

    /// Commits the marks, and replies. After an error they wait for the next call.
    mutating func write(_ database: ReconnectingConnection, of node: NodeID) throws(PostgresError) {
        while !waiting.isEmpty {
            let marks = batch
            var parameters = Parameters()
            parameters.append(node)
            parameters.appendArray(.uuid, marks) { $0.append($1.lease.job) }
            parameters.appendArray(.int32, marks) { $0.append(int32: $1.lease.attempt) }
            parameters.appendArray(.bytea, marks) { $0.append(bytea: $1.nextRequest) }
            let takesOver = marks.contains { $0.formerJob != nil }
            let noted = try database.withConnection {
                [parameters] connection throws(PostgresError) -> Set<JobID> in
                guard takesOver else {
                    return Set(try connection.execute(Statements.markRequests, parameters).identifiers())
                }
                return try connection.transaction { connection throws(PostgresError) in
                    let noted = try connection.execute(Statements.markRequests, parameters)
                    for mark in marks { try mark.takeOver(node, &connection) }
                    return Set(noted.identifiers())
                }
            }
            waiting.removeFirst(marks.count)
            for mark in marks { mark.reply(noted.contains(mark.lease.job)) }
        }
    }
}
