internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// Submits single jobs and responds with them: after the commit, or after the wait that `Prefer: wait` asks
/// for.
final class JobSubmission: Sendable {
    private let sink: any SubmissionSink
    private let reader: any JobReader
    private let waiters: JobWaiters
    private let secrets: SecretSeal
    private let view: JobView
    private let wait: JobWait
    private let earlier: EarlierSubmissions
    private let batches: BatchThread

    init(
        _ ports: APIPorts, _ view: JobView, _ wait: JobWait, _ earlier: EarlierSubmissions,
        _ batches: BatchThread
    ) {
        sink = ports.submissions
        reader = ports.store.jobs
        waiters = ports.waiters
        secrets = ports.secrets
        self.view = view
        self.wait = wait
        self.earlier = earlier
        self.batches = batches
    }

    /// Submits a job. `asOf` returns the job that the same request made at an earlier time, or `nil` if that
    /// is not known any more. `again` handles the request from the start; it is called if the configuration
    /// of the job's session has changed since `sessionEpoch`.
    func submit(
        _ job: NewJob, _ request: RequestContext, _ key: Submission.Idempotency?, sessionEpoch: Int64?,
        asOf: @escaping @Sendable (Timestamp) -> NewJob?, again: @escaping @Sendable () -> Void
    ) {
        guard let seconds = preferredWait(request.fields), seconds > 0 else {
            sink.submit(
                Submission(jobs: [job], idempotency: key, sessionEpoch: sessionEpoch) { [self] result in
                    switch result {
                    case .failure(.sessionsChanged): batches.run(again)
                    case .failure(let error): request.fail(error)
                    case .success(let accepted):
                        sendAccepted(job, accepted, request, asOf: asOf, again: again)
                    }
                })
            return
        }
        submitAndWait(
            job, request, key, sessionEpoch: sessionEpoch, seconds: seconds, asOf: asOf, again: again)
    }

    /// `Prefer: wait`: responds when the job is accepted and the wait is over.
    private func submitAndWait(
        _ job: NewJob, _ request: RequestContext, _ key: Submission.Idempotency?, sessionEpoch: Int64?,
        seconds: Double, asOf: @escaping @Sendable (Timestamp) -> NewJob?,
        again: @escaping @Sendable () -> Void
    ) {
        let pending = PendingResponse()
        let respond: @Sendable (Submission.Accepted) -> Void = { [self] accepted in
            reader.job(job.id, tenant: job.tenant) { [self] result in
                guard case .success(let record) = result else {
                    return sendAccepted(job, accepted, request, asOf: asOf, again: again)
                }
                view.sendCreated(record, isReplay: false, to: request, waited: seconds)
            }
        }
        // Registered before the submission: the job may end before the reply says that it is accepted.
        let token = waiters.wait(
            for: job.id, seconds: seconds,
            look: { [wait] in wait.finish($0, tenant: job.tenant) { $0.isTerminal } },
            done: { if let accepted = pending.endWait() { respond(accepted) } })
        sink.submit(
            Submission(jobs: [job], idempotency: key, sessionEpoch: sessionEpoch) { [self] result in
                switch result {
                case .failure(.sessionsChanged):
                    waiters.remove(token)
                    batches.run(again)
                case .failure(let error):
                    waiters.remove(token)
                    request.fail(error)
                case .success(let accepted) where accepted.isReplay || !accepted.areNew:
                    waiters.remove(token)
                    sendAccepted(job, accepted, request, asOf: asOf, again: again)
                case .success(let accepted):
                    if pending.accept(accepted) { respond(accepted) }
                }
            })
    }

    /// Responds to a committed submission with 201, even if reading the job fails: the job may have been
    /// deleted since, or the database may be unreachable. After an error the client would submit it again.
    /// An existing job is shown as it is, with 200; if it was deleted since, `again` is called: its key is
    /// free.
    private func sendAccepted(
        _ job: NewJob, _ accepted: Submission.Accepted, _ request: RequestContext,
        asOf: (Timestamp) -> NewJob?, again: @escaping @Sendable () -> Void
    ) {
        guard let first = accepted.jobs.first else { return request.fail(StoreError.failed) }
        guard first.isNew else {
            return sendExisting(first, isReplay: accepted.isReplay, request) { [self] error in
                guard error == .notFound, !accepted.isReplay else { return request.fail(error) }
                batches.run(again)
            }
        }
        guard accepted.isReplay else {
            return view.sendCreated(JobRecord(first, of: job), isReplay: false, to: request)
        }
        let firstJob = asOf(first.createdAt)
        replay(first, of: firstJob, request) { [view] _ in
            view.sendCreated(JobRecord(first, of: firstJob ?? job), isReplay: true, to: request)
        }
    }

