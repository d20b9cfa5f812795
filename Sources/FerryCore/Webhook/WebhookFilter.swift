/// Which events an endpoint wants: all conditions must hold. A pure value; the routing of events asks it
/// about each.
package struct WebhookFilter: Sendable, Equatable {
    /// Nil: all of them.
    package var types: [String]?
    /// Nil: any.
    package var session: String?
    /// Pairs that the job's metadata must contain, all of them. An event without a job has none.
    package var metadata: [JobSpec.Pair]

    package init(types: [String]? = nil, session: String? = nil, metadata: [JobSpec.Pair] = []) {
        self.types = types
        self.session = session
        self.metadata = metadata
    }

    /// What can be said without the job's metadata.
    package func includes(type: String, session: String) -> Bool {
        if let types, !types.contains(type) { return false }
        return self.session.map { $0 == session } ?? true
    }

    package func matches(type: String, session: String, metadata: [JobSpec.Pair]) -> Bool {
        guard includes(type: type, session: session) else { return false }
        // By bytes, as `@>` of finish_jobs.sql does.
        return self.metadata.allSatisfy { wanted in metadata.contains { $0.hasSameBytes(as: wanted) } }
    }
}

extension JobSpec.Pair {
    fileprivate func hasSameBytes(as other: Self) -> Bool {
        name.hasSameBytes(as: other.name) && value.hasSameBytes(as: other.value)
    }
}
