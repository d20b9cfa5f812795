extension JobSpec.Schedule {
    /// A job's place in the queue of its session; the earliest goes first. It is when the job was to begin,
    /// less a head start for its priority and for what it is for: who waits long enough goes before anybody
    /// new, and no job has to be written again for it.
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
