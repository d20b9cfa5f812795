import FerryCore

/// Ends of attempts.
struct Tally: Sendable, Equatable {
    var answered = 0
    var throttled = 0
    var lost = 0
    /// Durations of the answered ones, and of the others.
    var answeredSeconds = 0.0
    var failedSeconds = 0.0
    /// Attempts in flight, summed over time.
    var inFlightSeconds = 0.0
    var throttleStatus: Int?

    var failed: Int { throttled + lost }
    var count: Int { answered + failed }
    var share: Double { count == 0 ? 0 : Double(failed) / Double(count) }
    /// Failures for each answer.
    var odds: Double { answered == 0 ? .infinity : Double(failed) / Double(answered) }

    /// What the answered ones took besides their own durations, before they began and after they ended.
    var overheadSeconds: Double {
        guard count > 0 else { return 0 }
        return max(0, inFlightSeconds - answeredSeconds - failedSeconds) * Double(answered) / Double(count)
    }

    mutating func add(_ report: ScopeReport) {
        answered += report.answered
        throttled += report.throttled
        lost += report.lost
        answeredSeconds += report.answeredSeconds
        failedSeconds += report.failedSeconds
        throttleStatus = report.throttleStatus ?? throttleStatus
    }
}

extension Tally: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("answered", &answered)
        coder.value("throttled", &throttled)
        coder.value("lost", &lost)
        coder.value("answered_seconds", &answeredSeconds)
        coder.value("failed_seconds", &failedSeconds)
        coder.value("in_flight_seconds", &inFlightSeconds)
        coder.value("status", &throttleStatus)
    }
}

/// What is known of one narrowest scope: its window of evidence, and when it was used and answered.
struct EvidenceWindow: Sendable, Equatable {
    /// Ends before it do not count.
    var start: Timestamp?
    var tally = Tally()
    var failedJobs = ScopeReport.Jobs.none
    /// Of an answered attempt, in seconds, averaged.
    var meanSeconds = 0.0
    var inFlight = 0
    var lastUsedAt: Timestamp?
    /// Of the last response that was throttled.
    var throttleStatus: Int?
    /// When the last answer came, and the last response that was answered or throttled.
    var lastAnsweredAt: Timestamp?
    var lastResponseAt: Timestamp?
    /// Attempts that are silent since that response, and their jobs.
    var silent = 0
    var silentJobs = ScopeReport.Jobs.none
    /// Until when the jobs that were told `Retry-After` since the last answer wait: the shortest.
    var retryAfterUntil: Timestamp?
    var retryAfterJobs = ScopeReport.Jobs.none
    /// Whether at least two jobs were told `Retry-After`, and none of the scope was answered for so long that
    /// this is no accident.
    func asksForHold(at now: Timestamp) -> Bool {
        retryAfterJobs == .several
            && lastAnsweredAt.map { now - $0 >= Self.unansweredSeconds } ?? true
    }

    /// Seconds without an answer that are no accident, where some requests fail at random.
    private static let unansweredSeconds = 5.0
    /// Seconds of a window that a decision may be made of, and for which too little evidence is kept.
    static let secondsMin = 1.0
    static let secondsMax = 10.0
    /// Failures that decide.
    static let failedCountMin = 3
    /// Ends of which none failed that say enough.
    static let cleanCount = 10
    private static let meanWeight = 0.3

    func seconds(_ now: Timestamp) -> Double { start.map { max(now - $0, 0) } ?? 0 }

    mutating func restart(at instant: Timestamp) {
        start = instant
        tally = Tally()
        failedJobs = .none
    }

    /// Takes a report. `since`: when the last one came; `isHeld`: nothing begins.
    mutating func take(
        _ report: ScopeReport, inFlight: Int, since: Timestamp?, isHeld: Bool, secondsMax: Double,
        now: Timestamp
    ) {
        let isFirst = start == nil
        if start.map({ now - $0 > max(secondsMax, 2 * meanSeconds) }) ?? true {
            restart(at: max(since ?? now, now + -1))
        }
        if let start, start < now {
            let seconds = min(now - start, since.map { now - $0 } ?? 0)
            tally.inFlightSeconds += Double(self.inFlight) * seconds
        }
        self.inFlight = inFlight
        if !report.isEmpty || inFlight > 0 { lastUsedAt = now }
        if report.answered > 0 {
            let mean = report.answeredSeconds / Double(report.answered)
            meanSeconds = meanSeconds == 0 ? mean : meanSeconds + (mean - meanSeconds) * Self.meanWeight
            lastAnsweredAt = now
            retryAfterJobs = .none
        }
        throttleStatus = report.throttleStatus ?? throttleStatus
        if report.answered + report.throttled > 0 { lastResponseAt = now }
        if report.answered + report.throttled + report.unreachable > 0 || inFlight == 0 {
            (silent, silentJobs) = (0, .none)
        }
        silent += report.silent
        silentJobs.add(report.silentJobs)
        if retryAfterUntil.map({ $0 <= now }) ?? true { retryAfterJobs = .none }
        if retryAfterJobs == .none { retryAfterUntil = nil }
        if let seconds = report.retryAfter, !isHeld {
            let until = now + min(seconds, HostControl.holdSecondsMax)
            retryAfterUntil = min(until, retryAfterUntil ?? until)
            retryAfterJobs.add(report.retryAfterJobs)
        }
        guard let start, start < now || isFirst else { return }
        tally.add(report)
        failedJobs.add(report.failedJobs)
    }
}

