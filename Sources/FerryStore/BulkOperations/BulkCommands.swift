package import FerryCore
import Logging
import Postgres
import Sys

/// Starts, shows and cancels bulk operations, and counts the jobs that one would cover. Any thread.
package final class BulkCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let jobs: JobQueries
    private let queueState: QueueState
    private var context: StoreContext { queueState.context }

    init(_ commands: CommandQueue, _ reads: ReadPool, _ jobs: JobQueries, _ queueState: QueueState) {
        self.commands = commands
        self.reads = reads
        self.jobs = jobs
        self.queueState = queueState
    }

    /// Candidates that one turn of a dry run looks at.
    private static let countRowCount = 5_000

    /// Stores a bulk operation, which a node then carries out, or finds the one that the first request with
    /// the same key started. Fails with `tooManyBulkOperations` if the tenant has
    /// `Limits.bulkOperationCountMax` running ones.
    package func createBulkOperation(
        _ new: NewBulkOperation, _ idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<BulkOperation>>
    ) {
        let (context, signals) = (context, queueState.signals)
        let waking: Reply<Created<BulkOperation>> = { result in
            signals.bulkWakes.send(())
            reply(result)
        }
        commands.perform("create_bulk_operation", waking) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Created<BulkOperation>, StoreError
            > in
            let created = try connection.execute(
                Statements.createBulkOperation, .new(new, idempotency, context))
            if created.rowCount == 1 {
                return try Self.bulkOperation(new.id, new.tenant, &connection)
                    .map { Created($0, isReplay: false) }
            }
            guard let idempotency else { return .failure(.tooManyBulkOperations) }
            return try Self.first(idempotency, &connection).map { Created($0, isReplay: true) }
        }
    }

    /// Returns the operation that the first request with this key started.
    private static func first(
        _ key: Submission.Idempotency, _ connection: inout Connection
    ) throws(PostgresError) -> Result<BulkOperation, StoreError> {
        switch try FirstResponse.read(key, &connection) {
        case .failure(let error): .failure(error)
        case .success(nil): .failure(.tooManyBulkOperations)
        case .success(let first?): try bulkOperation(first.id(), key.tenant, &connection)
        }
    }

    /// Reads a bulk operation. Fails with `notFound` for another tenant's operation.
    package func bulkOperation(_ id: BulkOperationID, tenant: String, reply: @escaping Reply<BulkOperation>) {
        reads.read("bulk_operation", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            try Self.bulkOperation(id, tenant, &connection)
        }
    }

    private static func bulkOperation(
        _ id: BulkOperationID, _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> Result<BulkOperation, StoreError> {
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(text: tenant)
        let rows = try connection.execute(Statements.readBulkOperation, parameters)
        guard rows.rowCount == 1 else { return .failure(.notFound) }
        // The stored filter or the reasons are damaged.
        guard let operation = try? BulkOperation(rows, 0) else { return .failure(.failed) }
        return .success(operation)
    }

    /// Reads a page of a tenant's bulk operations, newest first. Unreadable ones are left out and logged.
    package func bulkOperations(
        tenant: String, before: BulkOperationID?, limit: Int, reply: @escaping Reply<[BulkOperation]>
    ) {
        let log = context.logger
        reads.read("bulk_operations", of: .tenant(tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[BulkOperation], StoreError> in
            var parameters = Parameters()
            parameters.append(text: tenant)
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listBulkOperations, parameters)
            var operations: [BulkOperation] = []
            for row in 0..<rows.rowCount {
                // Logged below.
                if let operation = try? BulkOperation(rows, row) {
                    operations.append(operation)
                } else {
                    let id: BulkOperationID = rows.identifier(row, 0)
                    log.error("a bulk operation cannot be read", metadata: ["operation.id": "\(id)"])
                }
            }
            return .success(operations)
        }
    }

    /// Cancels a running bulk operation and returns it; one that has ended stays as it is. A step that is
    /// being carried out is finished first.
    package func cancelBulkOperation(
        _ id: BulkOperationID, tenant: String, reply: @escaping Reply<BulkOperation>
    ) {
        let context = context
        commands.perform("cancel_bulk_operation", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<BulkOperation, StoreError> in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            parameters.append(context.clock.now())
            _ = try connection.execute(Statements.cancelBulkOperation, parameters)
            return try Self.bulkOperation(id, tenant, &connection)
        }
    }

    /// Counts the jobs that a bulk operation would cover if it was started now.
    package func countJobs(
        _ selection: BulkSelection, tenant: String, reply: @escaping Reply<Int64>
    ) {
        switch selection {
        case .jobs(let ids): jobs.known(ids, tenant: tenant) { reply($0.map { Int64($0.count) }) }
        case .filter(let filter):
            let now = context.clock.now()
            reads.readPage(
                "count_jobs", of: .tenant(tenant),
                JobCount(
                    filter: filter,
                    scan: JobScan(tenant: tenant, createdUntil: now, queueState: queueState),
                    position: JobScan.upperBound(of: now), rowCount: Self.countRowCount), reply)
        }
    }
}

