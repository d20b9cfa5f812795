import FerryCore

/// Evidence about one narrowest scope: what ended in the current window of time, and when the scope was used
/// and responded. The property names are keys of the stored JSON.
struct EvidenceWindow: Codable, Sendable, Equatable {
    /// Start of the window; attempts that ended before do not count.
    var start: Timestamp?
    /// Attempts that have ended since `start`.
    var seen = ScopeReport()
    /// Attempts in flight since `start`, integrated over time.
    var inFlightSeconds = 0.0
    /// Moving average of the duration of an answered attempt, in seconds.
    var meanSeconds = 0.0
    /// Attempts in flight at the last report.
    var inFlight = 0
    /// Last time at which an attempt ran or ended.
    var lastUsedAt: Timestamp?
    /// Time of the last answered attempt, and of the last answered or throttled one.
    var lastAnsweredAt: Timestamp?
    var lastResponseAt: Timestamp?
    /// Attempts that are silent since that response, and their jobs.
    var silent = 0
    var silentJobs = ScopeReport.Jobs.none
    /// Earliest end of the `Retry-After` waits since the last answered attempt, their jobs, and the status of
    /// the last such response.
    var retryAfterUntil: Timestamp?
    var retryAfterJobs = ScopeReport.Jobs.none
    var retryAfterStatus: Int?

    /// Shortest window that a decision is based on, and the age at which a window is dropped, in seconds.
    /// Windows of slow hosts last twice the mean duration.
    static let secondsMin = 1.0
    static let secondsMax = 10.0
    /// Minimum number of failures for a decision.
    static let failedCountMin = 3
    /// Number of ended attempts that prove a scope to be healthy if hardly any failed.
    private static let cleanCount = 10
    /// Seconds without an answered attempt after which `Retry-After` is believed. A host that fails some
    /// requests at random answers others meanwhile.
    private static let unansweredSeconds = 5.0
    /// Weight of the latest report in `meanSeconds`.
    private static let meanWeight = 0.3

    /// Returns the time until which the host asks for no requests, or `nil` if fewer than two jobs got
    /// `Retry-After` or the scope is still answered.
    func holdUntil(at now: Timestamp) -> Timestamp? {
        let isUnanswered = lastAnsweredAt.map { now - $0 >= Self.unansweredSeconds } ?? true
        return retryAfterJobs == .several && isUnanswered ? retryAfterUntil : nil
    }

    /// Returns `true` if enough attempts have ended and at most `share` of them failed.
    func isClean(where share: Double) -> Bool { seen.ended >= Self.cleanCount && seen.failedShare <= share }

    /// Drops the evidence and begins a window at `instant`.
    mutating func restart(at instant: Timestamp) {
        (start, seen, inFlightSeconds) = (instant, ScopeReport(), 0)
    }

    /// Adds a report. `since`: time of the last report; `isHeld`: `true` if no request of the scope may
    /// begin.
    mutating func take(
        _ report: ScopeReport, inFlight: Int, since: Timestamp?, isHeld: Bool, now: Timestamp
    ) {
        let isFirst = start == nil
        if start.map({ now - $0 > max(Self.secondsMax, 2 * meanSeconds) }) ?? true {
            restart(at: max(since ?? now, now + -1))
        }
        let elapsed = start.map { min(now - $0, since.map { now - $0 } ?? 0) } ?? 0
        inFlightSeconds += Double(self.inFlight) * max(0, elapsed)
        if isFirst || start.map({ $0 < now }) ?? false { seen.add(report) }
        self.inFlight = inFlight
        if !report.isEmpty || inFlight > 0 { lastUsedAt = now }
        if report.answered > 0 {
            let mean = report.answeredSeconds / Double(report.answered)
            meanSeconds = meanSeconds == 0 ? mean : meanSeconds + (mean - meanSeconds) * Self.meanWeight
            lastAnsweredAt = now
        }
        let isResponding = report.answered + report.throttled > 0
        if isResponding { lastResponseAt = now }
        if isResponding || report.unreachable > 0 || inFlight == 0 { (silent, silentJobs) = (0, .none) }
        silent += report.silent
        silentJobs.add(report.silentJobs)
        if report.answered > 0 || retryAfterUntil.map({ $0 <= now }) ?? false {
            (retryAfterUntil, retryAfterJobs, retryAfterStatus) = (nil, .none, nil)
        }
        if let seconds = report.retryAfter, !isHeld {
            let until = now + min(seconds, HostControl.holdSecondsMax)
            retryAfterUntil = min(until, retryAfterUntil ?? until)
            retryAfterJobs.add(report.retryAfterJobs)
            retryAfterStatus = report.throttleStatus
        }
    }
}

