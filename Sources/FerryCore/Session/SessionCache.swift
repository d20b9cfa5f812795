import Synchronization

/// Tenant and name of a session.
public struct SessionKey: Hashable, Sendable {
    /// Tenant.
    public let tenant: String
    /// Name.
    public let name: String
    /// Creates a key.
    public init(tenant: String, name: String) {
        self.tenant = tenant
        self.name = name
    }
}

/// All configured or invalidated sessions at one moment. All others have the configuration `implicit`.
public struct SessionSnapshot: Sendable {
    /// Number that grows with every change of a session; -1 if nothing is known yet.
    public let epoch: Int64
    /// Epoch of the last removal of a session.
    public let removal: Int64
    /// The sessions.
    public let records: [SessionKey: SessionRecord]
    /// Removed sessions, each with an epoch at which it was gone.
    let removed: [SessionKey: Int64]
    /// All sessions that were removed after this epoch are in `removed`.
    let removedSince: Int64

    /// Largest number of removed sessions that are remembered.
    private static let removedMax = 10_000

    /// Connections to one host of a session that is not configured, or `nil` for no limit.
    public let connectionsPerHostMax: Int?

    /// Creates a snapshot. `earlier`: the snapshot before, without a gap, or `nil` if nothing was known.
    public init(
        epoch: Int64 = -1, removal: Int64 = -1, records: [SessionKey: SessionRecord] = [:],
        after earlier: SessionSnapshot? = nil,
        connectionsPerHostMax: Int? = Limits.sessionConnectionCountMax
    ) {
        self.connectionsPerHostMax = connectionsPerHostMax
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

    /// Configuration of a session that is not configured.
    public var implicit: SessionConfiguration {
        var configuration = SessionConfiguration()
        configuration.connectionsPerHostMax = connectionsPerHostMax
        return configuration
    }

    /// Bytes per second of the sessions that have a limit.
    public var rates: [SessionKey: Int64] {
        records.compactMapValues(\.configuration.bytesPerSecondMax)
    }

    /// Shortest retention of a session in seconds, or `nil` if no session has one.
    public var retentionMin: Double? { records.values.compactMap(\.configuration.retention).min() }

    /// `true` if a session has credentials.
    var hasCredentials: Bool { records.values.contains { !$0.credentials.isEmpty } }

    /// Returns the session, or `nil` if it is not configured.
    public func record(_ tenant: String, _ name: String) -> SessionRecord? {
        records.isEmpty ? nil : records[SessionKey(tenant: tenant, name: name)]
    }

    /// Result of a check of submitted jobs.
    public enum Verdict: Sendable { case acceptable, changed, invalidated, unreadable }
}

/// The sessions as this node knows them. May be used on any thread; a lock is held briefly.
///
/// The snapshot may be outdated: the transaction that accepts jobs compares the epoch.
public final class SessionCache: Sendable {
    private let state: Mutex<SessionSnapshot>
    private let withCredentials = Atomic<Bool>(false)

    /// Creates a cache without sessions. `connectionsPerHostMax`: connections to one host of a session that
    /// is not configured, or `nil` for no limit.
    public init(connectionsPerHostMax: Int? = Limits.sessionConnectionCountMax) {
        state = Mutex(SessionSnapshot(connectionsPerHostMax: connectionsPerHostMax))
    }

    /// The latest snapshot.
    public var current: SessionSnapshot { state.withLock { $0 } }

    /// Stores a snapshot. Returns `false` and keeps the present one if that is newer. A snapshot that is
    /// older than `known`, which it replaces, is stored as well: the database has lost changes.
    @discardableResult
    public func put(_ snapshot: SessionSnapshot, inPlaceOf known: SessionSnapshot? = nil) -> Bool {
        state.withLock { state in
            let isOlder = snapshot.epoch < state.epoch && state.epoch == known?.epoch
            guard snapshot.epoch > state.epoch || isOlder else { return false }
            state = snapshot
            withCredentials.store(snapshot.hasCredentials, ordering: .releasing)
            return true
        }
    }

    /// `true` if a session of the latest snapshot has credentials. Takes no lock.
    public var hasCredentials: Bool { withCredentials.load(ordering: .acquiring) }

    /// Returns the credentials of a session; empty if it has none. While no session has any, takes no lock.
    public func credentials(of tenant: String, _ session: String) -> [CredentialRecord] {
        guard hasCredentials else { return [] }
        return current.record(tenant, session)?.credentials ?? []
    }
}

/// The sessions of one tenant.
public struct SessionScope: Sendable {
    /// The sessions of all tenants.
    public let snapshot: SessionSnapshot
    /// Tenant.
    public let tenant: String

    /// Creates a scope.
    public init(_ snapshot: SessionSnapshot, tenant: String) {
        self.snapshot = snapshot
        self.tenant = tenant
    }

    /// Returns the session, or `nil` if it is not configured.
    public func record(_ name: String) -> SessionRecord? { snapshot.record(tenant, name) }
}
