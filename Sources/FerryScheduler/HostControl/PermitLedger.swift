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

    /// A connection that an owner waits for: at most its first one and a further one at a time.
    package struct Wait: Hashable, Sendable {
        package let owner: Owner
        package let isFirst: Bool

        /// Creates a wait.
        package init(_ owner: Owner, isFirst: Bool) {
            self.owner = owner
            self.isFirst = isFirst
        }
    }

    /// Answer to an owner that may wait for a connection.
    package enum Answer: Sendable, Equatable {
        case granted
        /// `nextWaiting` returns the wait later.
        case waits
        /// Too many owners wait.
        case refused
    }

    private var firsts: [Owner: ConnectionPool] = [:]
    private var used: [ConnectionPool: Int] = [:]
    private var waiting: [ConnectionPool: [Wait]] = [:]
    private var pools: [Wait: ConnectionPool] = [:]

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

    /// Returns the first connection of an owner. Returns the pool in which a connection is free by that, or
    /// `nil`.
    package mutating func endFirst(_ owner: Owner) -> ConnectionPool? {
        guard let pool = firsts.removeValue(forKey: owner) else { return nil }
        free(pool)
        return pool
    }

    /// Counts the connection that an owner asks for. At the limit the owner waits, unless `limit` others do.
    ///
    /// `keepsAnother`: it may keep another connection, of this pool or of another one, until it has this one.
    /// It waits only if less than half of `limit` others do. So fewer owners wait with a connection than
    /// there are connections in the pools that they wait for, and not all of them wait for each other.
    package mutating func ask(
        _ wait: Wait, in pool: ConnectionPool, limit: Int, keepsAnother: Bool
    ) -> Answer {
        guard pools[wait] == nil else { return .waits }
        if count(wait, in: pool, limit: limit) { return .granted }
        guard waiting[pool, default: []].count < (keepsAnother ? limit / 2 : limit) else { return .refused }
        waiting[pool, default: []].append(wait)
        pools[wait] = pool
        return .waits
    }

    private mutating func count(_ wait: Wait, in pool: ConnectionPool, limit: Int?) -> Bool {
        wait.isFirst ? beginFirst(wait.owner, in: pool, limit: limit) : take(pool, limit: limit)
    }

    /// Ends a wait, if there is one.
    package mutating func end(_ wait: Wait) {
        guard let pool = pools.removeValue(forKey: wait) else { return }
        waiting[pool]?.removeAll { $0 == wait }
        if waiting[pool]?.isEmpty == true { waiting[pool] = nil }
    }

    /// Counts the connection that was waited for longest, if one is free. Returns that wait, which has ended.
    package mutating func nextWaiting(_ pool: ConnectionPool, limit: Int?) -> Wait? {
        guard !waiting.isEmpty, let wait = waiting[pool]?.first, count(wait, in: pool, limit: limit) else {
            return nil
        }
        end(wait)
        return wait
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
