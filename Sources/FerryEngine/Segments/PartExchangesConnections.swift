import FerryCore

/// Connections of parts.
extension PartExchanges {
    /// The scope whose connection one more request of a source may use now. `nil` if there is none; when that
    /// is known later, `fill` is called again.
    func connect(to source: Int) -> RequestScope? {
        guard sources[source].heldUntil <= now else { return nil }
        return connect(to: sources[source].hop.url)
    }

    /// Frees the part's connection for another part.
    func disconnect(_ part: SegmentPart) {
        guard let scope = part.connection else { return }
        part.connection = nil
        disconnect(scope)
    }

    /// Moves the part to where a redirect leads. Returns `false` if the part continues later or has failed.
    func move(_ part: SegmentPart, to url: WebURL) -> Bool {
        let scope = connectionScope(of: url)
        guard part.connection != scope else { return true }
        disconnect(part)
        if let scope = connect(to: url) {
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
