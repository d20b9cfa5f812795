import FerryCore
import Postgres

/// State of a page of jobs that is read in several turns.
struct JobListReading: ListReading {
    let query: JobQuery
    private let queueState: QueueState
    private var records: [JobRecord] = []
    private var scan = ListScan()
    /// Identifier below which the next turn begins; `nil` before the first turn.
    private var before: JobID?
    private(set) var value: ListPage<JobRecord, JobKindTag>?

    init(query: JobQuery, _ queueState: QueueState) {
        self.query = query
        self.queueState = queueState
    }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        var rest = query
        rest.before = before ?? query.before
        let rowCount = scan.turnRowCount
        let conditions = query.waitingReasons.isEmpty ? QueueConditions() : queueState.conditions
        // Rows do not say for which reason a job waits: of a turn, any number may not match.
        rest.limit = query.waitingReasons.isEmpty ? query.limit - records.count : rowCount
        let rows = try connection.execute(
            Statements.listJobs, .query(rest, rowCount: rowCount, isNarrow: false))
        var stoppedAt: JobID?
        for row in 0..<rows.rowCount {
            if rows.int64(row, JobColumn.allCases.count) == Int64(rowCount) {
                stoppedAt = rows.identifier(row, 0)
            }
            guard records.count < query.limit, !rows.isNull(row, 1),
                let stored = StoredJob(rows, row, isWide: true, queueState.context.damagedRows),
                query.filter.matchesReason(of: stored.record, queue: conditions)
            else { continue }
            records.append(stored.record)
        }
        // No job below the floor matches the query. The scan of a session does not stop there by itself.
        let lowerBound = Parameters.lowerBound(of: query)
        guard records.count < query.limit, let stoppedAt, lowerBound.map({ stoppedAt > $0 }) ?? true else {
            return value = ListPage(records)
        }
        before = stoppedAt
        if !scan.add(rowCount) { value = ListPage(records, stoppedAt: stoppedAt) }
    }
}

extension Parameters {
    fileprivate mutating func append(texts: [String]?) {
        guard let texts else { return appendNull() }
        appendArray(.text, texts) { $0.append(text: $1) }
    }

    /// Seconds by which `created_at` may be later than the job's id: the job waits for its transaction, and
    /// the clocks of nodes differ.
    static let acceptanceSeconds = 300.0

    /// Returns an id below every job created after `query.createdAfter`; `nil` if the query has no such
    /// bound.
    static func lowerBound(of query: JobQuery) -> JobID? {
        query.createdAfter.map { JobID.first(at: $0 + -acceptanceSeconds) }
    }

    /// Returns an id that only older jobs can match: `query.before`, or one above every job that ended before
    /// `query.finishedBefore`.
    private static func upperBound(of query: JobQuery) -> JobID {
        let ended = query.finishedBefore.map { JobID.first(at: $0 + acceptanceSeconds) } ?? .last
        return min(query.before ?? .last, ended)
    }

    /// The parameters of list_jobs.sql. `rowCount`: largest number of candidates; `isNarrow`: leaves out the
    /// large columns; `dimensions`: those of a summary.
    static func query(
        _ query: JobQuery, rowCount: Int, isNarrow: Bool, dimensions: [String]? = nil
    ) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: query.tenant)
        parameters.append(upperBound(of: query))
        parameters.append(text: query.session)
        parameters.append(texts: query.filter.unfinishedStates?.map(\.rawValue))
        parameters.append(text: query.kind?.rawValue)
        parameters.append(text: query.host)
        parameters.append(query.createdAfter)
        if query.metadata.isEmpty {
            parameters.appendNull()
        } else {
            var writer = JSONWriter()
            writer.beginObject()
            for pair in query.metadata { writer.member(pair.name, pair.value) }
            writer.endObject()
            parameters.append(jsonb: writer.bytes)
        }
        parameters.append(int32: Int32(clamping: query.limit))
        parameters.append(query.schedule)
        parameters.append(texts: query.filter.finishedStates?.map(\.rawValue))
        parameters.append(texts: query.origins)
        parameters.append(lowerBound(of: query))
        parameters.append(int32: Int32(rowCount))
        parameters.append(bool: query.isUnacknowledged)
        parameters.append(bool: isNarrow)
        parameters.append(query.retryOf)
        parameters.append(bool: query.isRetried)
        parameters.append(texts: query.errors.isEmpty ? nil : query.errors.map(\.rawValue))
        parameters.append(query.finishedAfter)
        parameters.append(query.finishedBefore)
        parameters.append(texts: dimensions)
        parameters.append(text: query.group)
        return parameters
    }
}
