package import FerryCore

/// How one host does, as all nodes see it: a pure state machine of reports, probes and the clock.
///
/// A host of which nothing is known has no condition; one whose condition says nothing any more is forgotten.
package struct HostCondition: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        case normal, limited
        case backingOff = "backing_off"
        case unreachable
        /// It answers again; the jobs that waited are let go few by few.
        case recovering
        case paused
    }

    package var settings = HostSettings()
    package internal(set) var controller = ConcurrencyController()
    var pace = RequestPace()
    /// Requests were sent to it, and nobody has been answered since.
    package internal(set) var silence: Silence?
    /// Attempts that have told so since somebody was answered.
    var silentCount = 0
    /// Nothing begins before this.
    package internal(set) var backoffUntil: Timestamp?
    package internal(set) var backoffStatus: Int?
    /// Pauses in a row that the host asked for without saying for how long.
    var pauseCount = 0
    package internal(set) var unreachableSince: Timestamp?
    package internal(set) var unreachableCode: TransferError.Code?
    package internal(set) var probeCount = 0
    package internal(set) var nextProbeAt: Timestamp?
    /// How many waiting jobs are let go next; 0: it does not recover.
    package internal(set) var releaseCount = 0
    /// It has answered since jobs were let go last: the next are twice as many.
    var hasAnsweredSince = false
    /// Or a probe has reached it.
    var lastAnsweredAt: Timestamp?
    /// Which node that was.
    var lastAnsweredBy: NodeID?
    /// Attempts cannot reach it, and none was answered since.
    var failingSince: Timestamp?
    var nextReleaseAt: Timestamp?
    var lastReportAt: Timestamp?
    /// Something was refused, lost, silent or not reached.
    var lastTroubleAt: Timestamp?

    /// Seconds of the first pause and of the longest one that a host gets without having asked for it.
    static let pauseSecondsMin = 1.0
    static let pauseSecondsMax = 60.0
    /// Seconds of the longest pause that a host may ask for.
    package static let backoffSecondsMax = 3_600.0
    static let probeSecondsMin = 1.0
    static let probeSecondsMax = 60.0
    /// Seconds after which a probe that nobody reported on is lost.
    package static let probeLeaseSeconds = 60.0
    /// Seconds for which a host is there after an answer, whoever is not let in: some of its connections
    /// fail, and that is all.
    static let presenceSeconds = 5.0
    /// One in so many of those that are in flight has to have failed, or all for that long.
    static let doubtPart = 4
    /// Seconds without an answer after which a host that has a pace is left alone as others are.
    static let pacedSilenceSeconds = 10.0
    static let releaseCountMin = 2
    static let releaseCountMax = 500
    static let releaseInterval = 0.5
    /// Seconds without a report after which a condition that says nothing is forgotten.
    static let idleSeconds = 60.0
    /// The same of one that is busy: seconds without trouble.
    static let healthySeconds = 600.0

    package init() {}

    package func state(at now: Timestamp) -> State {
        if settings.isPaused { return .paused }
        if unreachableSince != nil { return .unreachable }
        if let backoffUntil, backoffUntil > now { return .backingOff }
        if releaseCount > 0 { return .recovering }
        return connectionLimit == nil && requestRateLimit == nil ? .normal : .limited
    }

    /// Attempts at once, of all nodes together; nil: no limit.
    package var connectionLimit: Int? {
        let limits = [controller.limit, silence?.limit].compactMap(\.self)
        guard let limit = limits.min() else { return settings.connectionsMax }
        return settings.bounds.clamp(limit)
    }

    /// Transfers begun a second, of all nodes together; nil: no limit.
    package var requestRateLimit: Double? {
        [pace.rate, settings.requestsPerSecondMax].compactMap(\.self).min()
    }

    /// Until when nothing begins; `.max` while it is paused.
    package var blockedUntil: Timestamp? { settings.isPaused ? .distantFuture : backoffUntil }

    /// When somebody has to look next; nil: when there is a report.
    package func dueAt(_ now: Timestamp) -> Timestamp? {
        let looks: [Timestamp?] = [
            unreachableSince == nil ? nil : nextProbeAt, releaseCount > 0 ? nextReleaseAt : nil,
            backoffUntil, forgettingAt(now),
        ]
        return looks.compactMap(\.self).min()
    }

    /// When it may be that nothing has to be remembered of it, or that its limit goes.
    private func forgettingAt(_ now: Timestamp) -> Timestamp? {
        if silence != nil || silentCount >= Silence.countMin { return now + Silence.lookSeconds }
        if controller.limit != nil || pace.rate != nil { return now + Self.idleSeconds }
        guard settings == HostSettings(), unreachableSince == nil, releaseCount == 0 else { return nil }
        return max(min((lastReportAt ?? now) + Self.idleSeconds, healthyAt), now + 1)
    }

    private var healthyAt: Timestamp {
        (lastTroubleAt ?? lastReportAt ?? .distantPast) + Self.healthySeconds
    }

    /// Whether nothing has to be remembered of it.
    package func isForgettable(at now: Timestamp) -> Bool {
        guard settings == HostSettings(), controller.limit == nil, pace.rate == nil, silence == nil,
            unreachableSince == nil, releaseCount == 0, backoffUntil == nil
        else { return false }
        return now - (lastReportAt ?? .distantPast) >= Self.idleSeconds || now >= healthyAt
    }

    // MARK: Reports

    /// Whether a node that does not reach it may doubt itself: another one has, after that instant.
    package func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        guard let lastAnsweredAt, let lastAnsweredBy, lastAnsweredBy != node else { return false }
        return lastAnsweredAt > instant
    }

    /// Takes what one node has seen. `inFlight`: attempts at this host that run now, everywhere; `jitter`:
    /// from 0 to 1.
    package mutating func take(
        _ report: HostReport, by node: NodeID? = nil, inFlight: Int, now: Timestamp, jitter: Double
    ) -> [HostDecision] {
        var decisions: [HostDecision] = []
        if !report.isEmpty { lastReportAt = now }
        if report.isTrouble { lastTroubleAt = now }
        if report.answered > 0 {
            lastAnsweredAt = now
            lastAnsweredBy = node
            failingSince = nil
            pauseCount = 0
            hasAnsweredSince = releaseCount > 0
        }
        var measured = report
        // What is answered during a pause began before it.
        if let backoffUntil, backoffUntil > now { measured.throttled = 0 }
        if let decision = adaptPace(report, inFlight, now) { decisions.append(decision) }
        // What it refuses is about how many a second it gets.
        if pace.rate != nil { measured.throttled = 0 }
        if let decision = controller.take(measured, inFlight: inFlight, bounds: settings.bounds, now: now) {
            decisions.append(decision)
        }
        if let decision = backOff(report, now, jitter) { decisions.append(decision) }
        if let decision = noteUnreachable(report, inFlight, now) { decisions.append(decision) }
        if let decision = noteSilence(report, inFlight, now) { decisions.append(decision) }
        return decisions
    }

    private mutating func adaptPace(
        _ report: HostReport, _ inFlight: Int, _ now: Timestamp
    ) -> HostDecision? {
        let bounds = settings.bounds
        guard
            let change = pace.take(
                report, limit: controller.limit, least: bounds.least, meanSeconds: controller.meanSeconds,
                now: now)
        else { return nil }
        let limitBefore = controller.limit
        if case .begun = change { controller.makeRoom(bounds: bounds) }
        return HostDecision(
            at: now, kind: .paced, limitBefore: limitBefore, limitAfter: controller.limit,
            inFlight: inFlight, throttled: report.throttled, rateBefore: change.rateBefore,
            rateAfter: pace.rate, sentence: change.sentence(pace.rate))
    }

    /// Refusals have become rare, and are known to be about how many a second it gets.
    private func isPaced(_ now: Timestamp) -> Bool {
        pace.rate != nil && lastAnsweredAt.map { now - $0 <= Self.pacedSilenceSeconds } ?? false
    }

    private mutating func backOff(
        _ report: HostReport, _ now: Timestamp, _ jitter: Double
    ) -> HostDecision? {
        guard report.throttled > 0 else { return nil }
        let seconds: Double
        if let asked = report.retryAfter, asked > 0 {
            seconds = min(asked, Self.backoffSecondsMax)
        } else if report.asksForPause {
            // Answers to what began before the pause say nothing new.
            if isPaced(now) || backoffUntil.map({ $0 > now }) ?? false { return nil }
            var pause = Self.pauseSecondsMin
            for _ in 0..<min(pauseCount, 10) { pause *= 2 }
            seconds = min(pause, Self.pauseSecondsMax) * (0.8 + 0.4 * jitter)
            pauseCount += 1
        } else {
            return nil
        }
        let until = now + seconds
        guard until > backoffUntil ?? now else { return nil }
        let isNew = backoffUntil ?? .distantPast <= now
        pace.pause(seconds: until - max(now, backoffUntil ?? now), isLonger: !isNew)
        backoffUntil = until
        backoffStatus = report.throttleStatus
        if isNew, pace.rate == nil { controller.beginGently(bounds: settings.bounds, now: now) }
        let limit = controller.limit
        return HostDecision(
            at: now, kind: .backedOff, limitBefore: limit, limitAfter: limit, throttled: report.throttled,
            sentence: "Nothing begins for \(rounded(seconds)) seconds: the host answered with status "
                + "\(report.throttleStatus ?? 429)\(report.retryAfter == nil ? "" : " and Retry-After").")
    }

    private mutating func noteUnreachable(
        _ report: HostReport, _ inFlight: Int, _ now: Timestamp
    ) -> HostDecision? {
        guard report.unreachable > 0, report.unreachable > report.answered, unreachableSince == nil else {
            return nil
        }
        let since = failingSince ?? now
        failingSince = since
        // Of many that began together those end first that were not let in.
        let areMany = report.unreachable * Self.doubtPart >= inFlight
        let wasThere = lastAnsweredAt.map { now - $0 < Self.presenceSeconds } ?? false
        guard areMany && !wasThere || now - since >= Self.presenceSeconds else { return nil }
        failingSince = nil
        let isRelapse = releaseCount > 0
        unreachableSince = now
        unreachableCode = report.unreachableCode
        if !isRelapse { probeCount = 0 }
        releaseCount = 0
        hasAnsweredSince = false
        nextReleaseAt = nil
        nextProbeAt = now + probeDelay
        return HostDecision(
            at: now, kind: .unreachable, limitBefore: controller.limit, limitAfter: controller.limit,
            lost: report.unreachable,
            sentence: "Nobody is reached (\(report.unreachableCode?.rawValue ?? "could_not_connect")); "
                + "its jobs wait, and one probe looks for all of them.")
    }

    // MARK: The clock

    /// What somebody has to do about a host now.
    package struct Errands: Sendable, Equatable {
        /// Find out whether it can be reached, and say so with `probed`.
        package var probes = false
        /// Let so many of its waiting jobs go.
        package var releases = 0
    }

    /// What is due. A probe is leased for `probeLeaseSeconds`, if somebody `mayProbe`.
    package mutating func errands(at now: Timestamp, mayProbe: Bool = true) -> Errands {
        var errands = Errands()
        if let backoffUntil, backoffUntil <= now { self.backoffUntil = nil }
        if mayProbe, unreachableSince != nil, let nextProbeAt, nextProbeAt <= now {
            errands.probes = true
            self.nextProbeAt = now + Self.probeLeaseSeconds
        }
        if unreachableSince == nil, releaseCount > 0, (nextReleaseAt ?? now) <= now {
            if hasAnsweredSince { releaseCount = min(releaseCount * 2, Self.releaseCountMax) }
            hasAnsweredSince = false
            errands.releases = releaseCount
            nextReleaseAt = now + Self.releaseInterval
        }
        return errands
    }

    /// So many were let go of those that `errands` allowed.
    package mutating func released(_ count: Int, of allowed: Int) {
        if count < allowed, unreachableSince == nil {
            releaseCount = 0
            hasAnsweredSince = false
            nextReleaseAt = nil
            probeCount = 0
        }
    }

    /// Seconds until the next probe: twice as many each time.
    private var probeDelay: Double {
        var delay = Self.probeSecondsMin
        for _ in 0..<min(probeCount, 10) { delay *= 2 }
        return min(delay, Self.probeSecondsMax)
    }

    /// A probe has ended. `code`: why nobody was reached; nil: somebody was.
    package mutating func probed(
        _ code: TransferError.Code?, by node: NodeID? = nil, at now: Timestamp
    ) -> HostDecision? {
        guard let since = unreachableSince else { return nil }
        lastReportAt = now
        if let code {
            unreachableCode = code
            probeCount += 1
            nextProbeAt = now + probeDelay
            return nil
        }
        unreachableSince = nil
        unreachableCode = nil
        nextProbeAt = nil
        lastAnsweredAt = now
        lastAnsweredBy = node
        failingSince = nil
        releaseCount = Self.releaseCountMin
        nextReleaseAt = now
        return HostDecision(
            at: now, kind: .reachable, limitBefore: controller.limit, limitAfter: controller.limit,
            sentence: "Reached again after \(rounded(now - since)) seconds; its jobs are let go few by few.")
    }

    /// Nobody waits for it: there is nothing to probe for, unless those whose attempts have just ended do not
    /// wait yet.
    package mutating func stopProbing(at now: Timestamp) {
        if let lastReportAt, now - lastReportAt < Self.presenceSeconds {
            nextProbeAt = now + Self.probeSecondsMin
            return
        }
        unreachableSince = nil
        unreachableCode = nil
        nextProbeAt = nil
        probeCount = 0
    }

    // MARK: Operators

    /// Takes another configuration; `clearsBackoff`: what is held back begins now.
    package mutating func configure(
        _ settings: HostSettings, backoffUntil: Timestamp??, now: Timestamp
    ) -> HostDecision? {
        let before = self
        self.settings = settings
        if let backoffUntil {
            self.backoffUntil = backoffUntil
            backoffStatus = nil
            if backoffUntil == nil { pauseCount = 0 }
        }
        guard self != before else { return nil }
        lastReportAt = now
        return HostDecision(
            at: now, kind: .configured, limitBefore: before.connectionLimit, limitAfter: connectionLimit,
            sentence: "An operator has changed what holds for this host.")
    }
}

private func rounded(_ seconds: Double) -> String {
    let tenths = Int((seconds * 10).rounded())
    return tenths >= 100 || tenths % 10 == 0 ? "\((tenths + 5) / 10)" : "\(tenths / 10).\(tenths % 10)"
}
