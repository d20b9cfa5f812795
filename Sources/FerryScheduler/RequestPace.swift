import FerryCore

/// How many transfers one host is given a second, for hosts that count requests: where even one at a time is
/// more than they allow, a limit of what is in flight says nothing (docs/decisions/0027).
///
/// A host that refuses most of what it gets answers as many a second as it allows. That many it is given:
/// first about what was answered, then twice as many each time until it refuses again, from there a
/// sixteenth more now and then. A pace that is of no use, because a smaller one is refused as often, goes.
struct RequestPace: Sendable, Equatable {
    struct Window: Sendable, Equatable {
        var start: Timestamp
        var seen = Tally()
        /// Of the answered ones, together.
        var seconds = 0.0
        /// For which the host was left alone.
        var paused = 0.0
    }
    struct Tally: Sendable, Equatable {
        var answered = 0
        var refused = 0

        var total: Int { answered + refused }
        var share: Double { total == 0 ? 0 : Double(refused) / Double(total) }
    }
    /// How much was refused at a pace.
    struct Level: Sendable, Equatable {
        let rate: Double
        let share: Double
        let answeredPerSecond: Double
    }
    enum Change: Sendable, Equatable {
        case begun(seen: Tally)
        case slower(from: Double, seen: Tally)
        case faster(from: Double)
        /// A smaller one was of no use.
        case takenBack(from: Double)
        /// Nobody needed it for long, or it was of no use.
        case gone(from: Double, isUseless: Bool)
    }

    /// Transfers a second; nil: no pace.
    private(set) var rate: Double? { didSet { rate = rate.map(threeDigits) } }
    var window: Window?
    var lastReportAt: Timestamp?
    /// The part by which it grows next.
    var step = 1.0
    var holdUntil: Timestamp?
    var holdSeconds = Self.holdSecondsMin
    /// Where it was refused last.
    var ceiling: Double?
    /// Before it became slower, time after time, and what was seen since it is a third of that.
    var before: Level?
    var after = Tally()
    /// The part that is refused at any pace.
    var usualShare = 0.0
    /// The pace before a time in which nothing was answered at all.
    var rateBeforeSilence: Double?
    /// When there was as much to do as it allows.
    var lastNeeded: Timestamp?
    /// It was of no use: no other one until then.
    var uselessUntil: Timestamp?

    /// Of a host that answers nothing: it is found out within seconds when it does again.
    static let rateMin = 0.1
    static let holdSecondsMin = 5.0
    static let holdSecondsMax = 30.0
    /// The smallest step, and the largest.
    static let stepMin = 1.0 / 16
    static let stepMax = 1.0
    /// Seconds of a window, and ends that it should see.
    private static let windowSeconds = (least: 1.0, most: 60.0)
    private static let windowCount = 8.0
    private static let refusedCountMin = 3
    private static let drivenCountMin = 16
    /// Ends that say something about a third of a pace, and the part of what was refused before that is still
    /// about the same.
    private static let judgedCountMin = 32
    private static let sameness = 0.6
    private static let lessness = 0.5
    /// The part that is refused of what one at a time is too much for, and of what is many times too much.
    private static let refusedPart = 0.1
    private static let overdrivenPart = 0.5
    private static let pausedPart = 0.25
    /// Refusals below this part change nothing: the search for a higher pace makes some.
    private static let tolerance = 0.05
    /// Seconds after which a pace goes that nobody needed, and for which one that was of no use stays away.
    static let quietSeconds = 600.0

    init(rate: Double? = nil) { self.rate = rate.map(threeDigits) }

    /// The host is left alone for so many seconds.
    mutating func pause(seconds: Double) { window?.paused += seconds }

