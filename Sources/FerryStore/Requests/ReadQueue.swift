import FerryCore

/// On whose behalf a read runs.
package enum ReadOwner: Hashable, Sendable {
    case tenant(String)
    /// The node itself and operators, whose reads belong to no tenant.
    case service
}

/// Reads that wait for one of a few connections: a queue for each owner, and the owners take turns.
///
/// However much one owner asks for, a read of another one waits for at most one turn of each owner that waits
/// before it. One owner never uses all connections, so that long reads of one leave a connection for others.
/// A value without clock or threads: the caller reports the end of each read.
struct ReadQueue<Read> {
    private struct OwnerState {
        var waiting: [Read] = []
        var runningCount = 0
    }

    private let runningCountMax: Int
    private let waitingCountMax: Int
    private var owners: [ReadOwner: OwnerState] = [:]
    /// Owners with reads that wait and may run, in the order of their turns. Each is in here once.
    private var turns: [ReadOwner] = []

    /// `waitingCountMax`: reads of one tenant that may wait.
    init(connectionCount: Int, waitingCountMax: Int) {
        runningCountMax = max(1, connectionCount - 1)
        self.waitingCountMax = waitingCountMax
    }

    /// Reads that wait, of all owners.
    var waitingCount: Int { owners.values.reduce(0) { $0 + $1.waiting.count } }

    /// Adds a read behind the others of its owner. Returns `false` and drops it if `waitingCountMax` reads of
    /// the tenant wait. A read that `continues` an ended one was admitted with that, and is always added, as
    /// are the service's own reads, whose causes bound them.
    mutating func add(_ read: Read, of owner: ReadOwner, continues: Bool = false) -> Bool {
        var state = owners[owner] ?? OwnerState()
        if !continues, owner != .service, state.waiting.count >= waitingCountMax { return false }
        state.waiting.append(read)
        if state.waiting.count == 1, state.runningCount < runningCountMax { turns.append(owner) }
        owners[owner] = state
        return true
    }

    /// Begins the next turn, or returns `nil` if nothing may run now. A turn is one read, or up to `countMax`
    /// successive reads of one owner for each of which `joins` is true.
    mutating func next(joins: (Read) -> Bool, countMax: Int) -> (owner: ReadOwner, reads: [Read])? {
        guard !turns.isEmpty else { return nil }
        let owner = turns.removeFirst()
        guard var state = owners[owner], let first = state.waiting.first else { return nil }
        var count = 1
        if joins(first) {
            while count < min(countMax, state.waiting.count), joins(state.waiting[count]) { count += 1 }
        }
        let reads = Array(state.waiting.prefix(count))
        state.waiting.removeFirst(count)
        state.runningCount += 1
        owners[owner] = state
        if !state.waiting.isEmpty, state.runningCount < runningCountMax { turns.append(owner) }
        return (owner, reads)
    }

    /// Ends a turn of the owner.
    mutating func end(_ owner: ReadOwner) {
        guard var state = owners[owner], state.runningCount > 0 else { return }
        let wasHeld = state.runningCount == runningCountMax
        state.runningCount -= 1
        owners[owner] = state.runningCount == 0 && state.waiting.isEmpty ? nil : state
        if wasHeld, !state.waiting.isEmpty { turns.append(owner) }
    }
}
