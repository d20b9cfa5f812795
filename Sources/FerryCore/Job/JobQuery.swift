/// A query for a page of a tenant's jobs, newest first. The members of `filter` can be used as its own.
@dynamicMemberLookup
public struct JobQuery: Sendable, Equatable {
    /// Tenant.
    public var tenant: String
    /// Filter of the listed jobs.
    public var filter: JobFilter
    /// The last job of the page before: only older jobs follow.
    public var before: JobID?
    /// Largest number of records.
    public var limit: Int

    /// Creates a query.
    public init(
        tenant: String, filter: JobFilter, before: JobID? = nil, limit: Int = Limits.listLimitDefault
    ) {
        self.tenant = tenant
        self.filter = filter
        self.before = before
        self.limit = limit
    }

    /// Creates a query. `host`: as in `HostReference`; another text is no condition.
    public init(
        tenant: String, session: String? = nil, states: [JobState] = [], kind: JobKind? = nil,
        host: String? = nil, createdAfter: Timestamp? = nil, metadata: [JobSpec.Pair] = [],
        before: JobID? = nil, limit: Int = Limits.listLimitDefault
    ) {
        var filter = JobFilter()
        filter.session = session
        filter.states = states
        filter.kind = kind
        filter.place = host.flatMap { HostReference($0) }
        filter.createdAfter = createdAfter
        filter.metadata = metadata
        self.init(tenant: tenant, filter: filter, before: before, limit: limit)
    }

    public subscript<Value>(dynamicMember member: WritableKeyPath<JobFilter, Value>) -> Value {
        get { filter[keyPath: member] }
        set { filter[keyPath: member] = newValue }
    }

    public subscript<Value>(dynamicMember member: KeyPath<JobFilter, Value>) -> Value {
        filter[keyPath: member]
    }
}
