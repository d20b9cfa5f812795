import Synchronization

/// The origins with large transfers (bulk), and the number of those on each loop. Large transfers of one
/// origin are spread over the loops; small ones stay on one loop to share connections. The first transfers of
/// an origin are spread too, until one has ended: their size is not known before. Any thread.
final class BulkTransfers: Sendable {
    /// The loop of an attempt.
    struct Placement: Equatable {
        let loop: Int
        /// Whether the attempt is counted there as a large one.
        var isBulk = false
        /// Whether it is one of the first of its origin: its end tells how large the others may be.
        var isFirst = false
    }

    private struct Origins {
        var bulk: Set<String> = []
        /// Attempts that origins with no large transfer so far have had until one has ended, up to
        /// `firstCountMax`.
        var firstCounts: [String: Int] = [:]
    }

    private let origins = Mutex(Origins())
    private let live: Mutex<[Int]>
    private let loopCount: Int
    /// Attempts of an origin that take turns on the loops.
    private let firstCountMax: Int

    init(loopCount: Int) {
        let loopCount = max(1, loopCount)
        self.loopCount = loopCount
        live = Mutex(Array(repeating: 0, count: loopCount))
        firstCountMax = EngineLimits.firstAttemptCountPerLoop * loopCount
    }

    /// Chooses the loop of an attempt. `home`: the loop of its origin. `isLarge`: whether the job itself
    /// announces a large transfer; `nil` if it announces no size. Counts bulk for its loop from here on, so
    /// that a batch is spread too.
    func place(_ origin: String, home: Int, isLarge: Bool?) -> Placement {
        if isLarge == false { return Placement(loop: home) }
        if isLarge == nil, let placed = placeUnknown(origin, home: home) { return placed }
        return Placement(loop: beganOnLeastLoaded(preferred: home), isBulk: true)
    }

    /// Chooses the loop by the turns of the origin; `nil` if it is known for large transfers.
    private func placeUnknown(_ origin: String, home: Int) -> Placement? {
        origins.withLock { origins in
            if origins.bulk.contains(origin) { return nil }
            guard let count = origins.firstCounts[origin] else {
                if origins.firstCounts.count >= EngineLimits.bulkOriginCountMax { origins.firstCounts = [:] }
                origins.firstCounts[origin] = 1
                return Placement(loop: home, isFirst: true)
            }
            guard count < firstCountMax else { return Placement(loop: home) }
            origins.firstCounts[origin] = count + 1
            return Placement(loop: (home + count) % loopCount, isFirst: true)
        }
    }

    /// The origin has a large transfer.
    func note(_ origin: String) {
        origins.withLock { origins in
            if origins.bulk.count >= EngineLimits.bulkOriginCountMax { origins.bulk = [] }
            origins.bulk.insert(origin)
        }
    }

    /// One of the first attempts of the origin has ended, and was not large. Others of its attempts may be.
    func endedSmall(_ origin: String) {
        origins.withLock { origins in
            guard let count = origins.firstCounts[origin], count < firstCountMax else { return }
            origins.firstCounts[origin] = firstCountMax
        }
    }

    /// Counts one large transfer on the loop with the fewest, on `preferred` if it is among them. Returns the
    /// loop.
    private func beganOnLeastLoaded(preferred: Int) -> Int {
        live.withLock { live in
            let fewest = live.min() ?? 0
            let loop = live[preferred] == fewest ? preferred : live.firstIndex(of: fewest) ?? preferred
            live[loop] += 1
            return loop
        }
    }

    func began(on loop: Int) { live.withLock { $0[loop] += 1 } }
    func ended(on loop: Int) { live.withLock { $0[loop] -= 1 } }
}