    /// Takes what was seen since the last call. `limit`: attempts at once, nil: any number; `least`: what it
    /// can be lowered to; `meanSeconds`: of one attempt.
    mutating func take(
        _ report: HostReport, limit: Int?, least: Int, meanSeconds: Double, now: Timestamp
    ) -> Change? {
        guard report.answered > 0 || report.throttled > 0 || rate != nil else { return nil }
        // Of a time in which nobody said anything only the last second counts.
        let isAfterPause = lastReportAt.map { now - $0 > 3 + (window?.paused ?? 0) } ?? false
        lastReportAt = now
        guard var open = window else {
            // Nobody knows since when.
            window = Window(start: now)
            return nil
        }
        if isAfterPause { open = Window(start: now + -1) }
        open.seen.answered += report.answered
        open.seen.refused += report.throttled
        open.seconds += report.seconds
        window = open
        let elapsed = now - open.start
        if report.answered > 0, let rate, let rateBeforeSilence {
            return speak(rate, rateBeforeSilence, now)
        }
        guard elapsed >= windowSeconds(meanSeconds) else { return nil }
        guard let rate else { return begin(open, elapsed, limit, least, now) }
        return adapt(rate, open, max(elapsed - open.paused, 0.1), now)
    }

    private func windowSeconds(_ meanSeconds: Double) -> Double {
        let wanted = rate.map { (ceiling == nil ? 4 : Self.windowCount) / $0 } ?? 2 * meanSeconds
        return min(max(Self.windowSeconds.least, wanted), Self.windowSeconds.most)
    }

    private mutating func begin(
        _ open: Window, _ elapsed: Double, _ limit: Int?, _ least: Int, _ now: Timestamp
    ) -> Change? {
        let seen = open.seen
        guard seen.refused >= Self.refusedCountMin || elapsed > Self.windowSeconds.most else { return nil }
        window = Window(start: now)
        let active = max(elapsed - open.paused, 0.1)
        guard uselessUntil.map({ now >= $0 }) ?? true, let limit, seen.refused >= Self.refusedCountMin,
            isTooMuch(open, active, limit, least)
        else { return nil }
        self = RequestPace(rate: seen.answered == 0 ? 1 : max(Double(seen.answered) / active, Self.rateMin))
        window = Window(start: now)
        lastReportAt = now
        lastNeeded = now
        return .begun(seen: seen)
    }

    /// Whether it is refused what no limit of what is in flight would prevent, or not soon.
    private func isTooMuch(_ open: Window, _ active: Double, _ limit: Int, _ least: Int) -> Bool {
        let seen = open.seen
        // It is away, and says for how long.
        if open.paused > 0, seen.answered == 0 { return false }
        // Pauses for single refusals take more than a lower pace would.
        if open.paused >= Self.pausedPart * (active + open.paused) { return true }
        if limit <= least { return seen.share >= Self.refusedPart }
        return seen.total >= Self.drivenCountMin && seen.share >= Self.overdrivenPart
            && open.seconds / active < max(1, Double(limit) / 4)
    }

    /// It answers again.
    private mutating func speak(_ rate: Double, _ rateBeforeSilence: Double, _ now: Timestamp) -> Change? {
        self = RequestPace(rate: max(rate, rateBeforeSilence / 2))
        window = Window(start: now)
        lastReportAt = now
        lastNeeded = now
        return self.rate == rate ? nil : .faster(from: rate)
    }

