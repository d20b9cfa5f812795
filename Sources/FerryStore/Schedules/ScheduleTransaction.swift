import FerryCore
import Logging
import Postgres

/// One transaction for due schedules: locks their rows, inserts their jobs and writes their next occurrences.
struct ScheduleTransaction {
    struct Outcome {
        /// Number of due schedules about which the transaction has decided.
        var dueCount = 0
        /// `true` if it has left due schedules to the next one, since these have many jobs.
        var leavesDue = false
        var submitted = SubmissionBatch.Outcome()
        /// Number of occurrences that were missed.
        var missedCount = 0
        var skippedCount = 0
        /// Those of `skippedCount` that were skipped because of limits of their tenants.
        var surplusCount = 0
        /// Jobs of earlier occurrences that the next run replaces.
        var cancels: [(job: JobID, tenant: String)] = []
    }

    /// Update of one schedule.
    private struct Advance {
        var id: ScheduleID
        var decision = ScheduleDecision()
        /// First job of the submitted occurrence.
        var job: JobID?
        var skip: ScheduleSkip.Reason?

        /// Skips the occurrence that would be submitted.
        mutating func skip(_ reason: ScheduleSkip.Reason) {
            leave()
            decision.skippedCount += 1
            skip = reason
        }

        /// Submits no occurrence.
        mutating func leave() {
            job = nil
            decision.submits = nil
        }
    }

    /// Run of a schedule, and the place of its update.
    private struct Run {
        let advance: Int
        var run: ScheduledRun
    }

    /// Seconds until a schedule that cannot run is tried again.
    static let repairSeconds = 3_600.0

    let insertion: JobInsertion
    let countMax: Int
    let now: Timestamp
    /// Schedules whose occurrence the database refuses because of a group, with the reason.
    var refusals: [ScheduleID: StoreError] = [:]

    /// `dueIDs`: set to the schedules that were due, also if it throws. `admitted`: to be settled after the
    /// transaction, also if it throws.
    func commit(
        _ connection: inout Connection, dueIDs: inout [ScheduleID], admitted: inout AdmittedJobs
    ) throws(PostgresError) -> Outcome {
        var outcome = Outcome()
        var parameters = Parameters()
        parameters.append(int32: Int32(countMax))
        parameters.append(now)
        parameters.append(int64: Limits.scheduleBatchByteCountMax)
        let rows = try connection.execute(Statements.dueSchedules, parameters)
        dueIDs = rows.identifiers()
        guard !dueIDs.isEmpty else { return outcome }
        let unfinished = try Self.unfinished(of: rows, &connection)
        let sessions = insertion.context.sessions.current
        var advances: [Advance] = []
        var runs: [Run] = []
        var jobCount = 0
        for row in 0..<rows.rowCount {
            guard jobCount < Limits.scheduleJobCountMax else { break }
            let id: ScheduleID = rows.identifier(row, 0)
            let previous = unfinished[id] ?? []
            // An unreadable schedule is postponed and logged.
            guard let stored = try? StoredSchedule(rows, row),
                let decision = decision(stored, hasUnfinished: !previous.isEmpty)
            else {
                advances.append(postponed(id, rows.instant(row, 7), "its definition cannot be read"))
                continue
            }
            if decision.cancelsPrevious {
                outcome.cancels += previous.map { ($0, stored.record.tenant) }
            }
            var advance = Advance(
                id: id, decision: decision, skip: decision.skippedCount > 0 ? .overlap : nil)
            if let occurrence = decision.submits {
                guard let run = run(of: stored, at: occurrence) else {
                    advances.append(postponed(id, occurrence, "its jobs cannot be created"))
                    continue
                }
                jobCount += run.jobs.count
                if let reason = try refusal(of: run, id, sessions, &outcome, &admitted, &connection) {
                    advance.skip(reason)
                } else {
                    advance.job = run.jobs[0].id
                    runs.append(Run(advance: advances.count, run: run))
                }
            }
            advances.append(advance)
        }
        outcome.dueCount = advances.count
        outcome.leavesDue = Int64(advances.count) < rows.int64(0, 23)
        dueIDs = advances.map(\.id)
        try nameUploads(&runs, &advances, &admitted, &connection)
        if !runs.isEmpty {
            outcome.submitted = try submit(runs, &advances, epoch: sessions.epoch, &admitted, &connection)
        }
        outcome.missedCount = advances.reduce(0) { $0 + $1.decision.missedCount }
        outcome.skippedCount = advances.reduce(0) { $0 + $1.decision.skippedCount }
        _ = try connection.execute(Statements.advanceSchedules, advancing(advances))
        return outcome
    }

