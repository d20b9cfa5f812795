extension JobSpec {
    /// Whether a request of this method may be sent twice: it is idempotent (RFC 9110 §9.2.2), or the job
    /// allows it.
    package func isRepeatable(_ method: String) -> Bool {
        retry.repeatsNonIdempotent || Self.isIdempotent(method)
    }

    package static func isIdempotent(_ method: String) -> Bool {
        ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(method)
    }
}
