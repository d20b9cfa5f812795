package import FerryCore
import Postgres
import Synchronization
import Sys

/// Reads jobs. Any thread.
package final class JobQueries: JobLookup {
    private let reads: ReadPool
    private let nodeState: NodeState
    let recentResults: RecentResults
    private let context: StoreContext

    init(_ reads: ReadPool, _ nodeState: NodeState, _ recentResults: RecentResults, _ context: StoreContext) {
        self.reads = reads
        self.nodeState = nodeState
        self.recentResults = recentResults
        self.context = context
    }

    /// Reads one job of a tenant, finished or not; requests that arrive together share one statement. Fails
    /// with `notFound` for another tenant's job.
    package func storedJob(_ id: JobID, tenant: String, reply: @escaping Reply<StoredJob>) {
        reads.job(id, tenant: tenant, reply: reply)
    }

    /// Like `storedJob`, for the record only. Needs no statement if this node has just finished the job.
    package func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        guard let record = recentResult(id, tenant: tenant) else {
            return storedJob(id, tenant: tenant) { reply($0.map(\.record)) }
        }
        // On a thread for reads: the caller may be one that must not render a response.
        reads.read("recent_result", of: .tenant(tenant), reply) { _ in .success(record) }
    }

    /// Returns the job if this node has finished it within the last two seconds and no other node can have
    /// deleted it without telling this one; otherwise `nil`.
    package func recentResult(_ id: JobID, tenant: String) -> JobRecord? {
        guard hearsOfDeletions else { return nil }
        return recentResults.record(of: id, tenant: tenant, at: Sys.monotonicNanoseconds())
    }

    /// `true` if no other node is alive, or its notifications arrive.
    var hearsOfDeletions: Bool {
        !nodeState.hasPeers.load(ordering: .relaxed) || nodeState.isListening.load(ordering: .relaxed)
    }

    /// Reads what is needed to submit a terminal job again. Fails with `invalidState` for any other job.
    package func retrySource(_ id: JobID, tenant: String, reply: @escaping Reply<RetrySource>) {
        storedJob(id, tenant: tenant) { [context] result in
            reply(
                result.flatMap { stored in
                    guard stored.record.state.isTerminal else {
                        return .failure(.invalidState(of: stored.record))
                    }
                    var secrets: JobSecrets? = JobSecrets()
                    if let sealed = stored.sealedSecrets {
                        secrets = context.configuration.openSecrets(sealed)
                    }
                    guard let secrets else { return .failure(.failed) }
                    return .success(
                        RetrySource(record: stored.record, secrets: secrets, payload: stored.payload))
                })
        }
    }

    /// Reads a page of jobs, newest first, without their bodies.
    package func jobs(_ query: JobQuery, reply: @escaping Reply<ListPage<JobRecord, JobKindTag>>) {
        reads.readPage(
            "list_jobs", of: .tenant(query.tenant), JobListReading(query: query, context.damagedRows), reply)
    }

    /// Reads the attempts of a job, finished or not. Fails with `notFound` for another tenant's job.
    package func attempts(of id: JobID, tenant: String, reply: @escaping Reply<JobAttempts>) {
        let log = context.damagedRows
        reads.read("read_attempts", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            let rows = try connection.execute(Statements.readAttempts, parameters)
            guard rows.rowCount == 1, let state = JobState(rawValue: rows.text(0, 0)) else {
                return .failure(.notFound)
            }
            let earlier = rows.isNull(0, 5) ? [] : rows.bytesArray(0, 5).compactMap { $0 }
            let job = JobAttempts.Job(
                state: state, attempt: rows.int32(0, 1), node: rows.identifierOrNil(0, 2),
                startedAt: rows.instantOrNil(0, 3), storedSpec: StoredSpec(rows.bytes(0, 4), of: id, log: log)
            )
            return .success(JobAttempts(job, packed: earlier + (rows.bytesOrNil(0, 6).map { [$0] } ?? [])))
        }
    }

    /// Returns for each known job whether its partial files may be removed.
    package func removableFiles(of jobs: [JobID], reply: @escaping Reply<[JobID: Bool]>) {
        reads.read("removable_files", of: .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[JobID: Bool], StoreError> in
            var parameters = Parameters()
            parameters.appendArray(.uuid, jobs) { $0.append($1) }
            parameters.append(float64: Limits.resumeDataSeconds)
            let rows = try connection.execute(Statements.readRemovableFiles, parameters)
            var areRemovable: [JobID: Bool] = [:]
            for row in 0..<rows.rowCount { areRemovable[rows.identifier(row, 0)] = rows.bool(row, 1) }
            return .success(areRemovable)
        }
    }

    /// Returns which of the jobs exist, finished or not. `tenant`: `nil` for jobs of any tenant.
    package func known(_ jobs: [JobID], tenant: String? = nil, reply: @escaping Reply<Set<JobID>>) {
        reads.read("known_jobs", of: tenant.map { .tenant($0) } ?? .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Set<JobID>, StoreError> in
            var parameters = Parameters()
            parameters.appendArray(.uuid, jobs) { $0.append($1) }
            parameters.append(text: tenant)
            return .success(Set(try connection.execute(Statements.knownJobs, parameters).identifiers()))
        }
    }

    /// Returns those of the jobs that the tenant does not have.
    package func missing(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>) {
        known(jobs, tenant: tenant) { reply($0.map { known in jobs.filter { !known.contains($0) } }) }
    }
}

/// State of a page of jobs that is read in several turns.
private struct JobListReading: ListReading {
    let query: JobQuery
    private let log: DamagedRows
    private var records: [JobRecord] = []
    private var scan = ListScan()
    /// Identifier below which the next turn begins; `nil` before the first turn.
    private var before: JobID?
    private(set) var value: ListPage<JobRecord, JobKindTag>?

    init(query: JobQuery, _ log: DamagedRows) {
        self.query = query
        self.log = log
    }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        var rest = query
        rest.before = before ?? query.before
        rest.limit = query.limit - records.count
        let rowCount = scan.turnRowCount
        let rows = try connection.execute(
            Statements.listJobs, .query(rest, rowCount: rowCount, isNarrow: false))
        var stoppedAt: JobID?
        for row in 0..<rows.rowCount {
            if rows.int64(row, JobColumn.allCases.count) == Int64(rowCount) {
                stoppedAt = rows.identifier(row, 0)
            }
            guard !rows.isNull(row, 1), let stored = StoredJob(rows, row, isWide: true, log) else { continue }
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

    /// The parameters of list_jobs.sql. `rowCount`: largest number of candidates; `isNarrow`: leaves out the
    /// large columns.
    static func query(_ query: JobQuery, rowCount: Int, isNarrow: Bool) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: query.tenant)
        parameters.append(query.before ?? .last)
        parameters.append(text: query.session)
        let isAnyState = query.states.isEmpty
        parameters.append(
            texts: isAnyState ? nil : query.states.filter { !$0.isTerminal }.map(\.rawValue))
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
        parameters.append(
            texts: isAnyState ? nil : query.states.filter(\.isTerminal).map(\.rawValue))
        parameters.append(texts: query.origins)
        parameters.append(lowerBound(of: query))
        parameters.append(int32: Int32(rowCount))
        parameters.append(bool: query.isUnacknowledged)
        parameters.append(bool: isNarrow)
        parameters.append(text: query.group)
        return parameters
    }
}
