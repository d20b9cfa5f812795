/// Filter of a list of events.
public struct EventQuery: Sendable, Equatable {
    /// Tenant.
    public var tenant: String
    /// Session, or `nil` for all.
    public var session: String?
    /// The only group whose own events are admitted, or `nil` for all.
    public private(set) var group: String?
    /// Types as a bit set (`EventType.mask`); all bits for all types.
    public var types: Int32 = -1
    /// Time of the earliest event, or `nil`.
    public var since: Timestamp?
    /// The last event of the page before: only older events follow.
    public var before: EventID?
    /// Largest number of events.
    public var limit = Limits.listLimitDefault

    /// Creates a filter of a tenant's events.
    public init(tenant: String) { self.tenant = tenant }

    /// Admits only the own events of a group, which belong to no session.
    public mutating func narrow(to group: JobGroup) {
        self.group = group.draft.name
        session = ""
        types = [EventType.groupFinished].mask
        // An earlier group may have had the name.
        since = max(since ?? group.createdAt, group.createdAt)
    }

    /// Returns `true` if the filter admits an event of the tenant, whatever its position.
    public func admits(_ event: Event) -> Bool {
        (session == nil || session == event.session) && types >> Int32(event.record.type.code) & 1 != 0
            && (since.map { event.timestamp >= $0 } ?? true)
            && (group == nil || group == event.record.finishedGroupName)
    }
}

/// An event with its job's row now, of which `JobRecord.asOf` makes the job at the event; `nil` if the event
/// is about none or the job was deleted.
public struct EventEntry: Sendable {
    /// The event.
    public let event: Event
    /// The job.
    public let job: JobRecord?

    /// Creates an entry.
    public init(event: Event, job: JobRecord?) {
        self.event = event
        self.job = job
    }

    /// Writes the event as the API shows it.
    public func write(into writer: inout JSONWriter) { event.write(into: &writer, job: job) }
}

/// The events after one that a reader has, in order.
public struct EventReplay: Sendable {
    /// The events.
    public var entries: [EventEntry]
    /// `false` if the event that the reader has is not in the log, so that some events may be missing.
    public var isKnown: Bool
    /// `true` if more events follow.
    public var hasMore: Bool
    /// `true` if no event will follow because they are about a job that has ended.
    public var isOver: Bool

    /// Creates a replay.
    public init(entries: [EventEntry], isKnown: Bool, hasMore: Bool, isOver: Bool = false) {
        self.entries = entries
        self.isKnown = isKnown
        self.hasMore = hasMore
        self.isOver = isOver
    }
}

/// Receives events when they get their numbers. Called on a thread of the log, one call after the other.
public protocol EventSink: AnyObject, Sendable {
    /// Returns `true` if the sink needs the event.
    func wants(_ event: Event) -> Bool
    /// Takes events in order.
    func receive(_ entries: [EventEntry])
}
