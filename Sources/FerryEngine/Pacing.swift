/// The limits that hold for one transfer, and its place in them. Loop thread only.
final class Pacing {
    enum Direction { case receiving, sending }

    /// The job's own.
    let job: TokenBucket?
    private let receiving: [TokenBucket]
    private let sending: [TokenBucket]
    /// Bytes that one step may move: so few that the slowest limit does not come in bursts.
    let portion: Int
    /// Bytes that have their place, and when it is; 0: none are waiting.
    private var granted = 0
    private var due: Int64 = 0
    /// Whether somebody comes back by itself when it is time.
    var hasTimer = false

    /// `session`, `host`: of both directions; `receiving`, `sending`: the service's.
    init(
        job: TokenBucket?, session: TokenBucket? = nil, host: TokenBucket?, receiving: TokenBucket?,
        sending: TokenBucket?
    ) {
        self.job = job
        self.receiving = [job, session, host, receiving].compactMap { $0 }
        self.sending = [job, session, host, sending].compactMap { $0 }
        let slowest = (self.receiving + self.sending).map(\.bytesPerSecond).min() ?? .infinity
        portion = Int(
            min(
                max(slowest * EngineLimits.portionSeconds, Double(EngineLimits.portionMin)),
                Double(EngineLimits.pacedBufferSize)))
    }

    /// 0 when the bytes may move, which they then do; otherwise the nanoseconds after which to ask again for
    /// the same ones.
    func take(_ byteCount: Int, _ direction: Direction, now: Int64) -> Int64 {
        if granted > 0 {
            if now < due { return due - now }
            let rest = byteCount - granted
            granted = 0
            // They came with others this time; those are paid for by whoever comes next.
            if rest > 0 { _ = reserve(rest, direction, now) }
            return 0
        }
        let place = reserve(byteCount, direction, now)
        guard place > now else { return 0 }
        (granted, due) = (byteCount, max(due, place))
        return place - now
    }

    /// The same for bytes that cannot wait: what follows them has to.
    func charge(_ byteCount: Int, _ direction: Direction, now: Int64) {
        due = max(due, reserve(byteCount, direction, now))
    }

    /// Nanoseconds until it is time for what waits; not above 0: nothing has to.
    func timeLeft(_ now: Int64) -> Int64 { due - now }

    private func reserve(_ byteCount: Int, _ direction: Direction, _ now: Int64) -> Int64 {
        var latest = Int64.min
        for bucket in direction == .receiving ? receiving : sending {
            latest = max(latest, bucket.reserve(byteCount, now: now))
        }
        return latest
    }
}
