extension JobSpec.Schedule {
    /// Returns the end of `timeout_for_resource`, which counts from the later of the acceptance of the job
    /// and `earliest_begin_at`.
    public func resourceExpiry(createdAt: Timestamp) -> Timestamp {
        max(createdAt, earliestBeginAt ?? createdAt) + timeoutForResource
    }

    /// Returns the time by which the job must have ended: the earlier of `deadline_at` and `resourceExpiry`.
    public func expiry(createdAt: Timestamp) -> Timestamp {
        let timeout = resourceExpiry(createdAt: createdAt)
        guard let deadlineAt else { return timeout }
        return min(deadlineAt, timeout)
    }

    /// Returns the error code of a job that has not ended by `expiry`.
    public func overdueCode(createdAt: Timestamp) -> TransferError.Code {
        guard let deadlineAt else { return .resourceTimeout }
        return deadlineAt <= resourceExpiry(createdAt: createdAt) ? .deadlineExceeded : .resourceTimeout
    }

    /// Returns the error of a job that has not ended by `expiry`.
    public func overdue(createdAt: Timestamp, phase: TransferError.Phase) -> TransferError {
        let code = overdueCode(createdAt: createdAt)
        return TransferError(
            code,
            code == .deadlineExceeded
                ? "The job's deadline has passed." : "The time for the whole job is over.",
            phase: phase, isRetryable: false)
    }
}

extension JobSpec {
    /// Removes what a repeated job does not need again: the suspension, dependencies, the confirmation,
    /// answers, and a deadline that has passed.
    public mutating func `repeat`(at now: Timestamp) {
        startsSuspended = false
        schedule.dependencies = []
        schedule.confirmsBeforeBegin = false
        if let deadline = schedule.deadlineAt, deadline <= now { schedule.deadlineAt = nil }
        answers = nil
        request.original = nil
    }
}
