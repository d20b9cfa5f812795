/// The connections of one attempt by origin: which it may have, which are in use, and what was asked for. A
/// pure value; times are monotonic nanoseconds.
struct AttemptConnections {
    /// The origin at which one connection came with the lease.
    let own: String
    /// Those that were granted besides.
    private var granted: [String: Int] = [:]
    private var used: [String: Int] = [:]
    private var closedUntil: [String: Int64] = [:]
    /// Origins of which an answer is still to come.
    private(set) var asked: Set<String> = []

    init(own: String) { self.own = own }

    private func count(_ origin: String) -> Int { granted[origin, default: 0] + (origin == own ? 1 : 0) }

    /// Whether the next one there is the one that came with the lease.
    func isFirst(_ origin: String) -> Bool { origin == own && used[origin, default: 0] == 0 }

    /// Uses one that is there and free; false: there is none.
    mutating func take(_ origin: String) -> Bool {
        guard used[origin, default: 0] < count(origin) else { return false }
        used[origin, default: 0] += 1
        return true
    }

    /// One in use is closed.
    mutating func put(_ origin: String) { used[origin, default: 0] -= 1 }

    /// Whether one more may be asked for now: nobody has just refused it, and no answer is to come.
    func mayAsk(_ origin: String, now: Int64) -> Bool {
        !asked.contains(origin) && closedUntil[origin, default: .min] <= now
    }

    mutating func note(asked origin: String) { asked.insert(origin) }

    mutating func note(granted origin: String) {
        asked.remove(origin)
        granted[origin, default: 0] += 1
    }

    mutating func note(refused origin: String, until instant: Int64) {
        asked.remove(origin)
        closedUntil[origin] = instant
    }

    /// Takes those that are granted and not in use; an origin each.
    mutating func takeSpares() -> [String] {
        var spares: [String] = []
        for (origin, count) in granted {
            let spare = min(count, self.count(origin) - used[origin, default: 0])
            guard spare > 0 else { continue }
            granted[origin] = count - spare
            spares.append(contentsOf: repeatElement(origin, count: spare))
        }
        return spares
    }
}
