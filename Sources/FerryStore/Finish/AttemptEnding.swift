import FerryCore

/// The state of a job's row that a change requires: a row with another attempt or revision stays as it is.
struct Lease: Sendable, Equatable {
    let job: JobID
    let attempt: Int32
    let revision: Int32
}

extension Lease {
    init(_ attempt: Attempt) {
        self.init(job: attempt.job, attempt: attempt.number, revision: attempt.revision)
    }
}

/// What becomes of a job whose attempt has ended: a pure function of the result, the clock and a random
/// jitter.
enum AttemptEnding: Sendable {
    case finish(FinishedJob)
    /// The job goes on.
    case change(Change)

    struct Change: Sendable {
        let lease: Lease
        var change: JobChange
        /// Records the begin of the attempt, before `change`.
        var begin: JobChange?
        /// The only node that can run the job from now on, or `nil`: any.
        var home: Home?
        /// `true` if the job's webhook may want the event.
        var isWanted = false
        /// `true` if the attempt was stopped for a suspension.
        var isSuspension = false

        init(_ input: JobInput, _ lease: Lease) {
            self.lease = lease
            change = JobChange(input, lease)
        }
    }

    /// The only node that can run the job, and what names its claim queue.
    struct Home: Sendable, Equatable {
        let node: NodeID
        let session: String
        let scope: RequestScope

        init?(_ result: AttemptResult) {
            guard let home = result.home else { return nil }
            let attempt = result.attempt
            (node, scope) = (home, attempt.scope)
            session = attempt.spec.session
        }
    }

    var lease: Lease {
        switch self {
        case .finish(let job): job.lease
        case .change(let change): change.lease
        }
    }

    /// The job in its terminal state; `nil` if it goes on.
    var finished: FinishedJob? {
        if case .finish(let job) = self { job } else { nil }
    }

    /// The end of a lease whose attempt has not begun. The bytes of earlier attempts are still there.
    static func giveBack(_ lease: Lease) -> AttemptEnding { .change(Change(.giveBack, lease)) }

    /// The end of an attempt that was stopped. `ended`: the attempt as the row keeps it (`AttemptRecord`);
    /// `nil` if it had not begun.
    private static func giveBack(_ lease: Lease, _ result: AttemptResult, ended: [UInt8]?) -> AttemptEnding {
        var change = Change(.giveBack, lease)
        change.change.ended = ended
        change.change.hasBytes = ended == nil && !result.leavesBytes ? nil : result.leavesBytes
        change.home = Home(result)
        if case .suspended = result.outcome { change.isSuspension = true }
        return .change(change)
    }

    private static func ask(
        _ question: JobQuestion, _ lease: Lease, _ result: AttemptResult, ended: [UInt8]?, _ seal: SecretSeal
    ) -> AttemptEnding {
        let input: JobInput =
            switch question.kind {
            case .redirect: .askRedirect
            case .urlExpired: .askURL
            case .begin, .challenge: .askCredentials
            }
        var change = Change(input, lease)
        change.change.questionJSON = question.encode(seal)
        change.change.asks = true
        change.change.dueAt = question.expiresAt
        change.change.ended = ended
        change.change.hasBytes = result.leavesBytes
        return .change(change)
    }