    /// Responds with a job that existed before. Calls `otherwise` if it cannot be read.
    private func sendExisting(
        _ existing: Submission.Accepted.Job, isReplay: Bool, _ request: RequestContext,
        otherwise: @escaping @Sendable (StoreError) -> Void
    ) {
        let seconds = preferredWait(request.fields).flatMap { $0 > 0 ? $0 : nil }
        let respond: @Sendable (Result<JobRecord, StoreError>) -> Void = { [view] result in
            switch result {
            case .failure(let error): otherwise(error)
            case .success(let record):
                view.sendCreated(record, isReplay: isReplay, isNew: false, to: request, waited: seconds)
            }
        }
        guard let seconds else { return reader.job(existing.id, tenant: request.tenant, reply: respond) }
        wait.read(
            existing.id, tenant: request.tenant, seconds: seconds, when: { $0.isTerminal }, then: respond)
    }

    /// Refuses a request, unless its key was accepted before: then the first response is repeated. A session,
    /// the egress policy or the job to repeat may have changed since, or may be gone.
    func refuse(_ request: RequestContext, _ key: Submission.Idempotency?, _ problem: Problem) {
        earlier.find(key, request) { [self] accepted in
            guard let first = accepted.jobs.first else { return request.fail(StoreError.failed) }
            let otherwise: @Sendable (StoreError) -> Void = { error in
                request.fail(error == .notFound ? problem : Problem(error))
            }
            guard first.isNew else {
                return sendExisting(first, isReplay: true, request, otherwise: otherwise)
            }
            replay(first, of: nil, request, otherwise: otherwise)
        } otherwise: {
            request.fail(problem)
        }
    }

    /// Repeats the first response. `job`: what the request made at that time; if it is `nil`, the response is
    /// made from the job's row, which includes later changes. Calls `otherwise` if the row cannot be read.
    private func replay(
        _ first: Submission.Accepted.Job, of job: NewJob?, _ request: RequestContext,
        otherwise: @escaping @Sendable (StoreError) -> Void
    ) {
        if let seconds = preferredWait(request.fields), seconds > 0 {
            return wait.read(first.id, tenant: request.tenant, seconds: seconds, when: { $0.isTerminal }) {
                [view] result in
                switch result {
                case .failure(let error): otherwise(error)
                case .success(let record):
                    view.sendCreated(record, isReplay: true, to: request, waited: seconds)
                }
            }
        }
        if let job { return view.sendCreated(JobRecord(first, of: job), isReplay: true, to: request) }
        reader.job(first.id, tenant: request.tenant) { [view, secrets] result in
            switch result {
            case .failure(let error): otherwise(error)
            case .success(let found):
                // A row that cannot be read is reported by `otherwise`.
                guard var spec = found.storedSpec.withoutEndpoint.whole(opening: secrets) else {
                    return otherwise(.failed)
                }
                // Clients add these after the submission.
                spec.answers = nil
                let record = JobRecord(
                    first, tenant: request.tenant, spec: spec,
                    storedSpec: StoredSpec(spec, json: found.storedSpec.json), retryOf: found.retryOf)
                view.sendCreated(record, isReplay: true, to: request)
            }
        }
    }
}

/// A response that is due when a submission is accepted and its wait is over, in either order. Any thread.
private final class PendingResponse: Sendable {
    private struct State {
        var accepted: Submission.Accepted?
        var isWaitOver = false
    }
    private let state = Mutex(State())

    /// Notes that the wait is over. Returns the accepted submission if the response is due.
    func endWait() -> Submission.Accepted? {
        state.withLock { state in
            state.isWaitOver = true
            return state.accepted
        }
    }

    /// Notes that the submission is committed. Returns `true` if the response is due.
    func accept(_ accepted: Submission.Accepted) -> Bool {
        state.withLock { state in
            state.accepted = accepted
            return state.isWaitOver
        }
    }
}
