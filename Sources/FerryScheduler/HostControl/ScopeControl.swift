import FerryCore

/// Decides how much the requests of one scope get: a window and a bucket that follow what the host has shown,
/// a hold, and a limit while the host is silent.
struct ScopeControl: Sendable, Equatable {
    /// Nil: no limit. There is a bucket if and only if there is a window, but for slow start after a hold.
    var window: AIMDWindow?
    var bucket: TokenBucket?
    var hold: Hold?
    var silence: Silence?
    private var slowStart: SlowStart?
    private var baseline: Baseline?
    private(set) var usual = 0.0
    /// What was decreased last, and what the host is known to limit; nil: not known.
    private var decreased: Part?
    private var limited: Part?
    /// How long a level is held, and when it may increase.
    private var holdSeconds = Self.levelHoldMin
    private var increaseAt: Timestamp?
    /// Ends before it are of what began before the last decrease.
    private(set) var settledAt: Timestamp?
    private var lastNeededAt: Timestamp?
    private(set) var lastFailedAt: Timestamp?
    /// Since the last look at the level.
    private var start: Timestamp?
    private var seen = Tally()
    private var inFlightMin: Int?
    private var inFlightMax = 0

    /// Seconds for which a level is held after a decrease.
    private static let levelHoldMin = 10.0
    private static let levelHoldMax = 60.0
    /// Seconds after which a limit goes that was not needed.
    static let unneededSeconds = 600.0
    private static let secondsMax = 60.0
    /// Failures that have to be expected after a decrease before it is judged, and the part of the odds
    /// before that is about the same. Several times as much is something else.
    private static let judgedCount = 10.0
    private static let sameness = 0.5...3.0
    /// The rate beside a window that is what the host limits, in answers a second.
    private static let slack = 1.25
    /// The part of what was in flight that begins after a hold.
    private static let slowStartPart = 8

    var isLimited: Bool { window != nil || bucket != nil }
    var isUnanswered: Bool { slowStart?.isUnanswered ?? false }
    var tolerance: FailureTolerance { FailureTolerance(usual: usual) }
    /// Seconds for which evidence of the scope is kept while it is too little.
    var evidenceSeconds: Double { max(EvidenceWindow.secondsMax, 4 / (bucket?.rate ?? 1)) }

    /// Seconds of the evidence before a decision is made of it, if there is a level already.
    var secondsWanted: Double? {
        bucket.map { min(max(EvidenceWindow.secondsMin, 8 / $0.rate), EvidenceWindow.secondsMax) }
    }

    /// Attempts at once; nil: no limit.
    var connectionLimit: Int? { [window?.size, silence?.limit].compactMap(\.self).min() }

    /// Whether nothing has to be remembered of it.
    func isForgettable(at now: Timestamp) -> Bool {
        !isLimited && baseline == nil && hold.map { $0.until ?? now <= now } ?? true && silence == nil
            && lastFailedAt.map { now - $0 > Self.unneededSeconds } ?? true
    }

    /// Whether more is in flight than its limit, so that the next look may find a higher one.
    func isAbove(_ inFlight: Int) -> Bool { window.map { inFlight > $0.size } ?? false }

    // MARK: Measuring

    mutating func note(_ report: ScopeReport, inFlight: Int, seconds: Double, now: Timestamp) {
        guard isLimited || baseline != nil else { return }
        if let settledAt, now <= settledAt {
            restart(at: now, inFlight)
            return
        }
        if start == nil { restart(at: now, inFlight) }
        seen.add(report)
        seen.inFlightSeconds += Double(inFlight) * seconds
        inFlightMin = min(inFlightMin ?? inFlight, inFlight)
        inFlightMax = max(inFlightMax, inFlight)
        baseline?.after.add(report)
    }

    private mutating func restart(at now: Timestamp, _ inFlight: Int) {
        start = now
        seen = Tally()
        inFlightMin = inFlight
        inFlightMax = inFlight
    }

