internal import FerryCore
internal import OpenSSL
internal import Sys

/// Checks the jobs of requests: against what this node can do, the egress policy, and the sessions of the
/// tenant.
struct JobValidation: Sendable {
    private let node: NodeAbilities
    private let egress: EgressPolicy
    private let sessions: any SessionStore
    private let openResumeData: @Sendable (String) -> ResumePoint?

    init(_ ports: APIPorts, _ node: NodeAbilities) {
        self.node = node
        egress = ports.egress
        sessions = ports.store.sessions
        openResumeData = ports.openResumeData
    }

    /// Returns the sessions of the request's tenant, as this node has cached them.
    func sessions(of request: RequestContext) -> SessionScope {
        SessionScope(sessions.sessionCache.current, tenant: request.tenant)
    }

    /// Returns the job that `json` describes. `prefix`: JSON Pointer to the job in the body. `earlierJob`
    /// returns the job at an index of the batch if it comes before this one.
    func validate(
        _ json: JSONView, at prefix: String, _ request: RequestContext, _ sessions: SessionScope,
        earlierJob: @escaping (Int) -> JobID? = { _ in nil }
    ) throws(InvalidFields) -> JobRequest {
        let job = try JobRequest(
            json, at: prefix, node: node, sessions: sessions,
            mayNameHost: request.principal.role == .admin, refusal: { egress.refusal(of: $0) },
            resumePoint: { resumePoint($0, request) }, earlierJob: earlierJob)
        try job.checkInlineDigests(at: prefix)
        return job
    }

    /// Returns a job changed by a merge patch (RFC 7396). `mayMoveHost`: as in `FieldContext`.
    func merge(
        _ patch: JSONView, into draft: JobRequest, _ sessions: SessionScope, mayMoveHost: Bool
    ) throws(InvalidFields) -> JobRequest {
        try draft.merging(
            patch, node: node, session: sessions.record(draft.spec.session), mayMoveHost: mayMoveHost
        ) { egress.refusal(of: $0) }
    }

    /// Opens resume data. Returns `nil` if it was not issued to the request's tenant.
    func resumePoint(_ text: String, _ request: RequestContext) -> ResumePoint? {
        guard let point = openResumeData(text), point.tenant == request.tenant else { return nil }
        return point
    }
}

/// Makes jobs of requests, with sealed secrets.
struct JobFactory: Sendable {
    private let identifiers: IdentifierGenerator
    let secrets: SecretSeal

    init(_ identifiers: IdentifierGenerator, _ secrets: SecretSeal) {
        self.identifiers = identifiers
        self.secrets = secrets
    }

    /// `trace`: the request's `traceContext`.
    func newJob(_ job: JobRequest, _ request: RequestContext, trace: String) -> NewJob {
        NewJob(
            id: identifiers.make(), tenant: request.tenant, job, sealing: secrets, traceparent: trace,
            retryOf: nil)
    }
}

extension JobRequest {
    /// Throws if the bytes of an inline source do not have the digests of `integrity`: every attempt would
    /// fail.
    fileprivate func checkInlineDigests(at prefix: String) throws(InvalidFields) {
        let integrity = spec.integrity
        guard !integrity.isEmpty, let payload, let count = spec.inlineFileByteCount, count <= payload.count
        else { return }
        let file = Array(payload.suffix(count))
        let errors = ValidationErrors()
        func check(_ name: String, _ expected: String?, _ actual: () -> [UInt8]) {
            guard let expected, hexEncoded(actual()) != expected else { return }
            errors.add(
                "\(prefix)/integrity/\(name)", "invalid_combination", "The inline source has another digest.")
        }
        check("md5", integrity.md5) { digest(.md5, of: file) }
        check("sha1", integrity.sha1) { digest(.sha1, of: file) }
        check("sha256", integrity.sha256) { digest(.sha256, of: file) }
        check("sha512", integrity.sha512) { digest(.sha512, of: file) }
        check("crc32c", integrity.crc32c) { bigEndian(Checksum.crc32c(file)) }
        check("adler32", integrity.adler32) { bigEndian(Checksum.adler32(file)) }
        if !errors.isEmpty { throw InvalidFields(errors.all) }
    }
}

private func digest(_ algorithm: Digest.Algorithm, of bytes: [UInt8]) -> [UInt8] {
    var digest = Digest(algorithm)
    digest.update(bytes)
    return digest.finish()
}

private func bigEndian(_ value: UInt32) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
}
