import FerryCore
import Synchronization
import Sys

/// Connections that this node's attempts hold or ask for beyond their first connection to their own origin.
/// May be used from any thread.
///
/// If nothing limits an origin, the registry grants the connection itself, and the database does not know of
/// it. If a limit applies, the dispatcher asks the database for all requests that have gathered
/// (`ConnectionTransaction`) and writes there which connections were given back.
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
    private struct State {
        private var holdings: [Owner: [RequestScope: Holding]] = [:]
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
        func keys(of owner: Owner) -> [Key] {
            holdings[owner].map { $0.keys.map { Key(owner: owner, scope: $0) } } ?? []
        }
        var keys: [Key] {
            holdings.flatMap { owner, held in held.keys.map { Key(owner: owner, scope: $0) } }
        }
    }

    private let hosts: HostLimits
    private let sessions: SessionCache
    private let clock: DatabaseClock
    private let state = Mutex(State())
    private let hasHoldings = Atomic<Bool>(false)
    private let pendingWork = Atomic<Bool>(false)
    private let wake = Mutex(Callback {})

    init(_ configuration: StoreConfiguration) {
        hosts = configuration.hosts
        sessions = configuration.sessions
        clock = configuration.clock
    }

    /// Sets the function that is called when `hasWork` becomes true.
    func connect(_ wake: @escaping @Sendable () -> Void) {
        let callback = Callback(wake)
        self.wake.withLock { $0 = callback }
    }

    var hasWork: Bool { pendingWork.load(ordering: .acquiring) }

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
        guard isLimited(scope, session) else {
            state.withLock { state in
                let empty = Holding(session: session)
                var holding = state[key] ?? empty
                holding.count += 1
                state[key] = holding
                hasHoldings.store(true, ordering: .releasing)
            }
            return .granted
        }
        state.withLock {
            $0.asks.append(Ask(key: key, session: session, reply: reply))
        }
        notePendingWork()
        return nil
    }

    func giveBack(_ attempt: Attempt, _ scope: RequestScope) {
        let key = Key(owner: Owner(attempt), scope: scope)
        let isChanged = state.withLock { state in
            guard var holding = state[key], holding.count > 0 else { return false }
            holding.count -= 1
            state[key] = holding
            return note(key, holding, &state)
        }
        if isChanged { notePendingWork() }
    }

    /// Releases the connections of an attempt that has ended. The database notices the end itself and removes
    /// what is left.
    func forget(_ attempt: Attempt) {
        guard hasHoldings.load(ordering: .acquiring) else { return }
        let isChanged = state.withLock { state in
            var isChanged = false
            for key in state.keys(of: Owner(attempt)) {
                guard var holding = state[key] else { continue }
                holding.count = 0
                state[key] = holding
                if note(key, holding, &state) { isChanged = true }
            }
            return isChanged
        }
        if isChanged { notePendingWork() }
    }

    /// Marks holdings of scopes that are limited now and were not before, so that they are written to the
    /// database. Call when limits have changed.
    func recount() {
        guard hasHoldings.load(ordering: .acquiring) else { return }
        let isChanged = state.withLock { state in
            for key in state.keys {
                guard let holding = state[key], holding.count != holding.writtenCount,
                    isLimited(key.scope, holding.session)
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
        guard holding.writtenCount != 0 || isLimited(key.scope, holding.session) else { return false }
        state.changed.insert(key)
        return true
    }

    private func isLimited(_ scope: RequestScope, _ session: String) -> Bool {
        hosts.limit(of: scope)?.countAtOnce != nil
            || sessions.current.share(tenant: scope.tenant, session: session).connectionLimit != nil
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

    /// Records that the database has committed `work` and granted the connections of `granted`.
    func settle(_ work: Work, granted: [Key]) {
        state.withLock { state in
            for (key, written) in work.writes {
                state[key]?.writtenCount = written.count
                if state[key]?.count == 0, written.count == 0 { state[key] = nil }
            }
            for ask in work.asks where granted.contains(ask.key) {
                let empty = Holding(session: ask.session)
                var holding = state[ask.key] ?? empty
                holding.count += 1
                holding.writtenCount = holding.writtenCount.map { $0 + 1 }
                state[ask.key] = holding
            }
            hasHoldings.store(!state.isEmpty, ordering: .releasing)
        }
    }

    /// Schedules `work` to be written again: whether the database has committed it is unknown.
    func putBack(_ work: Work) {
        state.withLock { state in
            for key in work.writes.map(\.key) + work.asks.map(\.key) {
                if state[key] == nil, let ask = work.asks.first(where: { $0.key == key }) {
                    state[key] = Holding(session: ask.session)
                }
                state[key]?.writtenCount = nil
                state.changed.insert(key)
            }
            hasHoldings.store(!state.isEmpty, ordering: .releasing)
        }
        pendingWork.store(true, ordering: .releasing)
    }

    /// Asks again later: other transactions held the claim queues.
    func putBack(asks: [Ask]) {
        guard !asks.isEmpty else { return }
        state.withLock { $0.asks.insert(contentsOf: asks, at: 0) }
        pendingWork.store(true, ordering: .releasing)
    }
}
