package import FerryCore

/// Decides how much one origin gets, of all nodes together: a pure state machine of reports, probes and the
/// clock, kept as JSON in the origin's row (docs/decisions/0033).
///
/// Failures limit the narrowest scope that they concern. A wider scope acts only if failures come from at
/// least two of the scopes in it, and no scope in it that is used is fine.
package struct HostControl: Codable, Sendable, Equatable {
    /// What holds for the requests of a scope.
    package enum State: String, Sendable, CaseIterable {
        case normal, limited
        case backingOff = "backing_off"
        case unreachable
        /// Reached again; the jobs that waited are let go in growing numbers.
        case recovering
        case paused
    }

    /// What holds for the requests of one scope now. Nil: no such limit.
    package struct Limit: Sendable, Equatable {
        /// Attempts at once, of all nodes together.
        package var connectionLimit: Int?
        /// Nothing begins before this.
        package var blockedUntil: Timestamp?
        /// Attempts begun a second, of all nodes together.
        package var requestRate: Double?

        package init(
            connectionLimit: Int? = nil, blockedUntil: Timestamp? = nil, requestRate: Double? = nil
        ) {
            self.connectionLimit = connectionLimit
            self.blockedUntil = blockedUntil
            self.requestRate = requestRate
        }
    }

    /// What an administrator is shown of one scope in trouble.
    package struct ScopeStatus: Sendable, Equatable {
        package let scope: HostScope
        package let state: State
        package let limit: Limit
        package let reason: String
    }

    /// What a node has to do about the host now.
    package struct Errands: Sendable, Equatable {
        /// Connect to the host, and tell `probed` whether that worked.
        package var probes = false
        /// Let so many of its waiting jobs go.
        package var releases = 0
    }

    /// Seconds of the longest hold that a host may ask for.
    package static let holdSecondsMax = 3_600.0
    /// Paths of one tenant, and scopes in all, that are told apart.
    package static let pathCountMax = 64
    package static let scopeCountMax = 512

    /// Seconds between two looks at the evidence, and of one measurement.
    static let lookSeconds = 1.0
    static let measureSeconds = 10.0
    /// Seconds after which a scope without attempts is not in use, and after which it is forgotten.
    static let useSeconds = 10.0
    static let idleSeconds = 60.0
    /// Seconds without trouble after which a busy host is forgotten.
    static let healthySeconds = 600.0

    package var settings = HostSettings()
    var breaker = CircuitBreaker()
    /// Of each narrowest scope in use.
    var windows: [HostScope: EvidenceWindow] = [:]
    /// Of each scope in trouble.
    var controls: [HostScope: ScopeControl] = [:]
    var lastTakeAt: Timestamp?
    var lastLookAt: Timestamp?
    /// A report that was not empty, and one that had trouble.
    var lastReportAt: Timestamp?
    var lastTroubleAt: Timestamp?
    /// Of the whole origin, measured over the last ten seconds or more; and what is being measured.
    package private(set) var answeredPerSecond: Double?
    package private(set) var bytesPerSecond: Double?
    private var measured = ScopeReport()
    private var measuredSince: Timestamp?

    package init() {}

    /// Reads `json`; nil if it is damaged.
    package init?(json: [UInt8]) {
        guard let control: HostControl = StateJSON.state(of: json) else { return nil }
        self = control
    }

    package var json: [UInt8] { StateJSON.bytes(of: self) }

    // MARK: Reports

    /// Takes what one node has seen. `reports` and `inFlight` are keyed by narrowest scopes; `inFlight`:
    /// attempts that run now, of all nodes.
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
            var missed = ScopeReport()
            missed.lost = whole.unreachable
            decisions.append(decision(.unreachable, report: missed, now, reason(at: now) ?? ""))
        }
        decisions += noteSilence(reports, now)
        decisions += look(now)
        forget(now)
        return decisions
    }

    /// Adds up what is beyond the bounds of scopes under the next wider one.
    private func fold(
        _ reports: [HostScope: ScopeReport], _ inFlight: [HostScope: Int]
    ) -> ([HostScope: ScopeReport], [HostScope: Int]) {
        var known = Set(windows.keys)
        var counts = Dictionary(grouping: known, by: \.tenant).mapValues(\.count)
        var (foldedReports, foldedInFlight): ([HostScope: ScopeReport], [HostScope: Int]) = ([:], [:])
        for scope in Set(reports.keys).union(inFlight.keys).inOrder {
            let isFull = known.count >= Self.scopeCountMax - 1
            let hasPlace = !isFull && counts[scope.tenant, default: 0] < Self.pathCountMax
            let tenant = HostScope(tenant: scope.tenant)
            let place =
                known.contains(scope) || hasPlace
                ? scope : known.contains(tenant) || !isFull ? tenant : .origin
            if known.insert(place).inserted { counts[place.tenant, default: 0] += 1 }
            if let report = reports[scope] { foldedReports[place, default: ScopeReport()].add(report) }
            if let count = inFlight[scope] { foldedInFlight[place, default: 0] += count }
        }
        return (foldedReports, foldedInFlight)
    }

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

    private mutating func measure(_ report: ScopeReport, _ now: Timestamp) {
        measured.add(report)
        let start = measuredSince ?? now
        measuredSince = start
        guard now - start >= Self.measureSeconds else { return }
        answeredPerSecond = Double(measured.answered) / (now - start)
        bytesPerSecond = Double(measured.bytes) / (now - start)
        (measured, measuredSince) = (ScopeReport(), now)
    }

    private mutating func forget(_ now: Timestamp) {
        controls = controls.filter { !$0.value.isForgettable(at: now) }
        windows = windows.filter { scope, window in
            window.inFlight > 0 || now - (window.lastUsedAt ?? .distantPast) <= Self.idleSeconds
        }
    }

    // MARK: Connections

    package var unreachableSince: Timestamp? { breaker.unreachableSince }
    package var unreachableCode: TransferError.Code? { breaker.unreachableCode }
    package var nextProbeAt: Timestamp? { breaker.nextProbeAt }
    package var releaseCount: Int { breaker.releaseCount }

    /// Whether another node was answered after `instant`.
    package func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        breaker.isReached(byOthersThan: node, after: instant)
    }

    /// `count` waiting jobs were let go of those that `errands` allowed.
    package mutating func released(_ count: Int, of allowed: Int) { breaker.released(count, of: allowed) }

    /// No job waits for the host.
    package mutating func stopProbing(at now: Timestamp) { breaker.stopProbing(at: now) }

    /// A probe has ended. `code`: why the host was not reached; nil if it was.
    package mutating func probed(
        _ code: TransferError.Code?, by node: NodeID? = nil, at now: Timestamp
    ) -> HostDecision? {
        if breaker.unreachableSince != nil { lastReportAt = now }
        guard let seconds = breaker.probed(code, by: node, at: now) else { return nil }
        return decision(
            .reachable, now,
            "Reached again after \(seconds.tenths) seconds; the jobs that waited begin in growing numbers.")
    }

    /// What is due. A probe is leased for `CircuitBreaker.probeLeaseSeconds` if the node `mayProbe`.
    package mutating func errands(at now: Timestamp, mayProbe: Bool = true) -> Errands {
        for (scope, control) in controls where control.hold.map({ $0.until <= now }) ?? false {
            controls[scope]?.hold = nil
        }
        return Errands(probes: mayProbe && breaker.beginProbe(at: now), releases: breaker.release(at: now))
    }

    // MARK: Operators

    /// Takes other settings. `backoffUntil`: until when the operator holds the host; nil in it ends every
    /// hold.
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

    /// A decision about a scope, with its limits before and now.
    func decision(
        _ kind: HostDecision.Kind, of scope: HostScope = .origin, from before: Limit? = nil,
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
