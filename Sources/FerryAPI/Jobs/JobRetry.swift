internal import FerryCore

/// `POST /v1/jobs/{id}/retry`: submits a finished job again, as a new job.
final class JobRetry: Sendable {
    private let jobs: any JobReader
    private let clock: any WallClock
    private let identifiers: IdentifierGenerator
    private let repetition: JobRepetition
    private let secrets: SecretSeal
    private let references: JobReferenceCheck
    private let submission: JobSubmission

    init(
        _ ports: APIPorts, _ identifiers: IdentifierGenerator, _ references: JobReferenceCheck,
        _ submission: JobSubmission
    ) {
        jobs = ports.store.jobs
        clock = ports.clock
        self.identifiers = identifiers
        repetition = JobRepetition(
            egress: ports.egress, secrets: ports.secrets, openResumeData: ports.openResumeData)
        secrets = ports.secrets
        self.references = references
        self.submission = submission
    }

    /// `POST /v1/jobs/{id}/retry`
    func retry(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        try request.needEmptyObject()
        let key = try request.idempotency()
        jobs.retrySource(id, tenant: request.tenant) { [self] result in
            let source: RetrySource
            let job: NewJob
            do throws(Problem) {
                source = try result.mapError { Problem($0) }.get()
                job = try repeated(source, at: clock.now(), request)
            } catch {
                return submission.refuse(request, key, error)
            }
            references.checkSources(of: [job.spec], request, key, place: { _ in "#" }) { [self] in
                references.resolveUploads([job], request, key, secrets, place: { _ in "#" }) { [self] jobs in
                    // Without an epoch: the new job keeps the session configuration of the first one.
                    submission.submit(
                        jobs[0], request, key, sessionEpoch: nil,
                        // `nil` makes the response from the job's row.
                        asOf: { [self] in try? repeated(source, at: $0, request) },
                        again: { request.fail(StoreError.unavailable) })
                }
            }
        }
    }

    /// Returns the job that repeats `source`. `time`: when the retry was, or is, requested.
    private func repeated(
        _ source: RetrySource, at time: Timestamp, _ request: RequestContext
    ) throws(Problem) -> NewJob {
        do throws(JobRepetition.Refusal) {
            return try repetition.job(
                repeating: source, as: identifiers.make(), at: time,
                traceparent: traceContext(request.fields))
        } catch {
            throw Problem(error)
        }
    }
}

extension Problem {
    fileprivate init(_ refusal: JobRepetition.Refusal) {
        switch refusal {
        // Whatever its cause is.
        case .unreadable: self.init(.internalError, "The stored job cannot be read.")
        case .blockedURL(let reason):
            self.init(InvalidFields("#/request/url", "blocked_address", reason))
        case .blockedOtherEnd(let reason, let member):
            self.init(InvalidFields("#/\(member)", "blocked_address", reason))
        case .blockedProxy(let reason):
            self.init(InvalidFields("#/request/proxy/url", "blocked_address", reason))
        case .bytesNotKept:
            self.init(
                .notRepeatable, "The bytes that the job sent are not kept; submit a new job with them.")
        }
    }
}
