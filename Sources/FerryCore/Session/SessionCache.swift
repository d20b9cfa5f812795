import Synchronization

/// Whose session, and which.
package struct SessionKey: Hashable, Sendable {
    package let tenant: String
    package let name: String
    package init(tenant: String, name: String) {
        self.tenant = tenant
        self.name = name
    }
}

/// Every session that is configured or invalidated, at one moment. All others have what `implicit` says.
package struct SessionSnapshot: Sendable {
    /// Grows with every change of a session; −1: nothing is known yet.
    package let epoch: Int64
    /// Of the last removal of a session.
    package let removal: Int64
    package let records: [SessionKey: SessionRecord]
    /// Sessions that were removed, each with an epoch by which it was.
    private let removed: [SessionKey: Int64]
    /// What was removed after this epoch is in `removed`.
    private let removedSince: Int64

    /// Of removed sessions that are remembered by their names.
    private static let removedMax = 10_000

    /// `earlier`: what was known before, without a gap; nil: nothing was.
    package init(
        epoch: Int64 = -1, removal: Int64 = -1, records: [SessionKey: SessionRecord] = [:],
        after earlier: SessionSnapshot? = nil
    ) {
        self.epoch = epoch
        self.removal = removal
        self.records = records
        var removed = earlier?.removed ?? [:]
        if let earlier, removal > earlier.epoch {
            for key in earlier.records.keys where records[key] == nil { removed[key] = epoch }
        }
        let isKept = earlier != nil && removed.count <= Self.removedMax
        self.removed = isKept ? removed : [:]
        removedSince = isKept ? earlier?.removedSince ?? epoch : epoch
    }

    /// Of the sessions that have a limit, bytes a second.
    package var rates: [SessionKey: Int64] {
        records.compactMapValues(\.configuration.bytesPerSecondMax)
    }

    /// The shortest that a session asks for, in seconds.
    package var retentionMin: Double? { records.values.compactMap(\.configuration.retention).min() }

    /// Nil: nobody has configured it.
    package func record(_ tenant: String, _ name: String) -> SessionRecord? {
        records.isEmpty ? nil : records[SessionKey(tenant: tenant, name: name)]
    }

    package enum Verdict: Sendable { case acceptable, changed, invalidated, unreadable }

    /// Whether jobs may be accepted that were read when `known` was the epoch (nil: they do not depend on
    /// their sessions' configuration).
    package func verdict(on jobs: [NewJob], known: Int64?) -> Verdict {
        // Known before a session was removed that nobody can name, or from a database that has forgotten it.
        if let known, known < min(removal, removedSince) || known > epoch { return .changed }
        let missesRemoval = known.map { $0 < removal } ?? false
        guard !records.isEmpty || missesRemoval else { return .acceptable }
        for job in jobs {
            let key = SessionKey(tenant: job.tenant, name: job.spec.session)
            if let known, missesRemoval, let removal = removed[key], known < removal { return .changed }
            guard let record = records[key] else { continue }
            if record.invalidation != nil { return .invalidated }
            guard record.isReadable else { return .unreadable }
            if let known, record.epoch > known { return .changed }
        }
        return .acceptable
    }
}

/// The sessions as this node knows them. Any thread; reading costs a lock that is never held for long.
///
/// What is here may be old: the transaction that accepts jobs compares the epoch.
package final class SessionCache: Sendable {
    private let state = Mutex(SessionSnapshot())

    package init() {}

    package var current: SessionSnapshot { state.withLock { $0 } }

    /// Puts up what was read, also when it is older than what it was read in place of; false when something
    /// newer is there already.
    @discardableResult
    package func put(_ snapshot: SessionSnapshot, inPlaceOf known: SessionSnapshot? = nil) -> Bool {
        state.withLock { state in
            let isOlder = snapshot.epoch < state.epoch && state.epoch == known?.epoch
            guard snapshot.epoch > state.epoch || isOlder else { return false }
            state = snapshot
            return true
        }
    }
}

/// The sessions of one tenant.
package struct SessionScope: Sendable {
    package let snapshot: SessionSnapshot
    package let tenant: String

    package init(_ snapshot: SessionSnapshot, tenant: String) {
        self.snapshot = snapshot
        self.tenant = tenant
    }

    package func record(_ name: String) -> SessionRecord? { snapshot.record(tenant, name) }
}
