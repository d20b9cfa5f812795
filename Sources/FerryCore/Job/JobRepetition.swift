/// Submits finished jobs again, each as a new job: the rule of `retry`, for one job and for many. A value;
/// any thread.
public struct JobRepetition: Sendable {
    /// Reason for which a job is not submitted again.
    public enum Refusal: Error, Sendable, Equatable {
        /// The stored job or its secrets cannot be read.
        case unreadable
        /// The egress policy, which may have become stricter, forbids the URL. The text has the reason.
        case blockedURL(String)
        /// Like `blockedURL`, for the other end of a copy. `member`: that of the job which names it.
        case blockedOtherEnd(String, member: String)
        /// Like `blockedURL`, for the URL of the proxy.
        case blockedProxy(String)
        /// The bytes that the job sent are not kept.
        case bytesNotKept
    }

    private let egress: EgressPolicy
    private let secrets: SecretSeal
    private let openResumeData: @Sendable (String) -> ResumePoint?

    /// Creates the rule. `openResumeData` returns `nil` for a text that this service has not made.
    public init(
        egress: EgressPolicy, secrets: SecretSeal,
        openResumeData: @escaping @Sendable (String) -> ResumePoint?
    ) {
        self.egress = egress
        self.secrets = secrets
        self.openResumeData = openResumeData
    }

    /// Returns the job that repeats `source`. `id`: its identifier; `time`: when the retry was, or is,
    /// requested; `traceparent`: trace context of that request.
    public func job(
        repeating source: RetrySource, as id: JobID, at time: Timestamp, traceparent: String
    ) throws(Refusal) -> NewJob {
        guard var spec = source.record.storedSpec.withoutEndpoint.whole(opening: secrets) else {
            throw .unreadable
        }
        let url = spec.request.webURL
        if let reason = egress.refusal(of: url.endpoint) { throw .blockedURL(reason) }
        if let other = spec.otherEnd, let reason = egress.refusal(of: other.endpoint) {
            throw .blockedOtherEnd(reason, member: spec.kind == .upload ? "source" : "destination")
        }
        if let proxy = spec.request.connection?.proxy, let reason = egress.refusal(of: proxy.url.endpoint) {
            throw .blockedProxy(reason)
        }
        guard !spec.hasPayload || source.payload != nil else { throw .bytesNotKept }
        var secrets = source.secrets
        spec.repeat(at: time)
        let tenant = source.record.tenant
        secrets.resumePoint = source.record.resumeData.flatMap(openResumeData)
            .flatMap { $0.tenant == tenant ? $0 : nil }
        spec.request.original = secrets.resumePoint?.original(of: spec.request)
        // The new job is not a run of the schedule.
        spec.occurrence = nil
        spec.group = source.record.group
        return NewJob(
            id: id, tenant: tenant, JobRequest(spec, secrets, payload: source.payload),
            sealing: self.secrets, traceparent: traceparent, retryOf: source.record.id)
    }
}
