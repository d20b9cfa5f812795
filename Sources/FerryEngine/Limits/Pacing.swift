import Curl
import FerryCore

/// The limits on speed that hold for one connection of a transfer, and its place in each of them. Loop thread
/// only.
final class Pacing {
    enum Direction { case receiving, sending }

    /// The job's own limit.
    let job: TokenBucket?
    private let receiving: [TokenBucket]
    private let sending: [TokenBucket]
    private let places: JobPlaces
    /// Bytes that wait with a place in each limit; 0 if none wait.
    private var granted = 0
    /// The places of the waiting bytes, or of the bytes that moved last.
    private var held: [TokenBucket.Place] = []
    /// Whether the connection waits for a place in `places`.
    fileprivate var isQueued = false
    /// When `wake` calls, on the loop's clock; `.max` if it does not.
    private var wakesAt = Int64.max

    /// `places`: shared by the job's connections. `session` and `host` hold for both directions; `receiving`
    /// and `sending` are the service's limits.
    init(
        _ places: JobPlaces = JobPlaces(), job: TokenBucket?, session: TokenBucket? = nil, host: TokenBucket?,
        receiving: TokenBucket?, sending: TokenBucket?
    ) {
        self.places = places
        self.job = job
        self.receiving = [job, session, host, receiving].compactMap { $0 }
        self.sending = [job, session, host, sending].compactMap { $0 }
    }

    /// Bytes that one step may move: so few that the slowest limit lets them through evenly.
    var portion: Int {
        let slowest = (receiving + sending).map(\.bytesPerSecond).min() ?? .infinity
        return Int(
            min(
                max(slowest * EngineLimits.portionSeconds, Double(EngineLimits.portionMin)),
                Double(EngineLimits.pacedBufferSize)))
    }

    /// Whether the limits are the same objects, so that the places in them stay valid whatever their rates.
    func holds(like other: Pacing) -> Bool {
        receiving.elementsEqual(other.receiving, by: ===) && sending.elementsEqual(other.sending, by: ===)
    }

    /// Returns 0 if the bytes may move; the caller then moves them. Otherwise returns the nanoseconds after
    /// which to ask again for the same bytes.
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
        // More bytes than reserved move now. The bytes that follow pay for them.
        if rest > 0 { _ = reserve(rest, direction, now) }
        return 0
    }

    /// Counts bytes that have moved already: the bytes that follow have to wait for them.
    func charge(_ byteCount: Int, _ direction: Direction, now: Int64) {
        hold(reserve(byteCount, direction, now))
    }

    /// Nanoseconds until the waiting bytes may move; 0 or less if they may now.
    func timeLeft(_ now: Int64) -> Int64 { (held.map(\.time).max() ?? now) - now }

    /// Calls `resume` after so many nanoseconds, unless it is called sooner anyway. `connection` is not
    /// retained, and neither is the pacing: a job leaves its limits with the last of its places.
    func wake<Connection: AnyObject>(
        _ connection: Connection, after nanoseconds: Int64, on multi: CurlMulti,
        _ resume: @escaping (Connection) -> Void
    ) {
        let instant = multi.now + nanoseconds
        guard instant < wakesAt else { return }
        wakesAt = instant
        multi.after(nanoseconds: nanoseconds) { [weak self, weak connection] in
            if self?.wakesAt == instant { self?.wakesAt = .max }
            if let connection { resume(connection) }
        }
    }

    fileprivate func grant(_ byteCount: Int, at places: [TokenBucket.Place]) {
        isQueued = false
        granted = byteCount
        hold(places)
    }

    /// Replaces earlier places in the same limits.
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

/// The places in limits that the connections of one job share. In each limit the job waits for one place at a
/// time, so that it gets one share however many connections it has. The connections take turns. Loop thread
/// only.
final class JobPlaces {
    private struct Limit {
        let bucket: TokenBucket
        /// The job's place in the limit; no connection asks for another one before its time.
        var place: TokenBucket.Place?
    }
    private struct Waiter {
        weak var pacing: Pacing?
        let byteCount: Int
        let direction: Pacing.Direction
    }
    /// The limits under which the job moves bytes. There are few.
    private var limits: [Limit] = []
    /// Connections in the order of their requests.
    private var waiting: [Waiter] = []

    deinit { for limit in limits { limit.bucket.leave() } }

    /// Notes that the job moves bytes under this limit. Returns the limit's index.
    @discardableResult
    func enter(_ bucket: TokenBucket) -> Int {
        if let index = limits.firstIndex(where: { $0.bucket === bucket }) { return index }
        bucket.enter()
        limits.append(Limit(bucket: bucket))
        return limits.count - 1
    }

    /// Reserves places for these bytes, now or when it is the connection's turn.
    fileprivate func ask(_ pacing: Pacing, _ byteCount: Int, _ direction: Pacing.Direction, now: Int64) {
        if !pacing.isQueued {
            pacing.isQueued = true
            waiting.append(Waiter(pacing: pacing, byteCount: byteCount, direction: direction))
        }
        // Also serves connections that asked earlier: one that comes back late does not delay the others.
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

    /// When the job may reserve another place in all of these limits.
    fileprivate func opening(_ buckets: [TokenBucket]) -> Int64 {
        var latest = Int64.min
        for limit in limits where buckets.contains(where: { $0 === limit.bucket }) {
            latest = max(latest, limit.place?.time ?? .min)
        }
        return latest
    }
}
