internal import FerryCore

/// `POST /v1/jobs`.
final class JobCreation: Sendable {
    private let validation: JobValidation
    private let factory: JobFactory
    private let references: JobReferenceCheck
    private let submission: JobSubmission

    init(
        _ validation: JobValidation, _ factory: JobFactory, _ references: JobReferenceCheck,
        _ submission: JobSubmission
    ) {
        self.validation = validation
        self.factory = factory
        self.references = references
        self.submission = submission
    }

    /// `POST /v1/jobs`
    func create(_ request: RequestContext) throws(Problem) {
        let sessions = validation.sessions(of: request)
        let json = try request.json()
        let key = try request.idempotency([json])
        let job: JobRequest
        do throws(InvalidFields) {
            job = try validation.validate(json, at: "#", request, sessions)
        } catch {
            return submission.refuse(request, key, Problem(error))
        }
        let made = factory.newJob(job, request, trace: traceContext(request.fields))
        references.resolveUploads([made], request, key, factory.secrets, place: { _ in "#" }) { [self] jobs in
            let new = jobs[0]
            references.check([new], request, key, place: { _ in "#" }) { [self] in
                submission.submit(
                    new, request, key, sessionEpoch: sessions.snapshot.epoch,
                    asOf: { sessions.isUnchanged(new.spec.session, since: $0) ? new : nil },
                    again: { [self] in request.run { () throws(Problem) in try create(request) } })
            }
        }
    }
}

extension SessionScope {
    /// Whether a session's configuration is the one of this time. A session that was deleted since counts as
    /// one that was never configured.
    fileprivate func isUnchanged(_ name: String, since time: Timestamp) -> Bool {
        record(name).map { $0.updatedAt < time } ?? true
    }
}
