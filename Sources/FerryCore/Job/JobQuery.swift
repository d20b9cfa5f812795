/// Which jobs a list holds; all conditions must hold, nil is none. Newest first.
package struct JobQuery: Sendable, Equatable {
    package var tenant: String
    package var session: String?
    /// Any of these; empty: whatever it is.
    package var states: [JobState]
    package var kind: JobKind?
    /// The host of `request.url`, lower case, without scheme and port.
    package var host: String?
    /// The origin of `request.url` is one of these (scheme://host:port).
    package var origins: [String]?
    package var createdAfter: Timestamp?
    /// Only what this schedule has submitted.
    package var schedule: ScheduleID?
    /// Only finished jobs that wait for their acknowledgement.
    package var isUnacknowledged = false
    /// All of these.
    package var metadata: [JobSpec.Pair]
    /// Only jobs that were made before this one: where the page before ended.
    package var before: JobID?
    /// At most so many records.
    package var limit: Int

    package init(
        tenant: String, session: String? = nil, states: [JobState] = [], kind: JobKind? = nil,
        host: String? = nil, createdAfter: Timestamp? = nil, metadata: [JobSpec.Pair] = [],
        before: JobID? = nil, limit: Int = Limits.listLimitDefault
    ) {
        self.tenant = tenant
        self.session = session
        self.states = states
        self.kind = kind
        self.host = host
        self.createdAfter = createdAfter
        self.metadata = metadata
        self.before = before
        self.limit = limit
    }
}
