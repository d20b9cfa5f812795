/// Chooses the next key so that every key that always has work gets a share proportional to its weight.
///
/// Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): each key has a virtual time that grows by
/// cost ÷ weight when it is served, and the key with the least is next. A new key starts at the current
/// virtual time, so an idle key does not accumulate credit. A key that returns early keeps its debt.
package struct FairShares<Key: Hashable & Sendable>: Sendable {
    private var ready = RankedHeap<Key, Double>()
    private var present = 0.0
    /// Virtual times of idle keys that are ahead of the current virtual time.
    private var debts: [Key: Double] = [:]

    /// Creates a set without keys.
    package init() {}

    /// `true` if no key has work.
    package var isEmpty: Bool { ready.isEmpty }

    /// The key to serve next, or `nil` if no key has work.
    package var next: Key? { ready.first?.key }

    /// Adds a key that has work. Does nothing if it was added before.
    package mutating func insert(_ key: Key) {
        guard !ready.contains(key) else { return }
        ready.set(key, max(present, debts.removeValue(forKey: key) ?? present))
    }

    /// Removes a key that has no work; its debt is kept.
    package mutating func remove(_ key: Key) {
        guard let time = ready.remove(key), time > present else { return }
        debts[key] = time
        if debts.count > 2 * ready.count + 1_000 { debts = debts.filter { $0.value > present } }
    }

    /// Corrects the charge of a key by `amount`. A credit moves the key at most to the front; a debit puts it
    /// at most `most` behind the current virtual time.
    package mutating func correct(_ key: Key, _ amount: Double, most: Double) {
        guard let time = ready.rank(of: key) ?? debts[key] ?? (amount > 0 ? present : nil) else { return }
        let bounded =
            amount < 0
            ? max(time + amount, min(time, present)) : min(time + amount, max(time, present + most))
        if ready.contains(key) { ready.set(key, bounded) } else { debts[key] = bounded }
    }

    /// Charges a key that was served. A negative amount takes a charge back.
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
