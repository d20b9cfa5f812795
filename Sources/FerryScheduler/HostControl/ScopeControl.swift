import FerryCore

/// Decides how much the requests of one scope get: a window and a bucket that follow what the host has shown,
/// a hold, and a limit while the host is silent.
struct ScopeControl: Codable, Sendable, Equatable {
    /// Nil: no limit. There is a bucket if and only if there is a window, but for slow start after a hold.
    private(set) var window: AIMDWindow?
    private(set) var bucket: TokenBucket?
    var hold: Hold?
    var silence: Silence?
    private var slowStart: SlowStart?
    private var baseline: Baseline?
    /// The share of failures that fewer requests do not make smaller.
    private(set) var usual = 0.0
    /// What was decreased last, and what the host is known to limit; nil: not known.
    private var decreased: Part?
    private var limited: Part?
    /// How long a level is held, and when it may increase.
    private var holdSeconds = Self.holdSecondsMin
    private var increaseAt: Timestamp?
    /// Ends before it are of what began before the last decrease.
    private(set) var settledAt: Timestamp?
    private var lastNeededAt: Timestamp?
    private var lastFailedAt: Timestamp?
    /// Since the last look at the level.
    private var start: Timestamp?
    private var seen = ScopeReport()
    private var inFlightMin = 0
    private var inFlightMax = 0

    /// Nothing begins until then. `status`: of the responses that asked for it; nil: an operator did.
    struct Hold: Codable, Sendable, Equatable {
        let until: Timestamp
        let status: Int?
    }

    /// The limit of a host that takes requests and answers none (docs/decisions/0028).
    struct Silence: Codable, Sendable, Equatable {
        let limit: Int
        /// When one more may find out whether only some requests take long.
        let moreAt: Timestamp

        static let limitMin = 4
        /// Seconds without an answer, and attempts that say so.
        static let seconds = 5.0
        static let countMin = 3
        static let moreSeconds = 15.0
    }

    /// The level that slow start doubles up to.
    struct SlowStart: Codable, Sendable, Equatable {
        let window: Int
        /// Nil: there was no rate.
        let rate: Double?
        /// Whether there was a limit before. Without one none remains.
        let isLimitedAfter: Bool
        /// Nothing is answered yet.
        var isUnanswered = false
    }

    /// The part of a level.
    enum Part: String, Codable { case window, rate }

    /// What was seen before a decrease, and the level then, to compare: failures that fewer requests do not
    /// make rarer are usual (docs/decisions/0026).
    struct Baseline: Codable, Sendable, Equatable {
        let share: Double
        let window: Int
        let rate: Double
        /// What was decreased; nil: both.
        var part: Part?
        /// The rate was decreased before, and that did not help.
        var isSecond = false
        /// Since the decrease.
        var after = ScopeReport()
    }

    /// Seconds for which a level is held after a decrease.
    private static let holdSecondsMin = 10.0
    private static let holdSecondsMax = 60.0
    /// Seconds after which a limit goes that was not needed.
    private static let unneededSeconds = 600.0
    /// Seconds between two looks at most.
    private static let lookSecondsMax = 60.0
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
    private var hasIncreased: Bool { window?.hasIncreased ?? false || bucket?.hasIncreased ?? false }

    /// Attempts at once; nil: no limit.
    var connectionLimit: Int? { [window?.size, silence?.limit].compactMap(\.self).min() }

    /// Whether something is limited or held.
    var isInEffect: Bool { isLimited || hold != nil || silence != nil }

    /// Whether nothing has to be remembered of it.
    func isForgettable(at now: Timestamp) -> Bool {
        !isLimited && hold.map { $0.until <= now } ?? true && silence == nil
            && lastFailedAt.map { now - $0 > Self.unneededSeconds } ?? true
    }

    /// Seconds of the evidence before a decision is made of it.
    func secondsWanted(_ evidence: Evidence) -> Double {
        guard let bucket else { return evidence.secondsWanted }
        return min(max(EvidenceWindow.secondsMin, 8 / bucket.rate), EvidenceWindow.secondsMax)
    }

    // MARK: Measuring

    /// Takes what was seen of the scope since the last time.
    mutating func note(_ report: ScopeReport, inFlight: Int, now: Timestamp) {
        guard isLimited else { return }
        if start == nil || settledAt.map({ now <= $0 }) ?? false { restart(inFlight, now) }
        if let settledAt, now <= settledAt { return }
        seen.add(report)
        baseline?.after.add(report)
        inFlightMin = min(inFlightMin, inFlight)
        inFlightMax = max(inFlightMax, inFlight)
    }

    private mutating func restart(_ inFlight: Int, _ now: Timestamp) {
        (start, seen, inFlightMin, inFlightMax) = (now, ScopeReport(), inFlight, inFlight)
    }

    // MARK: Decisions

