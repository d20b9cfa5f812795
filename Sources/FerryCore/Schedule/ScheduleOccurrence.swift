/// Which occurrence of which schedule a job is.
package struct ScheduleOccurrence: Sendable, Equatable {
    package let schedule: ScheduleID
    package let scheduledAt: Timestamp

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
    /// Nil: no schedule has submitted it. Boxed, because few jobs have one.
    package var occurrence: ScheduleOccurrence? {
        get { boxedOccurrence?.value }
        set { boxedOccurrence = newValue.map(Boxed.init) }
    }
}
