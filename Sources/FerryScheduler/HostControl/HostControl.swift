package import FerryCore

/// Decides how many requests an origin gets from all nodes together. A pure state machine of reports, probes
/// and the clock, stored as JSON in the origin's row (docs/decisions/0033); the property names are keys of
/// that JSON.
///
/// Failures limit the narrowest scope that they concern. A wider scope acts only if at least two of the
/// scopes in it fail and no scope in use in it is healthy.
package struct HostControl: Codable, Sendable, Equatable {
    /// State of a scope that is not normal, for administrators.
    package struct ScopeStatus: Sendable, Equatable {
        /// The scope, its state, its limit, and the reason in words.
        package let scope: HostScope
        package let state: HostState
        package let limit: HostLimit
        package let reason: String
    }

    /// Actions that a node has to take for the host now.
    package struct DueActions: Sendable, Equatable {
        /// `true` if the node has to connect to the host and pass the result to `probed`.
        package var probes = false
        /// Number of waiting jobs to release.
        package var releases = 0
    }

    /// Longest hold that a host can ask for, in seconds.
    package static let holdSecondsMax = 3_600.0
    /// Number of paths of a tenant, and of scopes in total, that are tracked separately.
    package static let pathCountMax = 64
    package static let scopeCountMax = 512

    /// Seconds between two decisions, and of a throughput measurement.
    static let lookSeconds = 1.0
    static let measureSeconds = 10.0
    /// Seconds without attempts after which a scope counts as unused, and after which it is dropped.
    static let useSeconds = 10.0
    static let idleSeconds = 60.0
    /// Seconds without failures after which the state of a busy host can be dropped.
    static let healthySeconds = 600.0

    /// Settings of the operator.
    package var settings = HostSettings()
    var breaker = CircuitBreaker()
    /// Evidence by narrowest scope; only scopes in use.
    var windows: [HostScope: EvidenceWindow] = [:]
    /// Limits by scope; only scopes with failures or limits.
    var controls: [HostScope: ScopeControl] = [:]
    var lastTakeAt: Timestamp?
    var lastLookAt: Timestamp?
    /// Time of the last report that was not empty, and of the last one with failures.
    var lastReportAt: Timestamp?
    var lastTroubleAt: Timestamp?
    /// `true` from the event `host.unreachable` until the host has answered.
    private(set) var isAnnounced = false
    /// Throughput of the whole origin over the last 10 s or more, or `nil` before the first measurement; then
    /// the measurement that runs.
    package private(set) var answeredPerSecond: Double?
    package private(set) var bytesPerSecond: Double?
    private var measured = ScopeReport()
    private var measuredSince: Timestamp?

    /// Creates the state of an origin without history.
    package init() {}

    /// Reads the stored state; `nil` if it is damaged.
    package init?(json: [UInt8]) {
        guard let control: HostControl = StateJSON.state(of: json) else { return nil }
        self = control
    }

    /// The state as it is stored.
    package var json: [UInt8] { StateJSON.bytes(of: self) }

    // MARK: Reports

    /// Adds the reports of one node and returns the decisions that follow. `reports` and `inFlight` are keyed
    /// by narrowest scope; `inFlight` counts the attempts that run on all nodes.
    package mutating func take(
        _ reports: [HostScope: ScopeReport], by node: NodeID? = nil, inFlight: [HostScope: Int],
        now: Timestamp
    ) -> [HostDecision] {
        let (reports, inFlight) = fold(reports, inFlight)
        var whole = ScopeReport()
        for report in reports.values { whole.add(report) }
        if !whole.isEmpty { lastReportAt = now }
        if whole.isTrouble { lastTroubleAt = now }
        note(reports, inFlight, now)
        measure(whole, now)
        var decisions = holdScopes(now)
        if !whole.isEmpty, breaker.take(whole, by: node, inFlight: inFlight.values.reduce(0, +), now: now) {
            var unreached = ScopeReport()
            unreached.lost = whole.unreachable
            decisions.append(decision(.unreachable, report: unreached, now, reason(at: now) ?? ""))
        }
        decisions += noteUnanswered(reports, now)
        decisions += look(now)
        forget(now)
        return decisions
    }

    /// Merges scopes beyond the limits on their number into their next wider scope.
    private func fold(
        _ reports: [HostScope: ScopeReport], _ inFlight: [HostScope: Int]
    ) -> ([HostScope: ScopeReport], [HostScope: Int]) {
        var known = Set(windows.keys)
        var counts = Dictionary(grouping: known, by: \.tenant).mapValues(\.count)
        var (foldedReports, foldedInFlight): ([HostScope: ScopeReport], [HostScope: Int]) = ([:], [:])
        for scope in Set(reports.keys).union(inFlight.keys).inOrder {
            let isFull = known.count >= Self.scopeCountMax - 1
            let mayAdd = !isFull && counts[scope.tenant, default: 0] < Self.pathCountMax
            let tenant = HostScope(tenant: scope.tenant)
            let place =
                known.contains(scope) || mayAdd
                ? scope : known.contains(tenant) || !isFull ? tenant : .origin
            if known.insert(place).inserted { counts[place.tenant, default: 0] += 1 }
            if let report = reports[scope] { foldedReports[place, default: ScopeReport()].add(report) }
            if let count = inFlight[scope] { foldedInFlight[place, default: 0] += count }
        }
        return (foldedReports, foldedInFlight)
    }

    /// Adds the reports to the windows and controls of their scopes.
    private mutating func note(
        _ reports: [HostScope: ScopeReport], _ inFlight: [HostScope: Int], _ now: Timestamp
    ) {
        for scope in Set(windows.keys).union(reports.keys).union(inFlight.keys) {
            windows[scope, default: EvidenceWindow()].take(
                reports[scope] ?? ScopeReport(), inFlight: inFlight[scope] ?? 0, since: lastTakeAt,
                isHeld: isHeld(scope, now), now: now)
        }
        for scope in controls.keys {
            var sum = ScopeReport()
            for (narrow, report) in reports where narrow.isInside(scope) { sum.add(report) }
            let running = self.inFlight(in: scope)
            controls[scope]?.note(sum, inFlight: running, now: now)
        }
        lastTakeAt = now
    }

    /// Measures the throughput of the origin.
    private mutating func measure(_ report: ScopeReport, _ now: Timestamp) {
        measured.add(report)
        let start = measuredSince ?? now
        measuredSince = start
        guard now - start >= Self.measureSeconds else { return }
        answeredPerSecond = Double(measured.answered) / (now - start)
        bytesPerSecond = Double(measured.bytes) / (now - start)
        (measured, measuredSince) = (ScopeReport(), now)
    }

    /// Drops scopes that are unused or have no history worth keeping.
    private mutating func forget(_ now: Timestamp) {
        controls = controls.filter { !$0.value.isForgettable(at: now) }
        windows = windows.filter { scope, window in
            window.inFlight > 0 || now - (window.lastUsedAt ?? .distantPast) <= Self.idleSeconds
        }
    }

    // MARK: Connections

    /// Time of the change to unreachable, or `nil` if the host is not unreachable.
    package var unreachableSince: Timestamp? { breaker.unreachableSince }
    /// Error code of the last failed connection, or `nil` if the host is not unreachable.
    package var unreachableCode: TransferError.Code? { breaker.unreachableCode }
    /// Time of the next probe, or `nil` if the host is not unreachable.
    package var nextProbeAt: Timestamp? { breaker.nextProbeAt }
    /// Number of waiting jobs of the next release; 0 unless the host recovers.
    package var releaseCount: Int { breaker.releaseCount }

    /// Returns `true` if another node had a response after `instant`.
    package func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        breaker.isReached(byOthersThan: node, after: instant)
    }

    /// Returns the type of the event that the host's reachability has now, or `nil` if that was announced.
    /// `isAnswered`: the host has answered since the last call.
    package mutating func announce(isAnswered: Bool) -> EventType? {
        guard unreachableSince == nil else {
            defer { isAnnounced = true }
            return isAnnounced ? nil : .hostUnreachable
        }
        guard isAnnounced, isAnswered else { return nil }
        isAnnounced = false
        return .hostRecovered
    }

    /// Records that a release of up to `allowed` jobs has released `count`.
    package mutating func released(_ count: Int, of allowed: Int) { breaker.released(count, of: allowed) }

    /// Ends the probes because no job waits for the host.
    package mutating func stopProbing(at now: Timestamp) { breaker.stopProbing(at: now) }

    /// Records the result of a probe. `code`: why the host was not reached, or `nil` if it was. Returns a
    /// decision if the probe ends an outage.
    package mutating func probed(
        _ code: TransferError.Code?, by node: NodeID? = nil, at now: Timestamp
    ) -> HostDecision? {
        if breaker.unreachableSince != nil { lastReportAt = now }
        guard let seconds = breaker.probed(code, by: node, at: now) else { return nil }
        return decision(
            .reachable, now,
            "Reached again after \(seconds.tenths) seconds; the jobs that waited begin in growing numbers.")
    }

    /// Returns the actions that are due, and removes expired holds. If the node `mayProbe`, a due probe is
    /// leased to it for `CircuitBreaker.probeLeaseSeconds`.
    package mutating func dueActions(at now: Timestamp, mayProbe: Bool = true) -> DueActions {
        for (scope, control) in controls where control.hold.map({ $0.until <= now }) ?? false {
            controls[scope]?.hold = nil
        }
        return DueActions(probes: mayProbe && breaker.beginProbe(at: now), releases: breaker.release(at: now))
    }

    // MARK: Operators

    /// Applies the operator's settings. `backoffUntil`: end of a hold by the operator; an inner `nil` ends
    /// all holds, and an outer `nil` leaves them. Returns `nil` if nothing changes.
    package mutating func configure(
        _ settings: HostSettings, backoffUntil: Timestamp??, now: Timestamp
    ) -> HostDecision? {
        let before = self
        self.settings = settings
        if let backoffUntil {
            for scope in controls.keys { controls[scope]?.hold = nil }
            if let backoffUntil {
                controls[.origin, default: ScopeControl()].hold = .init(until: backoffUntil, status: nil)
            }
        }
        guard self != before else { return nil }
        lastReportAt = now
        return decision(
            .configured, from: before.limit(of: .origin, at: now), now,
            "An operator has changed the settings of this host.")
    }

    /// Creates a decision about a scope, with its limits before and now.
    func decision(
        _ kind: HostDecision.Kind, of scope: HostScope = .origin, from before: HostLimit? = nil,
        report: ScopeReport = ScopeReport(), _ now: Timestamp, _ sentence: String
    ) -> HostDecision {
        let after = limit(of: scope, at: now)
        let old = before ?? after
        return HostDecision(
            at: now, kind: kind, scope: scope, limitBefore: old.connectionLimit,
            limitAfter: after.connectionLimit, inFlight: inFlight(in: scope),
            answeredPerSecond: answeredPerSecond, bytesPerSecond: bytesPerSecond,
            throttled: report.throttled, lost: report.lost,
            rateBefore: old.requestRate, rateAfter: after.requestRate, sentence: sentence)
    }
}
