import FerryCore

/// What is known of one narrowest scope: its window of evidence, and when it was used and answered.
struct EvidenceWindow: Codable, Sendable, Equatable {
    /// Ends before it do not count.
    var start: Timestamp?
    /// What has ended since.
    var seen = ScopeReport()
    /// Attempts in flight since, summed over time.
    var inFlightSeconds = 0.0
    /// Of an answered attempt, in seconds, averaged.
    var meanSeconds = 0.0
    var inFlight = 0
    var lastUsedAt: Timestamp?
    /// When the last answer came, and the last response that was answered or throttled.
    var lastAnsweredAt: Timestamp?
    var lastResponseAt: Timestamp?
    /// Attempts that are silent since that response, and their jobs.
    var silent = 0
    var silentJobs = ScopeReport.Jobs.none
    /// Until when the jobs that were told `Retry-After` since the last answer wait: the shortest; and the
    /// status of the last response.
    var retryAfterUntil: Timestamp?
    var retryAfterJobs = ScopeReport.Jobs.none
    var retryAfterStatus: Int?

    /// Seconds of a window that a decision may be made of, and for which too little evidence is kept.
    static let secondsMin = 1.0
    static let secondsMax = 10.0
    /// Failures that decide.
    static let failedCountMin = 3
    /// Ends of which hardly any failed that say enough.
    private static let cleanCount = 10
    /// Seconds without an answer that are no accident, where some requests fail at random.
    private static let unansweredSeconds = 5.0
    private static let meanWeight = 0.3

    /// Until when the scope asks to be left alone; nil: fewer than two jobs were told so, or it answers.
    func holdUntil(at now: Timestamp) -> Timestamp? {
        let isUnanswered = lastAnsweredAt.map { now - $0 >= Self.unansweredSeconds } ?? true
        return retryAfterJobs == .several && isUnanswered ? retryAfterUntil : nil
    }

    /// Whether it has enough evidence that no more than `share` fails.
    func isClean(where share: Double) -> Bool { seen.ended >= Self.cleanCount && seen.failedShare <= share }

    /// Drops the evidence before `instant`.
    mutating func restart(at instant: Timestamp) {
        (start, seen, inFlightSeconds) = (instant, ScopeReport(), 0)
    }

    /// Takes a report. `since`: when the last one came; `isHeld`: nothing begins.
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

/// The evidence of several narrowest scopes together, each over a window of its own.
struct Evidence {
    private(set) var seen = ScopeReport()
    /// The longest window.
    private(set) var seconds = 0.0
    private(set) var answeredPerSecond = 0.0
    private(set) var failedPerSecond = 0.0
    /// Mean attempts in flight that are answered, by Little's law: by their own durations, and with what
    /// their claims and results take; and all that are in flight.
    private(set) var answeredInFlight = 0.0
    private(set) var answeredWithOverhead = 0.0
    private(set) var inFlight = 0
    /// Attempts that are silent, and their jobs.
    private(set) var silent = 0
    private(set) var silentJobs = ScopeReport.Jobs.none
    private var usualSeconds = 0.0

    /// Seconds of a window at most before a decision is made of it.
    private static let secondsWantedMax = 5.0
    /// The share of failures that changes nothing anywhere.
    private static let toleratedMin = 0.01

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

    /// The mean duration of an answered attempt; of the slowest window if none was answered in these.
    var meanSeconds: Double {
        seen.answered == 0 ? usualSeconds : seen.answeredSeconds / Double(seen.answered)
    }

    /// Seconds of the window before a decision is made of it: several transfers end in them.
    var secondsWanted: Double { min(max(EvidenceWindow.secondsMin, 3 * meanSeconds), Self.secondsWantedMax) }

    var share: Double {
        failedPerSecond == 0 ? 0 : failedPerSecond / (failedPerSecond + answeredPerSecond)
    }

    /// The share of failures that changes nothing, where `usual` fails however little is asked.
    static func toleratedShare(usual: Double) -> Double {
        max(toleratedMin, min(1.5 * usual, (1 + usual) / 2))
    }

    /// Whether more fail than is usual, with too little chance that this is an accident.
    func exceeds(usual: Double) -> Bool {
        let expected = max(usual, Self.toleratedMin)
        let deviation = (expected * (1 - expected) / Double(max(1, seen.ended))).squareRoot()
        return seen.failed >= EvidenceWindow.failedCountMin && seen.failedJobs == .several
            && share > Self.toleratedShare(usual: usual) + 3 * deviation
    }

    /// By how many standard deviations fewer fail than of a whole of which `share` fails; 0 unless they are
    /// at most half as many.
    func fineness(where share: Double) -> Double {
        let (expected, failed) = (share * Double(seen.ended), Double(seen.failed))
        guard expected > 0, failed <= expected / 2 else { return 0 }
        return (expected - failed) / (expected * max(1 - share, 0.05)).squareRoot()
    }
}