    /// `jitter` is from 0 to 1, `seal` encrypts values that may be secret, `sealResumePoint` makes resume
    /// data. `begin`: what the row of a job that was held since its submission does not say.
    init(
        _ result: AttemptResult, node: NodeID, now: Timestamp, jitter: Double, _ seal: SecretSeal,
        begin: HeldAttempts.Begin = .recorded,
        sealResumePoint: (ResumePoint) -> String? = { _ in nil }
    ) {
        let attempt = result.attempt
        let lease = Lease(attempt)
        var record = JobRecord(ending: attempt, node: node, at: now)
        if begin == .never { record.startedAt = nil }
        record.storedResponse = result.response.map { Stored($0, seal) }
        var attemptError: Stored<ErrorRecord>?
        switch result.outcome {
        case .released, .putOff:
            self = .giveBack(
                lease, result, ended: result.packed(.released, nil, node: node, at: now, seal))
            return
        case .suspended:
            self = .giveBack(
                lease, result, ended: result.packed(.suspended, nil, node: node, at: now, seal))
            return
        case .asked(let question):
            let ended = result.packed(.asked, nil, node: node, at: now, seal)
            self = .ask(question, lease, result, ended: ended, seal)
            return
        case .succeeded(var value):
            record.state = .succeeded
            value.bytesSent = result.bytesSent
            record.storedResult = Stored(value)
            record.body = value.body
        case .cancelled:
            record.state = .cancelled
            record.storedError = .cancelledByRequest
        case .failed(let error, let retryAfter):
            let stored = Stored(error)
            attemptError = stored
            if RetryPolicy.usesUpAttempt(error, rules: attempt.spec.retry) { record.failedAttemptCount += 1 }
            switch attempt.verdict(
                on: error, retryAfter, failedAttemptCount: record.failedAttemptCount, now: now,
                jitter: jitter,
                isRedirected: result.delayedRedirect != nil)
            {
            case .retry(let instant):
                var retry = Change(.retry, lease)
                retry.change.failedAttemptCount = record.failedAttemptCount
                retry.change.dueAt = instant
                let isRedirected = result.delayedRedirect != nil
                retry.change.error = isRedirected ? Stored(error, heldBy: .redirectDelay) : stored
                retry.change.ended = result.packed(.failed, stored, node: node, at: now, seal)
                retry.change.hasBytes = result.leavesBytes
                retry.change.delayedRedirect = result.delayedRedirect?.encode(seal)
                retry.change.occurredAt = record.finishedAt ?? now
                retry.isWanted = attempt.spec.webhook?.events.contains(.jobAttemptFailed) ?? false
                self = .change(retry)
                return
            case .final(let last):
                record.state = .failed
                record.storedError = last == error ? stored : Stored(last)
                record.body = result.rejectedBody
            }
        }
        let leavesBytes = result.leavesBytes && !result.ranFull
        record.resumeData = leavesBytes ? sealResumePoint(ResumePoint(of: attempt)) : nil
        if record.resumeData != nil { record.partialDownload = result.partialDownload }
        let ended = result.packedLast(attemptError ?? record.storedError, at: now, seal)
        self = .finish(
            FinishedJob(
                lease, record, of: attempt, lastAttempt: ended, attemptError: attemptError,
                unrecordedBegin: begin == .unrecorded ? attempt.startedAt : nil,
                storedByteCount: result.storedByteCount(of: record)))
    }
}

extension AttemptResult {
    /// Bytes of the finished job that are kept without a destination: its managed file, its body, or what
    /// another job may continue; `nil` if there are none.
    fileprivate func storedByteCount(of record: JobRecord) -> Int64? {
        var count = Int64(record.body?.count ?? 0)
        if case .succeeded(let value) = outcome, value.location == .managedFile { count = value.size }
        if record.resumeData != nil, attempt.spec.destination == nil {
            count += partialDownload?.byteCount ?? 0
        }
        return count > 0 ? count : nil
    }

    /// `true` if the storage was full. The bytes are then removed, to make room for other jobs.
    fileprivate var ranFull: Bool {
        if case .failed(let error, _) = outcome { error.code == .storageFull } else { false }
    }
}

extension Attempt {
    /// Decides between a retry and a failure. `failedAttemptCount` includes this attempt if it counts.
    /// `isRedirected`: the attempt has ended with a delayed redirect, which alone determines the delay.
    fileprivate func verdict(
        on error: TransferError, _ retryAfter: Double?, failedAttemptCount: Int32, now: Timestamp,
        jitter: Double, isRedirected: Bool
    ) -> RetryPolicy.Verdict {
        var rules = spec.retry
        if isRedirected { rules.delayInitial = 0 }
        let overdue = spec.schedule.overdueCode(createdAt: createdAt)
        guard RetryPolicy.usesUpAttempt(error, rules: spec.retry) else {
            return RetryPolicy.verdict(
                rules: rules, uncounted: error, attempt: Int(number), retryAfter: retryAfter, now: now,
                expiry: expiry, jitter: jitter, overdue: overdue)
        }
        return RetryPolicy.verdict(
            rules: spec.retry, error: error, failedAttemptCount: Int(failedAttemptCount),
            retryAfter: retryAfter, now: now, expiry: expiry, jitter: jitter, overdue: overdue)
    }
}

extension AttemptResult {
    /// The attempt as the job's row keeps it; `nil` if it was given back before it began. `endsJob`: the job
    /// keeps the fields that `attempt` has now.
    func packed(
        _ outcome: AttemptRecord.Outcome, _ error: Stored<ErrorRecord>?, node: NodeID?, at now: Timestamp,
        endsJob: Bool = false, _ seal: SecretSeal
    ) -> [UInt8]? {
        if trace == nil, outcome == .released || outcome == .suspended { return nil }
        return AttemptRecord.packed(
            number: attempt.number, node: node, trace ?? AttemptTrace(startedAt: now, finishedAt: now),
            outcome, error: error, partialDownload: partialDownload,
            final: endsJob ? .init(attempt.spec.request) : nil, seal)
    }

    /// The attempt that ends its job. Without the node, which the job's row has.
    fileprivate func packedLast(
        _ error: Stored<ErrorRecord>?, at now: Timestamp, _ seal: SecretSeal
    ) -> [UInt8]? {
        switch outcome {
        case .succeeded: packed(.succeeded, nil, node: nil, at: now, endsJob: true, seal)
        case .cancelled: packed(.cancelled, error, node: nil, at: now, endsJob: true, seal)
        case .failed: packed(.failed, error, node: nil, at: now, endsJob: true, seal)
        case .released, .suspended, .asked, .putOff: nil
        }
    }
}

