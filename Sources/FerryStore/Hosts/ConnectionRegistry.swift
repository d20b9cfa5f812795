import FerryCore
import FerryScheduler
import Synchronization
import Sys

/// The connections that this node's attempts use or ask for. May be used from any thread.
///
/// All connections are counted by session and origin. If nothing limits an origin, or this node holds all
/// permits (`PermitLease`), the registry decides itself, and the database does not know of connections.
/// Otherwise the first connection of an attempt comes with its lease. For further ones the dispatcher asks
/// the database for all requests that have gathered (`ConnectionTransaction`), and writes there which
/// connections were given back.
final class ConnectionRegistry: Sendable {
    typealias Owner = PermitLedger.Owner

    struct Key: Hashable, Sendable {
        let owner: Owner
        let scope: RequestScope
    }
    struct Holding: Sendable, Equatable {
        let session: String
        var count = 0
        /// `count` as the database has it; `nil` if unknown.
        var writtenCount: Int? = 0
    }
    struct Ask: Sendable {
        let key: Key
        let session: String
        let reply: @Sendable (ConnectionGrant) -> Void
    }
    /// The counter of the connections of a scope.
    enum Counting: Equatable {
        case nothing
        /// This node, up to the limit of the session.
        case memory(Int)
        /// Running rows and rows of `connections`; and this node, up to the limit of the session, if it holds
        /// all permits.
        case database(Int?)
        /// This node gives its permits back: nothing begins.
        case suspended
    }
    /// Decision about a held attempt.
    enum HeldVerdict: Sendable, Equatable {
        case begins
        /// The connections of its pool are in use.
        case full
        /// It goes back to the queue: claims decide.
        case refused
    }
    /// The state of the registry, under its lock.
    struct State {
        private var holdings: [Owner: [RequestScope: Holding]] = [:]
        var ledger = PermitLedger()
        /// Requests that wait for a connection which this node counts.
        var waiting: [PermitLedger.Wait: Ask] = [:]
        /// Pools with queued jobs that no node has leased.
        var queued: Set<ConnectionPool> = []
        var asks: [Ask] = []
        /// Holdings that may have to be written to the database.
        var changed: Set<Key> = []

        var isEmpty: Bool { holdings.isEmpty }
        subscript(key: Key) -> Holding? {
            get { holdings[key.owner]?[key.scope] }
            set {
                holdings[key.owner, default: [:]][key.scope] = newValue
                if holdings[key.owner]?.isEmpty == true { holdings[key.owner] = nil }
            }
        }
        /// Ends a wait, if there is one. Returns its request.
        mutating func end(_ wait: PermitLedger.Wait) -> Ask? {
            guard let ask = waiting.removeValue(forKey: wait) else { return nil }
            ledger.end(wait)
            return ask
        }
        func keys(of owner: Owner) -> [Key] {
            holdings[owner].map { $0.keys.map { Key(owner: owner, scope: $0) } } ?? []
        }
        var keys: [Key] {
            holdings.flatMap { owner, held in held.keys.map { Key(owner: owner, scope: $0) } }
        }
    }

    /// The lease with which this node counts connections alone.
    let permits = PermitLease()
    let hosts: HostLimits
    private let sessions: SessionCache
    let clock: DatabaseClock
    let state = Mutex(State())
    let hasHoldings = Atomic<Bool>(false)
    let pendingWork = Atomic<Bool>(false)
    let wake = Mutex(Callback {})
    let free = Mutex(ValueCallback<ConnectionPool> { _ in })
    let waiters = Mutex<Waiters?>(nil)

    init(_ configuration: StoreConfiguration) {
        hosts = configuration.hosts
        sessions = configuration.sessions
        clock = configuration.clock
    }

    /// Sets the functions that are called when `hasWork` becomes true (`work`) and when a connection that
    /// this node counts is free, and the one that says whether a job of a pool waits in memory for a
    /// connection.
    func connect(
        work: @escaping @Sendable () -> Void, free: @escaping @Sendable (ConnectionPool) -> Void,
        isAwaited: @escaping @Sendable (ConnectionPool) -> Bool
    ) {
        let (working, freeing, waiting) = (Callback(work), ValueCallback(free), Waiters(isAwaited))
        wake.withLock { $0 = working }
        self.free.withLock { $0 = freeing }
        waiters.withLock { $0 = waiting }
    }

    /// In an object: each read of a function in a mutex would wrap it once more.
    final class Waiters: Sendable {
        let contains: @Sendable (ConnectionPool) -> Bool
        init(_ contains: @escaping @Sendable (ConnectionPool) -> Bool) { self.contains = contains }
    }

    var hasWork: Bool { pendingWork.load(ordering: .acquiring) }

    // MARK: First connections

    /// Counts the first connections of attempts that begin.
    func count(_ attempts: [Attempt]) {
        state.withLock { state in
            for attempt in attempts {
                _ = state.ledger.beginFirst(Owner(attempt), in: attempt.pool, limit: nil)
            }
        }
    }

    /// Counts the first connection of a held attempt if it may begin. `isUnlimited`: it was held because
    /// nothing limited it, and goes back if something does by now.
    func admit(_ attempt: Attempt, isUnlimited: Bool) -> HeldVerdict {
        state.withLock { state in
            var limit: Int?
            switch counting(attempt.scope, attempt.spec.session) {
            case .nothing: break
            case .memory(let most) where !isUnlimited: limit = most
            case .memory, .database, .suspended: return .refused
            }
            let isCounted = state.ledger.beginFirst(Owner(attempt), in: attempt.pool, limit: limit)
            return isCounted ? .begins : .full
        }
    }

