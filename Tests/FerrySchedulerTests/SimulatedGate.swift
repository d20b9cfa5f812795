import FerryCore
import FerryScheduler

/// A host that counts requests, behind a condition and a clock of its own: so many a second are answered, the
/// rest is refused at once. More always wait than may begin.
struct SimulatedGate {
    /// Requests a second.
    var rate: Double
    /// As many at once after a pause.
    var burst = 1.0
    /// Counted anew each so many seconds instead, and all that is left may come at once.
    var period: Double?
    var refusal = HostSignal.throttled(status: 429, retryAfter: nil)
    /// Of an answer, in seconds.
    var latency = 0.005
    /// The part that is refused whatever is asked.
    var troubleShare = 0.0
    /// What clients would have in flight without a limit.
    var demand = 64

    var host = HostCondition()
    private(set) var now = Timestamp(microseconds: 1_700_000_000_000_000)
    private(set) var decisions: [HostDecision] = []
    /// One a second.
    private(set) var answered: [Int] = []
    private(set) var refused: [Int] = []
    private var ends: [(at: Timestamp, signal: HostSignal)] = []
    private var hostTokens = 1.0
    private var periodEnd: Timestamp?
    private var paceTokens = 0.0
    private var report = HostReport()
    private var isKnown = false
    private var dice: Seeded
    private static let step = 0.002

    init(rate: Double, seed: UInt64 = 11) {
        self.rate = rate
        dice = Seeded(seed)
    }

    mutating func run(seconds: Int) {
        for _ in 0..<seconds {
            answered.append(0)
            refused.append(0)
            for _ in 0..<Int(1 / Self.step) { tick() }
            tell()
        }
    }

    private mutating func tick() {
        now = now + Self.step
        if let period {
            if periodEnd.map({ $0 <= now }) ?? true {
                hostTokens = rate * period
                periodEnd = now + period
            }
        } else {
            hostTokens = min(max(1, burst), hostTokens + rate * Self.step)
        }
        end()
        _ = host.errands(at: now)
        begin()
    }

    private mutating func end() {
        var isUrgent = false
        for end in ends where end.at <= now {
            report.add(end.signal)
            if case .answered = end.signal {
                report.seconds += latency
                answered[answered.count - 1] += 1
            } else {
                refused[refused.count - 1] += 1
                isUrgent = isUrgent || !isKnown || report.asksForPause || report.retryAfter != nil
            }
        }
        ends.removeAll { $0.at <= now }
        if isUrgent { tell() }
    }

    private mutating func begin() {
        if let until = host.blockedUntil, until > now { return }
        var count = min(host.connectionLimit ?? demand, demand) - ends.count
        if let limit = host.requestRateLimit {
            paceTokens = min(max(1.5, limit * 0.02), paceTokens + limit * Self.step)
            count = min(count, Int(paceTokens))
            paceTokens -= Double(max(0, count))
        }
        guard count > 0 else { return }
        for _ in 0..<count {
            let isTrouble = Double.random(in: 0..<1, using: &dice) < troubleShare
            if hostTokens >= 1, !isTrouble {
                hostTokens -= 1
                ends.append((now + latency, .answered))
            } else {
                ends.append((now + Self.step, refusal))
            }
        }
    }

    private mutating func tell() {
        guard !report.isEmpty else { return }
        isKnown = true
        decisions += host.take(report, inFlight: ends.count, now: now, jitter: 0.5)
        report = HostReport()
    }

    /// Of the last so many seconds.
    func answeredPerSecond(last seconds: Int) -> Double {
        Double(answered.suffix(seconds).reduce(0, +)) / Double(seconds)
    }

    func refusedPart(last seconds: Int) -> Double {
        let bad = Double(refused.suffix(seconds).reduce(0, +))
        return bad / max(1, bad + Double(answered.suffix(seconds).reduce(0, +)))
    }
}
