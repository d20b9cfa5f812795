package import FerryCore

/// Decides when a host counts as unreachable, when a probe looks for it, and how many of its waiting jobs are
/// let go once it is reached again: a pure state machine of failed connections, probes and the clock.
package struct CircuitBreaker: Sendable, Equatable {
    package var unreachableSince: Timestamp?
    package var unreachableCode: TransferError.Code?
    package var probeCount = 0
    package var nextProbeAt: Timestamp?
    /// How many waiting jobs are let go next; 0 unless the host recovers.
    package var releaseCount = 0
    /// An answer has come since jobs were let go last: the next are twice as many.
    var hasAnsweredSince = false
    var nextReleaseAt: Timestamp?
    /// When an attempt or a probe was answered last, and which node that was.
    var lastAnsweredAt: Timestamp?
    var lastAnsweredBy: NodeID?
    /// Since when connections fail and no attempt is answered.
    var failingSince: Timestamp?
    var lastReportAt: Timestamp?

    static let probeSecondsMin = 1.0
    static let probeSecondsMax = 60.0
    /// Seconds after which a probe without a report is lost.
    package static let probeLeaseSeconds = 60.0
    /// Seconds for which a host is reached after an answer, whatever connections fail.
    static let presenceSeconds = 5.0
    /// One in so many of the attempts in flight has to fail, or all of them for `presenceSeconds`.
    static let doubtPart = 4
    static let releaseCountMin = 2
    static let releaseCountMax = 500
    static let releaseInterval = 0.5

    package init() {}

    package enum Change: Sendable, Equatable { case opened, closed(after: Double) }

    /// When the next probe or release is due.
    var dueAt: Timestamp? {
        if unreachableSince != nil { return nextProbeAt }
        return releaseCount > 0 ? nextReleaseAt : nil
    }

    /// Takes what one node has seen of the whole host.
    package mutating func take(
        answered: Int, unreachable: Int, code: TransferError.Code?, by node: NodeID?, inFlight: Int,
        now: Timestamp
    ) -> Change? {
        lastReportAt = now
        if answered > 0 {
            lastAnsweredAt = now
            lastAnsweredBy = node
            failingSince = nil
            hasAnsweredSince = releaseCount > 0
        }
        guard unreachable > 0, unreachable > answered, unreachableSince == nil else { return nil }
        let since = failingSince ?? now
        failingSince = since
        // Of many that began together those end first whose connection fails.
        let areMany = unreachable * Self.doubtPart >= inFlight
        let wasReached = lastAnsweredAt.map { now - $0 < Self.presenceSeconds } ?? false
        guard areMany && !wasReached || now - since >= Self.presenceSeconds else { return nil }
        failingSince = nil
        // A relapse goes on with the delay between probes where it was.
        if releaseCount == 0 { probeCount = 0 }
        unreachableSince = now
        unreachableCode = code
        endRelease()
        nextProbeAt = now + probeDelay
        return .opened
    }

    /// Seconds until the next probe: twice as many each time.
    private var probeDelay: Double {
        min(Self.probeSecondsMin * Double(1 << min(probeCount, 10)), Self.probeSecondsMax)
    }

    private mutating func endRelease() {
        releaseCount = 0
        hasAnsweredSince = false
        nextReleaseAt = nil
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
    package mutating func released(_ count: Int, of allowed: Int) {
        guard count < allowed, unreachableSince == nil else { return }
        endRelease()
        probeCount = 0
    }

    /// A probe has ended. `code`: why the host was not reached; nil if it was.
    package mutating func probed(_ code: TransferError.Code?, by node: NodeID?, at now: Timestamp) -> Change?
    {
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
        return .closed(after: now - since)
    }

    /// No job waits for the host: ends the probes, unless an attempt has ended just now and its job may still
    /// begin to wait.
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

    /// Returns whether another node was answered after `instant`: then a node that does not reach the host
    /// doubts itself.
    package func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        guard let lastAnsweredAt, let lastAnsweredBy, lastAnsweredBy != node else { return false }
        return lastAnsweredAt > instant
    }
}

extension CircuitBreaker: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("unreachable_since", &unreachableSince)
        coder.value("unreachable_code", &unreachableCode)
        coder.value("probes", &probeCount)
        coder.value("next_probe", &nextProbeAt)
        coder.value("release", &releaseCount)
        coder.value("answered_since", &hasAnsweredSince)
        coder.value("next_release", &nextReleaseAt)
        coder.value("last_answer", &lastAnsweredAt)
        coder.value("last_answer_by", &lastAnsweredBy)
        coder.value("failing_since", &failingSince)
        coder.value("last_report", &lastReportAt)
    }
}
