import FerryCore

extension HostControl {
    // MARK: Holds

    func isHeld(_ scope: HostScope, _ now: Timestamp) -> Bool {
        scope.upward.contains { controls[$0]?.hold?.until.map { $0 > now } ?? false }
    }

    /// Holds the scopes whose jobs were told `Retry-After`: a path if at least two jobs were and none was
    /// answered since; a wider scope if all that is used in it is held.
    mutating func holdScopes(_ now: Timestamp) -> [HostDecision] {
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

    mutating func hold(_ scope: HostScope, until: Timestamp, _ now: Timestamp) -> HostDecision {
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

    mutating func noteSilence(
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

    mutating func limitSilence(
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
    func silentScopes(_ now: Timestamp) -> [HostScope] {
        if isSilent(.origin, now) { return [.origin] }
        return tenantScopes.flatMap { tenant in
            isSilent(tenant, now) ? [tenant] : paths(of: tenant).filter { isSilent($0, now) }
        }
    }

    func isSilent(_ scope: HostScope, _ now: Timestamp) -> Bool {
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
}
