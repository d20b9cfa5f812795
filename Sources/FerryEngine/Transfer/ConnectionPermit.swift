import FerryCore

/// The permission of a transfer to connect to origins other than its job's own, which may be limited or
/// paused. The lease permits one connection to the job's own origin. Loop thread only.
struct ConnectionPermit {
    enum Decision {
        case connect
        /// The answer comes to `answered` later.
        case wait
        case refused(HostHold)
    }

    /// The scope of another origin to which the attempt may connect.
    private var granted: RequestScope?
    /// The scope that the current request waits for.
    private var asked: (scope: RequestScope, isFresh: Bool)?

    /// Decides whether the current request may connect. `isFresh`: as in `AttemptMachine.Action.start`.
    mutating func ask(for attempt: Attempt, _ hop: Hop, isFresh: Bool, on loop: EngineLoop) -> Decision {
        guard let limiter = loop.context.connections else { return .connect }
        let url = hop.url
        // A first request has its connection and its permission with the lease.
        if hop.redirectCount == 0, url.origin == attempt.origin { return .connect }
        let scope = attempt.scope(of: url)
        if let granted, granted != scope {
            limiter.giveBack(attempt, granted)
            self.granted = nil
        }
        guard url.origin != attempt.origin else {
            // It uses the connection that came with the lease.
            guard scope != attempt.scope, let hold = limiter.hold(on: scope) else { return .connect }
            return .refused(hold)
        }
        guard scope != granted else { return .connect }
        let onLoop = loop.runner
        let grant = limiter.ask(attempt, for: scope) { grant in
            onLoop { $0.connectionAnswered(grant, for: attempt, at: scope) }
        }
        guard let grant else {
            asked = (scope, isFresh)
            return .wait
        }
        return take(grant, scope)
    }

    /// Takes an answer that came later. Returns `nil` if no request waits for it.
    mutating func answered(
        _ grant: ConnectionGrant, at scope: RequestScope
    ) -> (decision: Decision, isFresh: Bool)? {
        guard let asked, asked.scope == scope else { return nil }
        self.asked = nil
        return (take(grant, scope), asked.isFresh)
    }

    /// Gives the permission back: no request runs, and none is to follow for now.
    mutating func end(for attempt: Attempt, on loop: EngineLoop) {
        guard let granted else { return }
        loop.context.connections?.giveBack(attempt, granted)
        self.granted = nil
    }

    private mutating func take(_ grant: ConnectionGrant, _ scope: RequestScope) -> Decision {
        switch grant {
        case .granted:
            granted = scope
            return .connect
        case .refused(let hold): return .refused(hold)
        }
    }
}
