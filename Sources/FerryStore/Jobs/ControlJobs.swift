package import FerryCore
import Postgres
import Synchronization

extension ControlLane {
    /// Reads a page of jobs, newest first, without their bodies.
    package func jobs(_ query: JobQuery, reply: @escaping Reply<ListPage<JobRecord, JobKindTag>>) {
        reads.readPage("list_jobs", of: .tenant(query.tenant), JobListReading(query: query), reply)
    }

    /// Reads the attempts of a job, finished or not. Fails with `notFound` for another tenant's job.
    package func attempts(of id: JobID, tenant: String, reply: @escaping Reply<JobAttempts>) {
        read("read_attempts", for: tenant, reply) { connection throws(PostgresError) in
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
                startedAt: rows.instantOrNil(0, 3), specJSON: rows.bytes(0, 4))
            return .success(
                JobAttempts(job, packed: earlier + (rows.bytesOrNil(0, 6).map { [$0] } ?? [])))
        }
    }

    /// Cancels a job. A job that no node runs ends at once. For a running job its node is asked, and the
    /// reply shows the job still running. Fails with `invalidState` if the job is terminal, with `stale` if
    /// the revision differs. `keepsBytes`: keeps the bytes of a download for another job (`resume_data`).
    package func cancel(
        _ id: JobID, tenant: String, revision: Int32? = nil, keepsBytes: Bool = false,
        reply: @escaping Reply<JobRecord>
    ) {
        let context = context
        change("cancel", id, tenant, revision, reply) { stored in
            stored.record.state.isTerminal ? .invalidState(of: stored.record) : nil
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            guard let cancelled = try Self.cancel(stored, keepsBytes, &connection, context) else {
                return nil
            }
            return .success(cancelled)
        }
    }

    /// Retries a change while other transactions change the job in between; `body` returns `nil` if one has.
    /// `refusal` returns an error if the job's state does not allow the change.
    func change(
        _ name: StaticString, _ id: JobID, _ tenant: String, _ revision: Int32?,
        _ reply: @escaping Reply<JobRecord>, unless refusal: @escaping @Sendable (StoredJob) -> StoreError?,
        body:
            @escaping @Sendable (StoredJob, inout Connection) throws(PostgresError)
            -> Result<JobRecord, StoreError>?
    ) {
        perform(name, isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<JobRecord, StoreError> in
            // An iteration fails only if another transaction has changed the job meanwhile.
            for _ in 0..<10 {
                guard let stored = try Self.read([id], &connection)[id], stored.record.tenant == tenant else {
                    return .failure(.notFound)
                }
                let finding = ChangeCheck.allowed(stored).checkingState(refusal)
                    .matching(revision, of: stored.record.revision)
                if case .refused(let error) = finding { return .failure(error) }
                if let result = try body(stored, &connection) { return result }
            }
            return .failure(.unavailable)
        }
    }

    /// Returns `nil` if the job has changed meanwhile.
    private static func cancel(
        _ stored: StoredJob, _ keepsBytes: Bool, _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> JobRecord? {
        if stored.record.state == .running {
            var parameters = Parameters()
            parameters.append(stored.record.id)
            parameters.append(int32: stored.record.revision)
            parameters.append(bool: keepsBytes)
            let changed = try connection.execute(Statements.requestCancel, parameters)
            guard changed.rowCount == 1 else { return nil }
            context.stop(stored.record.id, keepsBytes ? .cancelKeepingBytes : .cancel)
            return stored.record
        }
        let resumeData = keepsBytes ? context.configuration.resumeData : nil
        let job = FinishedJob(
            stored, .cancelled, .cancelledByRequest, at: context.clock.now(), resumeData: resumeData)
        let changed = try connection.execute(Statements.finishJobs, .finished([job]))
        guard changed.rowCount == 1 else { return nil }
        if changed.hasDependents { context.noteDependencies() }
        if job.record.resumeData != nil { context.commitObserver?.jobsLeaveBytes([job.lease.job]) }
        context.commitObserver?.jobsFinished([job.lease.job])
        context.events.written(isWanted: job.isWanted)
        return job.record
    }

    /// Deletes a terminal job and returns it as it was; the caller removes its file. Fails with
    /// `invalidState` if the job is not terminal.
    package func delete(
        _ id: JobID, tenant: String, revision: Int32? = nil, reply: @escaping Reply<JobRecord>
    ) {
        let context = context
        // A finished job still changes when it is acknowledged or given up.
        change("delete", id, tenant, revision, reply) { stored in
            stored.record.state.isTerminal ? nil : .invalidState(of: stored.record)
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let record = stored.record
            guard try Self.numberEvents(of: record, &connection, context) else {
                return .failure(.unavailable)
            }
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: record.revision)
            let gone = try connection.execute(Statements.deleteJob, parameters)
            return gone.rowCount == 1 ? .success(record) : nil
        }
    }

    // MARK: Operators

    /// Reads the counts of unfinished work, the age of the oldest job and delivery, and the nodes.
    package func status(reply: @escaping Reply<StoreStatus>) {
        let metrics = context.metrics
        perform("status", isRead: true, reply) { [self] connection throws(PostgresError) in
            let look = queueLook.withLock { $0 }
            var results = try connection.pipeline { pipeline in
                pipeline.send(Statements.readStatus, look.parameters)
                pipeline.send(Statements.readNodes)
            }
            let row = results.take(0)
            let nodes = results.take(1)
            let now = row.instant(0, 7)
            let next = QueueLook(
                after: row.int64OrNil(0, 10) ?? .min, oldest: row.identifierOrNil(0, 9))
            queueLook.withLock { $0 = next }
            let roundTrip = metrics.roundTripNanoseconds.load(ordering: .relaxed)
            return .success(
                StoreStatus(
                    waiting: row.int64(0, 0), queued: row.int64(0, 1), running: row.int64(0, 2),
                    suspended: row.int64(0, 3), deliveriesPending: row.int64(0, 4),
                    oldestQueuedSeconds: row.instantOrNil(0, 5).map { max(0, now - $0) },
                    oldestDeliverySeconds: row.instantOrNil(0, 6).map { max(0, now - $0) },
                    nodes: (0..<nodes.rowCount).map { NodeStatus(nodes, $0) },
                    roundTripSeconds: roundTrip < 0 ? nil : Double(roundTrip) / 1e9,
                    isPaused: row.bool(0, 8)))
        }
    }

    package func nodes(reply: @escaping Reply<[NodeStatus]>) {
        perform("nodes", isRead: true, reply) { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.readNodes)
            return .success((0..<rows.rowCount).map { NodeStatus(rows, $0) })
        }
    }

    /// Measures one round trip to the database.
    package func ping(reply: @escaping Reply<Duration>) {
        perform("ping", isRead: true, reply) { connection throws(PostgresError) in
            .success(try connection.ping())
        }
    }
}