    /// What a decision does to the level.
    enum Change: Equatable {
        /// Set to what was shown, or to less because nothing was answered.
        case decreased(ScopeReport)
        case increased, doubled
        /// Back to what it was: less was of no use. `share`: of failures, which is usual from now on.
        case restored(share: Double?)
        case lifted(Reason)
    }

    /// Why a limit is gone.
    enum Reason: String {
        case unneeded = "it was not needed for ten minutes"
        case recovered = "the host answers as much as before"
        case narrowed = "only a part of its requests fails"
    }

    /// Decides with the evidence of the scope. `isFailing`: it has more failures than usual.
    mutating func decide(_ shown: Evidence, isFailing: Bool, now: Timestamp) -> Change? {
        if isFailing { lastFailedAt = now }
        let compared = baseline
        if let baseline, let change = judge(baseline, shown, now) { return change }
        guard isFailing else { return look(shown, now) }
        // Until it is known whether the last decrease has helped none follows.
        guard baseline == nil else { return nil }
        decrease(shown, since: compared, now)
        return .decreased(shown.seen)
    }

    /// `since`: what was before the last decrease, if that was a moment ago.
    private mutating func decrease(_ shown: Evidence, since last: Baseline?, _ now: Timestamp) {
        // What was asked without a limit.
        let peak = max(shown.inFlight, Int(shown.answeredWithOverhead.rounded(.up)))
        if shown.answeredPerSecond == 0 {
            leaveAlone(from: slowStart ?? slowStart(to: last, peak: peak))
        } else if hasIncreased {
            window?.revert(to: shown.answeredInFlight)
            bucket?.revert(to: shown.answeredPerSecond)
            (slowStart, holdSeconds) = (nil, min(2 * holdSeconds, Self.holdSecondsMax))
        } else {
            let (before, rate) = (window ?? AIMDWindow(size: peak), bucket?.rate)
            decreased = decreasePart(shown, from: before)
            baseline = Baseline(
                share: shown.share, window: before.size,
                rate: rate ?? shown.answeredPerSecond + shown.failedPerSecond, part: decreased)
            (slowStart, holdSeconds) = (nil, Self.holdSecondsMin)
        }
        keepLevel(shown, now)
    }

    /// Decreases both parts at first, then the rate and the window in turn, until it is known which of them
    /// the host limits. Returns which; nil: both.
    private mutating func decreasePart(_ shown: Evidence, from window: AIMDWindow) -> Part? {
        var narrower = window
        guard var bucket else {
            // A host that counts requests has sometimes more in flight than the mean.
            let mean = shown.answeredWithOverhead
            narrower.decrease(to: mean + mean.squareRoot() / 2)
            (self.window, self.bucket) = (narrower, TokenBucket(rate: shown.answeredPerSecond))
            return nil
        }
        narrower.decrease(to: shown.answeredInFlight)
        guard (limited ?? (decreased == .rate ? .window : .rate)) == .window, narrower.size < window.size
        else {
            bucket.decrease(to: shown.answeredPerSecond)
            self.bucket = bucket
            return .rate
        }
        (self.window, self.bucket) = (narrower, TokenBucket(rate: shown.answeredPerSecond * Self.slack))
        return .window
    }

    /// Holds the level that it has decreased to.
    private mutating func keepLevel(_ shown: Evidence, _ now: Timestamp) {
        lastNeededAt = now
        increaseAt = now + holdSeconds
        settledAt =
            now + min(max(EvidenceWindow.secondsMin, 2 * shown.meanSeconds), EvidenceWindow.secondsMax)
        restart(shown.inFlight, now)
    }

    /// Compares what has failed since a decrease with what failed before. Nil: it has helped, or it is too
    /// early.
    private mutating func judge(_ before: Baseline, _ shown: Evidence, _ now: Timestamp) -> Change? {
        let seconds = settledAt.map { now - $0 } ?? 0
        guard before.share * Double(before.after.ended) >= Self.judgedCount,
            seconds >= EvidenceWindow.secondsMin
        else { return nil }
        baseline = nil
        let odds = before.after.failureOdds * (1 - before.share) / before.share
        if odds < Self.sameness.lowerBound {
            if before.part == .window { limited = .window }
            return nil
        }
        // Something else has happened.
        if odds > Self.sameness.upperBound, before.part != .window { return nil }
        if before.part == .rate, var narrower = window {
            narrower.decrease(to: before.after.answeredSeconds / seconds)
            if narrower.size < before.window {
                // The host may count what is in flight.
                (window, bucket, decreased) = (narrower, TokenBucket(rate: before.rate), .window)
                var next = before
                (next.part, next.isSecond, next.after) = (.window, true, ScopeReport())
                baseline = next
                keepLevel(shown, now)
                return .decreased(before.after)
            }
        }
        let isUsual = odds <= Self.sameness.upperBound && (before.part != .window || before.isSecond)
        if isUsual { usual = before.after.failedShare } else { limited = .rate }
        window = AIMDWindow(size: max(before.window, window?.size ?? 1))
        bucket = TokenBucket(rate: isUsual ? max(before.rate, bucket?.rate ?? 0) : before.rate)
        holdSeconds = Self.holdSecondsMin
        keepLevel(shown, now)
        return .restored(share: isUsual ? usual : nil)
    }

