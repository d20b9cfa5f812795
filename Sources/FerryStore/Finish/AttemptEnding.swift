import FerryCore
import Postgres

/// Consequence of an attempt's end for its job: a pure function of the result, the clock and a random jitter.
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
                retry.change.nextRequest = result.delayedRedirect.map {
                    NextRequest.redirect($0).encode(seal)
                }
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
        let isUnkept =
            attempt.spec.kind == .upload ? result.upload == nil : attempt.spec.isCopy
        let leavesBytes = result.leavesBytes && !result.ranFull && !isUnkept
        record.resumeData = leavesBytes ? sealResumePoint(ResumePoint(of: attempt, result.upload)) : nil
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
        if case .succeeded(let value) = outcome, value.location?.isManaged ?? false { count = value.size }
        if record.resumeData != nil, attempt.spec.contentLocation == .managedFile {
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
    /// Ending to write instead if the database refuses the data: the job fails without details or, if that is
    /// refused as well, goes back to the queue. `nil` if the job must not run again: then this ending stays
    /// to be written.
    var simplified: AttemptEnding? {
        guard case .finish(let job) = self else { return .giveBack(lease) }
        if job.record.storedError != .unstorable { return .finish(job.simplified) }
        return job.isRepeatable ? .giveBack(lease) : nil
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
    var resumeData: @Sendable (StoredJob) -> String? {
        { [seal, sealResumePoint] stored in
            // An error means what `nil` does: there is no resume data.
            guard let spec = stored.record.storedSpec.whole(opening: seal) else { return nil }
            let upload = stored.upload(opening: seal)
            guard spec.kind != .upload || upload != nil else { return nil }
            return sealResumePoint(ResumePoint(stored.record, spec, upload: upload))
        }
    }
}

extension ResumePoint {
    fileprivate init(of attempt: Attempt, _ upload: ResumableUpload?) {
        self.init(
            tenant: attempt.tenant, job: attempt.job, url: attempt.spec.request.url,
            originalURL: attempt.spec.request.original?.url, location: attempt.spec.contentLocation,
            upload: upload)
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

extension AttemptEnding {
    /// Names of the statements that write results of attempts.
    static let statements = Set([Statements.finishJobs, Statements.changeJobs].map(\.name))

    /// The statement that writes this alone. Leaves out that only one node can run the job: a later attempt
    /// finds that again.
    var statement: (Statement, Parameters) {
        switch self {
        case .finish(let job): (Statements.finishJobs, .finished([job]))
        case .change(let ending): (Statements.changeJobs, .changes([ending.change]))
        }
    }

    /// The begin of the attempt, which is recorded before; `nil` if it is recorded already or with the end.
    var begin: JobChange? {
        if case .change(let ending) = self { ending.begin } else { nil }
    }
}
