/// Filter of a list of jobs, newest first. All conditions apply; `nil` means no condition.
package struct JobQuery: Sendable, Equatable {
    /// Tenant.
    package var tenant: String
    /// Name of the session.
    package var session: String?
    /// Any of these states; empty for all states.
    package var states: [JobState]
    /// Kind.
    package var kind: JobKind?
    /// Host of `request.url` in lower case, without scheme and port.
    package var host: String?
    /// Any of these origins (`scheme://host:port`) of `request.url`.
    package var origins: [String]?
    /// Time after which the job was created.
    package var createdAfter: Timestamp?
    /// The schedule that has submitted the job.
    package var schedule: ScheduleID?
    /// `true` for finished jobs that wait for their acknowledgement only.
    package var isUnacknowledged = false
    /// Pairs that the job's metadata must contain.
    package var metadata: [JobSpec.Pair]
    /// The last job of the page before: only older jobs follow.
    package var before: JobID?
    /// Largest number of records.
    package var limit: Int

    /// Creates a query.
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