    // MARK: Decisions

    enum Change: Equatable {
        /// Set to what was shown, or to less because nothing was answered.
        case decreased(Tally)
        case increased(isSlowStart: Bool)
        /// Back to what it was: less was of no use. `share`: of failures, which is usual from now on.
        case restored(share: Double?)
        case unneeded
        case recovered
        /// Only a part of the scope fails.
        case narrowed
    }

    /// Decides with the evidence of more failures than usual, or with nil: there are none.
    mutating func decide(
        _ failing: Evidence?, meanSeconds: Double, inFlight: Int, least: Int, now: Timestamp
    ) -> Change? {
        if failing != nil { lastFailedAt = now }
        let compared = baseline
        if let baseline, let change = judge(baseline, failing, meanSeconds, inFlight, least, now) {
            return change
        }
        // Until it is known whether the last decrease has helped none follows.
        guard baseline == nil || failing == nil else { return nil }
        if let failing { return decrease(failing, since: compared, meanSeconds, least, now) }
        return look(meanSeconds, inFlight, now)
    }

    /// `since`: what was before the last decrease, if that was a moment ago.
    private mutating func decrease(
        _ shown: Evidence, since last: Baseline?, _ meanSeconds: Double, _ least: Int, _ now: Timestamp
    ) -> Change? {
        let before = (window: window, rate: bucket?.rate)
        // What was asked without a limit.
        let peak = max(shown.inFlight, Int(shown.answeredWithOverhead.rounded(.up)), least)
        let hadIncreased = window?.hasIncreased ?? false || bucket?.hasIncreased ?? false
        if shown.answeredPerSecond == 0 {
            if var bucket, isUnanswered {
                bucket.halve()
                self.bucket = bucket
            } else {
                slowStart = slowStart ?? slowStart(to: last, peak: peak)
                slowStart?.isUnanswered = true
                bucket = TokenBucket(rate: min(before.rate ?? .infinity, TokenBucket.unansweredRate))
            }
            window = AIMDWindow(size: least)
            baseline = nil
        } else {
            let isFirst = bucket == nil
            let wasStarting = slowStart != nil
            slowStart = nil
            var narrower = window ?? AIMDWindow(size: peak)
            if isFirst {
                // A host that counts requests has sometimes more in flight than the mean.
                let mean = shown.answeredWithOverhead
                narrower.decrease(to: mean + mean.squareRoot() / 2, least: least)
                (window, bucket) = (narrower, TokenBucket(rate: shown.answeredPerSecond))
            } else if hadIncreased {
                window?.revert(to: shown.answeredInFlight, least: least)
                bucket?.revert(to: shown.answeredPerSecond)
            } else {
                // The rate and the window in turn, until it is known which of them the host limits.
                narrower.decrease(to: shown.answeredInFlight, least: least)
                let isOfWindow = narrower.size < window?.size ?? 0 && (limited ?? decreased?.other) == .window
                decreased = isOfWindow ? .window : .rate
                if isOfWindow {
                    (window, bucket) = (narrower, TokenBucket(rate: shown.answeredPerSecond * Self.slack))
                } else {
                    bucket?.decrease(to: shown.answeredPerSecond)
                }
            }
            if hadIncreased {
                holdSeconds = min(2 * holdSeconds, Self.levelHoldMax)
            } else {
                holdSeconds = Self.levelHoldMin
                baseline =
                    wasStarting
                    ? nil
                    : Baseline(
                        share: shown.share, odds: shown.failedPerSecond / shown.answeredPerSecond,
                        window: before.window?.size ?? peak,
                        rate: before.rate ?? shown.answeredPerSecond + shown.failedPerSecond,
                        part: isFirst ? nil : decreased)
            }
        }
        hold(meanSeconds, shown.inFlight, now)
        return window?.size == before.window?.size && bucket?.rate == before.rate
            ? nil : .decreased(shown.tally)
    }

