import FerryCore

/// Decides when a host counts as unreachable, when a probe looks for it, and how many of its waiting jobs are
/// let go once it is reached again: a pure state machine of failed connections, probes and the clock.
package struct CircuitBreaker: Codable, Sendable, Equatable {
    private(set) var unreachableSince: Timestamp?
    private(set) var unreachableCode: TransferError.Code?
    private var probeCount = 0
    private(set) var nextProbeAt: Timestamp?
    /// How many waiting jobs are let go next; 0 unless the host recovers.
    private(set) var releaseCount = 0
    /// An answer has come since jobs were let go last: the next are twice as many.
    private var hasAnsweredSince = false
    private var nextReleaseAt: Timestamp?
    /// When an attempt or a probe was answered last, and which node that was.
    private var lastAnsweredAt: Timestamp?
    private var lastAnsweredBy: NodeID?
    /// Since when connections fail and no attempt is answered.
    private var failingSince: Timestamp?
    private var lastReportAt: Timestamp?

    private static let probeSecondsMin = 1.0
    private static let probeSecondsMax = 60.0
    /// Seconds after which a probe without a report is lost.
    package static let probeLeaseSeconds = 60.0
    /// Seconds for which a host is reached after an answer, whatever connections fail.
    private static let presenceSeconds = 5.0
    /// One in so many of the attempts in flight has to fail, or all of them for `presenceSeconds`.
    private static let doubtPart = 4
    private static let releaseCountMin = 2
    private static let releaseCountMax = 500
    private static let releaseInterval = 0.5

    package init() {}

    /// Whether the host is reached, and no job has waited for that.
    var isClosed: Bool { unreachableSince == nil && releaseCount == 0 }

    /// When the next probe or release is due.
    var dueAt: Timestamp? {
        if unreachableSince != nil { return nextProbeAt }
        return releaseCount > 0 ? nextReleaseAt : nil
    }

    /// Takes what one node has seen of the whole host. Returns whether the host is unreachable from now on.
    mutating func take(_ report: ScopeReport, by node: NodeID?, inFlight: Int, now: Timestamp) -> Bool {
        lastReportAt = now
        if report.answered > 0 {
            noteAnswer(by: node, at: now)
            hasAnsweredSince = releaseCount > 0
        }
        guard report.unreachable > report.answered, unreachableSince == nil else { return false }
        let since = failingSince ?? now
        failingSince = since
        // Of many that began together those end first whose connection fails.
        let areMany = report.unreachable * Self.doubtPart >= inFlight
        let wasReached = lastAnsweredAt.map { now - $0 < Self.presenceSeconds } ?? false
        guard areMany && !wasReached || now - since >= Self.presenceSeconds else { return false }
        failingSince = nil
        // A relapse goes on with the delay between probes where it was.
        if releaseCount == 0 { probeCount = 0 }
        unreachableSince = now
        unreachableCode = report.unreachableCode
        endRelease()
        nextProbeAt = now + probeDelay
        return true
    }

    /// Seconds until the next probe: twice as many each time.
    private var probeDelay: Double {
        min(Self.probeSecondsMin * Double(1 << min(probeCount, 10)), Self.probeSecondsMax)
    }

    private mutating func endRelease() {
        (releaseCount, hasAnsweredSince, nextReleaseAt) = (0, false, nil)
    }

    /// Returns whether a probe begins now. It is leased for `probeLeaseSeconds`.
    mutating func beginProbe(at now: Timestamp) -> Bool {
        guard unreachableSince != nil, let nextProbeAt, nextProbeAt <= now else { return false }
        self.nextProbeAt = now + Self.probeLeaseSeconds
        return true
    }

    /// Returns how many waiting jobs are let go now.
    mutating func release(at now: Timestamp) -> Int {
        guard unreachableSince == nil, releaseCount > 0, (nextReleaseAt ?? now) <= now else { return 0 }
        if hasAnsweredSince { releaseCount = min(releaseCount * 2, Self.releaseCountMax) }
        hasAnsweredSince = false
        nextReleaseAt = now + Self.releaseInterval
        return releaseCount
    }

    /// `count` jobs were let go of those that `release` allowed. Ends the release if no more wait.
    mutating func released(_ count: Int, of allowed: Int) {
        guard count < allowed, unreachableSince == nil else { return }
        endRelease()
        probeCount = 0
    }

    /// A probe has ended. `code`: why the host was not reached; nil if it was. Returns for how many seconds
    /// it was unreachable if it is so no more.
    mutating func probed(_ code: TransferError.Code?, by node: NodeID?, at now: Timestamp) -> Double? {
        guard let since = unreachableSince else { return nil }
        lastReportAt = now
        if let code {
            unreachableCode = code
            probeCount += 1
            nextProbeAt = now + probeDelay
            return nil
        }
        close()
        noteAnswer(by: node, at: now)
        releaseCount = Self.releaseCountMin
        nextReleaseAt = now
        return now - since
    }

    /// No job waits for the host: ends the probes, unless an attempt has ended just now and its job may still
    /// begin to wait.
    mutating func stopProbing(at now: Timestamp) {
        if let lastReportAt, now - lastReportAt < Self.presenceSeconds {
            nextProbeAt = now + Self.probeSecondsMin
            return
        }
        close()
        probeCount = 0
    }

    private mutating func close() { (unreachableSince, unreachableCode, nextProbeAt) = (nil, nil, nil) }

    private mutating func noteAnswer(by node: NodeID?, at now: Timestamp) {
        (lastAnsweredAt, lastAnsweredBy, failingSince) = (now, node, nil)
    }

    /// Returns whether another node was answered after `instant`: then a node that does not reach the host
    /// doubts itself.
    func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        guard let lastAnsweredAt, let lastAnsweredBy, lastAnsweredBy != node else { return false }
        return lastAnsweredAt > instant
    }
}