    /// Returns the unfinished jobs of earlier occurrences, for schedules that depend on them. `due`: rows of
    /// due_schedules.sql.
    private static func unfinished(
        of due: borrowing ResultSet, _ connection: inout Connection
    ) throws(PostgresError) -> [ScheduleID: [JobID]] {
        var watching: [ScheduleID] = []
        for row in 0..<due.rowCount where due.bool(row, 22) { watching.append(due.identifier(row, 0)) }
        guard !watching.isEmpty else { return [:] }
        var parameters = Parameters.identifiers(watching)
        parameters.append(int32: Int32(Limits.scheduleOverlapMax))
        let rows = try connection.execute(Statements.unfinishedRuns, parameters)
        var unfinished: [ScheduleID: [JobID]] = [:]
        for row in 0..<rows.rowCount {
            unfinished[rows.identifier(row, 0), default: []].append(rows.identifier(row, 1))
        }
        return unfinished
    }

    private func run(of stored: StoredSchedule, at occurrence: Timestamp) -> ScheduledRun? {
        let ids = stored.record.templates.map { _ in insertion.context.identifiers.make(JobKindTag.self) }
        return ScheduledRun(
            of: stored, at: occurrence, ids: ids, traceparent: newTraceparent(),
            insertion.context.configuration.zones, insertion.context.configuration.seal)
    }

    /// Returns why a session, a group or the tenant does not accept the jobs of an occurrence, or `nil`.
    private func refusal(
        of run: ScheduledRun, _ schedule: ScheduleID, _ sessions: SessionSnapshot, _ outcome: inout Outcome,
        _ admitted: inout AdmittedJobs, _ connection: inout Connection
    ) throws(PostgresError) -> ScheduleSkip.Reason? {
        if let refused = refusals[schedule] { return ScheduleSkip.Reason(refused) }
        switch sessions.verdict(on: run.jobs, known: nil) {
        case .acceptable, .changed: break
        case .invalidated, .unreadable:
            insertion.context.logger.warning(
                "an occurrence of a schedule was skipped: a session accepts no jobs",
                metadata: [
                    "schedule.id": "\(schedule)",
                    "sessions": "\(Set(run.jobs.map(\.spec.session)).sorted().joined(separator: ", "))",
                ])
            return .sessionInvalidated
        }
        guard let refused = try insertion.admission.refusal(of: run.jobs, &admitted, &connection) else {
            return nil
        }
        outcome.surplusCount += 1
        return ScheduleSkip.Reason(refused)
    }

    private func decision(_ stored: StoredSchedule, hasUnfinished: Bool) -> ScheduleDecision? {
        let record = stored.record
        guard let due = record.nextScheduledAt,
            let recurrence = record.spec.recurrence(
                insertion.context.configuration.zones, createdAt: record.createdAt)
        else { return nil }
        return ScheduleDecision(
            ScheduleDecision.Input(
                id: record.id, spec: record.spec, recurrence: recurrence, scheduledAt: due,
                isHeld: stored.isHeld, hasUnfinished: hasUnfinished,
                lastRunAt: record.lastRunAt, now: now))
    }

    /// Postpones a schedule for an hour: an operator has to repair it.
    private func postponed(_ id: ScheduleID, _ occurrence: Timestamp, _ reason: String) -> Advance {
        insertion.context.logger.error(
            "a schedule was postponed for an hour",
            metadata: ["schedule.id": "\(id)", "scheduled_at": "\(occurrence)", "reason": "\(reason)"])
        var decision = ScheduleDecision()
        decision.next = occurrence
        decision.nextRunAt = now + Self.repairSeconds
        return Advance(id: id, decision: decision)
    }

    /// Looks up the uploads that the jobs of runs send. Skips the runs whose jobs cannot send them.
    private func nameUploads(
        _ runs: inout [Run], _ advances: inout [Advance], _ admitted: inout AdmittedJobs,
        _ connection: inout Connection
    ) throws(PostgresError) {
        var named: [String: Set<UploadReference>] = [:]
        for run in runs {
            let uploads = run.run.sourceUploads
            if !uploads.isEmpty { named[run.run.jobs[0].tenant, default: []].formUnion(uploads) }
        }
        guard !named.isEmpty else { return }
        var known: [String: NamedUploads] = [:]
        // In one order on all nodes, so that no two transactions wait for each other's rows.
        for (tenant, uploads) in named.sorted(by: { $0.key < $1.key }) {
            known[tenant] = NamedUploads(
                try UploadCommands.prepare(Array(uploads), of: tenant, &connection))
        }
        var sendable: [Run] = []
        for var run in runs {
            do throws(StoreError) {
                try run.run.nameUploads(
                    known[run.run.jobs[0].tenant] ?? NamedUploads([]), insertion.context.configuration.seal)
                sendable.append(run)
            } catch {
                insertion.admission.withdraw(run.run, 0, &admitted)
                advances[run.advance].skip(ScheduleSkip.Reason(error))
            }
        }
        runs = sendable
    }

