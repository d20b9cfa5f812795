extension JobSpec.Schedule {
    /// When the job must have ended: the earlier of `deadline_at` and the end of `timeout_for_resource`.
    package func expiry(createdAt: Timestamp) -> Timestamp {
        let timeout = createdAt + timeoutForResource
        guard let deadlineAt else { return timeout }
        return min(deadlineAt, timeout)
    }

    /// The code of a job that has not ended by then.
    package func overdueCode(createdAt: Timestamp) -> TransferError.Code {
        guard let deadlineAt, deadlineAt <= createdAt + timeoutForResource else { return .resourceTimeout }
        return .deadlineExceeded
    }

    /// What a job ends as that has not ended by then.
    package func overdue(createdAt: Timestamp, phase: TransferError.Phase) -> TransferError {
        let code = overdueCode(createdAt: createdAt)
        return TransferError(
            code,
            code == .deadlineExceeded
                ? "The job's deadline has passed." : "The time for the whole job is over.",
            phase: phase, isRetryable: false)
    }
}

extension JobSpec {
    /// What somebody who repeats a job now does not want again: what was waited for, what was answered, and a
    /// deadline that has passed.
    package mutating func `repeat`(at now: Timestamp) {
        schedule.dependsOn = []
        schedule.confirmsBeforeBegin = false
        if let deadline = schedule.deadlineAt, deadline <= now { schedule.deadlineAt = nil }
        answers = nil
        request.original = nil
    }
}
