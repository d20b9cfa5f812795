/// Who is served next, so that everybody who always wants something gets the share of their weight.
///
/// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): each key has a virtual time that grows by
/// cost ÷ weight with what it gets, and the least is next. Who comes anew starts at the present, so that
/// nobody saves up a share by being idle; who comes back early still owes what they have had.
package struct FairShares<Key: Hashable & Sendable>: Sendable {
    private var ready = RankedHeap<Key, Double>()
    private var present = 0.0
    /// Virtual times in the future of those who want nothing now.
    private var debts: [Key: Double] = [:]

    package init() {}

    package var isEmpty: Bool { ready.isEmpty }

    /// Who is served next.
    package var next: Key? { ready.first?.key }

    /// The key wants something from now on.
    package mutating func insert(_ key: Key) {
        guard !ready.contains(key) else { return }
        ready.set(key, max(present, debts.removeValue(forKey: key) ?? present))
    }

    /// The key wants nothing for now.
    package mutating func remove(_ key: Key) {
        guard let time = ready.remove(key), time > present else { return }
        debts[key] = time
        if debts.count > 2 * ready.count + 1_000 { debts = debts.filter { $0.value > present } }
    }

    /// What was charged for the key turned out to be more or less. Nobody gets more than the next turn of it,
    /// and nobody is `most` behind the others because of it.
    package mutating func correct(_ key: Key, _ amount: Double, most: Double) {
        guard let time = ready.rank(of: key) ?? debts[key] ?? (amount > 0 ? present : nil) else { return }
        let bounded =
            amount < 0
            ? max(time + amount, min(time, present)) : min(time + amount, max(time, present + most))
        if ready.contains(key) { ready.set(key, bounded) } else { debts[key] = bounded }
    }

    /// The key was served. A negative amount gives back what was charged for nothing.
    package mutating func charge(_ key: Key, _ amount: Double) {
        if let time = ready.remove(key) {
            if amount > 0 { present = max(present, time) }
            ready.set(key, time + amount)
        } else if let time = debts[key] {
            debts[key] = time + amount
        } else if amount > 0 {
            debts[key] = present + amount
        }
    }
}
