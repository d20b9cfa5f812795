/// A finished job with what is needed to submit it again.
public struct RetrySource: Sendable {
    /// The finished job.
    public let record: JobRecord
    /// Credentials of the job, decrypted.
    public let secrets: JobSecrets
    /// Bytes of an inline source or body; `nil` if the job had none or they are not kept.
    public let payload: [UInt8]?

    public init(record: JobRecord, secrets: JobSecrets, payload: [UInt8]?) {
        self.record = record
        self.secrets = secrets
        self.payload = payload
    }
}
