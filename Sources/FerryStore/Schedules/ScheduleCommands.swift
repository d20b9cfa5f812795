package import FerryCore
import Logging
import Postgres
import Sys

/// Reads, changes and runs schedules. Any thread.
package final class ScheduleCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let insertion: JobInsertion

    init(_ commands: CommandQueue, _ reads: ReadPool, _ insertion: JobInsertion) {
        self.commands = commands
        self.reads = reads
        self.insertion = insertion
    }

    /// Creates a schedule. Its first occurrence comes after the current time.
    package func createSchedule(
        _ schedule: NewSchedule, _ idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<ScheduleRecord>>
    ) {
        let insertion = insertion
        commands.perform("create_schedule", insertion.signals.waking(reply)) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Created<ScheduleRecord>, StoreError
            > in
            let now = insertion.context.clock.now()
            var parameters = Parameters()
            parameters.append(schedule.id)
            parameters.append(text: schedule.tenant)
            parameters.append(now)
            parameters.appendOccurrence(
                of: schedule.spec, schedule.id, createdAt: now, now, insertion.context.configuration)
            parameters.append(bool: schedule.spec.overlap != .allow)
            parameters.append(text: schedule.spec.encode())
            parameters.append(jobs: schedule.jobs, insertion.context.configuration)
            parameters.append(text: idempotency?.route)
            parameters.append(text: idempotency?.key)
            parameters.append(bytea: idempotency?.fingerprint)
            parameters.append(insertion.context.configuration.node)
            parameters.append(uploadsOf: schedule.jobs)
            let isNew = try connection.execute(Statements.createSchedule, parameters).rowCount == 1
            guard !isNew, let idempotency else {
                return try Self.readSchedule(schedule.id, schedule.tenant, &connection).map {
                    Created($0.record, isReplay: false)
                }
            }
            return try Self.replay(schedule, idempotency, &connection, insertion).map {
                Created($0, isReplay: true)
            }
        }
    }

    /// Returns the reply to the first request with the same key: the schedule as it is now, or as it was
    /// created if it was deleted since.
    private static func replay(
        _ schedule: NewSchedule, _ key: Submission.Idempotency, _ connection: inout Connection,
        _ insertion: JobInsertion
    ) throws(PostgresError) -> Result<ScheduleRecord, StoreError> {
        let first: FirstResponse
        switch try FirstResponse.read(key, &connection) {
        case .failure(let error): return .failure(error)
        // Housekeeping has just removed the key; the client's next attempt will find it free.
        case .success(nil): return .failure(.idempotencyKeyInProgress)
        case .success(let found?): first = found
        }
        let found = try readSchedule(first.id(), schedule.tenant, &connection)
        guard case .failure(.notFound) = found else { return found.map(\.record) }
        var record = ScheduleRecord(
            id: first.id(), tenant: schedule.tenant, revision: 1, createdAt: first.at,
            updatedAt: first.at, spec: schedule.spec,
            templates: schedule.jobs.requests.map {
                StoredSpec($0.spec.encodeStored(insertion.context.configuration.seal))
            }, list: schedule.jobs.list)
        if let next = schedule.spec.next(
            record.id, createdAt: first.at, after: first.at, insertion.context.configuration)
        {
            (record.nextScheduledAt, record.nextRunAt) = (next.scheduledAt, next.runAt)
        }
        return .success(record)
    }

    /// Reads the schedule that was created with this key. Fails with `notFound` also if it was deleted since.
    package func schedule(
        createdWith key: Submission.Idempotency, reply: @escaping Reply<ScheduleRecord>
    ) {
        reads.read("keyed_schedule", of: .tenant(key.tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<ScheduleRecord, StoreError> in
            switch try FirstResponse.read(key, &connection) {
            case .failure(let error): return .failure(error)
            case .success(nil): return .failure(.notFound)
            case .success(let first?):
                return try Self.readSchedule(first.id(), key.tenant, &connection).map(\.record)
            }
        }
    }

    /// Reads a schedule. Fails with `notFound` for another tenant's schedule.
    package func schedule(_ id: ScheduleID, tenant: String, reply: @escaping Reply<ScheduleRecord>) {
        reads.read("schedule", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            try Self.readSchedule(id, tenant, &connection).map(\.record)
        }
    }

    /// Reads a page of schedules created before `before`, newest first. Unreadable schedules are left out and
    /// logged.
    package func schedules(
        tenant: String, before: ScheduleID?, limit: Int, reply: @escaping Reply<[ScheduleRecord]>
    ) {
        let insertion = insertion
        reads.read("schedules", of: .tenant(tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[ScheduleRecord], StoreError> in
            var records: [ScheduleRecord] = []
            var last: ScheduleID = before ?? .last
            var isEnd = false
            while records.count < limit, !isEnd {
                let asked = limit - records.count
                var parameters = Parameters()
                parameters.append(text: tenant)
                parameters.append(last)
                parameters.append(int32: Int32(clamping: asked))
                let rows = try connection.execute(Statements.listSchedules, parameters)
                for row in 0..<rows.rowCount {
                    last = rows.identifier(row, 0)
                    // Logged below.
                    if let stored = try? StoredSchedule(rows, row) {
                        records.append(stored.record)
                    } else {
                        insertion.context.logger.error(
                            "a schedule cannot be read", metadata: ["schedule.id": "\(last)"])
                    }
                }
                isEnd = rows.rowCount < asked
            }
            return .success(records)
        }
    }

    /// Replaces the definition of a schedule, and its jobs if `jobs` is given. If the times stay the same,
    /// an occurrence that is due stays due; otherwise the next occurrence comes after the current time.
    /// `change` may be called more than once. Fails with `stale` if the revision differs.
    package func changeSchedule(
        _ id: ScheduleID, tenant: String, revision: Int32?, jobs: ScheduleJobs?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec, reply: @escaping Reply<ScheduleRecord>
    ) {
        let insertion = insertion
        changeScheduleRow("change_schedule", id, tenant, revision, insertion.signals.waking(reply)) {
            (stored, connection) throws(PostgresError) -> ScheduleRecord? in
            let spec = change(stored.record.spec)
            if jobs == nil, spec == stored.record.spec { return stored.record }
            let now = insertion.context.clock.now()
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: stored.record.revision)
            parameters.append(now)
            if spec.keepsTimes(of: stored.record.spec), let due = stored.record.nextScheduledAt {
                parameters.appendSameOccurrence(as: due, of: stored)
            } else {
                parameters.appendOccurrence(
                    of: spec, id, createdAt: stored.record.createdAt, now, insertion.context.configuration)
            }
            parameters.append(bool: spec.overlap != .allow)
            parameters.append(text: spec.encode())
            parameters.append(jobs: jobs, insertion.context.configuration)
            parameters.append(uploadsOf: jobs)
            guard try connection.execute(Statements.replaceSchedule, parameters).rowCount == 1 else {
                return nil
            }
            guard case .success(let changed) = try Self.readSchedule(id, tenant, &connection) else {
                return nil
            }
            return changed.record
        }
    }

    /// Removes a schedule, readable or not; its jobs stay.
    package func deleteSchedule(
        _ id: ScheduleID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>
    ) {
        commands.perform("delete_schedule", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            parameters.append(int32: revision)
            if try connection.execute(Statements.deleteSchedule, parameters).rowCount == 1 {
                return .success(())
            }
            let rows = try Self.scheduleRows(id, tenant, &connection)
            return .failure(rows.rowCount == 1 ? .stale(revision: rows.int32(0, 2)) : .notFound)
        }
    }

    /// Submits a schedule's jobs now, whatever its times are. A request that was accepted before gets the
    /// same reply again, whatever has happened to the schedule, its sessions or its tenant since.
    package func runSchedule(
        _ id: ScheduleID, tenant: String, _ idempotency: Submission.Idempotency?, traceparent: String,
        reply: @escaping Reply<ScheduleRun>
    ) {
        let run = RequestedRun(insertion: insertion, idempotency: idempotency, traceparent: traceparent)
        commands.perform("run_schedule", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<ScheduleRun, StoreError> in
            let result: Result<ScheduleRun, StoreError>
            switch try Self.readSchedule(id, tenant, &connection) {
            case .failure(let error): result = .failure(error)
            case .success(let stored): result = try run.submit(stored, &connection)
            }
            guard case .failure = result, let replay = try run.replay(&connection) else { return result }
            return .success(replay)
        }
    }

    // MARK: Rows

    private static func scheduleRows(
        _ id: ScheduleID, _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> ResultSet {
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(text: tenant)
        return try connection.execute(Statements.readSchedule, parameters)
    }

    private static func readSchedule(
        _ id: ScheduleID, _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> Result<StoredSchedule, StoreError> {
        let rows = try scheduleRows(id, tenant, &connection)
        guard rows.rowCount == 1 else { return .failure(.notFound) }
        // The definition cannot be read.
        guard let stored = try? StoredSchedule(rows, 0) else { return .failure(.failed) }
        return .success(stored)
    }

    /// Retries a change while other transactions change the row in between; `body` returns `nil` if one has.
    private func changeScheduleRow(
        _ name: StaticString, _ id: ScheduleID, _ tenant: String, _ revision: Int32?,
        _ reply: @escaping Reply<ScheduleRecord>,
        _ body:
            @escaping @Sendable (StoredSchedule, inout Connection) throws(PostgresError) -> ScheduleRecord?
    ) {
        commands.perform(name, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<ScheduleRecord, StoreError> in
            for _ in 0..<10 {
                switch try Self.readSchedule(id, tenant, &connection) {
                case .failure(let error): return .failure(error)
                case .success(let stored):
                    let finding = ChangeCheck.allowed(stored).matching(revision, of: stored.record.revision)
                    if case .refused(let error) = finding { return .failure(error) }
                    if let record = try body(stored, &connection) { return .success(record) }
                }
            }
            return .failure(.unavailable)
        }
    }
}

extension StoreSignals {
    /// Returns a reply that first wakes the `ScheduleRunner`: something may be due earlier than it knows.
    func waking<Value>(_ reply: @escaping Reply<Value>) -> Reply<Value> {
        { [self] result in
            scheduleWakes.send(())
            reply(result)
        }
    }
}

extension ScheduleSpec {
    /// Returns whether occurrences have the same times and the same jitter as before. A disabled schedule has
    /// no occurrences.
    fileprivate func keepsTimes(of before: ScheduleSpec) -> Bool {
        // An interval in seconds does not depend on the time zone.
        let isInterval = if case .interval = pattern { true } else { false }
        return isEnabled && before.isEnabled && pattern == before.pattern
            && (isInterval || timeZone == before.timeZone) && startAt == before.startAt
            && endAt == before.endAt && jitter == before.jitter
    }
}

extension ScheduleSpec {
    /// Returns the next occurrence and when it runs; `nil` if there is none.
    fileprivate func next(
        _ id: ScheduleID, createdAt: Timestamp, after now: Timestamp, _ configuration: StoreConfiguration
    ) -> (scheduledAt: Timestamp, runAt: Timestamp)? {
        guard isEnabled,
            let next = recurrence(configuration.zones, createdAt: createdAt)?.next(after: now)
        else { return nil }
        return (next, next + delay(id, next))
    }
}

extension Parameters {
    /// Appends the stored form of a schedule's jobs: specs, sealed secrets, payloads, and the rules of a
    /// list; nulls for `nil`.
    fileprivate mutating func append(jobs: ScheduleJobs?, _ configuration: StoreConfiguration) {
        if let requests = jobs?.requests {
            appendArray(.text, requests) { $0.append(text: $1.spec.encodeStored(configuration.seal)) }
            appendArray(.bytea, requests) { parameters, job in
                parameters.append(
                    bytea: job.secrets.isEmpty ? nil : configuration.sealSecrets(job.secrets))
            }
            appendArray(.bytea, requests) { $0.append(bytea: $1.payload) }
        } else {
            for _ in 0..<3 { appendNull() }
        }
        append(text: jobs?.list?.group)
        append(bool: jobs?.list?.closesGroup)
    }

    /// Appends the uploads that a schedule's jobs send: identifiers, and names.
    fileprivate mutating func append(uploadsOf jobs: ScheduleJobs?) {
        append(Array(Set((jobs?.requests ?? []).flatMap { $0.spec.sourceUploads.map(\.upload) })))
    }

    /// Appends the next occurrence of a schedule, and when it runs.
    fileprivate mutating func appendOccurrence(
        of spec: ScheduleSpec, _ id: ScheduleID, createdAt: Timestamp, _ now: Timestamp,
        _ configuration: StoreConfiguration
    ) {
        let next = spec.next(id, createdAt: createdAt, after: now, configuration)
        append(next?.scheduledAt)
        append(next?.runAt)
    }

    /// Keeps the occurrence that is next when the row is locked; `due` was next when it was read. If the
    /// schedule was postponed because it could not run, it is tried again at once: this change may be the
    /// repair.
    fileprivate mutating func appendSameOccurrence(as due: Timestamp, of stored: StoredSchedule) {
        let record = stored.record
        let runAt = due + record.spec.delay(record.id, due)
        let isPutOff = !stored.isHeld && record.nextRunAt.map { $0 > runAt } ?? false
        append(Timestamp(microseconds: .min))
        append(isPutOff ? runAt : nil)
    }
}
