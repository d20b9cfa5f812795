package import FerryCore

/// How many attempts one host gets at once, found out by trying: a pure function of what was measured.
///
/// There is no limit until the host is in trouble; the first trouble makes one of half of what was in
/// flight, but no less than 4: one bad link is no reason to serve all the others one by one.
/// From there it doubles up to what was good before, then grows by an eighth as long as that pays in
/// bytes or answers a second; what does not pay is taken back, and trouble takes a fifth. Each failure to
/// grow makes the pause before the next try longer. A limit without trouble for long goes. Trouble that fewer
/// at once do not make rarer takes nothing (`TroubleShare`), but for 429, which says that it is about that.
package struct ConcurrencyController: Sendable, Equatable {
    /// Bounds that an operator has set.
    package struct Bounds: Sendable, Equatable {
        package var least: Int
        package var most: Int?
        package init(least: Int = 1, most: Int? = nil) {
            self.least = max(1, least)
            self.most = most
        }

        func clamp(_ limit: Int) -> Int { min(max(limit, least), max(least, most ?? .max)) }
    }

    /// What was good at a limit.
    struct Level: Sendable, Equatable {
        var limit: Int
        var answeredPerSecond: Double
        var bytesPerSecond: Double
        /// Bytes of an answer.
        var meanSize: Double
    }

    /// What was seen since the last look.
    struct Window: Sendable, Equatable {
        var start: Timestamp
        var answered = 0
        var bytes: Int64 = 0
        var lost = 0
        var inFlightMax = 0
    }

    /// Nil: none.
    package internal(set) var limit: Int?
    var window: Window?
    /// Up to here the limit doubles.
    var threshold = 0
    /// The level before the last raise, which has to pay; nil: nothing is being tried.
    var base: Level?
    /// Where trouble came last.
    var ceiling: Int?
    /// What was in flight when there was no limit yet.
    var peak = 0
    var lastTrouble: Timestamp?
    var lastCut: Timestamp?
    var lastSaturated: Timestamp?
    var holdUntil: Timestamp?
    var holdSeconds = Self.holdSecondsMin
    var troubleShare = TroubleShare()
    /// Of one attempt, averaged.
    var meanSeconds = 0.0
    /// Of one connection, as is usual there.
    var connectSeconds: Double?
    /// Of the last whole window.
    package internal(set) var answeredPerSecond: Double?
    package internal(set) var bytesPerSecond: Double?

    static let firstLimitMin = 4
    static let holdSecondsMin = 10.0
    static let holdSecondsMax = 600.0
    /// Seconds without trouble after which a limit goes that nobody needed, or that is twice what made
    /// trouble.
    static let quietSeconds = 600.0
    /// The same for one that binds.
    static let longQuietSeconds = 3_600.0
    /// Lost attempts that are a burst, and the part of all that they have to be.
    static let lostCountMin = 3
    static let lostPart = 0.2
    /// Of one report in `connectSeconds`. What is slow for a minute or two is what is usual there.
    static let connectWeight = 0.2
    static let slowConnectWeight = 0.002

    package init() {}

    /// Takes what was seen since the last call. `inFlight`: attempts at this host that run now, everywhere.
    package mutating func take(
        _ report: HostReport, inFlight: Int, bounds: Bounds, now: Timestamp
    ) -> HostDecision? {
        let isConnectingSlowly = noteConnecting(report)
        add(report, inFlight, now)
        let isBurst = isBurstOfLosses
        let isUsual = isUsualTrouble(report, now) && !isConnectingSlowly
        if isUsual, report.throttled > 0 || isBurst { lastTrouble = now }
        guard isUsual || report.throttled == 0 && !isBurst, !isConnectingSlowly else {
            let answers = report.throttled == 1 ? "1 answer" : "\(report.throttled) answers"
            let cause =
                report.throttled > 0
                ? "\(answers) asked to slow down (status \(report.throttleStatus ?? 429))"
                : isBurst
                    ? "\(window?.lost ?? 0) transfers were lost" : "connecting takes several times longer"
            return lower(
                cause, report, inFlight + report.throttled + report.lost, bounds, now,
                isJudged: !isConnectingSlowly)
        }
        guard let limit else {
            measure(now)
            return nil
        }
        if let decision = bounded(limit, bounds, inFlight, now) { return decision }
        return look(limit, inFlight, bounds, now)
    }

    /// What began before the last cut ends in trouble as well: that is the same trouble.
    private func isSameTrouble(_ now: Timestamp) -> Bool {
        guard limit != nil, let lastCut else { return false }
        return now - lastCut < min(60, max(1, 2 * meanSeconds))
    }

    /// Takes the report as well.
    private mutating func isUsualTrouble(_ report: HostReport, _ now: Timestamp) -> Bool {
        if report.throttled > 0, report.throttleStatus == 429 {
            troubleShare = TroubleShare()
            return false
        }
        // The rest began before the last cut. Not longer: who only counts while the next cut is possible, and
        // looks when trouble has come, sees little else.
        if lastCut.map({ now - $0 >= min(30, meanSeconds) }) ?? true {
            troubleShare.add(trouble: report.throttled + report.lost, answered: report.answered)
        }
        return troubleShare.isUsual
    }

    private mutating func add(_ report: HostReport, _ inFlight: Int, _ now: Timestamp) {
        var seen = window ?? Window(start: now)
        seen.answered += report.answered
        seen.bytes += report.bytes
        seen.lost += report.lost
        seen.inFlightMax = max(seen.inFlightMax, inFlight)
        window = seen
        guard report.answered > 0 else { return }
        let mean = report.seconds / Double(report.answered)
        meanSeconds = meanSeconds == 0 ? mean : meanSeconds * 0.7 + mean * 0.3
    }

    /// Whether connecting takes eight times longer than usual, and more than a second.
    private mutating func noteConnecting(_ report: HostReport) -> Bool {
        guard report.connections >= 3 else { return false }
        let mean = report.connectSeconds / Double(report.connections)
        guard let usual = connectSeconds else {
            connectSeconds = mean
            return false
        }
        let isSlow = mean > max(1, usual * 8)
        let weight = isSlow ? Self.slowConnectWeight : Self.connectWeight
        connectSeconds = usual + (mean - usual) * weight
        return isSlow
    }

    private var isBurstOfLosses: Bool {
        guard let window, window.lost >= Self.lostCountMin else { return false }
        return Double(window.lost) >= Self.lostPart * Double(window.lost + window.answered)
    }

    // MARK: Down

    private mutating func lower(
        _ cause: String, _ report: HostReport, _ inFlight: Int, _ bounds: Bounds, _ now: Timestamp,
        isJudged: Bool
    ) -> HostDecision? {
        lastTrouble = now
        let before = limit
        window = Window(start: now)
        if isSameTrouble(now) { return nil }
        base = nil
        switch isJudged ? troubleShare.judge(limit: before, inFlight: inFlight) : .cut {
        case .wait: return nil
        case .restore(let limit): return restore(limit, from: before, inFlight, bounds, now)
        case .cut: break
        }
        lastCut = now
        let after: Int
        if let before {
            if let ceiling, abs(ceiling - before) * 5 <= before {
                holdSeconds = min(holdSeconds * 2, Self.holdSecondsMax)
            } else {
                holdSeconds = Self.holdSecondsMin
            }
            ceiling = before
            let used = min(before, max(1, inFlight))
            after = bounds.clamp(min(before - 1, used * 4 / 5))
        } else {
            peak = max(1, inFlight)
            after = bounds.clamp(max(Self.firstLimitMin, peak / 2))
        }
        if let before { troubleShare.limitFell(from: before, to: after) }
        threshold = after
        holdUntil = now + holdSeconds
        limit = after
        lastSaturated = now
        guard before != after else { return nil }
        return HostDecision(
            at: now, kind: before == nil ? .limited : .lowered, limitBefore: before, limitAfter: after,
            inFlight: inFlight, answeredPerSecond: answeredPerSecond, bytesPerSecond: bytesPerSecond,
            throttled: report.throttled, lost: report.lost,
            sentence: before == nil
                ? "Limited to \(after) with \(peak) in flight: \(cause)."
                : "Lowered from \(before ?? 0) to \(after): \(cause).")
    }

    /// Fewer at once were of no use.
    private mutating func restore(
        _ wanted: Int, from before: Int?, _ inFlight: Int, _ bounds: Bounds, _ now: Timestamp
    ) -> HostDecision? {
        // Fewer than the first limit allowed may have been in flight.
        let after = bounds.clamp(max(wanted, before ?? 0, Self.firstLimitMin))
        limit = after
        threshold = after
        ceiling = nil
        holdSeconds = Self.holdSecondsMin
        holdUntil = now + holdSeconds
        lastSaturated = now
        guard let before, before != after else { return nil }
        let share = Int(((troubleShare.usual ?? 0) * 100).rounded(.up))
        return HostDecision(
            at: now, kind: .raised, limitBefore: before, limitAfter: after, inFlight: inFlight,
            answeredPerSecond: answeredPerSecond, bytesPerSecond: bytesPerSecond,
            sentence: "Raised from \(before) to \(after): fewer had as much trouble (\(share) %).")
    }

    /// After a pause that the host has asked for: a few first, then twice as many each time.
    package mutating func beginGently(bounds: Bounds, now: Timestamp) {
        guard let limit else { return }
        threshold = max(threshold, limit)
        self.limit = bounds.clamp(limit / 8)
        window = nil
        base = nil
    }

    /// Something else than the limit keeps the host from trouble.
    package mutating func makeRoom(bounds: Bounds) {
        guard let limit, limit < Self.firstLimitMin else { return }
        self.limit = bounds.clamp(Self.firstLimitMin)
        threshold = max(threshold, Self.firstLimitMin)
        window = nil
        base = nil
    }

    // MARK: Up

    /// An operator has changed the bounds.
    private mutating func bounded(
        _ limit: Int, _ bounds: Bounds, _ inFlight: Int, _ now: Timestamp
    ) -> HostDecision? {
        let after = bounds.clamp(limit)
        guard after != limit else { return nil }
        self.limit = after
        base = nil
        return HostDecision(
            at: now, kind: after > limit ? .raised : .lowered, limitBefore: limit, limitAfter: after,
            inFlight: inFlight, sentence: "Moved from \(limit) to \(after), the operator's bound.")
    }

    /// Without a limit a window is only looked at.
    private mutating func measure(_ now: Timestamp) {
        guard let seen = window, now - seen.start >= max(10, windowSeconds) else { return }
        answeredPerSecond = Double(seen.answered) / (now - seen.start)
        bytesPerSecond = Double(seen.bytes) / (now - seen.start)
        window = Window(start: now)
    }

    /// Seconds of a window: it should see several transfers end.
    private var windowSeconds: Double { min(max(1, 2 * meanSeconds), 300) }

    private mutating func look(
        _ limit: Int, _ inFlight: Int, _ bounds: Bounds, _ now: Timestamp
    ) -> HostDecision? {
        guard let seen = window else { return nil }
        let elapsed = now - seen.start
        guard elapsed >= windowSeconds, seen.answered >= min(4 * limit, 64) || elapsed >= 4 * windowSeconds
        else {
            return nil
        }
        window = Window(start: now, inFlightMax: inFlight)
        let level = Level(
            limit: limit, answeredPerSecond: Double(seen.answered) / elapsed,
            bytesPerSecond: Double(seen.bytes) / elapsed,
            meanSize: seen.answered == 0 ? 0 : Double(seen.bytes) / Double(seen.answered))
        answeredPerSecond = level.answeredPerSecond
        bytesPerSecond = level.bytesPerSecond
        let isSaturated = seen.inFlightMax * 8 >= limit * 7
        if isSaturated { lastSaturated = now }
        if let decision = release(limit, level, inFlight, now) { return decision }
        // More would change nothing.
        guard isSaturated, seen.answered > 0 else { return nil }
        if limit < threshold {
            return raise(
                to: min(threshold, limit * 2), level, inFlight, bounds, now, "it was good with more before")
        }
        return explore(level, inFlight, bounds, now)
    }

    private mutating func explore(
        _ level: Level, _ inFlight: Int, _ bounds: Bounds, _ now: Timestamp
    ) -> HostDecision? {
        let step = max(1, level.limit / 8)
        guard let base, base.limit < level.limit else {
            if let holdUntil, now < holdUntil { return nil }
            self.base = level
            return raise(to: level.limit + step, level, inFlight, bounds, now, "more may pay")
        }
        self.base = nil
        // Other files: the rates say nothing about each other.
        guard level.meanSize <= 2 * base.meanSize, base.meanSize <= 2 * level.meanSize else { return nil }
        let gain = max(
            ratio(level.answeredPerSecond, base.answeredPerSecond),
            ratio(level.bytesPerSecond, base.bytesPerSecond))
        let expected = Double(level.limit) / Double(base.limit)
        if gain >= 1 + 0.4 * (expected - 1) {
            if let ceiling, level.limit > ceiling { self.ceiling = nil }
            holdSeconds = Self.holdSecondsMin
            self.base = level
            return raise(
                to: level.limit + step, level, inFlight, bounds, now,
                "the last raise paid (\(percent(gain)))")
        }
        limit = bounds.clamp(base.limit)
        threshold = base.limit
        holdUntil = now + holdSeconds
        holdSeconds = min(holdSeconds * 2, Self.holdSecondsMax)
        return decision(
            .reverted, from: level.limit, level, inFlight, now,
            "Taken back from \(level.limit) to \(base.limit): more did not pay (\(percent(gain))).")
    }

    private mutating func raise(
        to wanted: Int, _ level: Level, _ inFlight: Int, _ bounds: Bounds, _ now: Timestamp, _ why: String
    ) -> HostDecision? {
        let after = bounds.clamp(wanted)
        guard after > level.limit else {
            base = nil
            return nil
        }
        limit = after
        return decision(
            .raised, from: level.limit, level, inFlight, now,
            "Raised from \(level.limit) to \(after): \(why).")
    }

    private mutating func release(
        _ limit: Int, _ level: Level, _ inFlight: Int, _ now: Timestamp
    ) -> HostDecision? {
        guard let lastTrouble, now - lastTrouble > Self.quietSeconds else { return nil }
        let isFree = lastSaturated.map { now - $0 > Self.quietSeconds } ?? true
        guard isFree || limit >= 2 * peak || now - lastTrouble > Self.longQuietSeconds else { return nil }
        let minutes = Int((now - lastTrouble) / 60)
        let kept = (answeredPerSecond, bytesPerSecond)
        self = ConcurrencyController()
        (answeredPerSecond, bytesPerSecond) = kept
        return decision(
            .released, from: limit, level, inFlight, now,
            "The limit of \(limit) is gone: no trouble for \(minutes) minutes.")
    }

    private func decision(
        _ kind: HostDecision.Kind, from before: Int, _ level: Level, _ inFlight: Int, _ now: Timestamp,
        _ sentence: String
    ) -> HostDecision {
        HostDecision(
            at: now, kind: kind, limitBefore: before, limitAfter: limit, inFlight: inFlight,
            answeredPerSecond: level.answeredPerSecond, bytesPerSecond: level.bytesPerSecond,
            sentence: sentence)
    }
}

private func ratio(_ a: Double, _ b: Double) -> Double { b > 0 ? a / b : a > 0 ? .infinity : 1 }

private func percent(_ ratio: Double) -> String {
    guard ratio.isFinite else { return "from nothing" }
    let change = Int(((ratio - 1) * 100).rounded())
    return change >= 0 ? "+\(change) %" : "\(change) %"
}
