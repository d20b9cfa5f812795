import FerryCore

/// To whom parts may connect: the job was admitted with one connection to its own origin, and every other one
/// is asked for.
extension SegmentedTransfer {
    /// The origin to which one more request of a source may be sent now. Nil: it may not; when that is known
    /// later, `fill` comes again.
    func connect(to source: Int) -> String? {
        guard sources[source].heldUntil <= now else { return nil }
        let origin = sources[source].hop.url.origin
        return connect(at: origin) ? origin : nil
    }

    private func connect(at origin: String) -> Bool {
        guard let desk = context.connections else { return true }
        if let hold = desk.hold(on: origin), !mayGoOn(at: origin, hold) {
            self.hold = hold
            return false
        }
        if connections.take(origin) { return true }
        guard connections.mayAsk(origin, now: now) else { return false }
        let (attempt, tell) = (attempt, loop.teller)
        let answer = desk.ask(attempt, for: origin) { answer in
            tell { $0.connectionAnswered(answer, for: attempt, at: origin) }
        }
        guard let answer else {
            connections.note(asked: origin)
            return false
        }
        note(answer, origin)
        return connections.take(origin)
    }

    /// What runs goes on at a host that is backed off by now, with the one connection that it began with.
    private func mayGoOn(at origin: String, _ hold: HostHold) -> Bool {
        hold.reason != .hostPaused && connections.isFirst(origin)
    }

    private func note(_ answer: ConnectionAnswer, _ origin: String) {
        switch answer {
        case .granted: connections.note(granted: origin)
        case .refused(let hold):
            connections.note(refused: origin, until: now + EngineLimits.refusalPause)
            self.hold = hold
        }
    }

    /// The part's connection may serve another one.
    func disconnect(_ part: SegmentPart) {
        guard let origin = part.connection else { return }
        part.connection = nil
        if context.connections != nil { connections.put(origin) }
    }

    /// What nothing is left for is given back: others may want it.
    func giveBackSpares() {
        guard let desk = context.connections else { return }
        for origin in connections.takeSpares() { desk.giveBack(attempt, origin) }
    }

    /// A redirect leads the part elsewhere. False: it goes on later, or has failed.
    func move(_ part: SegmentPart, to origin: String) -> Bool {
        guard part.connection != origin else { return true }
        disconnect(part)
        if connect(at: origin) {
            part.connection = origin
            return true
        }
        if connections.asked.contains(origin) {
            part.awaited = origin
        } else {
            part.fail(.held)
        }
        return false
    }

    func connectionAnswered(_ answer: ConnectionAnswer, at origin: String) -> Bool {
        guard connections.asked.contains(origin) else { return false }
        note(answer, origin)
        for part in Array(parts.values) where part.awaited == origin {
            part.awaited = nil
            if move(part, to: origin) { part.goOn() }
        }
        fill()
        giveBackSpares()
        return true
    }

    /// Nothing of the file moves, and who could be asked may not be: the attempt begins anew later, unless
    /// the answer is still to come.
    func waitForHosts() {
        guard connections.asked.isEmpty, let hold else { return }
        isFetching = false
        handle(.putOff(hold))
    }
}