extension EvidenceWindow: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("start", &start)
        coder.value("seen", &tally)
        coder.value("failed_jobs", &failedJobs)
        coder.value("mean_seconds", &meanSeconds)
        coder.value("in_flight", &inFlight)
        coder.value("used", &lastUsedAt)
        coder.value("status", &throttleStatus)
        coder.value("answered", &lastAnsweredAt)
        coder.value("response", &lastResponseAt)
        coder.value("silent", &silent)
        coder.value("silent_jobs", &silentJobs)
        coder.value("retry_after_until", &retryAfterUntil)
        coder.value("retry_after_jobs", &retryAfterJobs)
    }
}

/// The evidence of several narrowest scopes together, each over a window of its own.
struct Evidence: Sendable, Equatable {
    private(set) var tally = Tally()
    private(set) var failedJobs = ScopeReport.Jobs.none
    /// The longest window.
    private(set) var seconds = 0.0
    private(set) var answeredPerSecond = 0.0
    private(set) var failedPerSecond = 0.0
    /// Mean attempts in flight that are answered, by Little's law: by their own durations, and with what
    /// their claims and results take; and all that are in flight.
    private(set) var answeredInFlight = 0.0
    private(set) var answeredWithOverhead = 0.0
    private(set) var inFlight = 0
    private var usualSeconds = 0.0

    init(_ windows: some Sequence<EvidenceWindow>, at now: Timestamp) {
        for window in windows {
            let elapsed = window.seconds(now)
            inFlight += window.inFlight
            usualSeconds = max(usualSeconds, window.meanSeconds)
            guard elapsed > 0, window.tally.count > 0 else { continue }
            let seen = window.tally
            tally.answered += seen.answered
            tally.throttled += seen.throttled
            tally.lost += seen.lost
            tally.answeredSeconds += seen.answeredSeconds
            tally.throttleStatus = seen.throttleStatus ?? tally.throttleStatus
            failedJobs.add(window.failedJobs)
            seconds = max(seconds, elapsed)
            answeredPerSecond += Double(seen.answered) / elapsed
            failedPerSecond += Double(seen.failed) / elapsed
            answeredInFlight += seen.answeredSeconds / elapsed
            answeredWithOverhead += (seen.answeredSeconds + seen.overheadSeconds) / elapsed
        }
    }

    /// The mean duration of an answered attempt; of the slowest window if none was answered in these.
    var meanSeconds: Double {
        tally.answered == 0 ? usualSeconds : tally.answeredSeconds / Double(tally.answered)
    }

    /// Seconds of the window before a decision is made of it: several transfers end in them.
    var secondsWanted: Double { min(max(EvidenceWindow.secondsMin, 3 * meanSeconds), Self.secondsWantedMax) }
    private static let secondsWantedMax = 5.0

    var share: Double {
        failedPerSecond == 0 ? 0 : failedPerSecond / (failedPerSecond + answeredPerSecond)
    }

    /// Whether more fail than is usual, with too little chance that this is an accident.
    func exceeds(_ tolerance: FailureTolerance) -> Bool {
        tally.failed >= EvidenceWindow.failedCountMin && failedJobs == .several
            && share > tolerance.share + 3 * tolerance.deviation(tally.count)
    }

    /// By how many standard deviations fewer fail than of a whole of which `share` fails; 0 unless they are
    /// at most half as many.
    func fineness(where share: Double) -> Double {
        let expected = share * Double(tally.count)
        let failed = Double(tally.failed)
        guard expected > 0, failed <= expected / 2 else { return 0 }
        return (expected - failed) / (expected * max(1 - share, 0.05)).squareRoot()
    }

    /// Whether about as many fail as of the whole.
    func isFailing(where share: Double) -> Bool { tally.failed > 0 && tally.share >= share / 2 }
}

/// The share of failures that changes nothing.
struct FailureTolerance: Sendable, Equatable {
    /// The share that fails however little is asked.
    var usual: Double

    private static let least = 0.01

    var share: Double { max(Self.least, min(1.5 * usual, (1 + usual) / 2)) }

    /// The standard deviation of the share of so many ends.
    func deviation(_ count: Int) -> Double {
        let expected = max(usual, Self.least)
        return (expected * (1 - expected) / Double(max(1, count))).squareRoot()
    }
}
