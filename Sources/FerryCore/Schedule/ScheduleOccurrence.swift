/// The schedule and the occurrence that a job belongs to.
package struct ScheduleOccurrence: Sendable, Equatable {
    /// The schedule.
    package let schedule: ScheduleID
    /// Time of the occurrence.
    package let scheduledAt: Timestamp

    /// Creates an occurrence.
    package init(schedule: ScheduleID, scheduledAt: Timestamp) {
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
    package var occurrence: ScheduleOccurrence? {
        get { boxedOccurrence?.value }
        set { boxedOccurrence = newValue.map(Boxed.init) }
    }
}
