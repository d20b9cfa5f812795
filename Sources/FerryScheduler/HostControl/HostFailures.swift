import FerryCore

extension HostControl {
    mutating func look(_ now: Timestamp) -> [HostDecision] {
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
    func tolerance(of scope: HostScope) -> FailureTolerance {
        FailureTolerance(usual: scope.upward.map { controls[$0]?.usual ?? 0 }.max() ?? 0)
    }

    /// The scopes that act on failures, the widest ones only, and those of which clearly only a part fails.
    func failingScopes(_ now: Timestamp) -> (acting: [HostScope: Evidence], partly: [HostScope]) {
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

    enum Extent {
        case few, whole
        case part(isClear: Bool)
    }

    /// Whether too few fail to tell, the whole scope does, or only a part of it: the whole if at least two
    /// groups fail and none that is used is fine. Windows with too few ends to tell are judged together.
    func extent(of whole: Evidence, in scope: HostScope, _ now: Timestamp) -> Extent {
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
    mutating func settle(_ scope: HostScope, until instant: Timestamp, _ now: Timestamp) {
        for narrow in windows.keys where narrow.isInside(scope) {
            windows[narrow]?.restart(at: max(instant, now))
        }
        for narrow in controls.keys where narrow != scope && narrow.isInside(scope) {
            controls[narrow]?.lift()
        }
    }

    // MARK: Decisions

    func decision(
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
