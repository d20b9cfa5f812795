extension JobSpec {
    /// `true` if the job's requests may be repeated whatever their method is: the job says so
    /// (`retry.non_idempotent`), or the server recognizes repetitions by their `Idempotency-Key`.
    public var allowsAnyRepetition: Bool {
        retry.repeatsNonIdempotent || request.idempotencyKey != nil
    }

    /// Returns `true` if a request with this method may be repeated: the method is idempotent, or the job
    /// allows it.
    public func isRepeatable(_ method: String) -> Bool { allowsAnyRepetition || Self.isIdempotent(method) }

    /// `true` if the job's own request may be repeated, and so may that to the destination of a copy.
    public var isRequestRepeatable: Bool {
        isRepeatable(request.method) && (destination?.server.map { isRepeatable($0.method) } ?? true)
    }

    /// Returns `true` if the method is idempotent (RFC 9110 §9.2.2).
    public static func isIdempotent(_ method: String) -> Bool {
        ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(method)
    }
}
