import FerryCore

/// The connections of one attempt by scope: how many it may have, how many are in use, and which were asked
/// for. A pure value; times are monotonic nanoseconds.
struct AttemptConnections {
    /// The scope whose one connection came with the lease.
    let own: RequestScope
    /// `true` while the attempt has that connection.
    private var hasOwn = true
    /// Connections that were granted in addition.
    private var granted: [RequestScope: Int] = [:]
    private var used: [RequestScope: Int] = [:]
    private var closedUntil: [RequestScope: Int64] = [:]
    /// Scopes for which an answer is still to come.
    private(set) var asked: Set<RequestScope> = []

    init(own: RequestScope) { self.own = own }

    private func count(_ scope: RequestScope) -> Int {
        granted[scope, default: 0] + (scope == own && hasOwn ? 1 : 0)
    }

    /// Whether the next connection of the scope is the one that came with the lease.
    func isFirst(_ scope: RequestScope) -> Bool { hasOwn && scope == own && used[scope, default: 0] == 0 }

    /// Uses a free connection. Returns `false` if there is none.
    mutating func take(_ scope: RequestScope) -> Bool {
        guard used[scope, default: 0] < count(scope) else { return false }
        used[scope, default: 0] += 1
        return true
    }

    /// Returns a used connection.
    mutating func put(_ scope: RequestScope) { used[scope, default: 0] -= 1 }

    /// Whether one more connection may be asked for now: none was just refused, and no answer is to come.
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

    /// Removes the connection that came with the lease, unless it is in use. Returns `true` if it is removed.
    mutating func takeOwn() -> Bool {
        guard hasOwn, used[own, default: 0] < count(own) else { return false }
        hasOwn = false
        return true
    }

    /// Removes the connections that are granted and not in use. Returns one scope for each.
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
