import FerryCore

/// Decides how many requests of one scope may run: a window and a token bucket that follow what the host
/// serves, a hold, and a limit while the host is silent. The property names are keys of the stored JSON.
struct ScopeControl: Codable, Sendable, Equatable {
    /// Limits of the scope; `nil` means no limit. Both are set or neither, except in slow start after a hold.
    private(set) var window: AIMDWindow?
    private(set) var bucket: TokenBucket?
    var hold: Hold?
    var silence: UnansweredLimit?
    private var slowStart: SlowStart?
    private var baseline: Baseline?
    /// Share of failures, 0 to 1, that fewer requests do not lower.
    private(set) var usual = 0.0
    /// The part that was decreased last, and the part that the host is known to limit; `nil` if not known.
    private var decreased: Part?
    private var limited: Part?
    /// Seconds for which a level is held, and the time from which it may increase.
    private var holdSeconds = Self.holdSecondsMin
    private var increaseAt: Timestamp?
    /// Attempts that ended before this time began before the last decrease.
    private(set) var settledAt: Timestamp?
    private var lastNeededAt: Timestamp?
    private var lastFailedAt: Timestamp?
    /// The measurement since the last look at the level: its start, ended attempts, and attempts in flight.
    private var start: Timestamp?
    private var seen = ScopeReport()
    private var inFlightMin = 0
    private var inFlightMax = 0

    /// A hold: no request begins before `until`. `status`: of the responses that asked for it, or `nil` if an
    /// operator set the hold.
    struct Hold: Codable, Sendable, Equatable {
        let until: Timestamp
        let status: Int?
    }

    /// Limit on a host that accepts requests and answers none (docs/decisions/0028).
    struct UnansweredLimit: Codable, Sendable, Equatable {
        let limit: Int
        /// Time at which one more request may find out whether only some requests take long.
        let moreAt: Timestamp

        static let limitMin = 4
        /// Seconds without a response and number of silent attempts that start this limit.
        static let seconds = 5.0
        static let countMin = 3
        private static let moreSeconds = 15.0

        init(_ limit: Int, from now: Timestamp) { (self.limit, moreAt) = (limit, now + Self.moreSeconds) }
    }

    /// The level that slow start doubles up to.
    struct SlowStart: Codable, Sendable, Equatable {
        let window: Int
        /// Rate of the level, or `nil` if it had none.
        let rate: Double?
        /// `true` if there was a limit before; else slow start ends without one.
        let isLimitedAfter: Bool
        /// `true` until a request has been answered.
        var isUnanswered = false
    }

    /// A part of a level.
    enum Part: String, Codable { case window, rate }

    /// Failures and level before a decrease, for comparison: failures that fewer requests do not lower are
    /// usual (docs/decisions/0026).
    struct Baseline: Codable, Sendable, Equatable {
        let share: Double
        let window: Int
        let rate: Double
        /// The part that was decreased, or `nil` for both.
        var part: Part?
        /// `true` if a decrease of the rate had been tried before without effect.
        var isSecond = false
        /// Attempts that ended after the decrease.
        var after = ScopeReport()
    }

    /// Seconds for which a level is held after a decrease.
    private static let holdSecondsMin = 10.0
    private static let holdSecondsMax = 60.0
    /// Seconds after which an unused limit is removed.
    private static let unneededSeconds = 600.0
    /// Longest time between two looks, in seconds.
    private static let lookSecondsMax = 60.0
    /// Failures to be expected after a decrease before it is judged. Then the range of the odds ratio, after
    /// to before, that counts as unchanged. Above it, something else has happened.
    private static let judgedCount = 10.0
    private static let sameness = 0.5...3.0
    /// Factor on the rate of answers for the bucket beside a window that the host limits.
    private static let slack = 1.25
    /// Slow start after a hold begins with this fraction of the attempts in flight before.
    private static let slowStartPart = 8

    /// `true` if the scope has a window or a bucket.
    var isLimited: Bool { window != nil || bucket != nil }
    /// `true` if slow start waits for its first answered request.
    var isUnanswered: Bool { slowStart?.isUnanswered ?? false }
    private var hasIncreased: Bool { window?.hasIncreased ?? false || bucket?.hasIncreased ?? false }

    /// Attempts at once, or `nil` if there is no limit.
    var connectionLimit: Int? { [window?.size, silence?.limit].compactMap(\.self).min() }

    /// `true` if something is limited or held.
    var isInEffect: Bool { isLimited || hold != nil || silence != nil }

