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
        let session = attempt.spec.session
        let ask = Ask(key: Key(owner: Owner(attempt), scope: scope), session: session, reply: reply)
        let pool = ConnectionPool(scope, session: session)
        // Before the lock, which threads take that have the lock of held attempts.
        let isAwaited = permits.isHeld && waiters.withLock { $0 }?.contains(pool) ?? false
        let (answer, isChanged): (ConnectionGrant?, Bool) = state.withLock { state in
            let counting = counting(scope, session)
            if attempt.hasFirst(at: scope), !state.ledger.isUsingFirst(ask.key.owner) {
                // The row of a running attempt counts it anyway.
                let limit: Int? =
                    switch counting {
                    case .nothing: nil
                    case .memory(let limit): limit
                    case .database(let limit): limit
                    case .suspended: sessionLimit(scope, session)
                    }
                return (askLedger(ask, attempt, limit: limit ?? .max, &state), false)
            }
            switch counting {
            case .nothing: break
            // Parts beyond the first of the other end do not come before other jobs.
            case .memory(let limit) where attempt.isOtherEnd && state[ask.key]?.count ?? 0 == 0:
                return (askLedger(ask, attempt, limit: limit, &state), false)
            case .memory(let limit):
                guard !isAwaited, !state.queued.contains(pool), state.ledger.count(of: pool) < limit else {
                    return (.refused(hold(scope, session)), false)
                }
            case .suspended: return (.refused(hold(scope, session)), false)
            case .database(let limit):
                guard state.ledger.take(pool, limit: limit) else {
                    return (.refused(hold(scope, session)), false)
                }
                state.asks.append(ask)
                return (nil, true)
            }
            _ = state.ledger.take(pool, limit: nil)
            add(ask.key, session, &state)
            return (.granted, false)
        }
        if isChanged { notePendingWork() }
        return answer
    }

    /// Asks for a connection without which the attempt cannot go on: if none is free, it waits for the next
    /// one, before all jobs that have not begun. One end of a copy waits while the other may keep its own.
    private func askLedger(
        _ ask: Ask, _ attempt: Attempt, limit: Int, _ state: inout State
    ) -> ConnectionGrant? {
        let wait = attempt.wait(at: ask.key.scope)
        let pool = ConnectionPool(ask.key.scope, session: ask.session)
        switch state.ledger.ask(wait, in: pool, limit: limit, keepsAnother: attempt.isEndOfCopy) {
        case .granted:
            if !wait.isFirst { add(ask.key, ask.session, &state) }
            return .granted
        case .refused: return .refused(hold(ask.key.scope, ask.session))
        case .waits:
            state.waiting[wait] = ask
            return nil
        }
    }

    func endWait(of attempt: Attempt, for scope: RequestScope) {
        let wait = attempt.wait(at: scope)
        let ask = state.withLock { state in
            state.waiting[wait]?.key.scope == scope ? state.end(wait) : nil
        }
        ask?.reply(.refused(hold(scope, attempt.spec.session)))
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
        let free = state.withLock { state in
            var free = Free()
            let furtherCount = state[key]?.count ?? 0
            // What one end of a copy returns is not the other end's. Other attempts return their first one
            // last.
            let isFirst =
                furtherCount == 0 || attempt.isEndOfCopy && state.ledger.isUsingFirst(key.owner)
            if attempt.hasFirst(at: scope), isFirst {
                endFirst(attempt, &free, &state)
            } else if furtherCount > 0 {
                end(1, of: key, &free, &state)
            }
            return free
        }
        tell(free)
    }

    /// Releases the connections of an attempt that has ended. The database notices the end itself and removes
    /// what is left.
    func forget(_ attempt: Attempt) {
        let owner = Owner(attempt)
        let free = state.withLock { state in
            var free = Free()
            if !state.waiting.isEmpty {
                for isFirst in [true, false] { _ = state.end(PermitLedger.Wait(owner, isFirst: isFirst)) }
            }
            endFirst(attempt, &free, &state)
            guard hasHoldings.load(ordering: .acquiring) else { return free }
            for key in state.keys(of: owner) { end(state[key]?.count ?? 0, of: key, &free, &state) }
            return free
        }
        tell(free)
    }

    /// Consequences of connections that are free.
    struct Free {
        var pools: [ConnectionPool] = []
        /// Requests that got one of them.
        var granted: [Ask] = []
        /// Whether the database has to know of changes.
        var isChanged = false
    }

    private func endFirst(_ attempt: Attempt, _ free: inout Free, _ state: inout State) {
        guard let pool = state.ledger.endFirst(Owner(attempt)) else { return }
        noteFree(pool, attempt.scope, &free, &state)
    }

    /// Ends further connections.
    private func end(_ count: Int, of key: Key, _ free: inout Free, _ state: inout State) {
        guard var holding = state[key] else { return }
        holding.count -= count
        state[key] = holding
        let pool = ConnectionPool(key.scope, session: holding.session)
        for _ in 0..<count { state.ledger.free(pool) }
        if note(key, holding, &state) { free.isChanged = true }
        // Last: the attempt itself may wait for what it returns.
        if count > 0 { noteFree(pool, key.scope, &free, &state) }
    }

    func noteFree(
        _ pool: ConnectionPool, _ scope: RequestScope, _ free: inout Free, _ state: inout State
    ) {
        guard permits.isHeld, let limit = sessionLimit(scope, pool.session) else { return }
        serve(pool, limit: limit, &free, &state)
        free.pools.append(pool)
    }

    /// Gives free connections to the requests that wait for them.
    func serve(_ pool: ConnectionPool, limit: Int?, _ free: inout Free, _ state: inout State) {
        while let wait = state.ledger.nextWaiting(pool, limit: limit) {
            guard let ask = state.waiting.removeValue(forKey: wait) else { continue }
            free.granted.append(ask)
            guard !wait.isFirst else { continue }
            add(ask.key, ask.session, &state)
            if let holding = state[ask.key], note(ask.key, holding, &state) { free.isChanged = true }
        }
    }

    func tell(_ free: Free) {
        if free.isChanged { notePendingWork() }
        for ask in free.granted { ask.reply(.granted) }
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
