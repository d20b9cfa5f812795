import FerryCore

extension HostControl {
    /// Standard deviations by which a part of a scope must fail less to count as healthy, and as clearly
    /// healthy.
    private static let fineDeviations = 2.0
    private static let clearDeviations = 4.0

    /// Decides about the levels of all scopes, at most once per second.
    mutating func look(_ now: Timestamp) -> [HostDecision] {
        guard lastLookAt.map({ now - $0 >= Self.lookSeconds }) ?? true else { return [] }
        lastLookAt = now
        var (failing, decisions): ([HostScope: Evidence], [HostDecision]) = ([:], [])
        find(&failing, in: .origin, &decisions, now)
        for scope in Set(controls.keys).union(failing.keys).inOrder {
            let (evidence, before) = (failing[scope] ?? evidence(of: scope, now), limit(of: scope, at: now))
            var control = controls[scope] ?? ScopeControl()
            let settledAt = control.settledAt
            let change = control.decide(evidence, isFailing: failing[scope] != nil, now: now)
            controls[scope] = control
            if failing[scope] != nil || control.settledAt != settledAt {
                settle(scope, until: control.settledAt ?? now, now)
            }
            if let change, let decision = decision(change, of: scope, from: before, now) {
                decisions.append(decision)
            }
        }
        for (scope, window) in windows
        where window.isClean(where: Evidence.toleratedShare(usual: usual(of: scope))) {
            windows[scope]?.restart(at: now)
        }
        return decisions
    }

    /// Returns the share of failures that is usual in a scope or in the scopes around it.
    private func usual(of scope: HostScope) -> Double {
        scope.upward.map { controls[$0]?.usual ?? 0 }.max() ?? 0
    }

    /// Finds the scopes that act on failures, the widest ones only. Lifts the limits of scopes of which
    /// clearly only a part fails.
    private mutating func find(
        _ failing: inout [HostScope: Evidence], in scope: HostScope, _ decisions: inout [HostDecision],
        _ now: Timestamp
    ) {
        let evidence = evidence(of: scope, now)
        switch extent(of: evidence, in: scope, now) {
        case .whole:
            // Not enough evidence yet: wait for it, and let no narrower scope act meanwhile.
            let wanted = controls[scope]?.secondsWanted(evidence) ?? evidence.secondsWanted
            if evidence.seconds >= wanted { failing[scope] = evidence }
            return
        case .part(isClear: true):
            let before = limit(of: scope, at: now)
            if let change = controls[scope]?.lift(.narrowed),
                let decision = decision(change, of: scope, from: before, now)
            {
                decisions.append(decision)
            }
        case .part, .few: break
        }
        for part in narrower(than: scope) { find(&failing, in: part, &decisions, now) }
    }

    /// Extent of a failure: the share of a scope that fails.
    private enum Extent {
        case few, whole
        case part(isClear: Bool)
    }

    /// Returns how much of a scope fails: too little to tell, all of it, or a part. The whole scope fails if
    /// at least two parts fail and no part in use is healthy. Parts with too few ended attempts are judged
    /// together.
    private func extent(of whole: Evidence, in scope: HostScope, _ now: Timestamp) -> Extent {
        // If the host answers nothing at all, each further failure confirms it.
        if controls[scope]?.isUnanswered ?? false, whole.seen.answered == 0 {
            return whole.seen.failed > 0 ? .whole : .few
        }
        guard whole.exceeds(usual: usual(of: scope)) else { return .few }
        guard scope.path.isEmpty else { return .whole }
        let share = whole.share
        var (others, failingCount, fineness): ([EvidenceWindow], Int, Double) = ([], 0, 0)
        for part in parts(of: scope) {
            let windows = part == scope ? [self.windows[scope]].compactMap(\.self) : windows(in: part)
            let sum = Evidence(windows, at: now)
            if share * Double(sum.seen.ended) < Double(EvidenceWindow.failedCountMin) { others += windows }
            // Where most requests fail, a single answered one does not prove its part healthy.
            if sum.seen.ended > 1 {
                fineness = max(fineness, sum.fineness(where: share))
            }
            if sum.seen.failed > 0, sum.seen.failedShare >= share / 2 { failingCount += 1 }
        }
        fineness = max(fineness, Evidence(others, at: now).fineness(where: share))
        if fineness >= Self.fineDeviations { return .part(isClear: fineness >= Self.clearDeviations) }
        return failingCount >= 2 ? .whole : .few
    }

    /// Called after a scope has acted: drops the evidence from before, and the limits of narrower scopes.
    private mutating func settle(_ scope: HostScope, until instant: Timestamp, _ now: Timestamp) {
        for narrow in windows.keys where narrow.isInside(scope) {
            windows[narrow]?.restart(at: max(instant, now))
        }
        for narrow in controls.keys where narrow != scope && narrow.isInside(scope) {
            controls[narrow]?.lift()
        }
    }
}
