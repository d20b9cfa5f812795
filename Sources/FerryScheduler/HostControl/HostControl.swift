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
    private var breaker = CircuitBreaker()
    /// Of each narrowest scope in use.
    private var windows: [HostScope: EvidenceWindow] = [:]
    /// Of each scope in trouble.
    private var controls: [HostScope: ScopeControl] = [:]
    private var lastTakeAt: Timestamp?
    private var lastLookAt: Timestamp?
    /// A report that was not empty, and one that had trouble.
    private var lastReportAt: Timestamp?
    private var lastTroubleAt: Timestamp?
    /// Of the whole origin, measured over the last ten seconds or more.
    package private(set) var answeredPerSecond: Double?
    package private(set) var bytesPerSecond: Double?
    private var measured = Measure()

    struct Measure: Sendable, Equatable {
        var start: Timestamp?
        var answered = 0
        var bytes = 0
    }

    /// Seconds between two looks at the evidence.
    private static let lookSeconds = 1.0
    private static let measureSeconds = 10.0
    /// Seconds after which a scope without attempts is not in use, and after which it is forgotten.
    private static let useSeconds = 10.0
    private static let idleSeconds = 60.0
    /// Seconds without trouble after which a busy host is forgotten.
    private static let healthySeconds = 600.0
    /// Standard deviations by which fewer fail in a part of a scope that is fine, and in one that is clearly
    /// so.
    private static let fineDeviations = 2.0
    private static let clearDeviations = 4.0
    /// Seconds until the next look at a silent host.
    private static let silentLookSeconds = 5.0

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

    private func limit(of scope: HostScope, at now: Timestamp) -> Limit {
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
    private func fold(
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

    private mutating func note(
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

    private mutating func measure(_ report: ScopeReport, _ now: Timestamp) {
        let start = measured.start ?? now
        measured.start = start
        measured.answered += report.answered
        measured.bytes += Int(report.bytes)
        guard now - start >= Self.measureSeconds else { return }
        answeredPerSecond = Double(measured.answered) / (now - start)
        bytesPerSecond = Double(measured.bytes) / (now - start)
        measured = Measure(start: now)
    }

    private func windows(in scope: HostScope) -> [EvidenceWindow] {
        windows.compactMap { $0.key.isInside(scope) ? $0.value : nil }
    }

    /// The windows inside a scope, by the scopes just below it.
    private func groups(in scope: HostScope) -> [[EvidenceWindow]] {
        var groups: [HostScope: [EvidenceWindow]] = [:]
        for (narrow, window) in windows where narrow.isInside(scope) {
            groups[scope.isOrigin ? HostScope(tenant: narrow.tenant) : narrow, default: []].append(window)
        }
        return Array(groups.values)
    }

    private var tenantScopes: [HostScope] {
        Set(windows.keys.lazy.map(\.tenant)).subtracting([""]).sorted().map { HostScope(tenant: $0) }
    }

    private func paths(of tenant: HostScope) -> [HostScope] {
        windows.keys.filter { $0.tenant == tenant.tenant && !$0.path.isEmpty }.sorted { $0.path < $1.path }
    }

    // MARK: Failures

    private mutating func look(_ now: Timestamp) -> [HostDecision] {
        guard lastLookAt.map({ now - $0 >= Self.lookSeconds }) ?? true else { return [] }
        lastLookAt = now
        let (failing, partly) = failingScopes(now)
        var decisions: [HostDecision] = []
        for scope in partly {
            guard var control = controls[scope], control.isLimited else { continue }
            let before = control
            control.lift()
            controls[scope] = control
            decisions.append(decision(.narrowed, scope, before, control, nil, now))
        }
        for scope in Set(controls.keys).union(failing.keys).inOrder {
            let evidence = failing[scope]
            guard var control = controls[scope] ?? evidence.map({ _ in ScopeControl() }) else { continue }
            let (before, inside) = (control, Evidence(windows(in: scope), at: now))
            let change = control.decide(
                evidence, meanSeconds: inside.meanSeconds, inFlight: inside.inFlight,
                least: settings.connectionsMin ?? 1, now: now)
            controls[scope] = control
            if evidence != nil || control.settledAt != before.settledAt {
                settle(scope, until: control.settledAt ?? now, now)
            }
            if let change { decisions.append(decision(change, scope, before, control, inside.inFlight, now)) }
        }
        for (scope, window) in windows {
            let share = tolerance(of: scope).share
            guard window.tally.count >= EvidenceWindow.cleanCount, window.tally.share <= share else {
                continue
            }
            windows[scope]?.restart(at: now)
        }
        return decisions
    }

    /// The failure share of a scope that changes nothing: that of the scopes around it is usual there as
    /// well.
    private func tolerance(of scope: HostScope) -> FailureTolerance {
        FailureTolerance(usual: scope.upward.map { controls[$0]?.usual ?? 0 }.max() ?? 0)
    }

    /// The scopes that act on failures, the widest ones only, and those of which clearly only a part fails.
    private func failingScopes(_ now: Timestamp) -> (acting: [HostScope: Evidence], partly: [HostScope]) {
        var (acting, partly): ([HostScope: Evidence], [HostScope]) = ([:], [])
        var scopes = [HostScope.origin]
        while let scope = scopes.popLast() {
            let evidence = Evidence(windows(in: scope), at: now)
            switch extent(of: evidence, in: scope, now) {
            case .whole:
                // A moment later there is enough of it; until then no narrower scope acts either.
                let wanted = controls[scope]?.secondsWanted ?? evidence.secondsWanted
                if evidence.seconds >= wanted { acting[scope] = evidence }
                continue
            case .part(isClear: true): partly.append(scope)
            case .part, .few: break
            }
            guard scope.path.isEmpty else { continue }
            scopes += scope.isOrigin ? tenantScopes : paths(of: scope)
        }
        return (acting, partly)
    }

    private enum Extent {
        case few, whole
        case part(isClear: Bool)
    }

    /// Whether too few fail to tell, the whole scope does, or only a part of it: the whole if at least two
    /// groups fail and none that is used is fine. Windows with too few ends to tell are judged together.
    private func extent(of whole: Evidence, in scope: HostScope, _ now: Timestamp) -> Extent {
        // Of a host that answers nothing one more failure says the same again.
        if controls[scope]?.isUnanswered ?? false, whole.tally.answered == 0 {
            return whole.tally.failed > 0 ? .whole : .few
        }
        guard whole.exceeds(tolerance(of: scope)) else { return .few }
        guard scope.path.isEmpty else { return .whole }
        let share = whole.share
        var (rest, failing, fineness): ([EvidenceWindow], Int, Double) = ([], 0, 0)
        for group in groups(in: scope) {
            for window in group {
                fineness = max(fineness, Evidence([window], at: now).fineness(where: share))
                if share * Double(window.tally.count) < Double(EvidenceWindow.failedCountMin) {
                    rest.append(window)
                }
            }
            let sum = Evidence(group, at: now)
            fineness = max(fineness, sum.fineness(where: share))
            if sum.isFailing(where: share) { failing += 1 }
        }
        fineness = max(fineness, Evidence(rest, at: now).fineness(where: share))
        if fineness >= Self.fineDeviations { return .part(isClear: fineness >= Self.clearDeviations) }
        return failing >= 2 ? .whole : .few
    }

    /// A scope has acted: what began before says nothing more, and the limits of narrower scopes go.
    private mutating func settle(_ scope: HostScope, until instant: Timestamp, _ now: Timestamp) {
        for narrow in windows.keys where narrow.isInside(scope) {
            windows[narrow]?.restart(at: max(instant, now))
        }
        for narrow in controls.keys where narrow != scope && narrow.isInside(scope) {
            controls[narrow]?.lift()
        }
    }

    // MARK: Holds

    private func isHeld(_ scope: HostScope, _ now: Timestamp) -> Bool {
        scope.upward.contains { controls[$0]?.hold?.until.map { $0 > now } ?? false }
    }

    /// Holds the scopes whose jobs were told `Retry-After`: a path if at least two jobs were and none was
    /// answered since; a wider scope if all that is used in it is held.
    private mutating func holdScopes(_ now: Timestamp) -> [HostDecision] {
        var decisions: [HostDecision] = []
        for scope in windows.keys.inOrder where !scope.path.isEmpty && !isHeld(scope, now) {
            guard let window = windows[scope], window.asksForHold(at: now), let until = window.retryAfterUntil
            else { continue }
            decisions.append(hold(scope, until: until, now))
        }
        let tenants = Set(decisions.map { HostScope(tenant: $0.scope.tenant) })
        for wide in tenants.isEmpty ? [] : tenants.inOrder + [.origin] where !isHeld(wide, now) {
            let used = windows.filter { scope, window in
                scope.isInside(wide)
                    && (isHeld(scope, now) || window.lastUsedAt.map { now - $0 <= Self.useSeconds } ?? false)
            }
            let groups = Set(used.keys.map { wide.isOrigin ? HostScope(tenant: $0.tenant) : $0 })
            guard groups.count >= 2, used.keys.allSatisfy({ isHeld($0, now) }) else { continue }
            let ends = used.keys.map { scope in
                scope.upward.compactMap { controls[$0]?.hold?.until }.max() ?? now
            }
            decisions.append(hold(wide, until: ends.min() ?? now, now))
        }
        return decisions
    }

    private mutating func hold(_ scope: HostScope, until: Timestamp, _ now: Timestamp) -> HostDecision {
        let inside = Evidence(windows(in: scope), at: now)
        var control = controls[scope] ?? ScopeControl()
        let before = control.connectionLimit
        control.hold = .init(until: until, status: windows(in: scope).compactMap(\.throttleStatus).first)
        control.beginSlowStart(
            inFlight: inside.inFlight + inside.tally.failed, least: settings.connectionsMin ?? 1, now: now)
        controls[scope] = control
        // Responses until then are to what began before.
        for narrow in windows.keys where narrow.isInside(scope) { windows[narrow]?.restart(at: until) }
        return HostDecision(
            at: now, kind: .backedOff, scope: scope, limitBefore: before, limitAfter: control.connectionLimit,
            inFlight: inside.inFlight, throttled: inside.tally.throttled,
            sentence: reason(of: scope, at: now) ?? "")
    }

    // MARK: Silence

    private mutating func noteSilence(
        _ reports: [HostScope: ScopeReport], _ now: Timestamp
    ) -> [HostDecision] {
        var decisions: [HostDecision] = []
        for scope in controls.keys.inOrder {
            guard let silence = controls[scope]?.silence else { continue }
            let inFlight = windows(in: scope).reduce(0) { $0 + $1.inFlight }
            let isAnswered =
                breaker.unreachableSince != nil
                || reports.contains { $0.key.isInside(scope) && $0.value.answered + $0.value.throttled > 0 }
            if isAnswered || inFlight == 0 {
                decisions += limitSilence(
                    of: scope, to: nil, inFlight, now,
                    isAnswered
                        ? "The limit of \(silence.limit) is gone: the host answers."
                        : "The limit of \(silence.limit) is gone: no request waits for an answer.")
            } else if silence.moreAt.map({ $0 <= now }) ?? true, inFlight >= silence.limit {
                controls[scope]?.silence = .init(
                    limit: inFlight + 1, moreAt: now + ScopeControl.Silence.moreSeconds)
            }
        }
        guard breaker.unreachableSince == nil, windows.values.contains(where: { $0.silent > 0 }) else {
            return decisions
        }
        for scope in silentScopes(now) where scope.upward.allSatisfy({ controls[$0]?.silence == nil }) {
            for narrow in controls.keys where narrow.isInside(scope) { controls[narrow]?.silence = nil }
            let inFlight = windows(in: scope).reduce(0) { $0 + $1.inFlight }
            let limit = max(ScopeControl.Silence.limitMin, inFlight + 1)
            decisions += limitSilence(
                of: scope, to: .init(limit: limit, moreAt: now + ScopeControl.Silence.moreSeconds), inFlight,
                now,
                "Limited to \(limit) with \(inFlight) in flight: the host has answered none of "
                    + "\(scope.words) for \(Int(ScopeControl.Silence.seconds)) seconds.")
        }
        return decisions
    }

    private mutating func limitSilence(
        of scope: HostScope, to silence: ScopeControl.Silence?, _ inFlight: Int, _ now: Timestamp,
        _ sentence: String
    ) -> [HostDecision] {
        let before = limit(of: scope, at: now).connectionLimit
        controls[scope, default: ScopeControl()].silence = silence
        let after = limit(of: scope, at: now).connectionLimit
        guard before != after else { return [] }
        return [
            HostDecision(
                at: now, kind: silence == nil ? .released : before == nil ? .limited : .lowered, scope: scope,
                limitBefore: before, limitAfter: after, inFlight: inFlight, sentence: sentence)
        ]
    }

    /// The scopes of which nothing is answered, the widest ones only.
    private func silentScopes(_ now: Timestamp) -> [HostScope] {
        if isSilent(.origin, now) { return [.origin] }
        return tenantScopes.flatMap { tenant in
            isSilent(tenant, now) ? [tenant] : paths(of: tenant).filter { isSilent($0, now) }
        }
    }

    private func isSilent(_ scope: HostScope, _ now: Timestamp) -> Bool {
        let inside = windows(in: scope)
        var jobs = ScopeReport.Jobs.none
        for window in inside { jobs.add(window.silentJobs) }
        guard jobs == .several, inside.reduce(0, { $0 + $1.silent }) >= ScopeControl.Silence.countMin else {
            return false
        }
        let isAnswered = inside.contains { window in
            let seconds = max(ScopeControl.Silence.seconds, 2 * window.meanSeconds)
            return window.lastResponseAt.map { now - $0 <= seconds } ?? false
        }
        if isAnswered { return false }
        return !scope.path.isEmpty || groups(in: scope).count { $0.contains { $0.silent > 0 } } >= 2
    }

    // MARK: Connections

    private mutating func noteConnections(
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

    // MARK: The clock

    /// What is due. A probe is leased for `CircuitBreaker.probeLeaseSeconds` if the node `mayProbe`.
    package mutating func errands(at now: Timestamp, mayProbe: Bool = true) -> Errands {
        for scope in controls.keys {
            if let until = controls[scope]?.hold?.until, until <= now { controls[scope]?.hold = nil }
        }
        return Errands(probes: mayProbe && breaker.beginProbe(at: now), releases: breaker.release(at: now))
    }

    /// When a node has to look next; nil: with the next report.
    package func dueAt(_ now: Timestamp) -> Timestamp? {
        var looks = [breaker.dueAt, forgettingAt(now)]
        for (scope, control) in controls {
            looks.append(control.hold?.until)
            if control.silence != nil { looks.append(now + Self.silentLookSeconds) }
            if control.isLimited {
                let inFlight = windows(in: scope).reduce(0) { $0 + $1.inFlight }
                looks.append(now + (control.isAbove(inFlight) ? Self.lookSeconds : Self.idleSeconds))
            }
        }
        if windows.values.reduce(0, { $0 + $1.silent }) >= ScopeControl.Silence.countMin {
            looks.append(now + Self.silentLookSeconds)
        }
        if windows.values.reduce(0, { $0 + $1.tally.failed }) >= EvidenceWindow.failedCountMin {
            looks.append(now + Self.lookSeconds)
        }
        return looks.compactMap(\.self).min()
    }

    private func forgettingAt(_ now: Timestamp) -> Timestamp? {
        guard settings == HostSettings(), breaker.unreachableSince == nil, breaker.releaseCount == 0 else {
            return nil
        }
        return max(min((lastReportAt ?? now) + Self.idleSeconds, healthyAt), now + 1)
    }

    private var healthyAt: Timestamp {
        (lastTroubleAt ?? lastReportAt ?? .distantPast) + Self.healthySeconds
    }

    /// Whether nothing has to be remembered of the host.
    package func isForgettable(at now: Timestamp) -> Bool {
        guard settings == HostSettings(), breaker.unreachableSince == nil, breaker.releaseCount == 0,
            controls.values.allSatisfy({ !$0.isLimited && $0.hold == nil && $0.silence == nil })
        else { return false }
        return now - (lastReportAt ?? .distantPast) >= Self.idleSeconds || now >= healthyAt
    }

    private mutating func forget(_ now: Timestamp) {
        controls = controls.filter { !$0.value.isForgettable(at: now) }
        windows = windows.filter { scope, window in
            window.inFlight > 0 || now - (window.lastUsedAt ?? .distantPast) <= Self.idleSeconds
        }
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
        return HostDecision(
            at: now, kind: .configured, limitBefore: before.limit(of: .origin, at: now).connectionLimit,
            limitAfter: limit(of: .origin, at: now).connectionLimit,
            sentence: "An operator has changed the settings of this host.")
    }

    // MARK: Decisions

    private func decision(
        _ change: ScopeControl.Change, _ scope: HostScope, _ before: ScopeControl, _ after: ScopeControl,
        _ inFlight: Int?, _ now: Timestamp
    ) -> HostDecision {
        let (old, new) = (before.level.words, after.level.words)
        var (kind, tally, sentence) = (HostDecision.Kind.raised, Tally(), "")
        switch change {
        case .decreased(let seen):
            kind = before.isLimited ? .lowered : .limited
            tally = seen
            let status = seen.throttleStatus.map { " (status \($0))" } ?? ""
            sentence =
                "\(before.isLimited ? "Lowered from \(old) to" : "Limited to") \(new): "
                + "\(seen.throttled) of \(seen.count) responses asked to slow down\(status) and \(seen.lost) "
                + "were lost, of \(scope.words)."
        case .increased(let isSlowStart):
            sentence =
                "Raised from \(old) to \(new): "
                + (isSlowStart
                    ? "slow start, twice as much each time." : "the host answers \(scope.words).")
        case .restored(let share):
            kind = .reverted
            let part = share.map { " (\(Int(($0 * 100).rounded(.up))) %)" } ?? ""
            sentence = "Back from \(old) to \(new): fewer of \(scope.words) failed as often\(part)."
        case .unneeded:
            kind = .released
            sentence = "The limit of \(old) is gone: it was not needed for ten minutes."
        case .narrowed:
            kind = .released
            sentence = "The limit of \(old) is gone: only a part of \(scope.words) fails."
        case .recovered:
            kind = .released
            sentence = "The limit of \(old) is gone: the host answers as much as before."
        }
        if before.window?.size == after.window?.size { kind = .paced }
        return HostDecision(
            at: now, kind: kind, scope: scope, limitBefore: before.connectionLimit,
            limitAfter: after.connectionLimit,
            inFlight: inFlight, answeredPerSecond: answeredPerSecond, bytesPerSecond: bytesPerSecond,
            throttled: tally.throttled, lost: tally.lost, rateBefore: before.bucket?.rate,
            rateAfter: after.bucket?.rate, sentence: sentence)
    }
}

// MARK: Words

extension HostScope {
    /// The scopes that hold for its requests, itself first.
    fileprivate var upward: [HostScope] {
        var scopes = [self]
        while let wider = scopes.last?.wider { scopes.append(wider) }
        return scopes
    }

    /// Whether every request of it is one of `wide`.
    fileprivate func isInside(_ wide: HostScope) -> Bool {
        wide.isOrigin || tenant == wide.tenant && (wide.path.isEmpty || path == wide.path)
    }

    /// The requests of the scope, in words for the tenant.
    fileprivate var words: String {
        if isOrigin { return "the requests to this host" }
        guard !path.isEmpty else { return "this tenant's requests to this host" }
        let segment = path.prefix { $0 != "#" }
        return "this tenant's requests to \(segment.hasPrefix("/") ? "" : "/")\(segment) on this host"
    }
}

extension Sequence<HostScope> {
    /// The widest first, so that the same events lead to the same state.
    fileprivate var inOrder: [HostScope] { sorted { ($0.tenant, $0.path) < ($1.tenant, $1.path) } }
}

extension HostControl.Limit {
    /// How much it allows: `10 at once and 20 a second`.
    fileprivate var words: String {
        let parts = [
            connectionLimit.map { "\($0) at once" }, requestRate.map { "\(decimalText($0)) a second" },
        ]
        let words = parts.compactMap(\.self).joined(separator: " and ")
        return words.isEmpty ? "no limit" : words
    }
}

extension ScopeControl {
    fileprivate var level: HostControl.Limit {
        HostControl.Limit(connectionLimit: window?.size, requestRate: bucket?.rate)
    }
}

extension Double {
    /// With one digit after the point, unless it is large or whole.
    fileprivate var tenths: String { decimalText(self >= 10 ? rounded() : (self * 10).rounded() / 10) }
}

// MARK: JSON

extension HostControl: CodedState {
    package var json: [UInt8] { StateCoder.write(self) }

    /// Reads `json`; nil if it is damaged.
    package init?(json bytes: [UInt8]) {
        guard let json = try? JSON.parse(bytes), json.members != nil else { return nil }
        self = StateCoder.read(json)
    }

    mutating func code(_ coder: inout StateCoder) {
        coder.value("settings", &settings)
        coder.value("breaker", &breaker)
        coder.value("windows", &windows)
        coder.value("controls", &controls)
        coder.value("last_take", &lastTakeAt)
        coder.value("last_look", &lastLookAt)
        coder.value("last_report", &lastReportAt)
        coder.value("last_trouble", &lastTroubleAt)
        coder.value("answered_per_second", &answeredPerSecond)
        coder.value("bytes_per_second", &bytesPerSecond)
        coder.value("measured", &measured)
    }
}

extension HostControl.Measure: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("start", &start)
        coder.value("answered", &answered)
        coder.value("bytes", &bytes)
    }
}

extension HostSettings: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("connections_min", &connectionsMin)
        coder.value("connections_max", &connectionsMax)
        coder.value("paused", &isPaused)
        coder.value("bytes_per_second_max", &bytesPerSecondMax)
        coder.value("requests_per_second_max", &requestsPerSecondMax)
    }
}
