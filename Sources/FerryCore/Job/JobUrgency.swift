extension JobSpec {
    /// A job's place in the queue of its session; the earliest goes first. One with a `deadline_at` has that
    /// of its latest start less a day, if it is earlier: jobs whose latest starts are near go in their order,
    /// before whatever has waited for less than a day.
    ///
    /// `bytesPerSecond`: what its host was measured at, asked for only then.
    package func urgency(createdAt: Timestamp, bytesPerSecond: @autoclosure () -> Double?) -> Timestamp {
        let usual = schedule.urgency(createdAt: createdAt)
        guard let deadline = schedule.deadlineAt else { return usual }
        let latest = Discretion.latestStart(
            from: max(createdAt, schedule.earliestBeginAt ?? createdAt), deadline: deadline,
            expected: expectedByteCount, bytesPerSecond: bytesPerSecond())
        return min(usual, latest + -Limits.deadlineHeadStartSeconds)
    }
}

extension JobSpec.Schedule {
    /// The place of a job without a deadline. It is when the job was to begin, less a head start for its
    /// priority and for what it is for: who waits long enough goes before anybody new, and no job has to be
    /// written again for it.
    package func urgency(createdAt: Timestamp) -> Timestamp {
        let due = earliestBeginAt.map { max($0, createdAt) } ?? createdAt
        return due + -headStart
    }

    /// Seconds: one step of `network_service_type` is worth as much as the whole range of `priority`.
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