/// Evidence of several narrowest scopes together; each has a window of its own.
struct Evidence {
    /// Sum of the windows.
    private(set) var seen = ScopeReport()
    /// Duration of the longest window, in seconds.
    private(set) var seconds = 0.0
    private(set) var answeredPerSecond = 0.0
    private(set) var failedPerSecond = 0.0
    /// Mean number of answered attempts in flight by Little's law: from the durations of the attempts alone,
    /// and with the time that their claims and results take; then the number of all attempts in flight.
    private(set) var answeredInFlight = 0.0
    private(set) var answeredWithOverhead = 0.0
    private(set) var inFlight = 0
    /// Attempts that are silent, and their jobs.
    private(set) var silent = 0
    private(set) var silentJobs = ScopeReport.Jobs.none
    private var usualSeconds = 0.0

    /// Longest time of evidence that a decision waits for, in seconds.
    private static let secondsWantedMax = 5.0
    /// Share of failures that is tolerated of every host.
    private static let toleratedMin = 0.01

    /// Adds up the windows.
    init(_ windows: some Sequence<EvidenceWindow>, at now: Timestamp) {
        for window in windows {
            inFlight += window.inFlight
            silent += window.silent
            silentJobs.add(window.silentJobs)
            usualSeconds = max(usualSeconds, window.meanSeconds)
            let (part, elapsed) = (window.seen, window.start.map { now - $0 } ?? 0)
            guard elapsed > 0, part.ended > 0 else { continue }
            seen.add(part)
            seconds = max(seconds, elapsed)
            answeredPerSecond += Double(part.answered) / elapsed
            failedPerSecond += Double(part.failed) / elapsed
            answeredInFlight += part.answeredSeconds / elapsed
            let overhead = max(0, window.inFlightSeconds - part.answeredSeconds - part.failedSeconds)
            answeredWithOverhead += (part.answeredSeconds + overhead * (1 - part.failedShare)) / elapsed
        }
    }

    /// Mean duration of an answered attempt in seconds; the slowest window's average if none was answered.
    var meanSeconds: Double {
        seen.answered == 0 ? usualSeconds : seen.answeredSeconds / Double(seen.answered)
    }

    /// Seconds of evidence that a decision needs: enough for several transfers to end.
    var secondsWanted: Double { min(max(EvidenceWindow.secondsMin, 3 * meanSeconds), Self.secondsWantedMax) }

    /// Share of failures, 0 to 1, by rates, so that long windows do not outweigh short ones.
    var share: Double {
        failedPerSecond == 0 ? 0 : failedPerSecond / (failedPerSecond + answeredPerSecond)
    }

    /// Returns the share of failures that is tolerated if `usual` fails at any load.
    static func toleratedShare(usual: Double) -> Double {
        max(toleratedMin, min(1.5 * usual, (1 + usual) / 2))
    }

    /// Returns `true` if significantly more attempts fail than usual: more than three standard deviations.
    func exceeds(usual: Double) -> Bool {
        let expected = max(usual, Self.toleratedMin)
        let deviation = (expected * (1 - expected) / Double(max(1, seen.ended))).squareRoot()
        return seen.failed >= EvidenceWindow.failedCountMin && seen.failedJobs == .several
            && share > Self.toleratedShare(usual: usual) + 3 * deviation
    }

    /// Returns by how many standard deviations fewer attempts failed than expected of a scope where `share`
    /// fails; 0 unless at most half as many failed.
    func fineness(where share: Double) -> Double {
        let (expected, failed) = (share * Double(seen.ended), Double(seen.failed))
        guard expected > 0, failed <= expected / 2 else { return 0 }
        return (expected - failed) / (expected * max(1 - share, 0.05)).squareRoot()
    }
}
