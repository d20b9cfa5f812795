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
        /// For which the host was left alone, and how often.
        var paused = 0.0
        var pauseCount = 0

        /// As many as one after each pause that was asked for.
        var told: Double { paused > 0 ? Double(pauseCount) / paused : 0 }
    }
    struct Tally: Sendable, Equatable {
        var answered = 0
        var refused = 0

        var total: Int { answered + refused }
        var share: Double { total == 0 ? 0 : Double(refused) / Double(total) }
    }
    /// What several windows have seen, without the time for which the host was left alone.
    struct Record: Sendable, Equatable {
        var seen = Tally()
        var seconds = 0.0

        var answeredPerSecond: Double { seconds > 0 ? Double(seen.answered) / seconds : 0 }

        mutating func add(_ more: Tally, _ seconds: Double) {
            seen.answered += more.answered
            seen.refused += more.refused
            self.seconds += seconds
        }
    }
    /// Since it became slower, time after time.
    struct Fall: Sendable, Equatable {
        /// Before.
        let rate: Double
        /// What was seen until it was a third of that, and since.
        var until = Record()
        var since = Record()

        var share: Double {
            var all = until
            all.add(since.seen, since.seconds)
            return all.seen.share
        }
    }
    enum Change: Sendable, Equatable {
        case begun(seen: Tally)
        case slower(from: Double, seen: Tally)
        case faster(from: Double)
        /// A smaller one was of no use.
        case takenBack(from: Double)
        case gone(from: Double, because: End)
    }
    enum End: Sendable, Equatable {
        /// Nobody needed it for long.
        case unneeded
        /// As much is refused at any pace.
        case useless
        /// Less than the host itself asks for when it says how long to wait.
        case told
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
    var fall: Fall?
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
    /// Ends that say what was refused before a pace fell, and at a third of it.
    private static let knownCountMin = 16
    private static let judgedCountMin = 32
    /// The part of the share that was refused before that is still about the same, and of what was answered a
    /// second that is less.
    private static let sameness = 0.4
    private static let lessness = 0.75
    /// The part that is refused of what one at a time is too much for, and of what is many times too much.
    private static let refusedPart = 0.1
    private static let overdrivenPart = 0.5
    /// More than by chance, if half is refused at any pace: nobody waits for more of it.
    private static let hopelessPart = 0.7
    private static let pausedPart = 0.25
    /// Refusals below this part change nothing: the search for a higher pace makes some.
    private static let tolerance = 0.05
    /// Seconds after which a pace goes that nobody needed, and for which one that was of no use stays away.
    static let quietSeconds = 600.0

    init(rate: Double? = nil) { self.rate = rate.map(threeDigits) }

    /// The host is left alone for so many seconds.
    /// `isLonger`: than it was to be already.
    mutating func pause(seconds: Double, isLonger: Bool) {
        window?.paused += seconds
        if !isLonger { window?.pauseCount += 1 }
    }

    /// Takes what was seen since the last call. `limit`: attempts at once, nil: any number; `least`: what it
    /// can be lowered to; `meanSeconds`: of one attempt.
    mutating func take(
        _ report: HostReport, limit: Int?, least: Int, meanSeconds: Double, now: Timestamp
    ) -> Change? {
        guard report.answered > 0 || report.throttled > 0 || rate != nil else { return nil }
        // Of a time in which nobody said anything only the last second counts. Where one is given each ten
        // seconds nobody says anything in between.
        let silence = 3 + (window?.paused ?? 0) + (rate.map { 3 / $0 } ?? 0)
        let isAfterPause = lastReportAt.map { now - $0 > silence } ?? false
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
        let rate = seen.answered == 0 ? 1 : max(Double(seen.answered) / active, Self.rateMin)
        guard rate > open.told else { return nil }
        self = RequestPace(rate: rate)
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
        if let fall = judged(rate, seen, active) { return takeBack(from: rate, fall, now) }
        if seen.share > tolerance(of: seen.total, isPaused: open.paused > 0) {
            return isBeingJudged(rate) ? nil : slowDown(rate, open, active, now)
        }
        if let lastNeeded, now - lastNeeded > Self.quietSeconds {
            self = RequestPace()
            return .gone(from: rate, because: .unneeded)
        }
        guard isNeeded, seen.answered > 0, holdUntil.map({ now >= $0 }) ?? true else { return nil }
        self.rate = rate * (1 + step)
        if let fall, rate >= fall.rate { self.fall = nil }
        if let ceiling, rate > 1.25 * ceiling {
            self.ceiling = nil
            holdSeconds = Self.holdSecondsMin
        }
        step = min(Self.stepMax, 2 * step)
        return .faster(from: rate)
    }

    /// Takes what was seen in a window more. Returns the fall when it was of no use: a host that counts
    /// refuses less of a third, or answers as many a second as before.
    private mutating func judged(_ rate: Double, _ seen: Tally, _ active: Double) -> Fall? {
        guard var fall else { return nil }
        guard rate <= fall.rate / 3, fall.until.seen.total >= Self.knownCountMin else {
            fall.until.add(seen, active)
            self.fall = fall
            return nil
        }
        fall.since.add(seen, active)
        self.fall = fall
        let (until, since) = (fall.until, fall.since)
        guard since.seen.total >= Self.judgedCountMin, since.seen.answered > 0 else { return nil }
        // Much more is refused of a host that allows less than it did.
        let isAsOften =
            since.seen.share >= Self.sameness * until.seen.share
            && since.seen.share <= 2 * until.seen.share + Self.refusedPart
        let isUseless =
            isAsOften && since.answeredPerSecond < Self.lessness * until.answeredPerSecond
        self.fall = nil
        return isUseless ? fall : nil
    }

    /// Whether it is a third of what it was and nobody can tell yet if that is of use.
    private func isBeingJudged(_ rate: Double) -> Bool {
        guard let fall, rate <= fall.rate / 3 else { return false }
        return fall.since.seen.total < Self.judgedCountMin && fall.share < Self.hopelessPart
    }

    private mutating func slowDown(
        _ rate: Double, _ open: Window, _ active: Double, _ now: Timestamp
    ) -> Change? {
        let seen = open.seen
        let wanted = min(max(0.95 * Double(seen.answered) / active, rate / 2), 0.95 * rate)
        if wanted <= open.told {
            self = RequestPace()
            uselessUntil = now + Self.quietSeconds
            return .gone(from: rate, because: .told)
        }
        fall = fall ?? Fall(rate: rate, until: Record(seen: seen, seconds: active))
        if seen.answered == 0 { rateBeforeSilence = rateBeforeSilence ?? rate }
        if let ceiling, abs(ceiling - rate) <= rate / 4 {
            holdSeconds = min(2 * holdSeconds, Self.holdSecondsMax)
        } else {
            holdSeconds = Self.holdSecondsMin
        }
        ceiling = rate
        holdUntil = now + holdSeconds
        step = Self.stepMin
        self.rate = max(wanted, Self.rateMin)
        return self.rate == rate ? nil : .slower(from: rate, seen: seen)
    }

    /// What is refused is refused at any pace: that much is usual.
    private mutating func takeBack(from rate: Double, _ fall: Fall, _ now: Timestamp) -> Change {
        self = RequestPace()
        guard fall.share < Self.overdrivenPart else {
            uselessUntil = now + Self.quietSeconds
            return .gone(from: rate, because: .useless)
        }
        self.rate = fall.rate
        usualShare = fall.share
        window = Window(start: now)
        lastReportAt = now
        lastNeeded = now
        return .takenBack(from: rate)
    }

    /// The part of so many ends that may be refused: what is usual, as far as chance goes. A refusal that
    /// made a pause has cost more than a higher pace would bring, unless some are usual.
    private func tolerance(of count: Int, isPaused: Bool) -> Double {
        guard usualShare > 0 else { return isPaused ? 0 : Self.tolerance }
        let spread = (usualShare * (1 - usualShare) / Double(max(1, count))).squareRoot()
        return max(Self.tolerance, usualShare + 2 * spread)
    }
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
        case .gone(let before, let end):
            "Not held to \(perSecond(before)) transfers a second any more: \(end.words)."
        }
    }

    var rateBefore: Double? {
        switch self {
        case .begun: nil
        case .slower(let rate, _), .faster(let rate), .takenBack(let rate), .gone(let rate, _): rate
        }
    }
}

extension RequestPace.End {
    fileprivate var words: String {
        switch self {
        case .unneeded: "nobody has needed that for ten minutes"
        case .useless: "fewer were refused as often"
        case .told: "the pauses that it asks for allow more than what comes next"
        }
    }
}

private func perSecond(_ value: Double) -> String { decimalText(threeDigits(value)) }

/// Those that count.
private func threeDigits(_ value: Double) -> Double {
    let steps = value >= 100 ? 1.0 : value >= 10 ? 10 : 100
    return (value * steps).rounded() / steps
}
