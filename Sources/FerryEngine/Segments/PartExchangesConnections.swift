import FerryCore

/// Connections of parts: the lease permits one connection to the job's own origin; every other one is asked
/// for.
extension PartExchanges {
    /// The scope whose connection one more request of a source may use now. `nil` if there is none; when that
    /// is known later, `fill` is called again.
    func connect(to source: Int) -> RequestScope? {
        guard sources[source].heldUntil <= now else { return nil }
        let url = sources[source].hop.url
        return connect(to: url) ? connectionScope(of: url) : nil
    }

    /// The scope whose connection a request uses. Every request to the job's own origin uses those of the
    /// job's scope.
    private func connectionScope(of url: WebURL) -> RequestScope {
        url.origin == attempt.origin ? attempt.scope : attempt.scope(of: url)
    }

    private func connect(to url: WebURL) -> Bool {
        guard let limiter = context.connections else { return true }
        let scope = connectionScope(of: url)
        if let hold = limiter.hold(on: attempt.scope(of: url)), !mayContinue(scope, hold) {
            self.hold = hold
            return false
        }
        if connections.take(scope) { return true }
        guard connections.mayAsk(scope, now: now) else { return false }
        let (attempt, onLoop) = (attempt, loop.runner)
        let grant = limiter.ask(attempt, for: scope) { grant in
            onLoop { $0.connectionAnswered(grant, for: attempt, at: scope) }
        }
        guard let grant else {
            connections.note(asked: scope)
            return false
        }
        note(grant, scope)
        return connections.take(scope)
    }

    /// An attempt continues at a host that is backed off by now with the one connection that it began with.
    private func mayContinue(_ scope: RequestScope, _ hold: HostHold) -> Bool {
        hold.reason != .hostPaused && connections.isFirst(scope)
    }

    private func note(_ grant: ConnectionGrant, _ scope: RequestScope) {
        switch grant {
        case .granted: connections.note(granted: scope)
        case .refused(let hold):
            connections.note(refused: scope, until: now + EngineLimits.refusalPause)
            self.hold = hold
        }
    }

    /// Frees the part's connection for another part.
    func disconnect(_ part: SegmentPart) {
        guard let scope = part.connection else { return }
        part.connection = nil
        if context.connections != nil { connections.put(scope) }
    }

    /// Gives back granted connections that are not used.
    func giveBackSpares() {
        guard let limiter = context.connections else { return }
        for scope in connections.takeSpares() { limiter.giveBack(attempt, scope) }
    }

    /// Returns all connections: no request is in progress, and none is to follow for now.
    func endConnections() {
        giveBackSpares()
        if let limiter = context.connections, connections.takeOwn() {
            limiter.giveBack(attempt, attempt.scope)
        }
    }

    /// Moves the part to where a redirect leads. Returns `false` if the part continues later or has failed.
    func move(_ part: SegmentPart, to url: WebURL) -> Bool {
        let scope = connectionScope(of: url)
        guard part.connection != scope else { return true }
        disconnect(part)
        if connect(to: url) {
            part.connection = scope
            return true
        }
        if connections.asked.contains(scope) {
            part.awaited = scope
        } else {
            part.fail(.held)
        }
        return false
    }

    func connectionAnswered(_ grant: ConnectionGrant, at scope: RequestScope) -> Bool {
        guard connections.asked.contains(scope) else { return false }
        note(grant, scope)
        for part in Array(parts.values) where part.awaited == scope {
            part.awaited = nil
            if move(part, to: part.hop.url) { part.goOn() }
        }
        fill()
        giveBackSpares()
        return true
    }

    /// No byte moves, and the remaining sources may not be used now: the attempt is put off, unless an answer
    /// about a connection is still to come.
    func waitForHosts() {
        guard connections.asked.isEmpty, let hold else { return }
        isFetching = false
        running.handle(.putOff(hold))
    }
}
