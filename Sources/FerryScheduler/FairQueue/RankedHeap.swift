/// Keys ordered by rank, the least first; each key occurs once. A binary heap; the order of equal ranks is
/// deterministic.
struct RankedHeap<Key: Hashable & Sendable, Rank: Comparable & Sendable>: Sendable {
    private struct Entry: Sendable {
        let key: Key
        var rank: Rank
    }
    private var entries: [Entry] = []
    private var places: [Key: Int] = [:]

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }
    var first: (key: Key, rank: Rank)? { entries.first.map { ($0.key, $0.rank) } }

    func contains(_ key: Key) -> Bool { places[key] != nil }

    func rank(of key: Key) -> Rank? { places[key].map { entries[$0].rank } }

    /// Inserts a key, or changes its rank.
    mutating func set(_ key: Key, _ rank: Rank) {
        if let place = places[key] {
            entries[place].rank = rank
            restore(at: place)
        } else {
            entries.append(Entry(key: key, rank: rank))
            places[key] = entries.count - 1
            restore(at: entries.count - 1)
        }
    }

    /// Removes `key` and returns its rank, or `nil` if it was not present.
    @discardableResult
    mutating func remove(_ key: Key) -> Rank? {
        guard let place = places.removeValue(forKey: key) else { return nil }
        let rank = entries[place].rank
        let last = entries.removeLast()
        if place < entries.count {
            entries[place] = last
            places[last.key] = place
            restore(at: place)
        }
        return rank
    }

    private mutating func restore(at start: Int) {
        var place = start
        while place > 0, entries[place].rank < entries[(place - 1) / 2].rank {
            exchange(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
        while true {
            var least = place
            for child in (2 * place + 1)...(2 * place + 2) where child < entries.count {
                if entries[child].rank < entries[least].rank { least = child }
            }
            if least == place { return }
            exchange(place, least)
            place = least
        }
    }

    private mutating func exchange(_ first: Int, _ second: Int) {
        entries.swapAt(first, second)
        places[entries[first].key] = first
        places[entries[second].key] = second
    }
}