    private mutating func adapt(
        _ rate: Double, _ open: Window, _ active: Double, _ now: Timestamp
    ) -> Change? {
        window = Window(start: now)
        let seen = open.seen
        let isNeeded = Double(seen.total) >= 0.7 * rate * active
        if isNeeded { lastNeeded = now }
        if let before, rate <= before.rate / 3 {
            after.answered += seen.answered
            after.refused += seen.refused
            if after.total >= Self.judgedCountMin, after.answered > 0 {
                if after.share < Self.sameness * before.share {
                    self.before = nil
                    after = Tally()
                } else if Double(seen.answered) / active < Self.lessness * before.answeredPerSecond {
                    // A third of the pace is refused as often, and answered less: it is not about the pace.
                    return takeBack(from: rate, before, now)
                }
            }
        }
        // A refusal that made a pause has cost more than a higher pace would bring.
        if seen.share > (open.paused > 0 ? 0 : tolerance) { return slowDown(rate, seen, active, now) }
        if let lastNeeded, now - lastNeeded > Self.quietSeconds {
            self = RequestPace()
            return .gone(from: rate, isUseless: false)
        }
        guard isNeeded, seen.answered > 0, holdUntil.map({ now >= $0 }) ?? true else { return nil }
        self.rate = rate * (1 + step)
        if let before, rate >= before.rate { self.before = nil }
        if let ceiling, rate > 1.25 * ceiling {
            self.ceiling = nil
            holdSeconds = Self.holdSecondsMin
        }
        step = min(Self.stepMax, 2 * step)
        return .faster(from: rate)
    }

    private mutating func slowDown(
        _ rate: Double, _ seen: Tally, _ active: Double, _ now: Timestamp
    ) -> Change? {
        let level = Level(
            rate: rate, share: seen.share, answeredPerSecond: Double(seen.answered) / active)
        before = before ?? level
        if seen.answered == 0 { rateBeforeSilence = rateBeforeSilence ?? rate }
        if let ceiling, abs(ceiling - rate) <= rate / 4 {
            holdSeconds = min(2 * holdSeconds, Self.holdSecondsMax)
        } else {
            holdSeconds = Self.holdSecondsMin
        }
        ceiling = rate
        holdUntil = now + holdSeconds
        step = Self.stepMin
        let wanted = min(max(0.95 * level.answeredPerSecond, rate / 2), 0.95 * rate)
        self.rate = max(wanted, Self.rateMin)
        return self.rate == rate ? nil : .slower(from: rate, seen: seen)
    }

    /// What is refused is refused at any pace: that much is usual.
    private mutating func takeBack(from rate: Double, _ before: Level, _ now: Timestamp) -> Change {
        let share = after.share
        self = RequestPace()
        guard share < Self.overdrivenPart else {
            uselessUntil = now + Self.quietSeconds
            return .gone(from: rate, isUseless: true)
        }
        self.rate = before.rate
        usualShare = share
        window = Window(start: now)
        lastReportAt = now
        lastNeeded = now
        return .takenBack(from: rate)
    }

    private var tolerance: Double { max(Self.tolerance, min(2 * usualShare, (1 + usualShare) / 2)) }
}

extension RequestPace.Change {
    /// `rate`: the pace by now.
    func sentence(_ rate: Double?) -> String {
        let now = rate.map(perSecond) ?? "0"
        return switch self {
        case .begun(let seen):
            "Given \(now) transfers a second: \(seen.refused) of \(seen.total) answers asked to slow down."
        case .slower(let before, let seen):
            "Given \(now) instead of \(perSecond(before)) transfers a second: \(seen.refused) of "
                + "\(seen.total) answers asked to slow down."
        case .faster(let before):
            "Given \(now) instead of \(perSecond(before)) transfers a second: more may be allowed."
        case .takenBack(let before):
            "Given \(now) instead of \(perSecond(before)) transfers a second: fewer were refused as often."
        case .gone(let before, let isUseless):
            "Not held to \(perSecond(before)) transfers a second any more: "
                + (isUseless ? "fewer were refused as often." : "nobody has needed that for ten minutes.")
        }
    }

    var rateBefore: Double? {
        switch self {
        case .begun: nil
        case .slower(let rate, _), .faster(let rate), .takenBack(let rate), .gone(let rate, _): rate
        }
    }
}

private func perSecond(_ value: Double) -> String { decimalText(threeDigits(value)) }

/// Those that count.
private func threeDigits(_ value: Double) -> Double {
    let steps = value >= 100 ? 1.0 : value >= 10 ? 10 : 100
    return (value * steps).rounded() / steps
}
