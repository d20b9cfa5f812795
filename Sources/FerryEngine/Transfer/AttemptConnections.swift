import Curl
import FerryCore

/// The connections of one attempt by scope: how many it may have, how many are in use, and which were asked
/// for. A pure value; times are monotonic nanoseconds.
struct AttemptConnections {
    /// The scope whose one connection came with the lease.
    let own: RequestScope
    /// `true` while the attempt has that connection.
    private var hasOwn: Bool
    /// Connections that were granted in addition.
    private var granted: [RequestScope: Int] = [:]
    private var used: [RequestScope: Int] = [:]
    private var closedUntil: [RequestScope: Int64] = [:]
    /// Scopes for which an answer is still to come.
    private(set) var asked: Set<RequestScope> = []

    /// `hasOwn`: `false` if the lease permits a connection to another origin, the source of a copy.
    init(own: RequestScope, hasOwn: Bool = true) {
        self.own = own
        self.hasOwn = hasOwn
    }

    private func count(_ scope: RequestScope) -> Int {
        granted[scope, default: 0] + (scope == own && hasOwn ? 1 : 0)
    }

    /// Whether the next connection of the scope is the one that came with the lease.
    func isFirst(_ scope: RequestScope) -> Bool { hasOwn && scope == own && used[scope, default: 0] == 0 }

    /// Uses a free connection. Returns `false` if there is none.
    mutating func take(_ scope: RequestScope) -> Bool {
        guard used[scope, default: 0] < count(scope) else { return false }
        used[scope, default: 0] += 1
        return true
    }

    /// Returns a used connection.
    mutating func put(_ scope: RequestScope) { used[scope, default: 0] -= 1 }

    /// Whether one more connection may be asked for now: none was just refused, and no answer is to come.
    func mayAsk(_ scope: RequestScope, now: Int64) -> Bool {
        !asked.contains(scope) && closedUntil[scope, default: .min] <= now
    }

    mutating func note(asked scope: RequestScope) { asked.insert(scope) }

    mutating func note(granted scope: RequestScope) {
        asked.remove(scope)
        granted[scope, default: 0] += 1
    }

    mutating func note(refused scope: RequestScope, until instant: Int64) {
        asked.remove(scope)
        closedUntil[scope] = instant
    }

    /// Removes the connection that came with the lease, unless it is in use. Returns `true` if it is removed.
    mutating func takeOwn() -> Bool {
        guard hasOwn, used[own, default: 0] < count(own) else { return false }
        hasOwn = false
        return true
    }

    /// Removes the connections that are granted and not in use. Returns one scope for each.
    mutating func takeSpares() -> [RequestScope] {
        var spares: [RequestScope] = []
        for (scope, count) in granted {
            let spare = min(count, self.count(scope) - used[scope, default: 0])
            guard spare > 0 else { continue }
            granted[scope] = count - spare
            spares.append(contentsOf: repeatElement(scope, count: spare))
        }
        return spares
    }
}

/// Exchanges that use several connections at once: the lease permits one connection to the job's own origin;
/// every other one is asked for. Loop thread only.
protocol SeveralConnections: AttemptExchanges {
    var running: RunningAttempt { get }
    var connections: AttemptConnections { get set }
    /// Reason for which the last request was not sent, if a host may not be used.
    var hold: HostHold? { get set }
}

extension SeveralConnections {
    /// The scope whose connection a request uses. Every request to the job's own origin uses those of the
    /// job's scope.
    func connectionScope(of url: WebURL) -> RequestScope {
        url.origin == running.attempt.origin ? running.attempt.scope : running.attempt.scope(of: url)
    }

    /// Takes a connection. Returns its scope; `nil` if there is none. When that is known later,
    /// `connectionAnswered` is called.
    func connect(to url: WebURL) -> RequestScope? {
        let scope = connectionScope(of: url)
        guard let limiter = running.context.connections else { return scope }
        let (attempt, onLoop) = (running.attempt, running.loop.runner)
        if let hold = limiter.hold(on: attempt.scope(of: url)), !mayContinue(scope, hold) {
            self.hold = hold
            return nil
        }
        if connections.take(scope) { return scope }
        guard connections.mayAsk(scope, now: running.loop.multi.now) else { return nil }
        let grant = limiter.ask(attempt, for: scope) { grant in
            onLoop { $0.connectionAnswered(grant, for: attempt, at: scope) }
        }
        guard let grant else {
            connections.note(asked: scope)
            return nil
        }
        note(grant, scope)
        return connections.take(scope) ? scope : nil
    }

    /// An attempt continues at a host that is backed off by now with the one connection that it began with.
    private func mayContinue(_ scope: RequestScope, _ hold: HostHold) -> Bool {
        hold.reason != .hostPaused && connections.isFirst(scope)
    }

    /// Takes the answer about a connection.
    func note(_ grant: ConnectionGrant, _ scope: RequestScope) {
        switch grant {
        case .granted: connections.note(granted: scope)
        case .refused(let hold):
            connections.note(refused: scope, until: running.loop.multi.now + EngineLimits.refusalPause)
            self.hold = hold
        }
    }

    /// Frees a connection for another request.
    func disconnect(_ scope: RequestScope) {
        if running.context.connections != nil { connections.put(scope) }
    }

    /// Gives back granted connections that are not used.
    func giveBackSpares() {
        guard let limiter = running.context.connections else { return }
        for scope in connections.takeSpares() { limiter.giveBack(running.attempt, scope) }
    }

    /// Returns all connections: no request is in progress, and none is to follow for now.
    func endConnections() {
        giveBackSpares()
        if let limiter = running.context.connections, connections.takeOwn() {
            limiter.giveBack(running.attempt, running.attempt.scope)
        }
    }
}
