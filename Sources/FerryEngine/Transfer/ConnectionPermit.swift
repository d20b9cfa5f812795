import Curl
import FerryCore

/// The permission of a transfer to connect to an origin, which may be limited or paused. The attempt begins
/// with one connection to its job's own origin. It returns that before it connects elsewhere, so that it
/// holds none while it waits for another one; of a copy, the other end may hold one. Loop thread only.
struct ConnectionPermit {
    enum Decision {
        case connect
        /// The answer comes to `answered` later.
        case wait
        case refused(HostHold)
    }

    /// `true` while the attempt has its connection to its job's own origin.
    private var hasOwn: Bool
    /// The scope of another origin to which the attempt may connect.
    private var granted: RequestScope?
    /// The scope that the current request waits for.
    private var asked: (scope: RequestScope, isFresh: Bool)?

    /// `hasOwn`: `false` if the lease permits a connection to another origin, the other end of a copy.
    init(hasOwn: Bool = true) { self.hasOwn = hasOwn }

    /// Decides whether the current request may connect. `isFresh`: as in `AttemptMachine.Action.start`.
    mutating func ask(for attempt: Attempt, _ hop: Hop, isFresh: Bool, on loop: EngineLoop) -> Decision {
        guard let limiter = loop.context.connections else { return .connect }
        let url = hop.url
        let isOwn = url.origin == attempt.origin
        // A first request has its connection and its permission with the lease.
        if isOwn, hasOwn, hop.redirectCount == 0 { return .connect }
        let exact = attempt.scope(of: url)
        let scope = isOwn ? attempt.scope : exact
        if let granted, granted != scope {
            limiter.giveBack(attempt, granted)
            self.granted = nil
        }
        if isOwn, exact != scope, let hold = limiter.hold(on: exact) { return .refused(hold) }
        guard isOwn ? !hasOwn : scope != granted else { return .connect }
        if !isOwn { returnOwn(attempt, to: limiter) }
        let onLoop = loop.runner
        let grant = limiter.ask(attempt, for: scope) { grant in
            onLoop { $0.connectionAnswered(grant, for: attempt, at: scope) }
        }
        guard let grant else {
            asked = (scope, isFresh)
            if attempt.isEndOfCopy {
                // The connection of the other end may be one that others wait for.
                loop.multi.after(nanoseconds: EngineLimits.connectionWaitMax) {
                    limiter.endWait(of: attempt, for: scope)
                }
            }
            return .wait
        }
        return take(grant, scope, of: attempt)
    }

    /// Takes an answer that came later. Returns `nil` if no request waits for it.
    mutating func answered(
        _ grant: ConnectionGrant, at scope: RequestScope, for attempt: Attempt
    ) -> (decision: Decision, isFresh: Bool)? {
        guard let asked, asked.scope == scope else { return nil }
        self.asked = nil
        return (take(grant, scope, of: attempt), asked.isFresh)
    }

    /// Returns the connection: no request is in progress, and none is to follow for now.
    mutating func end(for attempt: Attempt, on loop: EngineLoop) {
        guard let limiter = loop.context.connections else { return }
        if let granted { limiter.giveBack(attempt, granted) }
        granted = nil
        returnOwn(attempt, to: limiter)
    }

    private mutating func returnOwn(_ attempt: Attempt, to limiter: any ConnectionLimiter) {
        guard hasOwn else { return }
        hasOwn = false
        limiter.giveBack(attempt, attempt.scope)
    }

    private mutating func take(
        _ grant: ConnectionGrant, _ scope: RequestScope, of attempt: Attempt
    ) -> Decision {
        switch grant {
        case .granted:
            if scope.origin == attempt.origin { hasOwn = true } else { granted = scope }
            return .connect
        case .refused(let hold): return .refused(hold)
        }
    }
}
