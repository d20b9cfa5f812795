internal import FerryCore
internal import HTTPServer
internal import OpenSSL
internal import Synchronization

extension API {
    /// `POST /v1/jobs`
    func submitJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let sessions = scope(call)
            let json = try call.json()
            let idempotency = try idempotency(call)
            let job: ValidatedJob
            do throws(InvalidFields) {
                job = try validate(json, at: "#", call, sessions)
            } catch {
                return refuse(call, idempotency, Problem(error))
            }
            let new = newJob(job, call, trace: traceContext(call.fields), retryOf: nil)
            afterReferences(of: [new], call, idempotency, place: { _ in "#" }) { [self] in
                submit(
                    new, call, idempotency: idempotency, sessionEpoch: sessions.snapshot.epoch,
                    asOf: { sessions.isUnchanged(new.spec.session, since: $0) ? new : nil },
                    again: { [self] in submitJob(call) })
            }
        }
    }

    /// The sessions of whoever calls, as this node knows them.
    func scope(_ call: RequestContext) -> SessionScope {
        SessionScope(ports.sessions.sessionBoard.current, tenant: call.principal.tenant)
    }

    /// `POST /v1/jobs/{id}/retry`: the same job again, as a new one.
    func retryJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            try needEmptyObject(call)
            let idempotency = try idempotency(call)
            let tenant = call.principal.tenant
            ports.control.retrySource(id, tenant: tenant) { [self] result in
                let source: RetrySource
                let job: NewJob
                do throws(Problem) {
                    source = try result.mapError { Problem($0) }.get()
                    job = try repeated(source, at: ports.clock.now(), call)
                } catch {
                    return refuse(call, idempotency, error)
                }
                afterSources(of: job.spec, call, idempotency, place: "#") { [self] in
                    // It keeps the configuration with which it was accepted first.
                    submit(
                        job, call, idempotency: idempotency, sessionEpoch: nil,
                        asOf: { [self] in try? repeated(source, at: $0, call) },
                        again: { call.fail(StoreError.unavailable) })
                }
            }
        }
    }

    /// What cannot be accepted, unless it was accepted before: a session, the egress policy or the job to
    /// repeat may have changed since, or be gone.
    private func refuse(_ call: RequestContext, _ key: Submission.Idempotency?, _ problem: Problem) {
        unlessKnown(key, call) { [self] accepted in
            guard let first = accepted.jobs.first else { return call.fail(StoreError.failed) }
            replay(first, of: nil, call) { error in
                call.fail(error == .notFound ? problem : Problem(error))
            }
        } refuse: {
            call.fail(problem)
        }
    }

    /// `time`: when it was, or is, asked for.
    private func repeated(
        _ source: RetrySource, at time: Timestamp, _ call: RequestContext
    ) throws(Problem) -> NewJob {
        guard var spec = try? JobSpec(storedJSON: source.record.specJSON, opening: ports.secrets),
            let url = try? WebURL.parse(spec.request.url)
        else { throw Problem(.internalError, "The job cannot be read any more.") }
        spec.removeAcknowledgementOfEndpoint()
        // The policy may have become stricter since.
        if let reason = ports.egress.refusal(of: url) {
            throw Problem(InvalidFields("#/request/url", "blocked_address", reason))
        }
        if let proxy = spec.request.connection?.proxy, let reason = ports.egress.refusal(of: proxy.url.place)
        {
            throw Problem(InvalidFields("#/request/proxy/url", "blocked_address", reason))
        }
        guard !spec.hasPayload || source.payload != nil else {
            throw Problem(.notRepeatable, "The bytes that it sent are not kept; submit it again with them.")
        }
        var secrets = source.secrets
        spec.repeat(at: time)
        secrets.resumePoint = source.record.resumeData.flatMap { resumePoint($0, call) }
        spec.request.original = secrets.resumePoint?.original(of: spec.request)
        // The schedule has submitted the job that this one repeats.
        spec.occurrence = nil
        return newJob(
            ValidatedJob(spec: spec, payload: source.payload, secrets: secrets, origin: url.origin), call,
            trace: traceContext(call.fields), retryOf: source.record.id)
    }

    func validate(
        _ json: JSON, at prefix: String, _ call: RequestContext, _ sessions: SessionScope,
        earlierJob: @escaping (Int) -> JobID? = { _ in nil }
    ) throws(InvalidFields) -> ValidatedJob {
        let job = try ValidatedJob(
            json, at: prefix, node: node, sessions: sessions, refusal: { ports.egress.refusal(of: $0) },
            resumePoint: { resumePoint($0, call) }, earlierJob: earlierJob)
        try job.checkInlineDigests(at: prefix)
        return job
    }

    /// What resume data says, if it was given to this tenant.
    private func resumePoint(_ text: String, _ call: RequestContext) -> ResumePoint? {
        guard let point = ports.openResumeData(text), point.tenant == call.principal.tenant else {
            return nil
        }
        return point
    }

    func needEmptyObject(_ call: RequestContext) throws(Problem) {
        let complaints = ValidationErrors()
        FieldReader(try call.json(isOptional: true), at: "#", complaints)?.finish()
        if !complaints.isEmpty { throw Problem(InvalidFields(complaints.errors)) }
    }

    func newJob(_ job: ValidatedJob, _ call: RequestContext, trace: String, retryOf: JobID?) -> NewJob {
        NewJob(
            id: identifiers.make(), tenant: call.principal.tenant, spec: job.spec,
            specJSON: job.spec.encodeStored(ports.secrets),
            sealedSecrets: job.secrets.isEmpty ? nil : ports.seal(job.secrets.encode()), secrets: job.secrets,
            payload: job.payload, origin: job.origin, traceparent: trace, retryOf: retryOf)
    }

    /// The key of a request, in the scope of its tenant.
    func idempotency(_ call: RequestContext) throws(Problem) -> Submission.Idempotency? {
        guard let key = try idempotencyKey(call.fields) else { return nil }
        let route = "\(call.request.head.method) \(call.request.head.path)"
        var digest = Digest(.sha256)
        digest.update(Array("\(route)\n".utf8))
        digest.update(call.request.body)
        return Submission.Idempotency(
            tenant: call.principal.tenant, route: route, key: key, fingerprint: digest.finish())
    }

    /// `asOf`: what the same request made at a time before; nil: nobody knows that any more. `again`: reads
    /// the request anew, when a session has got another configuration meanwhile.
    private func submit(
        _ job: NewJob, _ call: RequestContext, idempotency: Submission.Idempotency?, sessionEpoch: Int64?,
        asOf: @escaping @Sendable (Timestamp) -> NewJob?, again: @escaping @Sendable () -> Void
    ) {
        guard let seconds = preferredWait(call.fields), seconds > 0 else {
            ports.intake.submit(
                Submission(jobs: [job], idempotency: idempotency, sessionEpoch: sessionEpoch) {
                    [self] result in
                    switch result {
                    case .failure(.sessionsChanged): batches.run(again)
                    case .failure(let error): call.fail(error)
                    case .success(let accepted): sendAccepted(job, accepted, call, asOf: asOf)
                    }
                })
            return
        }
        submitAndWait(
            job, call, idempotency: idempotency, sessionEpoch: sessionEpoch, seconds: seconds, asOf: asOf,
            again: again)
    }

    /// `Prefer: wait`: the answer follows the acceptance and the end of the wait, whichever comes last.
    private func submitAndWait(
        _ job: NewJob, _ call: RequestContext, idempotency: Submission.Idempotency?, sessionEpoch: Int64?,
        seconds: Double, asOf: @escaping @Sendable (Timestamp) -> NewJob?,
        again: @escaping @Sendable () -> Void
    ) {
        let tenant = job.tenant
        let wait = SubmissionWait()
        let answer: @Sendable (Submission.Accepted) -> Void = { [self] accepted in
            ports.reader.job(job.id, tenant: tenant) { [self] result in
                guard case .success(let record) = result else {
                    return sendAccepted(job, accepted, call, asOf: asOf)
                }
                sendCreated(record, isReplay: false, call, waited: seconds)
            }
        }
        // Registered before the submission: the job may end before its acceptance is told here.
        let token = ports.waiters.wait(
            for: job.id, seconds: seconds, look: { [self] in lookAfter($0, tenant: tenant) },
            done: { if let accepted = wait.end() { answer(accepted) } })
        ports.intake.submit(
            Submission(jobs: [job], idempotency: idempotency, sessionEpoch: sessionEpoch) { [self] result in
                switch result {
                case .failure(.sessionsChanged):
                    ports.waiters.remove(token)
                    batches.run(again)
                case .failure(let error):
                    ports.waiters.remove(token)
                    call.fail(error)
                case .success(let accepted) where accepted.isReplay:
                    ports.waiters.remove(token)
                    sendAccepted(job, accepted, call, asOf: asOf)
                case .success(let accepted):
                    if wait.accept(accepted) { answer(accepted) }
                }
            })
    }

    /// The answer to a submission as soon as it is committed. What is accepted is told, whatever a look at it
    /// says: the job may have been deleted since, and the database may be away. An error would be a reason to
    /// submit it again.
    private func sendAccepted(
        _ job: NewJob, _ accepted: Submission.Accepted, _ call: RequestContext, asOf: (Timestamp) -> NewJob?
    ) {
        guard let first = accepted.jobs.first else { return call.fail(StoreError.failed) }
        guard accepted.isReplay else {
            return sendCreated(JobRecord(first, of: job), isReplay: false, call, waited: nil)
        }
        let firstJob = asOf(first.createdAt)
        replay(first, of: firstJob, call) { [self] _ in
            sendCreated(JobRecord(first, of: firstJob ?? job), isReplay: true, call, waited: nil)
        }
    }

    /// The first answer again. `job`: what the request made then; nil: its row alone tells, also what
    /// somebody has changed since. `otherwise`: when the row cannot be read.
    private func replay(
        _ first: Submission.Accepted.Job, of job: NewJob?, _ call: RequestContext,
        otherwise: @escaping @Sendable (StoreError) -> Void
    ) {
        let tenant = call.principal.tenant
        if let seconds = preferredWait(call.fields), seconds > 0 {
            whenTerminal(first.id, tenant: tenant, seconds: seconds) { [self] result in
                switch result {
                case .failure(let error): otherwise(error)
                case .success(let record): sendCreated(record, isReplay: true, call, waited: seconds)
                }
            }
            return
        }
        if let job { return sendCreated(JobRecord(first, of: job), isReplay: true, call, waited: nil) }
        ports.reader.job(first.id, tenant: tenant) { [self] result in
            switch result {
            case .failure(let error): otherwise(error)
            case .success(let found):
                guard var spec = try? JobSpec(storedJSON: found.specJSON, opening: ports.secrets) else {
                    return otherwise(.failed)
                }
                // What somebody has said about it since.
                spec.answers = nil
                spec.removeAcknowledgementOfEndpoint()
                let record = JobRecord(
                    first, tenant: tenant, spec: spec, specJSON: found.specJSON, retryOf: found.retryOf)
                sendCreated(record, isReplay: true, call, waited: nil)
            }
        }
    }

    private func sendCreated(_ record: JobRecord, isReplay: Bool, _ call: RequestContext, waited: Double?) {
        let applied: [(name: String, value: String)] =
            waited.map { [("Preference-Applied", "wait=\(Int($0))")] } ?? []
        send(
            record, 201, call,
            [("Location", "/v1/jobs/\(record.id)")] + applied + (isReplay ? replayed : []))
    }
}

