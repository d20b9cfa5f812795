import FerryCore

/// The limits that hold for one connection of a transfer, and its place in them. Loop thread only.
final class Pacing {
    enum Direction { case receiving, sending }

    /// The job's own.
    let job: TokenBucket?
    private let receiving: [TokenBucket]
    private let sending: [TokenBucket]
    private let places: JobPlaces
    /// Bytes that have a place in each limit; 0: none are waiting.
    private var granted = 0
    /// Those places, or what those were that have moved last.
    private var held: [TokenBucket.Place] = []
    /// Whether it waits for a place of its job's.
    fileprivate var isQueued = false
    /// When somebody comes back by itself; `.max`: nobody does.
    var returnsAt = Int64.max

    /// `places`: what the job's connections share; `session`, `host`: of both directions; `receiving`,
    /// `sending`: the service's.
    init(
        _ places: JobPlaces = JobPlaces(), job: TokenBucket?, session: TokenBucket? = nil, host: TokenBucket?,
        receiving: TokenBucket?, sending: TokenBucket?
    ) {
        self.places = places
        self.job = job
        self.receiving = [job, session, host, receiving].compactMap { $0 }
        self.sending = [job, session, host, sending].compactMap { $0 }
    }

    /// Bytes that one step may move: so few that the slowest limit does not come in bursts.
    var portion: Int {
        let slowest = (receiving + sending).map(\.bytesPerSecond).min() ?? .infinity
        return Int(
            min(
                max(slowest * EngineLimits.portionSeconds, Double(EngineLimits.portionMin)),
                Double(EngineLimits.pacedBufferSize)))
    }

    /// Whether the limits are the same ones, so that the places in them count, at whatever rates.
    func holds(like other: Pacing) -> Bool {
        receiving.elementsEqual(other.receiving, by: ===) && sending.elementsEqual(other.sending, by: ===)
    }

    /// 0 when the bytes may move, which they then do; otherwise the nanoseconds after which to ask again for
    /// the same ones.
    func take(_ byteCount: Int, _ direction: Direction, now: Int64) -> Int64 {
        guard byteCount > 0 else { return 0 }
        if granted == 0 {
            places.ask(self, byteCount, direction, now: now)
            guard granted > 0 else { return max(now + 1, places.opening(buckets(direction))) - now }
        }
        let wait = timeLeft(now)
        if wait > 0 { return wait }
        let rest = byteCount - granted
        granted = 0
        // They came with others this time; those are paid for by whoever comes next.
        if rest > 0 { _ = reserve(rest, direction, now) }
        return 0
    }

    /// The same for bytes that cannot wait: what follows them has to.
    func charge(_ byteCount: Int, _ direction: Direction, now: Int64) {
        hold(reserve(byteCount, direction, now))
    }

    /// Nanoseconds until it is time for what waits; not above 0: nothing has to.
    func timeLeft(_ now: Int64) -> Int64 { (held.map(\.time).max() ?? now) - now }

    fileprivate func grant(_ byteCount: Int, at places: [TokenBucket.Place]) {
        isQueued = false
        granted = byteCount
        hold(places)
    }

    /// Instead of earlier places in the same limits.
    private func hold(_ places: [TokenBucket.Place]) {
        held.removeAll { old in places.contains { $0.bucket === old.bucket } }
        held += places
    }

    fileprivate func buckets(_ direction: Direction) -> [TokenBucket] {
        direction == .receiving ? receiving : sending
    }

    private func reserve(
        _ byteCount: Int, _ direction: Direction, _ now: Int64
    ) -> [TokenBucket.Place] {
        buckets(direction).map { bucket in
            places.enter(bucket)
            return bucket.reserve(byteCount, now: now)
        }
    }
}

/// The places that the connections of one job share: in each limit the job waits for one at a time, so that
/// it has one share of it however many connections it has. They take turns. Loop thread only.
final class JobPlaces {
    private struct Limit {
        let bucket: TokenBucket
        /// The job's place in it; nobody of the job asks for another one before its turn.
        var place: TokenBucket.Place?
    }
    private struct Waiter {
        weak var pacing: Pacing?
        let byteCount: Int
        let direction: Pacing.Direction
    }
    /// The limits under which the job moves bytes: a few.
    private var limits: [Limit] = []
    /// In the order in which they have asked.
    private var waiting: [Waiter] = []

    deinit { for limit in limits { limit.bucket.leave() } }

    /// The job moves bytes under this limit.
    @discardableResult
    func enter(_ bucket: TokenBucket) -> Int {
        if let index = limits.firstIndex(where: { $0.bucket === bucket }) { return index }
        bucket.enter()
        limits.append(Limit(bucket: bucket))
        return limits.count - 1
    }

    /// A place for these bytes, now or when it is the connection's turn.
    fileprivate func ask(_ pacing: Pacing, _ byteCount: Int, _ direction: Pacing.Direction, now: Int64) {
        if !pacing.isQueued {
            pacing.isQueued = true
            waiting.append(Waiter(pacing: pacing, byteCount: byteCount, direction: direction))
        }
        // Also those before it: one that comes late costs the others nothing.
        waiting.removeAll { waiter in
            guard let pacing = waiter.pacing else { return true }
            let buckets = pacing.buckets(waiter.direction)
            guard opening(buckets) <= now else { return false }
            let places = buckets.map { $0.reserve(waiter.byteCount, now: now) }
            for place in places { limits[enter(place.bucket)].place = place }
            pacing.grant(waiter.byteCount, at: places)
            return true
        }
    }

    /// When the job may ask for another place in all of these.
    fileprivate func opening(_ buckets: [TokenBucket]) -> Int64 {
        var latest = Int64.min
        for limit in limits where buckets.contains(where: { $0 === limit.bucket }) {
            latest = max(latest, limit.place?.time ?? .min)
        }
        return latest
    }
}
