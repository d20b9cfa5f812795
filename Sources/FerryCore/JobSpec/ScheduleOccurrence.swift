/// The schedule and the occurrence that a job belongs to.
public struct ScheduleOccurrence: Sendable, Equatable {
    /// The schedule.
    public let schedule: ScheduleID
    /// Time of the occurrence.
    public let scheduledAt: Timestamp
    /// Place of the job in the schedule's list, from 0, or `nil` if the schedule has one `job`.
    public let place: Int?

    /// Creates an occurrence.
    public init(schedule: ScheduleID, scheduledAt: Timestamp, place: Int? = nil) {
        self.schedule = schedule
        self.scheduledAt = scheduledAt
        self.place = place
    }

    init(stored: StoredObject) throws(StoredJSONError) {
        schedule = try stored.need(stored.string("schedule").flatMap { ScheduleID($0) }, "schedule")
        scheduledAt = try stored.need(try stored.timestamp("at"), "at")
        place = stored.integer("place").map { Int($0) }
    }

    func store(into writer: inout JSONWriter) {
        writer.name("occurrence")
        writer.beginObject()
        writer.member("schedule", schedule)
        writer.member("at", scheduledAt)
        if let place { writer.member("place", Int64(place)) }
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
