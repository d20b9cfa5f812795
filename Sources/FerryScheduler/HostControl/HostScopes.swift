package import FerryCore

extension HostScope {
    /// The scopes that hold for its requests, itself first.
    var upward: [HostScope] { [self] + (wider?.upward ?? []) }

    /// Whether every request of it is one of `wide`.
    func isInside(_ wide: HostScope) -> Bool {
        wide.isOrigin || tenant == wide.tenant && (wide.path.isEmpty || path == wide.path)
    }
}

extension Sequence<HostScope> {
    /// The widest first, so that the same events lead to the same state.
    var inOrder: [HostScope] { sorted { ($0.tenant, $0.path) < ($1.tenant, $1.path) } }
}

extension HostControl {
    /// The windows of the narrowest scopes inside one.
    func windows(in scope: HostScope) -> [EvidenceWindow] {
        windows.compactMap { $0.key.isInside(scope) ? $0.value : nil }
    }

    func evidence(of scope: HostScope, _ now: Timestamp) -> Evidence {
        Evidence(windows(in: scope), at: now)
    }

    /// Attempts of the scope that run now.
    func inFlight(in scope: HostScope) -> Int { windows(in: scope).reduce(0) { $0 + $1.inFlight } }

    /// The next narrower scopes in one: tenants of the origin, paths of a tenant. What was folded into the
    /// scope counts as a part of it, and so does a path.
    func parts(of scope: HostScope) -> [HostScope] {
        let inside = windows.keys.filter { $0.isInside(scope) }
        return Set(inside.map { scope.isOrigin ? HostScope(tenant: $0.tenant) : $0 }).inOrder
    }

    /// The same without the scope itself.
    func narrower(than scope: HostScope) -> [HostScope] { parts(of: scope).filter { $0 != scope } }

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
            connectionLimit: control?.connectionLimit.map { max($0, settings.connectionsMin ?? 1) },
            blockedUntil: control?.hold.flatMap { $0.until > now ? $0.until : nil },
            requestRate: control?.bucket?.rate)
        guard scope.isOrigin else { return limit }
        limit.connectionLimit = [limit.connectionLimit, settings.connectionsMax].compactMap(\.self).min()
        limit.requestRate = [limit.requestRate, settings.requestsPerSecondMax].compactMap(\.self).min()
        if settings.isPaused { limit.blockedUntil = .distantFuture }
        return limit
    }

    package func state(of scope: HostScope = .origin, at now: Timestamp) -> State {
        let limit = limit(of: scope, at: now)
        if scope.isOrigin, settings.isPaused { return .paused }
        if scope.isOrigin, breaker.unreachableSince != nil { return .unreachable }
        if limit.blockedUntil != nil { return .backingOff }
        if scope.isOrigin, breaker.releaseCount > 0 { return .recovering }
        return limit == Limit() ? .normal : .limited
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

    // MARK: The clock

    /// When a node has to look next; nil: with the next report.
    package func dueAt(_ now: Timestamp) -> Timestamp? {
        var looks = [breaker.dueAt, forgettableAt.map { max($0, now + 1) }]
        for (scope, control) in controls {
            looks.append(control.hold?.until)
            if control.silence != nil { looks.append(now + ScopeControl.Silence.seconds) }
            if control.isLimited {
                // More than the limit is in flight: the next look may find a higher one.
                let isAbove = control.window.map { inFlight(in: scope) > $0.size } ?? false
                looks.append(now + (isAbove ? Self.lookSeconds : Self.idleSeconds))
            }
        }
        if windows.values.reduce(0, { $0 + $1.silent }) >= ScopeControl.Silence.countMin {
            looks.append(now + ScopeControl.Silence.seconds)
        }
        if windows.values.reduce(0, { $0 + $1.seen.failed }) >= EvidenceWindow.failedCountMin {
            looks.append(now + Self.lookSeconds)
        }
        return looks.compactMap(\.self).min()
    }

    /// Whether nothing has to be remembered of the host.
    package func isForgettable(at now: Timestamp) -> Bool { forgettableAt.map { $0 <= now } ?? false }

    /// When nothing has to be remembered of the host any more if nothing happens; nil: not known.
    private var forgettableAt: Timestamp? {
        guard settings == HostSettings(), breaker.isClosed, !controls.values.contains(where: \.isInEffect)
        else { return nil }
        let reportedAt = lastReportAt ?? .distantPast
        return min(reportedAt + Self.idleSeconds, (lastTroubleAt ?? reportedAt) + Self.healthySeconds)
    }
}
