import FerryCore
import FerryScheduler

/// A server behind a controller, under a clock of its own: so many requests at once are served, the rest is
/// refused or only makes all of them slower.
struct SimulatedHost {
    enum Manner { case refusesExcess, slowsDown }

    var capacity: Int
    var manner = Manner.refusesExcess
    var refusal = HostSignal.throttled(status: 429, retryAfter: nil)
    /// Of one transfer, while there is room.
    var serviceSeconds = 0.5
    var bytes: Int64 = 100_000
    /// What clients would have in flight without a limit.
    var demand = 200
    var bounds = ConcurrencyController.Bounds()
    /// The part of what it serves that ends in trouble, however much is in flight.
    var troubleShare = 0.0
    var trouble = HostSignal.lost
    /// Says which.
    private var dice = Seeded(7)

    var controller = ConcurrencyController()
    private(set) var now = Timestamp(microseconds: 1_700_000_000_000_000)
    private(set) var decisions: [HostDecision] = []
    /// One a second.
    private(set) var limits: [Int?] = []
    private(set) var throttledCount = 0
    private(set) var answeredCount = 0
    /// Parts of answers that are not whole yet.
    private var rest = 0.0
    private var refusalRest = 0.0
    /// What nobody has been told yet.
    private var report = HostReport()
    private static let stepCount = 20

    init(capacity: Int, manner: Manner = .refusesExcess) {
        self.capacity = capacity
        self.manner = manner
    }

    mutating func run(seconds: Int) {
        for _ in 0..<seconds { second() }
    }

    /// As nodes tell it: what asks to slow down at once, the rest each second.
    private mutating func second() {
        for step in 1...Self.stepCount {
            now = now + 1 / Double(Self.stepCount)
            let inFlight = min(controller.limit ?? demand, demand)
            serve(inFlight)
            guard report.throttled > 0 || step == Self.stepCount else { continue }
            let excess = manner == .refusesExcess ? max(0, inFlight - capacity) : 0
            let decision = controller.take(report, inFlight: inFlight - excess, bounds: bounds, now: now)
            if let decision { decisions.append(decision) }
            report = HostReport()
        }
        limits.append(controller.limit)
    }

    /// A step's part of a second.
    private mutating func serve(_ inFlight: Int) {
        let part = 1 / Double(Self.stepCount)
        rest += Double(min(inFlight, capacity)) / serviceSeconds * part
        let served = Int(rest)
        rest -= Double(served)
        if manner == .refusesExcess { refusalRest += Double(max(0, inFlight - capacity)) * part }
        let refused = Int(refusalRest)
        refusalRest -= Double(refused)
        let slowness = manner == .slowsDown ? max(1, Double(inFlight) / Double(max(1, capacity))) : 1
        let failed = (0..<served).count { _ in Double.random(in: 0..<1, using: &dice) < troubleShare }
        for _ in 0..<failed { report.add(trouble) }
        for _ in 0..<refused { report.add(refusal) }
        report.answered += served - failed
        report.bytes += Int64(served - failed) * bytes
        report.seconds += Double(served - failed) * serviceSeconds * slowness
        throttledCount += refused
        answeredCount += served
    }

    /// Trouble that has nothing to do with how much is in flight.
    mutating func refuseOne() {
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
