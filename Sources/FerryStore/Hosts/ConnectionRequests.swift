import FerryCore
import FerryScheduler
import Synchronization
import Sys

// Requests of attempts for connections, and connections that attempts return.
extension ConnectionRegistry: ConnectionLimiter {
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
    func add(_ key: Key, _ session: String, isWritten: Bool = false, _ state: inout State) {
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
    struct Free {
        var pools: [ConnectionPool] = []
        var replies: [@Sendable (ConnectionGrant) -> Void] = []
    }

    private func endFirst(_ attempt: Attempt, _ free: inout Free, _ state: inout State) {
        let owner = Owner(attempt)
        if !state.waiting.isEmpty { state.waiting[owner] = nil }
        guard let pool = state.ledger.endFirst(owner) else { return }
        noteFree(pool, attempt.scope, &free, &state)
    }

    func noteFree(
        _ pool: ConnectionPool, _ scope: RequestScope, _ free: inout Free, _ state: inout State
    ) {
        guard permits.isHeld, let limit = sessionLimit(scope, pool.session) else { return }
        free.replies += state.serve(pool, limit: limit)
        free.pools.append(pool)
    }

    func tell(_ free: Free) {
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

    private func notePendingWork() {
        pendingWork.store(true, ordering: .releasing)
        wake.withLock { $0 }()
    }
}