    private func submit(
        _ runs: [Run], _ advances: inout [Advance], epoch: Int64, _ admitted: inout AdmittedJobs,
        _ connection: inout Connection
    ) throws(PostgresError) -> SubmissionBatch.Outcome {
        let fresh = Set(try ScheduleTransaction.insertRuns(runs.flatMap(\.run.jobs), &connection))
        var submitted: [Run] = []
        for run in runs {
            if run.run.jobs.allSatisfy({ fresh.contains($0.id) }) {
                submitted.append(run)
            } else {
                // The occurrence was submitted before; its schedule only advances.
                insertion.admission.withdraw(run.run, 0, &admitted)
                advances[run.advance].leave()
            }
        }
        guard !submitted.isEmpty else { return SubmissionBatch.Outcome() }
        let outcome = try insertion.insert(
            submitted.map { $0.run.submission() }, &connection, epoch: epoch)
        for (run, result) in zip(submitted, outcome.results) {
            // Other jobs may have the unique keys.
            let new = try result.newJobs()
            insertion.admission.withdraw(run.run, new.count, &admitted)
            if let first = new.first {
                advances[run.advance].job = first
            } else {
                advances[run.advance].skip(.uniqueKeyTaken)
            }
        }
        return outcome
    }

    /// Inserts the jobs of runs and returns those that were not submitted before.
    static func insertRuns(
        _ jobs: [NewJob], _ connection: inout Connection
    ) throws(PostgresError) -> [JobID] {
        var parameters = Parameters()
        parameters.appendArray(.uuid, jobs) { $0.append($1.spec.occurrence?.schedule) }
        parameters.appendArray(.timestamp, jobs) { $0.append($1.spec.occurrence?.scheduledAt) }
        parameters.appendArray(.uuid, jobs) { $0.append($1.id) }
        parameters.appendArray(.int32, jobs) { $0.append(int32: Int32($1.spec.occurrence?.place ?? 0)) }
        return try connection.execute(Statements.insertRuns, parameters).identifiers()
    }

    private func advancing(_ advances: [Advance]) -> Parameters {
        var parameters = Parameters(capacity: advances.count * 128)
        parameters.appendArray(.uuid, advances) { $0.append($1.id) }
        parameters.appendArray(.timestamp, advances) { $0.append($1.decision.next) }
        parameters.appendArray(.timestamp, advances) { $0.append($1.decision.nextRunAt) }
        parameters.appendArray(.bool, advances) { $0.append(bool: $1.decision.isHeld) }
        parameters.appendArray(.timestamp, advances) { $0.append($1.decision.submits) }
        parameters.appendArray(.uuid, advances) { $0.append($1.job) }
        parameters.appendArray(.int64, advances) { $0.append(int64: Int64($1.decision.missedCount)) }
        parameters.appendArray(.int64, advances) { $0.append(int64: Int64($1.decision.skippedCount)) }
        parameters.append(now)
        parameters.appendArray(.text, advances) { $0.append(text: $1.skip?.rawValue) }
        return parameters
    }
}

extension ScheduleSkip.Reason {
    /// The reason for which a limit of the tenant, a group or an upload refuses the jobs of an occurrence.
    fileprivate init(_ error: StoreError) {
        switch error {
        case .groupClosed: self = .groupClosed
        case .groupAwaited: self = .groupAwaited
        case .uploadMissing: self = .uploadMissing
        case .uploadIncomplete: self = .uploadIncomplete
        case .tooManyGroups: self = .limitReached
        case .quotaExceeded: self = .quotaExceeded
        case .storageQuotaExceeded: self = .storageQuotaExceeded
        default: self = .tooManyJobs
        }
    }
}

extension Admission {
    /// Gives back the jobs of a run that its transaction does not insert. `newCount`: number of those that it
    /// inserts.
    func withdraw(_ run: ScheduledRun, _ newCount: Int, _ admitted: inout AdmittedJobs) {
        guard let tenant = run.jobs.first?.tenant else { return }
        withdraw(run.jobs.count - newCount, of: tenant, &admitted)
    }
}

extension Result<Submission.Accepted, StoreError> {
    /// Returns the jobs that a run has inserted. Throws if a job was deleted meanwhile that has a unique key
    /// of the run: the transaction has to begin again.
    fileprivate func newJobs() throws(PostgresError) -> [JobID] {
        guard case .success(let accepted) = self else {
            throw PostgresError(
                .statementFailed, sqlState: "40001",
                message: "a job with a unique key of a schedule's jobs was deleted meanwhile")
        }
        return accepted.jobs.filter(\.isNew).map(\.id)
    }
}
