package import FerryCore
import Postgres
import Synchronization
import Sys

/// Reads jobs. Any thread.
package final class JobQueries: JobLookup {
    private let reads: ReadPool
    let recentResults: RecentResults
    private let queueState: QueueState
    private var context: StoreContext { queueState.context }
    private var nodeState: NodeState { queueState.nodeState }

    init(_ reads: ReadPool, _ queueState: QueueState, _ recentResults: RecentResults) {
        self.reads = reads
        self.queueState = queueState
        self.recentResults = recentResults
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
            "list_jobs", of: .tenant(query.tenant), JobListReading(query: query, queueState), reply)
    }

    /// Counts jobs by their values of the dimensions. The limit of the query does not matter.
    package func summary(
        of query: JobQuery, by dimensions: [SummaryDimension], reply: @escaping Reply<JobSummary>
    ) {
        reads.readPage(
            "summarize_jobs", of: .tenant(query.tenant),
            JobSummaryReading(query: query, by: dimensions, queueState), reply)
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
