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
final class ConnectionRegistry: ConnectionLimiter {
    /// Attempt that holds connections.
    struct Owner: Hashable, Sendable {
        let job: JobID
        let attempt: Int32

        init(_ attempt: Attempt) {
            job = attempt.job
            self.attempt = attempt.number
        }
    }
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
    private enum Counting: Equatable {
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
    private struct State {
        private var holdings: [Owner: [RequestScope: Holding]] = [:]
        var ledger = PermitLedger<Owner>()
        /// Replies to owners that wait for their first connection.
        var waiting: [Owner: @Sendable (ConnectionGrant) -> Void] = [:]
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
        /// Gives free connections to the owners that wait for them. Returns their replies.
        mutating func serve(_ pool: ConnectionPool, limit: Int?) -> [@Sendable (ConnectionGrant) -> Void] {
            var replies: [@Sendable (ConnectionGrant) -> Void] = []
            while let owner = ledger.nextWaiting(pool, limit: limit) {
                if let reply = waiting.removeValue(forKey: owner) { replies.append(reply) }
            }
            return replies
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
    private let hosts: HostLimits
    private let sessions: SessionCache
    private let clock: DatabaseClock
    private let state = Mutex(State())
    private let hasHoldings = Atomic<Bool>(false)
    private let pendingWork = Atomic<Bool>(false)
    private let wake = Mutex(Callback {})
    private let free = Mutex(ValueCallback<ConnectionPool> { _ in })
    private let waiters = Mutex<Waiters?>(nil)

    init(_ configuration: StoreConfiguration) {
        hosts = configuration.hosts
        sessions = configuration.sessions
        clock = configuration.clock
    }

    /// Sets the functions that are called when `hasWork` becomes true (`work`) and when a connection that this
    /// node counts is free, and the one that says whether a job of a pool waits in memory for a connection.
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
    private final class Waiters: Sendable {
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

    /// Ends the lease of all permits: the database has none any more. Answers all owners that wait: their
    /// rows count.
    func permitsReturned() {
        permits.returned()
        let replies = state.withLock { state in
            state.ledger.waitingPools.flatMap { state.serve($0, limit: nil) }
        }
        for reply in replies { reply(.granted) }
    }

    // MARK: Requests of attempts

    func hold(on scope: RequestScope) -> HostHold? {
        hosts.isEmpty ? nil : hosts.hold(on: scope, at: clock.now())
    }

    func ask(
        _ attempt: Attempt, for scope: RequestScope, reply: @escaping @Sendable (ConnectionGrant) -> Void
    ) -> ConnectionGrant? {
        if let hold = hold(on: scope) { return .refused(hold) }
        let key = Key(owner: Owner(attempt), scope: scope)
        let session = attempt.spec.session
        let pool = ConnectionPool(scope, session: session)
        // Before the lock, which threads take that have the lock of held attempts.
        let isAwaited = permits.isHeld && waiters.withLock { $0 }?.contains(pool) ?? false
        let (answer, isChanged): (ConnectionGrant?, Bool) = state.withLock { state in
            if scope.origin == attempt.origin, !state.ledger.isUsingFirst(key.owner) {
                return (askAgain(key.owner, scope, pool, &state, reply), false)
            }
            switch counting(scope, session) {
            case .nothing: break
            case .memory(let limit):
                guard !isAwaited, !state.queued.contains(pool), state.ledger.count(of: pool) < limit else {
                    return (.refused(hold(scope, session)), false)
                }
            case .suspended: return (.refused(hold(scope, session)), false)
            case .database(let limit):
                guard state.ledger.take(pool, limit: limit) else {
                    return (.refused(hold(scope, session)), false)
                }
                state.asks.append(Ask(key: key, session: session, reply: reply))
                return (nil, true)
            }
            _ = state.ledger.take(pool, limit: nil)
            add(key, session, &state)
            return (.granted, false)
        }
        if isChanged { notePendingWork() }
        return answer
    }

    /// Asks for the first connection of an attempt that has returned it. The row of a running attempt counts
    /// it anyway.
    private func askAgain(
        _ owner: Owner, _ scope: RequestScope, _ pool: ConnectionPool, _ state: inout State,
        _ reply: @escaping @Sendable (ConnectionGrant) -> Void
    ) -> ConnectionGrant? {
        let limit: Int? =
            switch counting(scope, pool.session) {
            case .nothing: nil
            case .memory(let limit): limit
            case .database(let limit): limit
            case .suspended: sessionLimit(scope, pool.session)
            }
        guard let limit else {
            _ = state.ledger.beginFirst(owner, in: pool, limit: nil)
            return .granted
        }
        switch state.ledger.askAgain(owner, in: pool, limit: limit) {
        case .granted: return .granted
        case .refused: return .refused(hold(scope, pool.session))
        case .waits:
            state.waiting[owner] = reply
            return nil
        }
    }

    /// Notes a further connection, which the ledger has counted.
    private func add(_ key: Key, _ session: String, isWritten: Bool = false, _ state: inout State) {
        let empty = Holding(session: session)
        var holding = state[key] ?? empty
        holding.count += 1
        if isWritten { holding.writtenCount = holding.writtenCount.map { $0 + 1 } }
        state[key] = holding
        hasHoldings.store(true, ordering: .releasing)
    }

    func giveBack(_ attempt: Attempt, _ scope: RequestScope) {
        let key = Key(owner: Owner(attempt), scope: scope)
        let (isChanged, free): (Bool, Free) = state.withLock { state in
            var free = Free()
            guard var holding = state[key], holding.count > 0 else {
                if scope.origin == attempt.origin { endFirst(attempt, &free, &state) }
                return (false, free)
            }
            holding.count -= 1
            state[key] = holding
            let pool = ConnectionPool(scope, session: holding.session)
            state.ledger.free(pool)
            noteFree(pool, scope, &free, &state)
            return (note(key, holding, &state), free)
        }
        if isChanged { notePendingWork() }
        tell(free)
    }

    /// Releases the connections of an attempt that has ended. The database notices the end itself and removes
    /// what is left.
    func forget(_ attempt: Attempt) {
        let (isChanged, free): (Bool, Free) = state.withLock { state in
            var (isChanged, free) = (false, Free())
            endFirst(attempt, &free, &state)
            guard hasHoldings.load(ordering: .acquiring) else { return (false, free) }
            for key in state.keys(of: Owner(attempt)) {
                guard var holding = state[key] else { continue }
                let pool = ConnectionPool(key.scope, session: holding.session)
                for _ in 0..<holding.count { state.ledger.free(pool) }
                if holding.count > 0 { noteFree(pool, key.scope, &free, &state) }
                holding.count = 0
                state[key] = holding
                if note(key, holding, &state) { isChanged = true }
            }
            return (isChanged, free)
        }
        if isChanged { notePendingWork() }
        tell(free)
    }

    /// Connections that are free, and owners that got one of them.
    private struct Free {
        var pools: [ConnectionPool] = []
        var replies: [@Sendable (ConnectionGrant) -> Void] = []
    }

    private func endFirst(_ attempt: Attempt, _ free: inout Free, _ state: inout State) {
        let owner = Owner(attempt)
        if !state.waiting.isEmpty { state.waiting[owner] = nil }
        guard let pool = state.ledger.endFirst(owner) else { return }
        noteFree(pool, attempt.scope, &free, &state)
    }

    private func noteFree(
        _ pool: ConnectionPool, _ scope: RequestScope, _ free: inout Free, _ state: inout State
    ) {
        guard permits.isHeld, let limit = sessionLimit(scope, pool.session) else { return }
        free.replies += state.serve(pool, limit: limit)
        free.pools.append(pool)
    }

    private func tell(_ free: Free) {
        for reply in free.replies { reply(.granted) }
        guard !free.pools.isEmpty else { return }
        let tell = self.free.withLock { $0 }
        for pool in free.pools { tell(pool) }
    }

    /// Marks holdings of scopes that are limited now and were not before, so that they are written to the
    /// database. Call when limits have changed.
    func recount() {
        guard hasHoldings.load(ordering: .acquiring) else { return }
        let isChanged = state.withLock { state in
            for key in state.keys {
                guard let holding = state[key], holding.count != holding.writtenCount,
                    isWritten(key.scope, holding.session)
                else { continue }
                state.changed.insert(key)
            }
            return !state.changed.isEmpty
        }
        if isChanged { pendingWork.store(true, ordering: .releasing) }
    }

    /// Records a changed holding. Returns `true` if it has to be written to the database.
    private func note(_ key: Key, _ holding: Holding, _ state: inout State) -> Bool {
        if holding.count == holding.writtenCount, holding.count == 0 {
            state[key] = nil
            state.changed.remove(key)
            hasHoldings.store(!state.isEmpty, ordering: .releasing)
            return false
        }
        guard holding.writtenCount != 0 || isWritten(key.scope, holding.session) else { return false }
        state.changed.insert(key)
        return true
    }

    private func counting(_ scope: RequestScope, _ session: String) -> Counting {
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

    private func sessionLimit(_ scope: RequestScope, _ session: String) -> Int? {
        sessions.current.share(tenant: scope.tenant, session: session).connectionLimit
    }

    /// Returns `true` if the database has to know of connections of the scope.
    private func isWritten(_ scope: RequestScope, _ session: String) -> Bool {
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

    private func notePendingWork() {
        pendingWork.store(true, ordering: .releasing)
        wake.withLock { $0 }()
    }

    // MARK: Work of the dispatcher

    struct Work: Sendable {
        var writes: [(key: Key, holding: Holding)] = []
        var asks: [Ask] = []
        var isEmpty: Bool { writes.isEmpty && asks.isEmpty }
    }

    /// Takes the work of one transaction. Pass it to `settle` or `putBack` afterwards.
    func takeWork(_ countMax: Int) -> Work {
        state.withLock { state in
            var work = Work()
            for key in state.changed.prefix(countMax) {
                if let holding = state[key] { work.writes.append((key, holding)) }
                state.changed.remove(key)
            }
            work.asks = Array(state.asks.prefix(countMax))
            state.asks.removeFirst(work.asks.count)
            pendingWork.store(!state.changed.isEmpty || !state.asks.isEmpty, ordering: .releasing)
            return work
        }
    }

    /// Records that the database has committed `work` and granted or refused requests (indices of
    /// `work.asks`).
    func settle(_ work: Work, granted: [Int], refused: [Int]) {
        let free = state.withLock { state in
            for (key, written) in work.writes {
                state[key]?.writtenCount = written.count
                if state[key]?.count == 0, written.count == 0 { state[key] = nil }
            }
            for ask in granted.map({ work.asks[$0] }) { add(ask.key, ask.session, isWritten: true, &state) }
            hasHoldings.store(!state.isEmpty, ordering: .releasing)
            return release(refused.map { work.asks[$0] }, &state)
        }
        tell(free)
    }

    /// Returns the connections that were counted for requests.
    private func release(_ asks: [Ask], _ state: inout State) -> Free {
        var free = Free()
        for ask in asks {
            let pool = ConnectionPool(ask.key.scope, session: ask.session)
            state.ledger.free(pool)
            noteFree(pool, ask.key.scope, &free, &state)
        }
        return free
    }

    /// Schedules `work` to be written again, and refuses its requests: whether the database has committed it
    /// is unknown.
    func putBack(_ work: Work) {
        let free = state.withLock { state in
            for key in work.writes.map(\.key) + work.asks.map(\.key) {
                if state[key] == nil, let ask = work.asks.first(where: { $0.key == key }) {
                    state[key] = Holding(session: ask.session)
                }
                state[key]?.writtenCount = nil
                state.changed.insert(key)
            }
            hasHoldings.store(!state.isEmpty, ordering: .releasing)
            return release(work.asks, &state)
        }
        pendingWork.store(true, ordering: .releasing)
        tell(free)
    }

    /// Asks again later: other transactions held the claim queues.
    func putBack(asks: [Ask]) {
        guard !asks.isEmpty else { return }
        state.withLock { $0.asks.insert(contentsOf: asks, at: 0) }
        pendingWork.store(true, ordering: .releasing)
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
}
