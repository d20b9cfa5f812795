package import FerryCore

/// The connections of one session to one origin: what its limit of connections counts together.
package struct ConnectionPool: Hashable, Sendable {
    package let tenant: String
    package let session: String
    /// `scheme://host:port`; empty for all origins of a session without a limit.
    package let origin: String

    /// Creates a pool.
    package init(tenant: String, session: String, origin: String) {
        self.tenant = tenant
        self.session = session
        self.origin = origin
    }
}

/// Counts the connections that a node uses, by pool. A pure value.
///
/// Each owner has at most one *first* connection, to the origin of its own job; it may return it and ask for
/// it again. Further connections are counted by number. Connections that the database has allowed count as
/// well; only those that name a limit are refused at it.
package struct PermitLedger: Sendable {
    /// An attempt that uses connections.
    package struct Owner: Hashable, Sendable {
        package let job: JobID
        package let attempt: Int32

        /// Creates an owner.
        package init(job: JobID, attempt: Int32) {
            self.job = job
            self.attempt = attempt
        }
    }

    /// Answer to an owner that asks for its first connection again.
    package enum Answer: Sendable, Equatable {
        case granted
        /// The owner is named by `nextWaiting` later.
        case waits
        /// As many owners wait as there are connections.
        case refused
    }

    private var firsts: [Owner: ConnectionPool] = [:]
    private var used: [ConnectionPool: Int] = [:]
    private var waiting: [ConnectionPool: [Owner]] = [:]
    private var pools: [Owner: ConnectionPool] = [:]

    /// Creates an empty ledger.
    package init() {}

    /// Returns the number of connections in use.
    package func count(of pool: ConnectionPool) -> Int { used[pool] ?? 0 }

    /// `true` if no connection is in use, and no owner waits.
    package var isEmpty: Bool { used.isEmpty && waiting.isEmpty }

    /// Returns `true` if the owner uses its first connection.
    package func isUsingFirst(_ owner: Owner) -> Bool { firsts[owner] != nil }

    /// Counts the first connection of an owner. Returns `false` if `limit` is reached; `nil`: no limit. An
    /// owner that uses it already keeps it.
    package mutating func beginFirst(_ owner: Owner, in pool: ConnectionPool, limit: Int?) -> Bool {
        if firsts[owner] != nil { return true }
        guard take(pool, limit: limit) else { return false }
        firsts[owner] = pool
        return true
    }

    /// Returns the first connection of an owner, and forgets that it waits for one. Returns the pool in which
    /// a connection is free by that, or `nil`.
    package mutating func endFirst(_ owner: Owner) -> ConnectionPool? {
        if !pools.isEmpty, let pool = pools.removeValue(forKey: owner) {
            waiting[pool]?.removeAll { $0 == owner }
            if waiting[pool]?.isEmpty == true { waiting[pool] = nil }
        }
        guard let pool = firsts.removeValue(forKey: owner) else { return nil }
        free(pool)
        return pool
    }

    /// Counts the first connection of an owner that has returned it. At the limit the owner waits, unless
    /// `limit` others do.
    package mutating func askAgain(_ owner: Owner, in pool: ConnectionPool, limit: Int) -> Answer {
        if beginFirst(owner, in: pool, limit: limit) { return .granted }
        guard pools[owner] == nil else { return .waits }
        guard waiting[pool, default: []].count < limit else { return .refused }
        waiting[pool, default: []].append(owner)
        pools[owner] = pool
        return .waits
    }

    /// Counts the first connection of the owner that has waited longest, if one is free. Returns that owner.
    package mutating func nextWaiting(_ pool: ConnectionPool, limit: Int?) -> Owner? {
        guard !waiting.isEmpty, let owner = waiting[pool]?.first, take(pool, limit: limit) else { return nil }
        waiting[pool]?.removeFirst()
        if waiting[pool]?.isEmpty == true { waiting[pool] = nil }
        pools[owner] = nil
        firsts[owner] = pool
        return owner
    }

    /// Pools in which owners wait.
    package var waitingPools: [ConnectionPool] { Array(waiting.keys) }

    /// Counts a further connection. Returns `false` if `limit` is reached; `nil`: no limit.
    package mutating func take(_ pool: ConnectionPool, limit: Int?) -> Bool {
        let count = used[pool] ?? 0
        if let limit, count >= limit { return false }
        used[pool] = count + 1
        return true
    }

    /// Returns a further connection.
    package mutating func free(_ pool: ConnectionPool) {
        // No input reaches this: a connection is returned by the code that has counted it.
        guard let count = used[pool] else { preconditionFailure("a connection was returned twice") }
        used[pool] = count > 1 ? count - 1 : nil
    }
}
