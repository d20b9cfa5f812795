package import FerryCore

extension HostScope {
    /// The scope itself and all wider scopes, which limit its requests as well.
    var upward: [HostScope] { [self] + (wider?.upward ?? []) }

    /// Returns `true` if `wide` contains every request of this scope.
    func isInside(_ wide: HostScope) -> Bool {
        wide.isOrigin || tenant == wide.tenant && (wide.path.isEmpty || path == wide.path)
    }
}

extension Sequence<HostScope> {
    /// The scopes in a fixed order, the widest first, so that equal reports lead to equal states.
    var inOrder: [HostScope] { sorted { ($0.tenant, $0.path) < ($1.tenant, $1.path) } }
}

extension HostControl {
    /// Returns the windows of the narrowest scopes inside a scope.
    func windows(in scope: HostScope) -> [EvidenceWindow] {
        windows.compactMap { $0.key.isInside(scope) ? $0.value : nil }
    }

    /// Returns the evidence of a scope.
    func evidence(of scope: HostScope, _ now: Timestamp) -> Evidence {
        Evidence(windows(in: scope), at: now)
    }

    /// Returns the number of attempts of the scope in flight.
    func inFlight(in scope: HostScope) -> Int { windows(in: scope).reduce(0) { $0 + $1.inFlight } }

    /// Returns the next narrower scopes: the tenants of an origin, the paths of a tenant. Includes the scope
    /// itself for what was merged into it, and for a path.
    func parts(of scope: HostScope) -> [HostScope] {
        let inside = windows.keys.filter { $0.isInside(scope) }
        return Set(inside.map { scope.isOrigin ? HostScope(tenant: $0.tenant) : $0 }).inOrder
    }

    /// Like `parts(of:)`, without the scope itself.
    func narrower(than scope: HostScope) -> [HostScope] { parts(of: scope).filter { $0 != scope } }

    // MARK: Limits

    /// Returns the limits of all limited scopes. `.origin` includes the operator's limits.
    package func limits(at now: Timestamp) -> [HostScope: HostLimit] {
        var limits: [HostScope: HostLimit] = [:]
        for scope in Set(controls.keys).union([.origin]) {
            let limit = limit(of: scope, at: now)
            if limit != HostLimit() { limits[scope] = limit }
        }
        return limits
    }

    /// Returns the limits of a scope itself, without those of wider scopes.
    func limit(of scope: HostScope, at now: Timestamp) -> HostLimit {
        let control = controls[scope]
        var limit = HostLimit(
            connectionLimit: control?.connectionLimit.map { max($0, settings.connectionsMin ?? 1) },
            blockedUntil: control?.hold.flatMap { $0.until > now ? $0.until : nil },
            requestRate: control?.bucket?.rate)
        if scope.isOrigin {
            limit.combine(
                HostLimit(
                    connectionLimit: settings.connectionsMax,
                    blockedUntil: settings.isPaused ? .distantFuture : nil, isPaused: settings.isPaused,
                    requestRate: settings.requestsPerSecondMax))
        }
        return limit
    }

    /// Returns the state of a scope.
    package func state(of scope: HostScope = .origin, at now: Timestamp) -> HostState {
        let limit = limit(of: scope, at: now)
        if scope.isOrigin, settings.isPaused { return .paused }
        if scope.isOrigin, breaker.unreachableSince != nil { return .unreachable }
        if limit.blockedUntil != nil { return .backingOff }
        if scope.isOrigin, breaker.releaseCount > 0 { return .recovering }
        return limit == HostLimit() ? .normal : .limited
    }

    /// Returns all scopes that are not normal, the widest first.
    package func scopes(at now: Timestamp) -> [ScopeStatus] {
        limits(at: now).keys.inOrder.compactMap { scope in
            reason(of: scope, at: now).map {
                ScopeStatus(
                    scope: scope, state: state(of: scope, at: now), limit: limit(of: scope, at: now),
                    reason: $0)
            }
        }
    }

    // MARK: The clock

    /// Returns the time at which a node must look at the host again, or `nil` if the next report is early
    /// enough.
    package func dueAt(_ now: Timestamp) -> Timestamp? {
        var looks = [breaker.dueAt, forgettableAt.map { max($0, now + 1) }]
        for (scope, control) in controls {
            looks.append(control.hold?.until)
            if control.silence != nil { looks.append(now + ScopeControl.UnansweredLimit.seconds) }
            if control.isLimited {
                // More attempts than the limit are in flight: the next look may raise the limit.
                let isAbove = control.window.map { inFlight(in: scope) > $0.size } ?? false
                looks.append(now + (isAbove ? Self.lookSeconds : Self.idleSeconds))
            }
        }
        if windows.values.reduce(0, { $0 + $1.silent }) >= ScopeControl.UnansweredLimit.countMin {
            looks.append(now + ScopeControl.UnansweredLimit.seconds)
        }
        if windows.values.reduce(0, { $0 + $1.seen.failed }) >= EvidenceWindow.failedCountMin {
            looks.append(now + Self.lookSeconds)
        }
        return looks.compactMap(\.self).min()
    }

    /// Returns `true` if the stored state of the host can be deleted.
    package func isForgettable(at now: Timestamp) -> Bool { forgettableAt.map { $0 <= now } ?? false }

    /// Time at which the state can be deleted if no more reports come; `nil` if it cannot.
    private var forgettableAt: Timestamp? {
        guard settings == HostSettings(), breaker.isClosed, !controls.values.contains(where: \.isInEffect)
        else { return nil }
        let reportedAt = lastReportAt ?? .distantPast
        // Its return is announced too if the next attempt follows soon.
        let idle = isAnnounced ? Self.healthySeconds : Self.idleSeconds
        return min(reportedAt + idle, (lastTroubleAt ?? reportedAt) + Self.healthySeconds)
    }
}
