import FerryCore
import Logging
import Postgres

/// One step of a bulk operation, in one transaction: locks the operation, finds the next jobs, changes those
/// that allow it, and records where the next step begins. After a crash the next step begins where the last
/// committed one has ended, on any node.
struct BulkStep {
    let insertion: JobInsertion
    /// Jobs that it changes at most.
    let changeCountMax: Int
    /// `true` to count the first job that would be changed as failed: the database refuses its change.
    let skipsFirst: Bool

    struct Outcome {
        /// `false` if no step is due.
        var isDone = false
        fileprivate var commands: [JobCommand.Outcome] = []
        fileprivate var submitted: SubmissionBatch.Outcome?

        /// A step that was not carried out; another operation may be due.
        static let postponed = Outcome(isDone: true)

        /// Tells the other parts of this node. Call after the commit.
        func note(_ insertion: JobInsertion) {
            for command in commands { command.note(insertion.queueState) }
            if let submitted { insertion.note(submitted) }
        }
    }

    /// The operation that a step is part of.
    private struct Work {
        let operation: BulkOperation
        let keepsBytes: Bool
        let position: JobID
        let traceparent: String
        /// The next identifiers; `nil` if the operation has a filter.
        let identifiers: [JobID]?

        /// Reads the columns of claim_bulk_operation.sql.
        init(_ rows: borrowing ResultSet) throws(StoredJSONError) {
            operation = try BulkOperation(rows, 0)
            keepsBytes = rows.bool(0, 11)
            position = rows.identifier(0, 12)
            traceparent = rows.text(0, 13)
            identifiers =
                rows.isNull(0, 14)
                ? nil
                : rows.uuidArray(0, 14).compactMap { $0.map { JobID(high: $0.high, low: $0.low) } }
        }

        /// Command that is carried out for each job; `nil` for a retry.
        var command: JobCommand? {
            switch operation.command {
            case .suspend: .suspend
            case .resume: .resume
            case .cancel: .cancel(keepsBytes: keepsBytes)
            case .retry: nil
            }
        }
    }

    /// Carries out the next step of the operation that is due for the longest time. Call in a transaction.
    /// `claimed`: set to the operation, `admitted`: to be settled after the transaction, both also if it
    /// throws.
    func commit(
        _ connection: inout Connection, claimed: inout BulkOperationID?, admitted: inout AdmittedJobs
    ) throws(PostgresError) -> Outcome {
        var parameters = Parameters()
        parameters.append(insertion.context.clock.now())
        parameters.append(int32: Int32(Limits.bulkStepRowCount))
        let rows = try connection.execute(Statements.claimBulkOperation, parameters)
        guard rows.rowCount == 1 else { return Outcome() }
        let id: BulkOperationID = rows.identifier(0, 0)
        claimed = id
        var outcome = Outcome(isDone: true)
        let work: Work
        do throws(StoredJSONError) {
            work = try Work(rows)
        } catch {
            insertion.context.logger.error(
                "a bulk operation was ended: it cannot be read",
                metadata: ["operation.id": "\(id)", "error": "\(error)"])
            var counts = BulkCounts()
            counts.add(.internalError)
            try advance(id, counts, nil, &connection)
            return outcome
        }
        var part = Part(
            try find(work, &connection), of: work.operation.command, countMax: changeCountMax)
        var counts = work.operation.counts
        var delay = 0.0
        if skipsFirst, !part.jobs.isEmpty {
            counts.add(.internalError, count: Int64(part.jobs.count))
        } else if let command = work.command {
            try change(part.jobs, command, &counts, &outcome, &connection)
        } else {
            let retry = BulkRetry(
                insertion: insertion, tenant: work.operation.tenant, traceparent: work.traceparent)
            let done = try retry.commit(part.jobs, &counts, admitted: &admitted, &connection)
            outcome.submitted = done.submitted
            if let stopped = done.stoppedBefore {
                part.cut(before: stopped.job)
                delay = stopped.seconds
            }
        }
        counts.add(.invalidState, count: Int64(part.refusedCount))
        counts.examined += Int64(part.examinedCount)
        try advance(id, counts, part.end(from: work.position), delay: delay, &connection)
        return outcome
    }

