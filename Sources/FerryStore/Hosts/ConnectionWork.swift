import FerryCore
import FerryScheduler
import Synchronization

// Requests and returned connections that the dispatcher writes to the database.
extension ConnectionRegistry {
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
