import Curl
import FerryCore

/// Requests to other hosts than the job's own, which may be limited or paused.
extension LiveTransfer {
    /// Whether the current request may connect. False: it is sent later, or the attempt is put off.
    func mayConnect(fresh: Bool) -> Bool {
        guard let desk = context.connections else { return true }
        let url = hop.url
        // A first request has its connection and its permission with the lease.
        if hop.redirectCount == 0, url.origin == attempt.origin { return true }
        let scope = attempt.scope(of: url)
        if let admittedScope, admittedScope != scope {
            desk.giveBack(attempt, admittedScope)
            self.admittedScope = nil
        }
        guard url.origin != attempt.origin else {
            // It uses the connection that came with the lease.
            guard scope != attempt.scope, let hold = desk.hold(on: scope) else { return true }
            return take(.refused(hold), scope, fresh)
        }
        guard scope != admittedScope else { return true }
        let (attempt, tell) = (attempt, loop.teller)
        let answer = desk.ask(attempt, for: scope) { answer in
            tell { $0.connectionAnswered(answer, for: attempt, at: scope) }
        }
        guard let answer else {
            asking = (scope, fresh)
            return false
        }
        return take(answer, scope, fresh)
    }

    /// Whether the current request may connect by now.
    private func take(_ answer: ConnectionGrant, _ scope: RequestScope, _ fresh: Bool) -> Bool {
        switch answer {
        case .granted:
            admittedScope = scope
            return true
        case .refused(let hold):
            if mayBePutOff { handle(.putOff(hold)) } else { askLater(fresh) }
            return false
        }
    }

    /// What was sent already must not be sent again: the attempt keeps its slot.
    private func askLater(_ fresh: Bool) {
        loop.multi.after(nanoseconds: EngineLimits.refusalPause) { [weak self] in
            guard let self, !machine.isEnded else { return }
            start(fresh: fresh)
        }
    }

    /// The answer to `ask`. False: nobody waits for it any more.
    func connectionAnswered(_ answer: ConnectionGrant, at scope: RequestScope) -> Bool {
        guard let asking, asking.scope == scope, !machine.isEnded else { return false }
        self.asking = nil
        if take(answer, scope, asking.fresh) { start(fresh: asking.fresh) }
        return true
    }
}
