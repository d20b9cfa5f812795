import Synchronization

/// Receives the errors of jobs' rows that cannot be read. Any thread.
public protocol DamageLog: AnyObject, Sendable {
    /// Reports that fields of the job's row cannot be read.
    func report(_ job: JobID, _ error: StoredJSONError)
}

/// The fields of a job, or of a schedule's template, as stored. The only place that decodes them: when they
/// are first used, and once. Any thread.
public final class StoredSpec: Sendable {
    private enum State {
        case encoded
        /// Decoded without secret values.
        case redacted(JobSpec)
        case whole(JobSpec)
        case damaged
    }

    /// The stored form (`JobSpec.encodeStored`).
    public let json: [UInt8]
    /// Rules of the acknowledgement that an endpoint has asked for at the end of the job
    /// (`AcknowledgementRules.encode`), which are shown among the fields; `nil` if none has.
    private let endpointAcknowledgement: [UInt8]?
    private let job: JobID?
    private let log: (any DamageLog)?
    private let state: Mutex<State>

    /// Creates a spec from a row. `job` and `log`: where damage is reported; `nil` if the caller reports it.
    public init(
        _ json: [UInt8], of job: JobID? = nil, log: (any DamageLog)? = nil,
        endpointAcknowledgement: [UInt8]? = nil
    ) {
        self.json = json
        self.endpointAcknowledgement = endpointAcknowledgement
        self.job = job
        self.log = log
        state = Mutex(.encoded)
    }

    /// Creates a spec whose fields are known, with their secret values. `json`: its stored form.
    public init(_ spec: JobSpec, json: [UInt8]) {
        self.json = json
        endpointAcknowledgement = nil
        job = nil
        log = nil
        state = Mutex(.whole(spec))
    }

    /// The fields, or `nil` if they are damaged. Secret values may be redacted: enough to show the job and to
    /// read its rules.
    public var spec: JobSpec? { decoded(opening: nil) }

    /// Returns the fields with their secret values, or `nil` if they are damaged or cannot be decrypted.
    public func whole(opening seal: SecretSeal) -> JobSpec? { decoded(opening: seal) }

    /// Returns the fields for a reader: without secret values if those cannot be decrypted, or `nil` if they
    /// are damaged.
    func shown(for disclosure: Disclosure) -> JobSpec? {
        disclosure.seal.flatMap { whole(opening: $0) } ?? spec
    }

    /// Returns the fields of the same job at a revision for which none are stored: they are damaged.
    func missing() -> StoredSpec { StoredSpec([], of: job, log: log) }

    /// The fields before an endpoint has asked for an acknowledgement: those of the submitted job.
    public var withoutEndpoint: StoredSpec {
        endpointAcknowledgement == nil ? self : StoredSpec(json, of: job, log: log)
    }

    /// Reports that the job's row cannot be read.
    func report(_ error: StoredJSONError) {
        if let job { log?.report(job, error) }
    }

    private func decoded(opening seal: SecretSeal?) -> JobSpec? {
        do throws(StoredJSONError) {
            return try state.withLock { state throws(StoredJSONError) in
                switch state {
                case .whole(let spec): return spec
                case .redacted(let spec) where seal == nil: return spec
                case .damaged: return nil
                case .redacted, .encoded: break
                }
                if let seal {
                    let spec = try acknowledged(try JobSpec(storedJSON: json, opening: seal))
                    state = .whole(spec)
                    return spec
                }
                // Replaced unless the decoder throws.
                state = .damaged
                let spec = try acknowledged(try JobSpec(storedJSON: json))
                state = .redacted(spec)
                return spec
            }
        } catch {
            report(error)
            return nil
        }
    }
}

extension StoredSpec {
    /// Returns the fields with the rules of the endpoint that has asked for an acknowledgement.
    private func acknowledged(_ spec: JobSpec) throws(StoredJSONError) -> JobSpec {
        guard let endpointAcknowledgement else { return spec }
        var spec = spec
        spec.acknowledgement = try AcknowledgementRules(storedJSON: endpointAcknowledgement)
        return spec
    }
}
