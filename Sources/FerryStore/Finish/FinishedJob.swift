import FerryCore
import Postgres

/// A job in its terminal state, ready to be written.
final class FinishedJob: Sendable {
    let lease: Lease
    let record: JobRecord
    /// The attempt that ended it, packed (`AttemptRecord`).
    let lastAttempt: [UInt8]?
    /// The attempt that ended it, or `nil` if none has, or `record` leaves out what it has found.
    private let attempt: Attempt?
    /// `JobSpec.wantedEvents`; `nil` if the job has no webhook or no readable spec.
    let wanted: Int32?
    /// Rules of the acknowledgement that the job asks for; `nil` if it asks for none.
    let acknowledgement: AcknowledgementRules?
    /// `true` if no endpoint may ask for one either.
    let declinesAcknowledgement: Bool
    /// Error of the attempt that ended the job; `nil` if that has not failed. The job's error may differ: its
    /// time ends before the next attempt.
    private let attemptError: Stored<ErrorRecord>?
    /// When the attempt began, if the job's row does not say that.
    private let unrecordedBegin: Timestamp?
    /// Bytes that are kept without a destination, or `nil`.
    let storedByteCount: Int64?
    /// Bytes for the counts of the job's group; `nil` if it has none or has not succeeded.
    let groupProgress: TransferProgress?

    /// `record` is the job as it will be. A job whose spec cannot be read ends as well, but no webhook of its
    /// own is told.
    init(
        _ lease: Lease, _ record: JobRecord, of attempt: Attempt? = nil, lastAttempt: [UInt8]? = nil,
        attemptError: Stored<ErrorRecord>? = nil, unrecordedBegin: Timestamp? = nil,
        storedByteCount: Int64? = nil
    ) {
        var record = record
        record.revision = lease.revision + 1
        self.lease = lease
        self.attempt = attempt
        self.lastAttempt = lastAttempt
        self.record = record
        self.attemptError = attemptError
        self.unrecordedBegin = unrecordedBegin
        self.storedByteCount = storedByteCount
        let spec = record.spec
        groupProgress = spec?.group == nil ? nil : record.succeededProgress
        wanted = spec?.wantedEvents
        acknowledgement = spec?.acknowledgement
        declinesAcknowledgement = spec?.declinesAcknowledgement ?? false
    }

    /// The same job as failed, without any data of the transfer.
    var simplified: FinishedJob {
        var record = record
        record.state = .failed
        record.storedResponse = nil
        record.storedResult = nil
        record.body = nil
        record.resumeData = nil
        record.partialDownload = nil
        record.storedError = .unstorable
        return FinishedJob(record, self)
    }

    var isRepeatable: Bool {
        // A spec that cannot be read does not say that the job may run again.
        guard let spec = record.spec else { return false }
        return spec.isRequestRepeatable
    }

    private init(_ record: JobRecord, _ other: FinishedJob) {
        lease = other.lease
        attempt = nil
        self.record = record
        lastAttempt = nil
        wanted = other.wanted
        acknowledgement = other.acknowledgement
        declinesAcknowledgement = other.declinesAcknowledgement
        attemptError = other.attemptError == nil ? nil : record.storedError
        unrecordedBegin = other.unrecordedBegin
        storedByteCount = nil
        groupProgress = nil
    }

    /// A job that no node holds, as it ends without another attempt. `resumeData` makes resume data of the
    /// bytes that it has left (`StoreConfiguration.resumeData`); `nil` if they are not wanted.
    convenience init(
        _ stored: StoredJob, _ state: JobState, _ error: TransferError, at now: Timestamp,
        resumeData: (@Sendable (StoredJob) -> String?)? = nil
    ) {
        let lease = Lease(
            job: stored.record.id, attempt: stored.record.attempt, revision: stored.record.revision)
        var record = stored.record
        record.state = state
        record.waitingFor = nil
        record.nextAttemptAt = nil
        record.finishedAt = max(now, record.createdAt)
        record.storedError = Stored(error)
        if let resumeData, stored.hasBytes { record.resumeData = resumeData(stored) }
        if record.resumeData == nil { record.partialDownload = nil }
        self.init(lease, record)
    }

    // MARK: Events

    /// `true` if the row has nothing that `record` has not, unless the database says so: the first attempt of
    /// the job has ended it.
    var isWholeRow: Bool {
        lastAttempt != nil && record.attempt == 1 && acknowledgement == nil && record.resumeData == nil
    }

    /// Returns the job for the deliveries of its end, or `nil` if its row may have more. `committed`: what
    /// the database says about it.
    func eventJob(_ committed: RecentResults.Committed) -> EventJob? {
        guard let attempt, isWholeRow, committed.agrees(with: record) else { return nil }
        var record = record
        record.startedAt = committed.startedAt
        return EventJob(
            record: record, sealedSecrets: attempt.sealedSecrets, traceparent: attempt.traceparent)
    }

