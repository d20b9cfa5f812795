import FerryCore

extension HostControl {
    // MARK: Holds

    /// Returns the end of the hold of the scope or of a wider one, or `nil` if it is not held.
    private func heldUntil(_ scope: HostScope, _ now: Timestamp) -> Timestamp? {
        scope.upward.compactMap { limit(of: $0, at: now).blockedUntil }.max()
    }

    /// Returns `true` if the scope or a wider one is held.
    func isHeld(_ scope: HostScope, _ now: Timestamp) -> Bool { heldUntil(scope, now) != nil }

    /// Holds the scopes whose jobs got `Retry-After`: a path if at least two jobs did and none was answered
    /// since; a wider scope if at least two of its parts are in use and all of those are held.
    mutating func holdScopes(_ now: Timestamp) -> [HostDecision] {
        var decisions: [HostDecision] = []
        for scope in windows.keys.inOrder where !scope.path.isEmpty && !isHeld(scope, now) {
            guard let until = windows[scope]?.holdUntil(at: now) else { continue }
            decisions.append(hold(scope, until: until, now))
        }
        let tenants = Set(decisions.map { HostScope(tenant: $0.scope.tenant) })
        for wide in tenants.isEmpty ? [] : tenants.inOrder + [.origin] where !isHeld(wide, now) {
            let used = windows.filter { scope, window in
                scope.isInside(wide)
                    && (isHeld(scope, now) || window.lastUsedAt.map { now - $0 <= Self.useSeconds } ?? false)
            }
            let ends = used.keys.map { heldUntil($0, now) }
            guard Set(used.keys.map { wide.isOrigin ? HostScope(tenant: $0.tenant) : $0 }).count >= 2,
                let until = ends.compactMap(\.self).min(), !ends.contains(nil)
            else { continue }
            decisions.append(hold(wide, until: until, now))
        }
        return decisions
    }

    private mutating func hold(_ scope: HostScope, until: Timestamp, _ now: Timestamp) -> HostDecision {
        let (inside, before) = (evidence(of: scope, now), limit(of: scope, at: now))
        var control = controls[scope] ?? ScopeControl()
        control.hold = .init(until: until, status: windows(in: scope).compactMap(\.retryAfterStatus).first)
        control.beginSlowStart(inFlight: inside.inFlight + inside.seen.failed, now: now)
        controls[scope] = control
        // Responses until then are to requests from before the hold.
        for narrow in windows.keys where narrow.isInside(scope) { windows[narrow]?.restart(at: until) }
        return decision(
            .backedOff, of: scope, from: before, report: inside.seen, now, reason(of: scope, at: now) ?? "")
    }

    // MARK: Silence

    /// Limits the widest scopes of which the host answers nothing, until it answers.
    mutating func noteUnanswered(_ reports: [HostScope: ScopeReport], _ now: Timestamp) -> [HostDecision] {
        var decisions: [HostDecision] = []
        for scope in controls.keys.inOrder {
            guard let current = controls[scope]?.silence else { continue }
            let inFlight = inFlight(in: scope)
            let isAnswered = reports.contains {
                $0.key.isInside(scope) && $0.value.answered + $0.value.throttled > 0
            }
            if isAnswered || inFlight == 0 || breaker.unreachableSince != nil {
                let why = inFlight == 0 ? "no request waits for an answer" : "the host answers"
                decisions += limitUnanswered(
                    of: scope, to: nil, now, "The limit of \(current.limit) is gone: \(why).")
            } else if current.moreAt <= now, inFlight >= current.limit {
                controls[scope]?.silence = .init(inFlight + 1, from: now)
            }
        }
        guard breaker.unreachableSince == nil, windows.values.contains(where: { $0.silent > 0 }) else {
            return decisions
        }
        for scope in unansweredScopes(in: .origin, now)
        where scope.upward.allSatisfy({ controls[$0]?.silence == nil }) {
            for narrow in controls.keys where narrow.isInside(scope) { controls[narrow]?.silence = nil }
            let inFlight = inFlight(in: scope)
            let limit = max(ScopeControl.UnansweredLimit.limitMin, inFlight + 1)
            decisions += limitUnanswered(
                of: scope, to: .init(limit, from: now), now,
                "Limited to \(limit) with \(inFlight) in flight: the host has answered none of "
                    + "\(scope.words) for \(Int(ScopeControl.UnansweredLimit.seconds)) seconds.")
        }
        return decisions
    }

    private mutating func limitUnanswered(
        of scope: HostScope, to unanswered: ScopeControl.UnansweredLimit?, _ now: Timestamp,
        _ sentence: String
    ) -> [HostDecision] {
        let before = limit(of: scope, at: now)
        controls[scope, default: ScopeControl()].silence = unanswered
        guard before != limit(of: scope, at: now) else { return [] }
        let kind: HostDecision.Kind =
            unanswered == nil ? .released : before.connectionLimit == nil ? .limited : .lowered
        return [decision(kind, of: scope, from: before, now, sentence)]
    }

    /// Returns the scopes of which nothing is answered, the widest ones only.
    private func unansweredScopes(in scope: HostScope, _ now: Timestamp) -> [HostScope] {
        isUnanswered(scope, now) ? [scope] : narrower(than: scope).flatMap { unansweredScopes(in: $0, now) }
    }

    /// Returns `true` if the host answers nothing in the scope: requests of at least two jobs and two of its
    /// parts.
    private func isUnanswered(_ scope: HostScope, _ now: Timestamp) -> Bool {
        let inside = evidence(of: scope, now)
        guard inside.silentJobs == .several, inside.silent >= ScopeControl.UnansweredLimit.countMin else {
            return false
        }
        let isAnswered = windows(in: scope).contains { window in
            let seconds = max(ScopeControl.UnansweredLimit.seconds, 2 * window.meanSeconds)
            return window.lastResponseAt.map { now - $0 <= seconds } ?? false
        }
        if isAnswered { return false }
        return !scope.path.isEmpty
            || parts(of: scope).count { part in
                windows.contains { $0.key.isInside(part) && $0.value.silent > 0 }
            } >= 2
    }
}
