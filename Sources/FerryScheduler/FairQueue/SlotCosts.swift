/// For how long the jobs of each session hold a slot, as far as the last ones tell. Seconds.
struct SlotCosts: Sendable {
    private struct Name: Hashable, Sendable {
        let tenant: String
        let session: String
    }
    /// A claim costs something, however short the transfer is; beyond an hour what holds a slot is no measure
    /// for the next job.
    private static let costMin = 0.005
    private static let costMax = 3_600.0
    /// While nothing is known. Too little rather than too much: what is charged cannot be taken back from
    /// those who have come meanwhile.
    private static let costUnknown = 0.05
    /// By how much a session or tenant may be behind because its jobs took longer than was charged.
    static let correctionMax = 60.0
    /// Of the latest job in the mean.
    private static let weight = 0.2
    /// Sessions that are remembered, about 2 MB.
    private static let countMax = 10_000

    private var means: [Name: Double] = [:]
    private var mean: Double?

    static func bounded(_ seconds: Double) -> Double { min(max(seconds, costMin), costMax) }

    /// What the next job of the lot's session is charged.
    func cost(of lot: ClaimQueue) -> Double {
        means[Name(tenant: lot.tenant, session: lot.session)] ?? mean ?? Self.costUnknown
    }

    mutating func note(tenant: String, session: String, seconds: Double) {
        let name = Name(tenant: tenant, session: session)
        let seconds = Self.bounded(seconds)
        if means.count >= Self.countMax, means[name] == nil { means = [:] }
        means[name] = means[name].map { $0 + Self.weight * (seconds - $0) } ?? seconds
        mean = mean.map { $0 + Self.weight * (seconds - $0) } ?? seconds
    }
}