    /// Returns `true` if the control can be dropped.
    func isForgettable(at now: Timestamp) -> Bool {
        !isLimited && hold.map { $0.until <= now } ?? true && silence == nil
            && lastFailedAt.map { now - $0 > Self.unneededSeconds } ?? true
    }

    /// Returns the seconds of evidence that a decision needs.
    func secondsWanted(_ evidence: Evidence) -> Double {
        guard let bucket else { return evidence.secondsWanted }
        return min(max(EvidenceWindow.secondsMin, 8 / bucket.rate), EvidenceWindow.secondsMax)
    }

    // MARK: Measuring

    /// Adds what was seen of the scope since the last call.
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

    /// The effect of a decision on the level.
    enum Change: Equatable {
        /// Decreased to what the host served, or to less because it answered nothing.
        case decreased(ScopeReport)
        case increased, doubled
        /// Restored because the decrease did not help. `share`: of failures, which is usual from now on;
        /// `nil` if the other part is the one that the host limits.
        case restored(share: Double?)
        case lifted(Reason)
    }

    /// Reason for the removal of a limit.
    enum Reason: String {
        case unneeded = "it was not needed for ten minutes"
        case recovered = "the host answers as much as before"
        case narrowed = "only a part of its requests fails"
    }

    /// Decides with the evidence of the scope. `isFailing`: `true` if it has more failures than usual.
    mutating func decide(_ shown: Evidence, isFailing: Bool, now: Timestamp) -> Change? {
        if isFailing { lastFailedAt = now }
        let compared = baseline
        if let baseline, let change = judge(baseline, shown, now) { return change }
        guard isFailing else { return look(shown, now) }
        // No further decrease until it is known whether the last one helped.
        guard baseline == nil else { return nil }
        decrease(shown, since: compared, now)
        return .decreased(shown.seen)
    }

    /// Decreases the level. `since`: the state before the last decrease, if that was just now.
    private mutating func decrease(_ shown: Evidence, since last: Baseline?, _ now: Timestamp) {
        // The demand without a limit.
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

    /// Decreases both parts first; after that, the rate and the window in turn until it is known which of
    /// them the host limits. Returns the decreased part, or `nil` for both.
    private mutating func decreasePart(_ shown: Evidence, from window: AIMDWindow) -> Part? {
        var narrower = window
        guard var bucket else {
            // A host that limits requests in flight sometimes has more of them than the mean.
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

    /// Holds the level after a decrease.
    private mutating func keepLevel(_ shown: Evidence, _ now: Timestamp) {
        lastNeededAt = now
        increaseAt = now + holdSeconds
        settledAt =
            now + min(max(EvidenceWindow.secondsMin, 2 * shown.meanSeconds), EvidenceWindow.secondsMax)
        restart(shown.inFlight, now)
    }

    /// Compares the failures since a decrease with those before. Returns `nil` if the decrease has helped or
    /// it is too early to tell.
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
                // Perhaps the host limits the requests in flight: decrease the window instead.
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

    /// Looks at the level once per window, and increases it if the host responded well and the level was
    /// used.
    private mutating func look(_ shown: Evidence, _ now: Timestamp) -> Change? {
        guard isLimited, let start else { return nil }
        let elapsed = now - start
        // The host serves attempts that continue while none fails.
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

    /// Limits the scope to one attempt at once and one per second; halves the rate each further time.
    private mutating func leaveAlone(from start: SlowStart) {
        let rate = min(bucket?.rate ?? TokenBucket.unansweredRate, TokenBucket.unansweredRate)
        bucket = TokenBucket(rate: isUnanswered ? rate / 2 : rate)
        window = AIMDWindow(size: 1)
        baseline = nil
        slowStart = start
        slowStart?.isUnanswered = true
    }

    /// Returns slow start up to the level before the last decrease if that was just now, else up to the
    /// current level.
    private func slowStart(to last: Baseline?, peak: Int) -> SlowStart {
        if let last {
            return SlowStart(window: last.window, rate: last.rate, isLimitedAfter: last.part != nil)
        }
        return SlowStart(window: window?.size ?? peak, rate: bucket?.rate, isLimitedAfter: window != nil)
    }

    /// Begins slow start after a hold, or continues it. `inFlight`: attempts before the hold.
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

    /// Doubles the level until the former one is reached.
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

    /// Removes the window and the bucket; keeps the usual share of failures.
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