    /// Holds the level that it has decreased to.
    private mutating func hold(_ meanSeconds: Double, _ inFlight: Int, _ now: Timestamp) {
        lastNeededAt = now
        increaseAt = now + holdSeconds
        settledAt = now + min(max(EvidenceWindow.secondsMin, 2 * meanSeconds), EvidenceWindow.secondsMax)
        restart(at: now, inFlight)
    }

    /// Compares what has failed since a decrease with what failed before. Nil: it has helped, or it is too
    /// early.
    private mutating func judge(
        _ before: Baseline, _ failing: Evidence?, _ meanSeconds: Double, _ inFlight: Int, _ least: Int,
        _ now: Timestamp
    ) -> Change? {
        let seconds = settledAt.map { now - $0 } ?? 0
        let expected = before.share * Double(before.after.count)
        guard expected >= Self.judgedCount, seconds >= EvidenceWindow.secondsMin else { return nil }
        let odds = before.after.odds / before.odds
        if odds < Self.sameness.lowerBound {
            baseline = nil
            if before.part == .window { limited = .window }
            return nil
        }
        if odds > Self.sameness.upperBound, before.part != .window {
            // Something else has happened.
            baseline = nil
            return nil
        }
        if before.part == .rate, var narrower = window {
            // The host may count what is in flight.
            narrower.decrease(to: before.after.answeredSeconds / seconds, least: least)
            if narrower.size < before.window {
                (window, bucket) = (narrower, TokenBucket(rate: before.rate))
                decreased = .window
                var next = before
                (next.part, next.isSecond, next.after) = (.window, true, Tally())
                baseline = next
                hold(meanSeconds, inFlight, now)
                return .decreased(before.after)
            }
        }
        baseline = nil
        let isUsual = odds <= Self.sameness.upperBound && (before.part != .window || before.isSecond)
        if isUsual { usual = before.after.share } else { limited = .rate }
        window = AIMDWindow(size: max(before.window, window?.size ?? 1))
        bucket = TokenBucket(rate: isUsual ? max(before.rate, bucket?.rate ?? 0) : before.rate)
        holdSeconds = Self.levelHoldMin
        hold(meanSeconds, inFlight, now)
        return .restored(share: isUsual ? usual : nil)
    }

    /// Looks at the level once a window: increases it if the host was well and the level was used.
    private mutating func look(_ meanSeconds: Double, _ inFlight: Int, _ now: Timestamp) -> Change? {
        guard isLimited, let start else { return nil }
        let elapsed = now - start
        // Attempts that go on while others failed are well: the host serves so many.
        if elapsed >= EvidenceWindow.secondsMin, seen.failed == 0, let inFlightMin,
            inFlightMin > window?.size ?? .max
        {
            window?.include(inFlightMin)
            bucket?.include(Double(inFlightMin) / max(meanSeconds, 1))
            slowStart = nil
            increaseAt = now + holdSeconds
        }
        let wanted = slowStart == nil ? max(2 * meanSeconds, 4 / (bucket?.rate ?? 4)) : meanSeconds
        guard elapsed >= min(max(EvidenceWindow.secondsMin, wanted), Self.secondsMax) else { return nil }
        let (seen, inFlightMax) = (seen, inFlightMax)
        restart(at: now, inFlight)
        let answeredPerSecond = Double(seen.answered) / elapsed
        // One answer more or less is chance.
        bucket?.include(Double(seen.answered - 1) / elapsed)
        let isWindowUsed = window?.isUsed(by: inFlightMax) ?? false
        let isRateUsed = bucket?.isUsed(by: seen.count, seconds: elapsed) ?? false
        if isWindowUsed || isRateUsed { lastNeededAt = now }
        if let lastNeededAt, now - lastNeededAt > Self.unneededSeconds {
            lift()
            return .unneeded
        }
        if usual > 0, usual * Double(seen.count) >= Self.judgedCount, seen.share < usual / 2 {
            usual = seen.share
        }
        guard seen.answered > 0 else { return nil }
        if slowStart != nil { return continueSlowStart(now) }
        guard seen.failed == 0 || seen.share <= tolerance.share else { return nil }
        guard isWindowUsed || isRateUsed, increaseAt.map({ $0 <= now }) ?? true else { return nil }
        decreased = nil
        if isRateUsed {
            bucket?.increase()
        } else if let part = window?.increase() {
            bucket?.follow(answeredPerSecond, by: part)
        }
        return .increased(isSlowStart: false)
    }