extension AttemptEnding {
    /// What to write instead if the database refuses the data: the job fails without details or, if that is
    /// refused as well, goes back to the queue. `nil` if the job must not run again: then this stays to be
    /// written.
    var simplified: AttemptEnding? {
        guard case .finish(let job) = self else { return .giveBack(lease) }
        if job.record.storedError != .unstorable { return .finish(job.simplified) }
        return job.isRepeatable ? .giveBack(lease) : nil
    }
}

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
        wanted = spec?.wantedEvents
        acknowledgement = spec?.acknowledgement
        declinesAcknowledgement = spec?.declinesAcknowledgement ?? false
    }

    /// The same job as failed, without any data of the transfer.
    fileprivate var simplified: FinishedJob {
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

    fileprivate var isRepeatable: Bool {
        // A spec that cannot be read does not say that the job may run again.
        guard let spec = record.spec else { return false }
        return spec.isRepeatable(spec.request.method)
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
    }

    /// A job that no node holds, as it ends without another attempt. `resumeData` makes resume data of the
    /// bytes that it has left (`StoreConfiguration.resumeData`); `nil` if they are not wanted.
    convenience init(
        _ stored: StoredJob, _ state: JobState, _ error: TransferError, at now: Timestamp,
        resumeData: (@Sendable (JobRecord) -> String?)? = nil
    ) {
        let lease = Lease(
            job: stored.record.id, attempt: stored.record.attempt, revision: stored.record.revision)
        var record = stored.record
        record.state = state
        record.waitingFor = nil
        record.nextAttemptAt = nil
        record.finishedAt = max(now, record.createdAt)
        record.storedError = Stored(error)
        if let resumeData, stored.hasBytes { record.resumeData = resumeData(stored.record) }
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
        overdue stored: StoredJob, at now: Timestamp, resumeData: @escaping @Sendable (JobRecord) -> String?
    ) {
        // A job whose spec cannot be read ends as well.
        let schedule = stored.record.spec?.schedule ?? JobSpec.Schedule()
        let error = schedule.overdue(createdAt: stored.record.createdAt, phase: .waiting)
        self.init(stored, .failed, error, at: now, resumeData: resumeData)
    }
}

extension JobState {
    /// The event of reaching this state; `nil` if it is not terminal.
    var event: EventType? {
        switch self {
        case .succeeded: .jobSucceeded
        case .failed: .jobFailed
        case .cancelled: .jobCancelled
        case .waiting, .queued, .running, .suspended: nil
        }
    }
}

extension StoreConfiguration {
    /// Makes resume data of a job's row; `nil` if its fields cannot be read.
    var resumeData: @Sendable (JobRecord) -> String? {
        { [seal, sealResumePoint] record in
            // An error means what `nil` does: there is no resume data.
            guard let spec = record.storedSpec.whole(opening: seal) else { return nil }
            return sealResumePoint(ResumePoint(record, spec))
        }
    }
}

extension ResumePoint {
    fileprivate init(of attempt: Attempt) {
        self.init(
            tenant: attempt.tenant, job: attempt.job, url: attempt.spec.request.url,
            originalURL: attempt.spec.request.original?.url, location: attempt.spec.contentLocation)
    }

    fileprivate init(_ record: JobRecord, _ spec: JobSpec) {
        self.init(
            tenant: record.tenant, job: record.id, url: spec.request.url,
            originalURL: spec.request.original?.url, location: spec.contentLocation)
    }
}

extension JobRecord {
    init(ending attempt: Attempt, node: NodeID, at now: Timestamp) {
        self.init(
            id: attempt.job, tenant: attempt.tenant, state: .running, waitingFor: nil,
            revision: attempt.revision,
            attempt: attempt.number, failedAttemptCount: attempt.failedAttemptCount, node: node,
            createdAt: attempt.createdAt, startedAt: attempt.startedAt,
            finishedAt: max(now, attempt.startedAt),
            retryOf: attempt.retryOf, storedSpec: attempt.storedSpec)
    }
}

extension Stored<ErrorRecord> {
    static let cancelledByRequest = Stored(.cancelledByRequest)
    static let unstorable = Stored(.unstorable)
}

extension TransferError {
    static let cancelledByRequest = TransferError(
        .cancelled, "The job was cancelled.", phase: .waiting, isRetryable: false)
    static let unstorable = TransferError(
        .internalError, "The outcome of the transfer could not be stored.", phase: .finishing,
        isRetryable: true)
    static let unreadable = TransferError(
        .internalError, "The stored job cannot be read by this version of the service.", phase: .waiting,
        isRetryable: false)
}