/// Search for the job that has been queued longest. There may be a hundred thousand claim queues. One call
/// looks at some of them, the next call continues after those, and the oldest job found is kept while it is
/// queued.
struct QueueLook: Sendable {
    /// Claim queues of one call: about 2 ms.
    private static let lotCount: Int32 = 200

    var after = Int64.min
    var oldest: JobID?

    /// The parameters of read_status.sql.
    var parameters: Parameters {
        var parameters = Parameters()
        parameters.append(int64: after)
        parameters.append(int32: Self.lotCount)
        parameters.append(oldest)
        return parameters
    }
}

/// State of a page of jobs that is read in several turns.
private struct JobListReading: ListReading {
    let query: JobQuery
    private var records: [JobRecord] = []
    private var scan = ListScan()
    /// Where the next turn begins; `nil` before the first turn.
    private var before: JobID?
    private(set) var value: ListPage<JobRecord, JobKindTag>?

    init(query: JobQuery) { self.query = query }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        var rest = query
        rest.before = before ?? query.before
        rest.limit = query.limit - records.count
        let rowCount = scan.turnRowCount
        let rows = try connection.execute(Statements.listJobs, .query(rest, rowCount: rowCount))
        var stoppedAt: JobID?
        for row in 0..<rows.rowCount {
            if rows.int64(row, 32) == Int64(rowCount) { stoppedAt = rows.identifier(row, 0) }
            if !rows.isNull(row, 1) { records.append(StoredJob(rows, row, isWide: true).record) }
        }
        // No job below the floor matches the query. The scan of a session does not stop there by itself.
        let floor = Parameters.floor(of: query)
        guard records.count < query.limit, let stoppedAt, floor.map({ stoppedAt > $0 }) ?? true else {
            return value = ListPage(records)
        }
        before = stoppedAt
        if !scan.add(rowCount) { value = ListPage(records, stoppedAt: stoppedAt) }
    }
}

extension NodeStatus {
    /// Reads a row of read_nodes.sql.
    init(_ rows: borrowing ResultSet, _ row: Int) {
        self.init(
            id: rows.identifier(row, 0), name: rows.text(row, 1), version: rows.text(row, 2),
            startedAt: rows.instant(row, 3), heartbeatAgeSeconds: rows.float64(row, 7),
            running: rows.int32(row, 4), isDraining: rows.bool(row, 5), isWorker: rows.bool(row, 6))
    }
}

extension Parameters {
    fileprivate mutating func append(texts: [String]?) {
        guard let texts else { return appendNull() }
        appendArray(.text, texts) { $0.append(text: $1) }
    }

    /// Seconds by which `created_at` may be later than the job's id: the job waits for its transaction, and
    /// the clocks of nodes differ.
    private static let acceptanceSeconds = 300.0

    /// Returns an id below every job created after `query.createdAfter`; `nil` if the query has no such
    /// bound.
    fileprivate static func floor(of query: JobQuery) -> JobID? {
        query.createdAfter.map { JobID.first(at: $0 + -acceptanceSeconds) }
    }

    /// The parameters of list_jobs.sql.
    fileprivate static func query(_ query: JobQuery, rowCount: Int) -> Parameters {
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
        parameters.append(floor(of: query))
        parameters.append(int32: Int32(rowCount))
        parameters.append(bool: query.isUnacknowledged)
        return parameters
    }
}
