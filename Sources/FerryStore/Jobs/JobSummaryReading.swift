import FerryCore
import Postgres

/// State of a summary that is read in several turns. Each turn counts like rows together, and reads one job
/// of each new kind: what the property of that job is, it is for all of them.
struct JobSummaryReading: ListReading {
    let query: JobQuery
    let dimensions: [SummaryDimension]
    private let context: StoreContext
    /// The conditions of the first turn, which hold for the whole summary.
    private let conditions: QueueConditions
    private var scan = ListScan()
    /// Identifier below which the next turn begins; `nil` before the first turn.
    private var before: JobID?
    /// Jobs by what they have in common (`likeness` of list_jobs.sql).
    private var kinds: [String: Kind] = [:]
    private(set) var value: JobSummary?

    /// Rows that have the same values.
    private struct Kind {
        /// The newest of them.
        let example: JobID
        /// Values of the dimensions; `nil` if the filter excludes the jobs.
        var values: [String?]?
        var count: Int64 = 0
    }

    init(query: JobQuery, by dimensions: [SummaryDimension], _ queueState: QueueState) {
        self.query = query
        self.dimensions = dimensions
        context = queueState.context
        conditions = queueState.conditions
    }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        let rowCount = scan.turnRowCount
        var rest = query
        rest.before = before ?? query.before
        rest.limit = rowCount
        let reasons: [SummaryDimension] = query.waitingReasons.isEmpty ? [] : [.waitingReason]
        let parameters = Parameters.query(
            rest, rowCount: rowCount, isNarrow: true, dimensions: (dimensions + reasons).map(\.rawValue))
        var turn = self
        let stoppedAt = try connection.transaction { connection throws(PostgresError) -> JobID? in
            // The jobs that are read must be what they were as they were counted.
            try connection.execute(script: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return try turn.count(parameters, rowCount, &connection)
        }
        self = turn
        let lowerBound = Parameters.lowerBound(of: query)
        guard let stoppedAt, lowerBound.map({ stoppedAt > $0 }) ?? true else {
            return value = summary(isExact: true)
        }
        before = stoppedAt
        guard !scan.add(rowCount) else { return }
        // One candidate more tells whether there are others.
        rest.before = stoppedAt
        let others = try connection.execute(
            Statements.listJobs, .query(rest, rowCount: 1, isNarrow: true))
        value = summary(isExact: others.rowCount == 0)
    }

    /// Counts the jobs of one turn. Returns the last candidate if there may be others.
    private mutating func count(
        _ parameters: Parameters, _ rowCount: Int, _ connection: inout Connection
    ) throws(PostgresError) -> JobID? {
        let rows = try connection.execute(Statements.listJobs, parameters)
        var stoppedAt: JobID?
        var new: [JobID: String] = [:]
        for row in 0..<rows.rowCount {
            let id: JobID = rows.identifier(row, 0)
            if rows.int64(row, JobColumn.allCases.count) == Int64(rowCount) { stoppedAt = id }
            guard let kind = rows.textOrNil(row, JobColumn.allCases.count + 1) else { continue }
            if kinds[kind] == nil {
                kinds[kind] = Kind(example: id)
                new[id] = kind
            }
            kinds[kind]?.count += 1
        }
        guard !new.isEmpty else { return stoppedAt }
        let found = try context.jobs(Array(new.keys), withBodies: false, &connection)
        for (id, kind) in new {
            let shown = found[id].flatMap { self.values(of: $0) }
            kinds[kind]?.values = shown
        }
        return stoppedAt
    }

    /// Returns the values of the dimensions; `nil` if the filter excludes the job.
    private func values(of stored: StoredJob) -> [String?]? {
        guard query.filter.matchesReason(of: stored.record, queue: conditions) else { return nil }
        return dimensions.map { dimension in
            switch dimension {
            case .state: stored.record.state.rawValue
            case .host: stored.origin
            case .error: stored.record.error?.code.name
            case .group: stored.record.group
            case .waitingReason: WaitingReason(stored.record, queue: conditions)?.code.rawValue
            }
        }
    }

    private func summary(isExact: Bool) -> JobSummary {
        var groups: [[String?]: (count: Int64, example: JobID)] = [:]
        for kind in kinds.values {
            guard let values = kind.values else { continue }
            let other = groups[values]
            groups[values] = (
                (other?.count ?? 0) + kind.count, max(other?.example ?? kind.example, kind.example)
            )
        }
        let sorted = groups.sorted { ($0.value.count, $0.value.example) > ($1.value.count, $1.value.example) }
        return JobSummary(
            rows: sorted.map { .init(values: $0.key, count: $0.value.count, example: $0.value.example) },
            isExact: isExact)
    }
}
