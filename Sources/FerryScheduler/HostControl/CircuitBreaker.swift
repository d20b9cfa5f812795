import FerryCore

/// Decides when a host counts as unreachable, when a probe looks for it, and how many waiting jobs are
/// released after it is reached again. A pure state machine of failed connections, probes and the clock.
package struct CircuitBreaker: Codable, Sendable, Equatable {
    /// Time of the change to unreachable, or `nil` if the host is not unreachable.
    private(set) var unreachableSince: Timestamp?
    /// Error code of the last failed connection while unreachable.
    private(set) var unreachableCode: TransferError.Code?
    /// Failed probes of this outage.
    private var probeCount = 0
    /// Time of the next probe, or `nil` if the host is not unreachable.
    private(set) var nextProbeAt: Timestamp?
    /// Number of waiting jobs that the next release lets begin; 0 unless the host recovers.
    private(set) var releaseCount = 0
    /// `true` if the host has responded since the last release; then the next release is twice as large.
    private var hasAnsweredSince = false
    private var nextReleaseAt: Timestamp?
    /// Time of the last response to an attempt or success of a probe, and its node.
    private var lastAnsweredAt: Timestamp?
    private var lastAnsweredBy: NodeID?
    /// Start of the period in which connections fail and no attempt is answered.
    private var failingSince: Timestamp?
    private var lastReportAt: Timestamp?

    /// Seconds before the first probe and the longest delay between two.
    private static let probeSecondsMin = 1.0
    private static let probeSecondsMax = 60.0
    /// Seconds after which a probe without a result counts as lost.
    package static let probeLeaseSeconds = 60.0
    /// Seconds after a response during which failed connections do not make the host unreachable.
    private static let presenceSeconds = 5.0
    /// The host becomes unreachable if at least one in `unreachablePart` of the attempts in flight fails to
    /// connect, or if connections fail without a response for `presenceSeconds`.
    private static let unreachablePart = 4
    /// Jobs of the first release, and the most in one release.
    private static let releaseCountMin = 2
    private static let releaseCountMax = 500
    /// Seconds between two releases.
    private static let releaseInterval = 0.5

    /// Creates the state of a host that can be reached.
    package init() {}

    /// `true` if the host can be reached and no jobs wait to be released.
    var isClosed: Bool { unreachableSince == nil && releaseCount == 0 }

    /// Time at which the next probe or release is due, or `nil` if none is.
    var dueAt: Timestamp? {
        if unreachableSince != nil { return nextProbeAt }
        return releaseCount > 0 ? nextReleaseAt : nil
    }

    /// Adds what one node has seen of the origin. Returns `true` if this makes the host unreachable.
    mutating func take(_ report: ScopeReport, by node: NodeID?, inFlight: Int, now: Timestamp) -> Bool {
        lastReportAt = now
        if report.answered > 0 {
            noteResponse(by: node, at: now)
            hasAnsweredSince = releaseCount > 0
        }
        guard report.unreachable > report.answered, unreachableSince == nil else { return false }
        let since = failingSince ?? now
        failingSince = since
        // Of many attempts begun together, the ones that fail to connect end first.
        let areMany = report.unreachable * Self.unreachablePart >= inFlight
        let wasReached = lastAnsweredAt.map { now - $0 < Self.presenceSeconds } ?? false
        guard areMany && !wasReached || now - since >= Self.presenceSeconds else { return false }
        failingSince = nil
        // A relapse during recovery keeps the delay between probes.
        if releaseCount == 0 { probeCount = 0 }
        unreachableSince = now
        unreachableCode = report.unreachableCode
        endRelease()
        nextProbeAt = now + probeDelay
        return true
    }

    /// Seconds until the next probe; doubles with each failed probe.
    private var probeDelay: Double {
        min(Self.probeSecondsMin * Double(1 << min(probeCount, 10)), Self.probeSecondsMax)
    }

    private mutating func endRelease() {
        (releaseCount, hasAnsweredSince, nextReleaseAt) = (0, false, nil)
    }

    /// Returns `true` if a probe is due, and leases it for `probeLeaseSeconds`.
    mutating func beginProbe(at now: Timestamp) -> Bool {
        guard unreachableSince != nil, let nextProbeAt, nextProbeAt <= now else { return false }
        self.nextProbeAt = now + Self.probeLeaseSeconds
        return true
    }

    /// Returns the number of waiting jobs to release now.
    mutating func release(at now: Timestamp) -> Int {
        guard unreachableSince == nil, releaseCount > 0, (nextReleaseAt ?? now) <= now else { return 0 }
        if hasAnsweredSince { releaseCount = min(releaseCount * 2, Self.releaseCountMax) }
        hasAnsweredSince = false
        nextReleaseAt = now + Self.releaseInterval
        return releaseCount
    }

    /// Records that a release of up to `allowed` jobs has released `count`. Ends the recovery if that was
    /// fewer than allowed, since no more wait.
    mutating func released(_ count: Int, of allowed: Int) {
        guard count < allowed, unreachableSince == nil else { return }
        endRelease()
        probeCount = 0
    }

    /// Records the result of a probe. `code`: why the host was not reached, or `nil` if it was. Returns the
    /// duration of the outage in seconds if the probe ends it, else `nil`.
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
        noteResponse(by: node, at: now)
        releaseCount = Self.releaseCountMin
        nextReleaseAt = now
        return now - since
    }

    /// Ends the probes because no job waits for the host. If an attempt has reported in the last
    /// `presenceSeconds`, its job may still begin to wait: then only defers the next probe.
    mutating func stopProbing(at now: Timestamp) {
        if let lastReportAt, now - lastReportAt < Self.presenceSeconds {
            nextProbeAt = now + Self.probeSecondsMin
            return
        }
        close()
        probeCount = 0
    }

    private mutating func close() { (unreachableSince, unreachableCode, nextProbeAt) = (nil, nil, nil) }

    private mutating func noteResponse(by node: NodeID?, at now: Timestamp) {
        (lastAnsweredAt, lastAnsweredBy, failingSince) = (now, node, nil)
    }

    /// Returns `true` if another node had a response after `instant`: then `node` may be cut off itself.
    func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        guard let lastAnsweredAt, let lastAnsweredBy, lastAnsweredBy != node else { return false }
        return lastAnsweredAt > instant
    }
}