    private func find(_ work: Work, _ connection: inout Connection) throws(PostgresError) -> JobScan.Step {
        let scan = JobScan(
            tenant: work.operation.tenant, createdUntil: work.operation.createdAt,
            queueState: insertion.queueState)
        if let filter = work.operation.filter {
            return try scan.step(
                filter, below: work.position, rowCount: Limits.bulkStepRowCount, &connection)
        }
        let identifiers = work.identifiers ?? []
        return try scan.step(
            identifiers, isLast: identifiers.count < Limits.bulkStepRowCount, &connection)
    }

    /// The part of what a step has found that is changed in it.
    private struct Part {
        /// Jobs whose state may allow the command.
        let jobs: [JobID]
        private let found: JobScan.Step
        private let command: BulkCommand
        /// The jobs of the part, with those whose state does not allow the command.
        private var matches: ArraySlice<JobScan.Match>

        init(_ found: JobScan.Step, of command: BulkCommand, countMax: Int) {
            (self.found, self.command) = (found, command)
            let allowing = found.matches.indices.filter { command.mayChange(found.matches[$0].state) }
            jobs = allowing.prefix(countMax).map { found.matches[$0].id }
            let end = allowing.count > countMax ? allowing[countMax] : found.matches.endIndex
            matches = found.matches[..<end]
        }

        /// Leaves a job and those after it to the next step.
        mutating func cut(before job: JobID) { matches = matches.prefix { $0.id > job } }

        private var isWhole: Bool { matches.endIndex == found.matches.endIndex }

        /// Number of the jobs whose state does not allow the command.
        var refusedCount: Int { matches.count { !command.mayChange($0.state) } }

        /// Number of jobs looked at, matching or not.
        var examinedCount: Int { isWhole ? found.examinedCount : matches.last?.number ?? 0 }

        /// Returns where the next step begins; `nil` at the end. `start`: where this one began.
        func end(from start: JobID) -> JobID? { isWhole ? found.position : matches.last?.id ?? start }
    }

    /// Changes jobs, and counts the others. A job that another transaction changes meanwhile is looked at
    /// again.
    private func change(
        _ jobs: [JobID], _ command: JobCommand, _ counts: inout BulkCounts, _ outcome: inout Outcome,
        _ connection: inout Connection
    ) throws(PostgresError) {
        var left = jobs
        for _ in 0..<10 where !left.isEmpty {
            let found = try insertion.context.jobs(left, withBodies: false, &connection)
            var allowed: [StoredJob] = []
            for id in left {
                guard let stored = found[id] else {
                    // Deleted meanwhile.
                    counts.add(.invalidState)
                    continue
                }
                if let refusal = command.refusal(of: stored) {
                    counts.add(BulkReason(refusal))
                } else {
                    allowed.append(stored)
                }
            }
            let done = try command.carryOut(allowed, &connection, insertion.queueState)
            counts.changed += Int64(done.changed.count)
            outcome.commands.append(done)
            left = []
            for stored in allowed where !done.changed.contains(stored.record.id) {
                if let refusal = command.refusal(ofUnchanged: stored) {
                    counts.add(BulkReason(refusal))
                } else {
                    left.append(stored.record.id)
                }
            }
        }
        counts.add(.busy, count: Int64(left.count))
    }

    /// Records the step. `position`: where the next one begins; `nil` ends the operation. `delay`: seconds
    /// until then.
    private func advance(
        _ id: BulkOperationID, _ counts: BulkCounts, _ position: JobID?, delay: Double = 0,
        _ connection: inout Connection
    ) throws(PostgresError) {
        let now = insertion.context.clock.now()
        let state: BulkOperationState =
            position != nil ? .running : counts.failed > 0 ? .failed : .succeeded
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(text: state.rawValue)
        parameters.append(int64: counts.examined)
        parameters.append(int64: counts.changed)
        parameters.append(text: counts.encodeReasons())
        parameters.append(position ?? JobID(high: 0, low: 0))
        parameters.append(now + delay)
        parameters.append(position == nil ? now : nil)
        _ = try connection.execute(Statements.advanceBulkOperation, parameters)
    }
}

extension BulkCommand {
    /// Returns `false` for a state that certainly does not allow the command.
    fileprivate func mayChange(_ state: JobState) -> Bool { state.isTerminal == (self == .retry) }
}

extension BulkReason {
    /// The reason for which a command is refused.
    fileprivate init(_ error: StoreError) {
        switch error {
        case .invalidState: self = .invalidState
        case .requestNotRepeatable: self = .notRepeatable
        default: self = .internalError
        }
    }
}
