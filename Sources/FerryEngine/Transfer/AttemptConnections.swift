import FerryCore

/// The connections of one attempt by scope: which it may have, which are in use, and what was asked for. A
/// pure value; times are monotonic nanoseconds.
struct AttemptConnections {
    /// The scope whose one connection came with the lease.
    let own: RequestScope
    /// Those that were granted besides.
    private var granted: [RequestScope: Int] = [:]
    private var used: [RequestScope: Int] = [:]
    private var closedUntil: [RequestScope: Int64] = [:]
    /// Scopes of which an answer is still to come.
    private(set) var asked: Set<RequestScope> = []

    init(own: RequestScope) { self.own = own }

    private func count(_ scope: RequestScope) -> Int { granted[scope, default: 0] + (scope == own ? 1 : 0) }

    /// Whether the next one there is the one that came with the lease.
    func isFirst(_ scope: RequestScope) -> Bool { scope == own && used[scope, default: 0] == 0 }

    /// Uses one that is there and free; false: there is none.
    mutating func take(_ scope: RequestScope) -> Bool {
        guard used[scope, default: 0] < count(scope) else { return false }
        used[scope, default: 0] += 1
        return true
    }

    /// One in use is closed.
    mutating func put(_ scope: RequestScope) { used[scope, default: 0] -= 1 }

    /// Whether one more may be asked for now: nobody has just refused it, and no answer is to come.
    func mayAsk(_ scope: RequestScope, now: Int64) -> Bool {
        !asked.contains(scope) && closedUntil[scope, default: .min] <= now
    }

    mutating func note(asked scope: RequestScope) { asked.insert(scope) }

    mutating func note(granted scope: RequestScope) {
        asked.remove(scope)
        granted[scope, default: 0] += 1
    }

    mutating func note(refused scope: RequestScope, until instant: Int64) {
        asked.remove(scope)
        closedUntil[scope] = instant
    }

    /// Takes those that are granted and not in use; a scope each.
    mutating func takeSpares() -> [RequestScope] {
        var spares: [RequestScope] = []
        for (scope, count) in granted {
            let spare = min(count, self.count(scope) - used[scope, default: 0])
            guard spare > 0 else { continue }
            granted[scope] = count - spare
            spares.append(contentsOf: repeatElement(scope, count: spare))
        }
        return spares
    }
}
