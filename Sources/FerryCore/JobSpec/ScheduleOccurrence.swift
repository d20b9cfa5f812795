/// The schedule and the occurrence that a job belongs to.
public struct ScheduleOccurrence: Sendable, Equatable {
    /// The schedule.
    public let schedule: ScheduleID
    /// Time of the occurrence.
    public let scheduledAt: Timestamp

    /// Creates an occurrence.
    public init(schedule: ScheduleID, scheduledAt: Timestamp) {
        self.schedule = schedule
        self.scheduledAt = scheduledAt
    }

    init(stored: StoredObject) throws(StoredJSONError) {
        schedule = try stored.need(stored.string("schedule").flatMap { ScheduleID($0) }, "schedule")
        scheduledAt = try stored.need(try stored.timestamp("at"), "at")
    }

    func store(into writer: inout JSONWriter) {
        writer.name("occurrence")
        writer.beginObject()
        writer.member("schedule", schedule)
        writer.member("at", scheduledAt)
        writer.endObject()
    }
}

extension JobSpec {
    /// The occurrence, or `nil` if no schedule has submitted the job. Boxed, because few jobs have one.
    public var occurrence: ScheduleOccurrence? {
        get { boxedOccurrence?.value }
        set { boxedOccurrence = newValue.map(Boxed.init) }
    }
}
