/// Whether this node can tell that others are silent.
///
/// Who was away itself, or whose database was, hears of everybody at once, and of some a moment later: until
/// they had the time of a lease to say that they are alive nobody is counted dead. Nanoseconds of the
/// monotonic clock.
struct Silence {
    private let lease: Int64
    private var lastBeat: Int64?
    private var judgesFrom: Int64 = 0

    init(leaseSeconds: Double) { lease = Int64(leaseSeconds * 1e9) }

    /// After each heartbeat that the database has confirmed. A node beats five times a lease, so that whoever
    /// is alive has been silent for less than a lease while this one was for less than half of it. Where each
    /// heartbeat is late, but not by a lease, one wait is followed by one judgement: the dead are found all
    /// the same.
    mutating func judges(at now: Int64) -> Bool {
        defer { lastBeat = now }
        guard let lastBeat else { return true }
        let (silence, hasWaited) = (now - lastBeat, lastBeat < judgesFrom)
        if silence > lease || silence > lease / 2 && !hasWaited { judgesFrom = now + lease }
        return now >= judgesFrom
    }
}