    /// Looks at the level once a window: increases it if the host was well and the level was used.
    private mutating func look(_ shown: Evidence, _ now: Timestamp) -> Change? {
        guard isLimited, let start else { return nil }
        let elapsed = now - start
        // Attempts that go on while others failed are well: the host serves so many.
        if elapsed >= EvidenceWindow.secondsMin, seen.failed == 0, inFlightMin > window?.size ?? .max {
            window?.include(inFlightMin)
            bucket?.include(Double(inFlightMin) / max(shown.meanSeconds, 1))
            slowStart = nil
            increaseAt = now + holdSeconds
        }
        let mean = shown.meanSeconds
        let wanted = slowStart == nil ? max(2 * mean, 4 / (bucket?.rate ?? 4)) : mean
        guard elapsed >= min(max(EvidenceWindow.secondsMin, wanted), Self.lookSecondsMax) else { return nil }
        let (seen, inFlightMax) = (seen, inFlightMax)
        restart(shown.inFlight, now)
        // One answer more or less is chance.
        bucket?.include(Double(seen.answered - 1) / elapsed)
        let isRateUsed = bucket?.isUsed(by: seen.ended, seconds: elapsed) ?? false
        let isUsed = isRateUsed || window?.isUsed(by: inFlightMax) ?? false
        if isUsed { lastNeededAt = now }
        if let lastNeededAt, now - lastNeededAt > Self.unneededSeconds { return lift(.unneeded) }
        guard seen.answered > 0 else { return nil }
        if let slowStart { return double(slowStart, now) }
        guard isUsed, increaseAt.map({ $0 <= now }) ?? true,
            seen.failed == 0 || seen.failedShare <= Evidence.toleratedShare(usual: usual)
        else { return nil }
        decreased = nil
        if isRateUsed { bucket?.increase() } else { window?.increase() }
        return .increased
    }

    // MARK: Slow start

    /// Lets one attempt at once begin, one a second at first, and half as many each time after that.
    private mutating func leaveAlone(from start: SlowStart) {
        let rate = min(bucket?.rate ?? TokenBucket.unansweredRate, TokenBucket.unansweredRate)
        bucket = TokenBucket(rate: isUnanswered ? rate / 2 : rate)
        window = AIMDWindow(size: 1)
        baseline = nil
        slowStart = start
        slowStart?.isUnanswered = true
    }

    /// Returns slow start up to the level before the last decrease if that was a moment ago, else to the
    /// level of now.
    private func slowStart(to last: Baseline?, peak: Int) -> SlowStart {
        if let last {
            return SlowStart(window: last.window, rate: last.rate, isLimitedAfter: last.part != nil)
        }
        return SlowStart(window: window?.size ?? peak, rate: bucket?.rate, isLimitedAfter: window != nil)
    }

    /// Begins slow start after a hold, or goes on with it. `inFlight`: before the hold.
    mutating func beginSlowStart(inFlight: Int, now: Timestamp) {
        let start = slowStart ?? slowStart(to: baseline, peak: max(1, inFlight))
        slowStart = start
        window = AIMDWindow(size: start.window / Self.slowStartPart)
        bucket = bucket.map { bucket in
            TokenBucket(
                rate: max(
                    min(bucket.rate, TokenBucket.unansweredRate), bucket.rate / Double(Self.slowStartPart)))
        }
        baseline = nil
        lastNeededAt = now
        restart(inFlight, now)
    }

    /// Doubles the level until it is what it was.
    private mutating func double(_ start: SlowStart, _ now: Timestamp) -> Change {
        let size = min(2 * (window?.size ?? 1), start.window)
        let wanted = bucket.map { max(2 * $0.rate, TokenBucket.unansweredRate) }
        let rate = [wanted, start.rate].compactMap(\.self).min()
        slowStart?.isUnanswered = false
        if size >= start.window, start.rate == nil || rate == start.rate {
            guard start.isLimitedAfter else { return lift(.recovered) }
            slowStart = nil
            increaseAt = now + holdSeconds
        }
        window = AIMDWindow(size: size)
        bucket = rate.map { TokenBucket(rate: $0) }
        return .doubled
    }

    /// Removes the window and the bucket. What is usual is remembered.
    @discardableResult
    mutating func lift(_ reason: Reason = .narrowed) -> Change {
        let before = self
        self = ScopeControl()
        (hold, silence, usual, lastFailedAt) = (
            before.hold, before.silence, before.usual, before.lastFailedAt
        )
        return .lifted(reason)
    }
}
