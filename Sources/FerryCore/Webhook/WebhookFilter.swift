/// Filter of the events that an endpoint gets; all conditions apply. A pure value.
package struct WebhookFilter: Sendable, Equatable {
    /// Types of events, or `nil` for all.
    package var types: [String]?
    /// Session, or `nil` for all.
    package var session: String?
    /// Pairs that the metadata of the event's job must contain. An event without a job has no metadata.
    package var metadata: [JobSpec.Pair]

    /// Creates a filter.
    package init(types: [String]? = nil, session: String? = nil, metadata: [JobSpec.Pair] = []) {
        self.types = types
        self.session = session
        self.metadata = metadata
    }

    /// Returns `true` if the conditions apply that need no metadata.
    package func includes(type: String, session: String) -> Bool {
        if let types, !types.contains(type) { return false }
        return self.session.map { $0 == session } ?? true
    }

    /// Returns `true` if all conditions apply.
    package func matches(type: String, session: String, metadata: [JobSpec.Pair]) -> Bool {
        guard includes(type: type, session: session) else { return false }
        // Compares bytes, as `@>` in finish_jobs.sql does.
        return self.metadata.allSatisfy { wanted in metadata.contains { $0.hasSameBytes(as: wanted) } }
    }
}

extension JobSpec.Pair {
    fileprivate func hasSameBytes(as other: Self) -> Bool {
        name.hasSameBytes(as: other.name) && value.hasSameBytes(as: other.value)
    }
}
