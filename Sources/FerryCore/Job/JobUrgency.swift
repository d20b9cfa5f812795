extension JobSpec {
    /// Returns the job's urgency, its position in the queue of its session; the earliest is first. A job with
    /// a `deadline_at` uses its latest start less one day if that is earlier: jobs whose latest start is near
    /// go in the order of their latest starts, before jobs that have waited for less than a day.
    ///
    /// `bytesPerSecond`: measured rate of the host, evaluated only for a job with a deadline.
    public func urgency(createdAt: Timestamp, bytesPerSecond: @autoclosure () -> Double?) -> Timestamp {
        let usual = schedule.urgency(createdAt: createdAt)
        guard let deadline = schedule.deadlineAt else { return usual }
        let latest = Discretion.latestStart(
            from: max(createdAt, schedule.earliestBeginAt ?? createdAt), deadline: deadline,
            expected: expectedByteCount, bytesPerSecond: bytesPerSecond())
        return min(usual, latest + -Limits.deadlineHeadStartSeconds)
    }
}

extension JobSpec.Schedule {
    /// Returns the urgency of a job without a deadline: its begin date less a head start for its priority and
    /// purpose. A job that waits long enough precedes all new ones, and no row has to be updated for that.
    public func urgency(createdAt: Timestamp) -> Timestamp {
        let due = earliestBeginAt.map { max($0, createdAt) } ?? createdAt
        return due + -headStart
    }

    /// Head start in seconds. One step of `network_service_type` is worth as much as the whole range of
    /// `priority`.
    private var headStart: Double {
        let steps: Double =
            switch networkServiceType {
            case .background: 0
            case .standard: 1
            case .responsiveData: 2
            }
        return (steps + priority) * Limits.priorityHeadStartSeconds
    }
}
