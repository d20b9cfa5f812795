/// Which events a list shows.
package struct EventQuery: Sendable, Equatable {
    package var tenant: String
    package var session: String?
    /// A bit each type; all bits: any.
    package var types: Int32 = -1
    /// Only those that happened then or later.
    package var since: Timestamp?
    /// Only events before this one.
    package var before: EventID?
    package var limit = Limits.listLimitDefault

    package init(tenant: String) { self.tenant = tenant }

    /// Whether an event of the tenant is shown, wherever it is in the list.
    package func admits(_ event: Event) -> Bool {
        (session == nil || session == event.session) && types >> Int32(event.record.type.code) & 1 != 0
            && (since.map { event.record.occurredAt >= $0 } ?? true)
    }
}

/// An event with its job as it is now; nil when it is about none, or that was deleted.
package struct EventEntry: Sendable {
    package let event: Event
    package let job: JobRecord?

    package init(event: Event, job: JobRecord?) {
        self.event = event
        self.job = job
    }

    package func write(into writer: inout JSONWriter) { event.write(into: &writer, job: job) }
}

/// Events that follow one that a reader knows, in their order.
package struct EventReplay: Sendable {
    package var entries: [EventEntry]
    /// False: the event it follows is not in the log, so that some may be missing.
    package var isKnown: Bool
    package var hasMore: Bool
    /// Nothing will ever follow: it is about a job, which has ended.
    package var isOver: Bool

    package init(entries: [EventEntry], isKnown: Bool, hasMore: Bool, isOver: Bool = false) {
        self.entries = entries
        self.isKnown = isKnown
        self.hasMore = hasMore
        self.isOver = isOver
    }
}

/// Takes events as they get their numbers. Called on a thread of the log, one call after the other.
package protocol EventSink: AnyObject, Sendable {
    func wants(_ event: Event) -> Bool
    /// In their order.
    func receive(_ entries: [EventEntry])
}
