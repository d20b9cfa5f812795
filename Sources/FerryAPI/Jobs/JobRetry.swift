internal import FerryCore

/// `POST /v1/jobs/{id}/retry`: submits a finished job again, as a new job.
final class JobRetry: Sendable {
    private let control: any JobControl
    private let secrets: SecretSeal
    private let egress: EgressPolicy
    private let clock: any WallClock
    private let validation: JobValidation
    private let factory: JobFactory
    private let references: JobReferenceCheck
    private let submission: JobSubmission

    init(
        _ ports: APIPorts, _ validation: JobValidation, _ factory: JobFactory,
        _ references: JobReferenceCheck, _ submission: JobSubmission
    ) {
        control = ports.store
        secrets = ports.secrets
        egress = ports.egress
        clock = ports.clock
        self.validation = validation
        self.factory = factory
        self.references = references
        self.submission = submission
    }

    /// `POST /v1/jobs/{id}/retry`
    func retry(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        try request.needEmptyObject()
        let key = try request.idempotency()
        control.retrySource(id, tenant: request.tenant) { [self] result in
            let source: RetrySource
            let job: NewJob
            do throws(Problem) {
                source = try result.mapError { Problem($0) }.get()
                job = try repeated(source, at: clock.now(), request)
            } catch {
                return submission.refuse(request, key, error)
            }
            references.checkSources(of: job.spec, request, key, place: "#") { [self] in
                // Without an epoch: the new job keeps the session configuration of the first one.
                submission.submit(
                    job, request, key, sessionEpoch: nil,
                    // `nil` makes the response from the job's row.
                    asOf: { [self] in try? repeated(source, at: $0, request) },
                    again: { request.fail(StoreError.unavailable) })
            }
        }
    }

    /// Returns the job that repeats `source`. `time`: when the retry was, or is, requested.
    private func repeated(
        _ source: RetrySource, at time: Timestamp, _ request: RequestContext
    ) throws(Problem) -> NewJob {
        // A stored job that cannot be read is an internal error, whatever its cause.
        guard var spec = source.record.storedSpec.whole(opening: secrets) else {
            throw Problem(.internalError, "The stored job cannot be read.")
        }
        let url = spec.request.webURL
        spec.removeAcknowledgementOfEndpoint()
        // The egress policy may have become stricter since.
        if let reason = egress.refusal(of: url) {
            throw Problem(InvalidFields("#/request/url", "blocked_address", reason))
        }
        if let proxy = spec.request.connection?.proxy, let reason = egress.refusal(of: proxy.url.place) {
            throw Problem(InvalidFields("#/request/proxy/url", "blocked_address", reason))
        }
        guard !spec.hasPayload || source.payload != nil else {
            throw Problem(
                .notRepeatable, "The bytes that the job sent are not kept; submit a new job with them.")
        }
        var secrets = source.secrets
        spec.repeat(at: time)
        secrets.resumePoint = source.record.resumeData.flatMap { validation.resumePoint($0, request) }
        spec.request.original = secrets.resumePoint?.original(of: spec.request)
        // The new job is not a run of the schedule.
        spec.occurrence = nil
        return factory.newJob(
            JobRequest(spec, secrets, payload: source.payload), request, trace: traceContext(request.fields),
            retryOf: source.record.id)
    }
}
