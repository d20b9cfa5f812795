internal import FerryCore
internal import HTTPServer
internal import OpenSSL
internal import Synchronization

extension API {
    /// `POST /v1/jobs`
    func submitJob(_ call: Call) {
        call.answering { () throws(Problem) in
            let sessions = scope(call)
            let job = try validated(try call.json(), at: "#", call, sessions)
            let new = newJob(job, call, trace: traceContext(call.fields), retryOf: nil)
            let idempotency = try idempotency(call)
            afterReferences(of: [new], call, idempotency, place: { _ in "#" }) { [self] in
                submit(new, call, idempotency: idempotency, sessionEpoch: sessions.snapshot.epoch) { [self] in
                    submitJob(call)
                }
            }
        }
    }

    /// The sessions of whoever calls, as this node knows them.
    func scope(_ call: Call) -> SessionScope {
        SessionScope(ports.sessions.sessionBoard.current, tenant: call.principal.tenant)
    }

    /// `POST /v1/jobs/{id}/retry`: the same job again, as a new one.
    func retryJob(_ call: Call) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            try needEmptyObject(call)
            let idempotency = try idempotency(call)
            let tenant = call.principal.tenant
            ports.control.retrySource(id, tenant: tenant) { [self] result in
                call.answering { () throws(Problem) in
                    let source = try result.mapError { Problem($0) }.get()
                    let job = newJob(
                        try repeated(source, call), call, trace: traceContext(call.fields), retryOf: id)
                    afterSources(of: job.spec, call, idempotency, place: "#") { [self] in
                        // It keeps the configuration with which it was accepted first.
                        submit(job, call, idempotency: idempotency, sessionEpoch: nil) {
                            call.fail(StoreError.unavailable)
                        }
                    }
                }
            }
        }
    }

    private func repeated(_ source: RetrySource, _ call: Call) throws(Problem) -> ValidatedJob {
        guard var spec = try? JobSpec(storedJSON: source.record.specJSON),
            let url = try? WebURL.parse(spec.request.url)
        else { throw Problem(.internalError, "The job cannot be read any more.") }
        // An endpoint asked for it, of the job that has ended.
        if spec.acknowledgement?.endpoint != nil { spec.acknowledgement = nil }
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
        spec.repeat(at: ports.clock.now())
        secrets.resumePoint = source.record.resumeData.flatMap { resumePoint($0, call) }
        spec.request.original = secrets.resumePoint?.original(of: spec.request)
        // The schedule has submitted the job that this one repeats.
        spec.occurrence = nil
        return ValidatedJob(spec: spec, payload: source.payload, secrets: secrets, origin: url.origin)
    }

    func validated(
        _ json: JSON, at prefix: String, _ call: Call, _ sessions: SessionScope
    ) throws(Problem) -> ValidatedJob {
        do throws(InvalidFields) {
            return try validate(json, at: prefix, call, sessions)
        } catch {
            throw Problem(error)
        }
    }

    func validate(
        _ json: JSON, at prefix: String, _ call: Call, _ sessions: SessionScope,
        earlierJob: @escaping (Int) -> JobID? = { _ in nil }
    ) throws(InvalidFields) -> ValidatedJob {
        let job = try ValidatedJob(
            json, at: prefix, node: node, sessions: sessions, refusal: { ports.egress.refusal(of: $0) },
            resumePoint: { resumePoint($0, call) }, earlierJob: earlierJob)
        try job.checkInlineDigests(at: prefix)
        return job
    }

    /// What resume data says, if it was given to this tenant.
    private func resumePoint(_ text: String, _ call: Call) -> ResumePoint? {
        guard let point = ports.openResumeData(text), point.tenant == call.principal.tenant else {
            return nil
        }
        return point
    }

    func needEmptyObject(_ call: Call) throws(Problem) {
        let complaints = Complaints()
        FieldReader(try call.json(isOptional: true), at: "#", complaints)?.finish()
        if !complaints.isEmpty { throw Problem(InvalidFields(complaints.errors)) }
    }

    func newJob(_ job: ValidatedJob, _ call: Call, trace: String, retryOf: JobID?) -> NewJob {
        NewJob(
            id: identifiers.make(), tenant: call.principal.tenant, spec: job.spec,
            specJSON: job.spec.encodeStored(),
            sealedSecrets: job.secrets.isEmpty ? nil : ports.seal(job.secrets.encode()), secrets: job.secrets,
            payload: job.payload, origin: job.origin, traceparent: trace, retryOf: retryOf)
    }

    /// The key of a submission, bound to tenant, method and path.
    func idempotency(_ call: Call) throws(Problem) -> Submission.Idempotency? {
        guard let key = try idempotencyKey(call.fields) else { return nil }
        let route = "\(call.request.head.method) \(call.request.head.path)"
        var digest = Digest(.sha256)
        digest.update(Array("\(route)\n".utf8))
        digest.update(call.request.body)
        return Submission.Idempotency(
            tenant: call.principal.tenant, route: route, key: key, fingerprint: digest.finish())
    }

    /// `again`: reads the request anew, when a session has got another configuration meanwhile.
    private func submit(
        _ job: NewJob, _ call: Call, idempotency: Submission.Idempotency?, sessionEpoch: Int64?,
        again: @escaping @Sendable () -> Void
    ) {
        guard let seconds = preferredWait(call.fields), seconds > 0 else {
            ports.intake.submit(
                Submission(jobs: [job], idempotency: idempotency, sessionEpoch: sessionEpoch) {
                    [self] result in
                    switch result {
                    case .failure(.sessionsChanged): batches.run(again)
                    case .failure(let error): call.fail(error)
                    case .success(let accepted): sendAccepted(job, accepted, call)
                    }
                })
            return
        }
        submitAndWait(
            job, call, idempotency: idempotency, sessionEpoch: sessionEpoch, seconds: seconds, again: again)
    }

    /// `Prefer: wait`: the answer follows the acceptance and the end of the wait, whichever comes last.
    private func submitAndWait(
        _ job: NewJob, _ call: Call, idempotency: Submission.Idempotency?, sessionEpoch: Int64?,
        seconds: Double, again: @escaping @Sendable () -> Void
    ) {
        let tenant = job.tenant
        let wait = SubmissionWait()
        let answer: @Sendable (Submission.Accepted) -> Void = { [self] accepted in
            ports.reader.job(job.id, tenant: tenant) { [self] in
                sendCreated($0, job, accepted, call, waited: seconds)
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
                    guard let first = accepted.jobs.first else { return call.fail(StoreError.failed) }
                    ports.waiters.remove(token)
                    whenTerminal(first.id, tenant: tenant, seconds: seconds) { [self] in
                        sendCreated($0, job, accepted, call, waited: seconds)
                    }
                case .success(let accepted):
                    if wait.accept(accepted) { answer(accepted) }
                }
            })
    }

    /// The answer to a submission as soon as it is committed; a repeated one gets the first answer again.
    private func sendAccepted(_ job: NewJob, _ accepted: Submission.Accepted, _ call: Call) {
        guard let first = accepted.jobs.first else { return call.fail(StoreError.failed) }
        var record = JobRecord(
            id: first.id, tenant: job.tenant, state: first.state, waitingFor: first.waitingFor, revision: 1,
            attempt: first.state == .running ? 1 : 0, failedAttemptCount: 0, node: first.node,
            createdAt: first.createdAt, startedAt: first.startedAt, finishedAt: nil,
            nextAttemptAt: first.nextAttemptAt, retryOf: job.retryOf, specJSON: job.specJSON,
            responseJSON: nil, resultJSON: nil, errorJSON: nil, body: nil)
        record.spec = job.spec
        record.pendingDependencies = job.spec.schedule.dependsOn
        send(record, 201, call, location(of: first.id) + (accepted.isReplay ? replayed : []))
    }

    /// What is accepted is told, whatever the last look at it says: the job may have been deleted since, and
    /// the database may be away. An error would be a reason to submit it again.
    private func sendCreated(
        _ result: Result<JobRecord, StoreError>, _ job: NewJob, _ accepted: Submission.Accepted, _ call: Call,
        waited: Double
    ) {
        guard case .success(let record) = result else { return sendAccepted(job, accepted, call) }
        send(
            record, 201, call,
            location(of: record.id) + [("Preference-Applied", "wait=\(Int(waited))")]
                + (accepted.isReplay ? replayed : []))
    }

    private func location(of id: JobID) -> [(name: String, value: String)] {
        [("Location", "/v1/jobs/\(id)")]
    }
}

let replayed: [(name: String, value: String)] = [("Idempotency-Replayed", "true")]

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