    /// `true` if the job's webhook wants one of the events.
    var isWanted: Bool {
        let begin = unrecordedBegin == nil ? 0 : [EventType.jobStarted].mask
        return (eventTypes.mask | begin) & (wanted ?? 0) != 0
    }

    /// Appends the events of the end as `EventRecord`s.
    func packEvents(into bytes: inout [UInt8]) {
        if let unrecordedBegin {
            EventRecord(
                .jobStarted, job: record.id, at: unrecordedBegin, wanted: wanted, attempt: record.attempt,
                revision: record.revision - 1, state: .running,
                detail: EventDetail(node: record.node).packed
            ).pack(into: &bytes)
        }
        for type in eventTypes {
            EventRecord(
                type, job: record.id, at: record.finishedAt ?? record.createdAt, wanted: wanted,
                attempt: record.attempt, revision: record.revision, state: record.state,
                detail: type == .jobAttemptFailed ? EventDetail(error: attemptError).packed : []
            ).pack(into: &bytes)
        }
    }

    private var eventTypes: [EventType] {
        guard let end = record.state.event else { return [] }
        return attemptError == nil ? [end] : [.jobAttemptFailed, end]
    }

    /// A job that no node holds and whose time is over. Its bytes stay for other jobs, as those of an attempt
    /// whose time ends do.
    convenience init(
        overdue stored: StoredJob, at now: Timestamp, resumeData: @escaping @Sendable (StoredJob) -> String?
    ) {
        // A job whose spec cannot be read ends as well.
        let schedule = stored.record.spec?.schedule ?? JobSpec.Schedule()
        let error = schedule.overdue(createdAt: stored.record.createdAt, phase: .waiting)
        self.init(stored, .failed, error, at: now, resumeData: resumeData)
    }
}

extension ResultSet {
    /// Of finish_jobs.sql: `true` if other jobs depend on a finished one.
    var hasDependents: Bool { (0..<rowCount).contains { bool($0, 1) } }

    /// Of finish_jobs.sql: what it says about each finished job.
    var committedResults: [RecentResults.Committed] {
        (0..<rowCount).map { row in
            RecentResults.Committed(
                job: identifier(row, 0), revision: int32(row, 2), startedAt: instantOrNil(row, 3),
                isAcknowledged: bool(row, 4))
        }
    }
}

extension Parameters {
    /// The parameters of finish_jobs.sql.
    static func finished(_ jobs: [FinishedJob]) -> Parameters {
        var parameters = Parameters(capacity: jobs.count * 512)
        parameters.append(jobs.map(\.lease))
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.state.rawValue) }
        parameters.appendArray(.int32, jobs) { $0.append(int32: $1.record.failedAttemptCount) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.storedResponse?.json) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.storedResult?.json) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.storedError?.json) }
        parameters.appendArray(.bytea, jobs) { $0.append(bytea: $1.record.body) }
        parameters.appendArray(.timestamp, jobs) { $0.append($1.record.finishedAt ?? $1.record.createdAt) }
        parameters.appendArray(.uuid, jobs) { $0.append($1.record.node) }
        var events: [UInt8] = []
        parameters.appendArray(.bytea, jobs) { parameters, job in
            events.removeAll(keepingCapacity: true)
            job.packEvents(into: &events)
            parameters.append(bytea: events)
        }
        parameters.appendArray(.bytea, jobs) { $0.append(bytea: $1.lastAttempt) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.resumeData) }
        let awaiting = jobs.filter { $0.acknowledgement != nil }
        parameters.appendArray(.uuid, awaiting) { $0.append($1.lease.job) }
        parameters.appendArray(.text, awaiting) { $0.append(text: $1.acknowledgement?.encode()) }
        parameters.appendArray(.int32, awaiting) { $0.append(int32: $1.wanted) }
        let declining = jobs.filter { $0.declinesAcknowledgement }
        parameters.appendArray(.uuid, declining) { $0.append($1.lease.job) }
        parameters.appendArray(.timestamp, jobs) { $0.append($1.record.startedAt) }
        parameters.appendArray(.int64, jobs) { $0.append(int64: $1.storedByteCount) }
        if jobs.contains(where: { $0.groupProgress != nil }) {
            parameters.appendArray(.int64, jobs) { $0.append(int64: $1.groupProgress?.bytesReceived) }
            parameters.appendArray(.int64, jobs) { $0.append(int64: $1.groupProgress?.bytesSent) }
        } else {
            parameters.appendNull()
            parameters.appendNull()
        }
        return parameters
    }
}