    // MARK: Slow start

    /// Returns slow start up to the level before the last decrease if that was a moment ago, else to the
    /// level of now.
    private func slowStart(to last: Baseline?, peak: Int) -> SlowStart {
        if let last {
            return SlowStart(window: last.window, rate: last.rate, isLimitedAfter: last.part != nil)
        }
        return SlowStart(window: window?.size ?? peak, rate: bucket?.rate, isLimitedAfter: window != nil)
    }

    /// Begins slow start after a hold, or goes on with it.
    mutating func beginSlowStart(inFlight: Int, least: Int, now: Timestamp) {
        let start = slowStart ?? slowStart(to: baseline, peak: max(inFlight, least))
        slowStart = start
        window = AIMDWindow(size: max(least, start.window / Self.slowStartPart))
        if let rate = bucket?.rate {
            bucket = TokenBucket(
                rate: max(min(rate, TokenBucket.unansweredRate), rate / Double(Self.slowStartPart)))
        }
        baseline = nil
        lastNeededAt = now
        restart(at: now, inFlight)
    }

    private mutating func continueSlowStart(_ now: Timestamp) -> Change? {
        guard var start = slowStart else { return nil }
        start.isUnanswered = false
        window = window.map { AIMDWindow(size: 2 * $0.size) }
        bucket = bucket.map { TokenBucket(rate: max(2 * $0.rate, TokenBucket.unansweredRate)) }
        if let window, window.size >= start.window, start.rate.map({ $0 <= bucket?.rate ?? $0 }) ?? true {
            slowStart = nil
            guard start.isLimitedAfter else {
                lift()
                return .recovered
            }
            self.window = AIMDWindow(size: start.window)
            bucket = start.rate.map { TokenBucket(rate: $0) }
            increaseAt = now + holdSeconds
            return .increased(isSlowStart: true)
        }
        if let window { self.window = AIMDWindow(size: min(window.size, start.window)) }
        if let rate = start.rate, let bucket, bucket.rate > rate { self.bucket = TokenBucket(rate: rate) }
        slowStart = start
        return .increased(isSlowStart: true)
    }

    /// Removes the window and the bucket. What is usual is remembered.
    mutating func lift() {
        window = nil
        bucket = nil
        slowStart = nil
        baseline = nil
        start = nil
        settledAt = nil
        holdSeconds = Self.levelHoldMin
        decreased = nil
        limited = nil
    }
}

extension ScopeControl: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("window", &window)
        coder.value("bucket", &bucket)
        coder.value("hold", &hold)
        coder.value("silence", &silence)
        coder.value("slow_start", &slowStart)
        coder.value("baseline", &baseline)
        coder.value("usual", &usual)
        coder.value("decreased", &decreased)
        coder.value("limited", &limited)
        coder.value("hold_seconds", &holdSeconds, unless: Self.levelHoldMin)
        coder.value("increase_at", &increaseAt)
        coder.value("settled_at", &settledAt)
        coder.value("needed", &lastNeededAt)
        coder.value("failed", &lastFailedAt)
        coder.value("start", &start)
        coder.value("seen", &seen)
        coder.value("in_flight_min", &inFlightMin)
        coder.value("in_flight_max", &inFlightMax)
    }
}
