import Curl
import FerryCore

/// Requests to other hosts than the job's own, which may be limited or paused.
extension LiveTransfer {
    /// Whether the current request may connect. False: it is sent later, or the attempt is put off.
    func mayConnect(fresh: Bool) -> Bool {
        guard let desk = context.connections else { return true }
        let origin = hop.url.origin
        if let admittedOrigin, admittedOrigin != origin {
            desk.giveBack(attempt, admittedOrigin)
            self.admittedOrigin = nil
        }
        guard origin != attempt.origin, origin != admittedOrigin else { return true }
        let (attempt, tell) = (attempt, loop.teller)
        let answer = desk.ask(attempt, for: origin) { answer in
            tell { $0.connectionAnswered(answer, for: attempt, at: origin) }
        }
        guard let answer else {
            asking = (origin, fresh)
            return false
        }
        return take(answer, origin, fresh)
    }

    /// Whether the current request may connect by now.
    private func take(_ answer: ConnectionAnswer, _ origin: String, _ fresh: Bool) -> Bool {
        switch answer {
        case .granted:
            admittedOrigin = origin
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
    func connectionAnswered(_ answer: ConnectionAnswer, at origin: String) -> Bool {
        guard let asking, asking.origin == origin, !machine.isEnded else { return false }
        self.asking = nil
        if take(answer, origin, asking.fresh) { start(fresh: asking.fresh) }
        return true
    }
}