let replayed: [(name: String, value: String)] = [("Idempotency-Replayed", "true")]

extension SessionScope {
    /// Whether a session says what it said at this time. One that was removed since is taken for one that
    /// nobody has configured.
    fileprivate func isUnchanged(_ name: String, since time: Timestamp) -> Bool {
        record(name).map { $0.updatedAt < time } ?? true
    }
}

extension JobSpec {
    /// What an endpoint asks for is in the row of the job that has ended; it was not a part of the job.
    fileprivate mutating func removeAcknowledgementOfEndpoint() {
        if acknowledgement?.endpoint != nil { acknowledgement = nil }
    }
}

/// A submission whose answer has to wait for two things, in either order: its acceptance and the end of the
/// wait. Whoever comes last answers.
private final class SubmissionWait: Sendable {
    private struct State {
        var accepted: Submission.Accepted?
        var isOver = false
    }
    private let state = Mutex(State())

    /// The wait is over. Returns the acceptance when the answer is due.
    func end() -> Submission.Accepted? {
        state.withLock { state in
            state.isOver = true
            return state.accepted
        }
    }

    /// The submission is committed. Returns whether the answer is due.
    func accept(_ accepted: Submission.Accepted) -> Bool {
        state.withLock { state in
            state.accepted = accepted
            return state.isOver
        }
    }
}