/// A dry run, which is carried out in several turns.
private struct JobCount: ListReading {
    let filter: JobFilter
    let scan: JobScan
    var position: JobID
    let rowCount: Int
    private var count: Int64 = 0
    private(set) var value: Int64?

    init(filter: JobFilter, scan: JobScan, position: JobID, rowCount: Int) {
        (self.filter, self.scan, self.position, self.rowCount) = (filter, scan, position, rowCount)
    }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        let step = try scan.step(filter, below: position, rowCount: rowCount, &connection)
        count += Int64(step.matches.count)
        guard let next = step.position else { return value = count }
        position = next
    }
}

extension BulkOperation {
    /// Reads the columns of read_bulk_operation.sql. Throws if the filter or the reasons cannot be read.
    init(_ rows: borrowing ResultSet, _ row: Int) throws(StoredJSONError) {
        var counts = BulkCounts()
        counts.examined = rows.int64(row, 6)
        counts.changed = rows.int64(row, 7)
        try counts.restore(reasons: rows.bytes(row, 8))
        // A later version may have stored others.
        guard let command = BulkCommand(rawValue: rows.text(row, 2)) else { throw StoredJSONError("command") }
        guard let state = BulkOperationState(rawValue: rows.text(row, 3)) else {
            throw StoredJSONError("state")
        }
        let filter = rows.bytesOrNil(row, 4)
        self.init(
            id: rows.identifier(row, 0), tenant: rows.text(row, 1), command: command, state: state,
            filter: try filter.map { json throws(StoredJSONError) in try JobFilter(storedJSON: json) },
            identifierCount: rows.isNull(row, 5) ? nil : Int(rows.int32(row, 5)), counts: counts,
            createdAt: rows.instant(row, 9), finishedAt: rows.instantOrNil(row, 10))
    }
}

extension Parameters {
    /// The parameters of create_bulk_operation.sql.
    fileprivate static func new(
        _ new: NewBulkOperation, _ idempotency: Submission.Idempotency?, _ context: StoreContext
    ) -> Parameters {
        let now = context.clock.now()
        var parameters = Parameters()
        parameters.append(new.id)
        parameters.append(text: new.tenant)
        parameters.append(now)
        parameters.append(text: new.command.rawValue)
        parameters.append(bool: new.keepsBytes)
        switch new.selection {
        case .filter(let filter):
            parameters.append(text: filter.encode())
            parameters.appendNull()
        case .jobs(let ids):
            parameters.appendNull()
            parameters.appendArray(.uuid, ids) { $0.append($1) }
        }
        parameters.append(JobScan.upperBound(of: now))
        parameters.append(text: new.traceparent)
        parameters.append(text: idempotency?.route)
        parameters.append(text: idempotency?.key)
        parameters.append(bytea: idempotency?.fingerprint)
        parameters.append(context.configuration.node)
        parameters.append(int32: Int32(Limits.bulkOperationCountMax))
        return parameters
    }
}
