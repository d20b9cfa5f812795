import FerryCore

/// A job with what the deliveries of its events need.
struct EventJob {
    /// The job as it is now.
    let record: JobRecord
    /// Sealed secrets of the job.
    let sealedSecrets: [UInt8]?
    let traceparent: String?
}

extension EventJob {
    /// Creates the job of a row.
    init(_ stored: StoredJob) {
        self.init(
            record: stored.record, sealedSecrets: stored.sealedSecrets, traceparent: stored.traceparent)
    }
}
