/// Estimates for how many seconds the next job of each session holds a slot: a moving average.
struct SlotCosts: Sendable {
    private struct Name: Hashable, Sendable {
        let tenant: String
        let session: String
    }
    /// Seconds. A claim has a cost however short the transfer is. A job that took over an hour says little
    /// about the next one.
    private static let costMin = 0.005
    private static let costMax = 3_600.0
    /// Seconds for a first job. Rather too low: a charge that was too high cannot be made good to keys that
    /// were added meanwhile.
    private static let costUnknown = 0.05
    /// Seconds that a session or tenant can be behind because its jobs took longer than charged.
    static let correctionMax = 60.0
    /// Weight of the latest job in the average.
    private static let weight = 0.2
    /// Number of sessions that are remembered; about 2 MB.
    private static let countMax = 10_000

    /// Average of all sessions.
    private var means: [Name: Double] = [:]
    private var mean: Double?

    /// Limits a duration to the range that is charged.
    static func bounded(_ seconds: Double) -> Double { min(max(seconds, costMin), costMax) }

    /// Returns the seconds that the next job of the queue's session is charged.
    func cost(of queue: ClaimQueue) -> Double {
        means[Name(tenant: queue.tenant, session: queue.session)] ?? mean ?? Self.costUnknown
    }
    /// Adds the duration of a job to the averages of its session and of all sessions.

    mutating func note(tenant: String, session: String, seconds: Double) {
        let name = Name(tenant: tenant, session: session)
        let seconds = Self.bounded(seconds)
        if means.count >= Self.countMax, means[name] == nil { means = [:] }
        means[name] = means[name].map { $0 + Self.weight * (seconds - $0) } ?? seconds
        mean = mean.map { $0 + Self.weight * (seconds - $0) } ?? seconds
    }
}
