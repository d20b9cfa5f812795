package import FerryCore

/// Decides how much one origin gets, of all nodes together: a pure state machine of reports, probes and the
/// clock, kept as JSON in the origin's row (docs/decisions/0033).
///
/// Failures limit the narrowest scope that they concern. A wider scope acts only if failures come from at
/// least two of the scopes in it, and no scope in it that is used is fine.
package struct HostControl: Sendable, Equatable {
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
    /// Of the whole origin, measured over the last ten seconds or more.
    package internal(set) var answeredPerSecond: Double?
    package internal(set) var bytesPerSecond: Double?
    var measured = Measure()

    struct Measure: Sendable, Equatable {
        var start: Timestamp?
        var answered = 0
        var bytes = 0
    }

    /// Seconds between two looks at the evidence.
    static let lookSeconds = 1.0
    static let measureSeconds = 10.0
    /// Seconds after which a scope without attempts is not in use, and after which it is forgotten.
    static let useSeconds = 10.0
    static let idleSeconds = 60.0
    /// Seconds without trouble after which a busy host is forgotten.
    static let healthySeconds = 600.0
    /// Standard deviations by which fewer fail in a part of a scope that is fine, and in one that is clearly
    /// so.
    static let fineDeviations = 2.0
    static let clearDeviations = 4.0
    /// Seconds until the next look at a silent host.
    static let silentLookSeconds = 5.0

    package init() {}

    // MARK: Limits

    /// Every scope that is limited now. `.origin` has what the operator has set as well.
    package func limits(at now: Timestamp) -> [HostScope: Limit] {
        var limits: [HostScope: Limit] = [:]
        for scope in Set(controls.keys).union([.origin]) {
            let limit = limit(of: scope, at: now)
            if limit != Limit() { limits[scope] = limit }
        }
        return limits
    }

    func limit(of scope: HostScope, at now: Timestamp) -> Limit {
        let control = controls[scope]
        var limit = Limit(
            connectionLimit: control?.connectionLimit,
            blockedUntil: control?.hold?.until.flatMap { $0 > now ? $0 : nil },
            requestRate: control?.bucket?.rate)
        guard scope.isOrigin else { return limit }
        limit.connectionLimit = limit.connectionLimit.map { max($0, settings.connectionsMin ?? 1) }
        limit.connectionLimit = [limit.connectionLimit, settings.connectionsMax].compactMap(\.self).min()
        limit.requestRate = [limit.requestRate, settings.requestsPerSecondMax].compactMap(\.self).min()
        if settings.isPaused { limit.blockedUntil = .distantFuture }
        return limit
    }

    package func state(of scope: HostScope = .origin, at now: Timestamp) -> State {
        if scope.isOrigin {
            if settings.isPaused { return .paused }
            if breaker.unreachableSince != nil { return .unreachable }
        }
        let limit = limit(of: scope, at: now)
        if limit.blockedUntil != nil { return .backingOff }
        if scope.isOrigin, breaker.releaseCount > 0 { return .recovering }
        return limit == Limit() ? .normal : .limited
    }

    /// Why the scope is not in its normal state, and until when or how much; nil: it is.
    package func reason(of scope: HostScope = .origin, at now: Timestamp) -> String? {
        let (control, limit, words) = (controls[scope], limit(of: scope, at: now), scope.words)
        switch state(of: scope, at: now) {
        case .normal: return nil
        case .paused: return "An operator has paused this host."
        case .unreachable:
            let code = breaker.unreachableCode ?? .couldNotConnect
            return
                "No connection to this host succeeds (\(code.rawValue)); one probe looks for all of its jobs."
        case .recovering: return "This host is reached again; the jobs that waited begin in growing numbers."
        case .backingOff:
            let until = limit.blockedUntil ?? now
            guard let status = control?.hold?.status else {
                return "An operator holds back all requests to this host until \(until)."
            }
            return
                "The host answered several jobs with status \(status) and Retry-After; \(words) wait until "
                + "\(until)."
        case .limited:
            let most = limit.words
            guard let control, control.isLimited || control.silence != nil else {
                return "An operator has limited all requests to this host to \(most)."
            }
            if let silence = control.silence, control.connectionLimit == silence.limit {
                return "The host takes requests and answers none; \(words) are limited to \(most)."
            }
            return control.isUnanswered
                ? "The host answers none of \(words); these are limited to \(most) until it does."
                : "The host failed too many of \(words); these are limited to \(most), which it can answer."
        }
    }

    /// Every scope in trouble, the widest first.
    package func scopes(at now: Timestamp) -> [ScopeStatus] {
        limits(at: now).keys.inOrder.compactMap { scope in
            reason(of: scope, at: now).map {
                ScopeStatus(
                    scope: scope, state: state(of: scope, at: now), limit: limit(of: scope, at: now),
                    reason: $0)
            }
        }
    }

    // MARK: Reports

    /// Takes what one node has seen. `reports` and `inFlight` are keyed by narrowest scopes; `inFlight`:
    /// attempts that run now, of all nodes; `jitter`: from 0 to 1.
    package mutating func take(
        _ reports: [HostScope: ScopeReport], by node: NodeID? = nil, inFlight: [HostScope: Int],
        now: Timestamp,
        jitter: Double
    ) -> [HostDecision] {
        let (reports, inFlight) = fold(reports, inFlight)
        var whole = ScopeReport()
        for report in reports.values { whole.add(report) }
        if !whole.isEmpty { lastReportAt = now }
        if whole.isTrouble { lastTroubleAt = now }
        note(reports, inFlight, now)
        measure(whole, now)
        var decisions = holdScopes(now)
        if let decision = noteConnections(whole, node, inFlight.values.reduce(0, +), now) {
            decisions.append(decision)
        }
        decisions += noteSilence(reports, now)
        decisions += look(now)
        forget(now)
        return decisions
    }

    /// Adds up what is beyond the bounds of scopes under the next wider one.
    func fold(
        _ reports: [HostScope: ScopeReport], _ inFlight: [HostScope: Int]
    ) -> ([HostScope: ScopeReport], [HostScope: Int]) {
        var known = Set(windows.keys)
        var counts: [String: Int] = [:]
        for scope in known { counts[scope.tenant, default: 0] += 1 }
        func place(_ scope: HostScope) -> HostScope {
            var scope = scope
            while !known.contains(scope) {
                let isOver =
                    known.count >= Self.scopeCountMax - 1
                    || !scope.path.isEmpty && counts[scope.tenant, default: 0] >= Self.pathCountMax
                guard isOver, let wider = scope.wider else {
                    known.insert(scope)
                    counts[scope.tenant, default: 0] += 1
                    break
                }
                scope = wider
            }
            return scope
        }
        var (foldedReports, foldedInFlight): ([HostScope: ScopeReport], [HostScope: Int]) = ([:], [:])
        for scope in Set(reports.keys).union(inFlight.keys).inOrder {
            let place = place(scope)
            if let report = reports[scope] { foldedReports[place, default: ScopeReport()].add(report) }
            if let count = inFlight[scope] { foldedInFlight[place, default: 0] += count }
        }
        return (foldedReports, foldedInFlight)
    }

    mutating func note(
        _ reports: [HostScope: ScopeReport], _ inFlight: [HostScope: Int], _ now: Timestamp
    ) {
        let seconds = lastTakeAt.map { max(0, now - $0) } ?? 0
        var sums: [HostScope: (report: ScopeReport, inFlight: Int)] = [:]
        for scope in Set(windows.keys).union(reports.keys).union(inFlight.keys) {
            let (report, count) = (reports[scope] ?? ScopeReport(), inFlight[scope] ?? 0)
            windows[scope, default: EvidenceWindow()].take(
                report, inFlight: count, since: lastTakeAt, isHeld: isHeld(scope, now),
                secondsMax: controls[scope]?.evidenceSeconds ?? EvidenceWindow.secondsMax, now: now)
            for scope in scope.upward where controls[scope] != nil {
                sums[scope, default: (ScopeReport(), 0)].report.add(report)
                sums[scope, default: (ScopeReport(), 0)].inFlight += count
            }
        }
        for scope in controls.keys {
            let sum = sums[scope] ?? (ScopeReport(), 0)
            controls[scope]?.note(sum.report, inFlight: sum.inFlight, seconds: seconds, now: now)
        }
        lastTakeAt = now
    }

    mutating func measure(_ report: ScopeReport, _ now: Timestamp) {
        let start = measured.start ?? now
        measured.start = start
        measured.answered += report.answered
        measured.bytes += Int(report.bytes)
        guard now - start >= Self.measureSeconds else { return }
        answeredPerSecond = Double(measured.answered) / (now - start)
        bytesPerSecond = Double(measured.bytes) / (now - start)
        measured = Measure(start: now)
    }

    func windows(in scope: HostScope) -> [EvidenceWindow] {
        windows.compactMap { $0.key.isInside(scope) ? $0.value : nil }
    }

    /// The windows inside a scope, by the scopes just below it.
    func groups(in scope: HostScope) -> [[EvidenceWindow]] {
        var groups: [HostScope: [EvidenceWindow]] = [:]
        for (narrow, window) in windows where narrow.isInside(scope) {
            groups[scope.isOrigin ? HostScope(tenant: narrow.tenant) : narrow, default: []].append(window)
        }
        return Array(groups.values)
    }

    var tenantScopes: [HostScope] {
        Set(windows.keys.lazy.map(\.tenant)).subtracting([""]).sorted().map { HostScope(tenant: $0) }
    }

    func paths(of tenant: HostScope) -> [HostScope] {
        windows.keys.filter { $0.tenant == tenant.tenant && !$0.path.isEmpty }.sorted { $0.path < $1.path }
    }

    // MARK: Connections

    mutating func noteConnections(
        _ report: ScopeReport, _ node: NodeID?, _ inFlight: Int, _ now: Timestamp
    ) -> HostDecision? {
        guard !report.isEmpty,
            breaker.take(
                answered: report.answered, unreachable: report.unreachable, code: report.unreachableCode,
                by: node,
                inFlight: inFlight, now: now) != nil
        else { return nil }
        let limit = limit(of: .origin, at: now).connectionLimit
        return HostDecision(
            at: now, kind: .unreachable, limitBefore: limit, limitAfter: limit, lost: report.unreachable,
            sentence: reason(at: now) ?? "")
    }

    package func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        breaker.isReached(byOthersThan: node, after: instant)
    }
    package var unreachableSince: Timestamp? { breaker.unreachableSince }
    package var unreachableCode: TransferError.Code? { breaker.unreachableCode }
    package var nextProbeAt: Timestamp? { breaker.nextProbeAt }
    package var releaseCount: Int { breaker.releaseCount }
    package mutating func released(_ count: Int, of allowed: Int) { breaker.released(count, of: allowed) }
    package mutating func stopProbing(at now: Timestamp) { breaker.stopProbing(at: now) }

    package mutating func probed(
        _ code: TransferError.Code?, by node: NodeID? = nil, at now: Timestamp
    ) -> HostDecision? {
        let change = breaker.probed(code, by: node, at: now)
        if change != nil || breaker.unreachableSince != nil { lastReportAt = now }
        guard case .closed(let seconds) = change else { return nil }
        let limit = limit(of: .origin, at: now).connectionLimit
        return HostDecision(
            at: now, kind: .reachable, limitBefore: limit, limitAfter: limit,
            sentence:
                "Reached again after \(seconds.tenths) seconds; "
                + "the jobs that waited begin in growing numbers."
        )
    }
}
