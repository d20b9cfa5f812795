import FerryCore
import FerryScheduler

/// A server behind a controller, under a clock of its own: so many requests at once are served, the rest is
/// refused or only makes all of them slower.
struct SimulatedHost {
    enum Manner { case refusesExcess, slowsDown }

    var capacity: Int
    var manner = Manner.refusesExcess
    /// Of one transfer, while there is room.
    var serviceSeconds = 0.5
    var bytes: Int64 = 100_000
    /// What clients would have in flight without a limit.
    var demand = 200
    var bounds = ConcurrencyController.Bounds()

    var controller = ConcurrencyController()
    private(set) var now = Timestamp(microseconds: 1_700_000_000_000_000)
    private(set) var decisions: [HostDecision] = []
    /// One a second.
    private(set) var limits: [Int?] = []
    private(set) var throttledCount = 0
    private(set) var answeredCount = 0
    /// Part of an answer that is not whole yet.
    private var rest = 0.0

    init(capacity: Int, manner: Manner = .refusesExcess) {
        self.capacity = capacity
        self.manner = manner
    }

    mutating func run(seconds: Int) {
        for _ in 0..<seconds { second() }
    }

    private mutating func second() {
        let inFlight = min(controller.limit ?? demand, demand)
        let served = min(inFlight, capacity)
        rest += Double(served) / serviceSeconds
        let answered = Int(rest)
        rest -= Double(answered)
        let excess = manner == .refusesExcess ? max(0, inFlight - capacity) : 0
        let slowness = manner == .slowsDown ? max(1, Double(inFlight) / Double(max(1, capacity))) : 1
        var report = HostReport()
        report.answered = answered
        report.bytes = Int64(answered) * bytes
        report.seconds = Double(answered) * serviceSeconds * slowness
        for _ in 0..<excess { report.add(.throttled(status: 429, retryAfter: nil)) }
        now = now + 1
        throttledCount += excess
        answeredCount += answered
        let decision = controller.take(report, inFlight: inFlight - excess, bounds: bounds, now: now)
        if let decision { decisions.append(decision) }
        limits.append(controller.limit)
    }

    /// Trouble that has nothing to do with how much is in flight.
    mutating func trouble() {
        var report = HostReport()
        report.add(.throttled(status: 503, retryAfter: nil))
        let inFlight = min(controller.limit ?? demand, demand)
        if let one = controller.take(report, inFlight: inFlight, bounds: bounds, now: now) {
            decisions.append(one)
        }
    }

    /// The mean limit of the last so many seconds.
    func meanLimit(last seconds: Int) -> Double {
        let all = limits.suffix(seconds).map { Double($0 ?? demand) }
        return all.reduce(0, +) / Double(max(1, all.count))
    }
}