    /// Counts the first connection of an attempt that a claim has leased. Returns `false` if it may not begin
    /// now.
    func begins(claimed attempt: Attempt) -> Bool {
        state.withLock { state in
            var limit: Int?
            switch counting(attempt.scope, attempt.spec.session) {
            case .nothing: break
            case .memory(let most): limit = most
            case .database(let most): limit = most
            case .suspended: return false
            }
            return state.ledger.beginFirst(Owner(attempt), in: attempt.pool, limit: limit)
        }
    }

    /// Jobs that may be claimed from a claim queue of limited connections.
    struct Room: Sendable {
        /// At most that many.
        let count: Int
        /// `true` if the database counts as well.
        let isCountedByRows: Bool
    }

    /// Returns how many jobs of a scope may be claimed; `nil` if the database alone decides.
    func room(_ scope: RequestScope, session: String) -> Room? {
        guard permits.isHeld else { return nil }
        return state.withLock { state in
            let used = state.ledger.count(of: ConnectionPool(scope, session: session))
            return switch counting(scope, session) {
            case .nothing, .suspended, .database(nil): nil
            case .memory(let limit): Room(count: max(0, limit - used), isCountedByRows: false)
            case .database(let limit?): Room(count: max(0, limit - used), isCountedByRows: true)
            }
        }
    }

    /// Returns `true` if a new job of the scope may be held in memory, because this node counts the
    /// connections and no job of the pool is queued.
    func mayHold(_ scope: RequestScope, session: String) -> Bool {
        guard permits.isHeld else { return false }
        return state.withLock { state in
            guard case .memory = counting(scope, session) else { return false }
            return !state.queued.contains(ConnectionPool(scope, session: session))
        }
    }

    /// Notes whether jobs of the pool are queued that no node has leased. They precede new jobs and parts.
    func note(_ pool: ConnectionPool, isQueued: Bool) {
        state.withLock { state in
            if isQueued { state.queued.insert(pool) } else { state.queued.remove(pool) }
        }
    }

    /// Returns `true` if jobs of the pool are queued that no node has leased.
    func isQueued(_ pool: ConnectionPool) -> Bool { state.withLock { $0.queued.contains(pool) } }

    /// Returns `true` if the database has to know the begin of the attempt before it counts connections.
    func isCountedByRow(_ attempt: Attempt) -> Bool {
        if permits.isHeld, hosts.isEmpty { return false }
        return isWritten(attempt.scope, attempt.spec.session)
    }

    /// Ends the lease of all permits: the database has none any more. Answers all owners that wait: first
    /// connections are counted by the rows of their attempts; further ones have to be asked for again.
    func permitsReturned() {
        permits.returned()
        let (free, refused) = state.withLock { state in
            var free = Free()
            let refused = state.waiting.keys.filter { !$0.isFirst }.compactMap { state.end($0) }
            for pool in state.ledger.waitingPools { serve(pool, limit: nil, &free, &state) }
            return (free, refused)
        }
        tell(free)
        for ask in refused { ask.reply(.refused(hold(ask.key.scope, ask.session))) }
    }

    // MARK: Limits

    func counting(_ scope: RequestScope, _ session: String) -> Counting {
        let limit = sessionLimit(scope, session)
        let isHostLimited = hosts.limit(of: scope) != nil
        guard limit != nil || isHostLimited else { return .nothing }
        switch permits.current {
        case .returning: return .suspended
        case .absent: return .database(nil)
        case .held:
            guard let limit, !isHostLimited else { return .database(limit) }
            return .memory(limit)
        }
    }

    func sessionLimit(_ scope: RequestScope, _ session: String) -> Int? {
        sessions.current.share(tenant: scope.tenant, session: session).connectionLimit
    }

    /// Returns `true` if the database has to know of connections of the scope.
    func isWritten(_ scope: RequestScope, _ session: String) -> Bool {
        switch counting(scope, session) {
        case .nothing, .memory: false
        case .database, .suspended: true
        }
    }

    /// Returns why the scope has no connection free.
    func hold(_ scope: RequestScope, _ session: String) -> HostHold {
        HostHold(
            origin: scope.origin,
            reason: hosts.reason(for: scope, sessionLimit: sessionLimit(scope, session), at: clock.now()))
    }
}

extension ConnectionPool {
    init(_ scope: RequestScope, session: String) {
        self.init(tenant: scope.tenant, session: session, origin: scope.origin)
    }
}

extension Attempt {
    /// The pool of its first connection.
    var pool: ConnectionPool { ConnectionPool(tenant: tenant, session: spec.session, origin: origin) }

    /// Whether its first connection, which came with the lease, is one to the scope.
    func hasFirst(at scope: RequestScope) -> Bool { !isOtherEnd && scope.origin == origin }

    /// The connection that it waits for at a scope.
    func wait(at scope: RequestScope) -> PermitLedger.Wait {
        PermitLedger.Wait(PermitLedger.Owner(self), isFirst: hasFirst(at: scope))
    }
}

extension PermitLedger.Owner {
    init(_ attempt: Attempt) { self.init(job: attempt.job, attempt: attempt.number) }
}
