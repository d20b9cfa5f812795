/// A query for a page of a tenant's jobs, newest first. The members of `filter` can be used as its own.
@dynamicMemberLookup
package struct JobQuery: Sendable, Equatable {
    /// Tenant.
    package var tenant: String
    /// Which of its jobs.
    package var filter: JobFilter
    /// The last job of the page before: only older jobs follow.
    package var before: JobID?
    /// Largest number of records.
    package var limit: Int

    /// Creates a query.
    package init(
        tenant: String, filter: JobFilter, before: JobID? = nil, limit: Int = Limits.listLimitDefault
    ) {
        self.tenant = tenant
        self.filter = filter
        self.before = before
        self.limit = limit
    }

    /// Creates a query. `host`: as in `HostReference`; another text is no condition.
    package init(
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

    package subscript<Value>(dynamicMember member: WritableKeyPath<JobFilter, Value>) -> Value {
        get { filter[keyPath: member] }
        set { filter[keyPath: member] = newValue }
    }

    package subscript<Value>(dynamicMember member: KeyPath<JobFilter, Value>) -> Value {
        filter[keyPath: member]
    }
}
