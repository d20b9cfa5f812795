/// Filter of the events that an endpoint gets; all conditions apply. A pure value.
public struct WebhookFilter: Sendable, Equatable {
    /// Types of events, or `nil` for all.
    public var types: [String]?
    /// Session, or `nil` for all.
    public var session: String?
    /// Pairs that the metadata of the event's job must contain. An event without a job has no metadata.
    public var metadata: [JobSpec.Pair]

    /// Creates a filter.
    public init(types: [String]? = nil, session: String? = nil, metadata: [JobSpec.Pair] = []) {
        self.types = types
        self.session = session
        self.metadata = metadata
    }

    /// Returns `true` if the conditions apply that need no metadata.
    public func includes(type: String, session: String) -> Bool {
        if let types, !types.contains(type) { return false }
        return self.session.map { $0 == session } ?? true
    }

    /// Returns `true` if all conditions apply.
    public func matches(type: String, session: String, metadata: [JobSpec.Pair]) -> Bool {
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
