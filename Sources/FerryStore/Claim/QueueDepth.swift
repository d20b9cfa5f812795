import FerryCore
import FerryScheduler

// What a claim has shown about a claim queue, and when the queue is tried again.
extension QueueView {
    /// Seconds until a claim queue is tried again that another node is claiming from.
    private static let takenPause = 0.005
    /// Seconds until a claim queue without permits is tried again, plus `fullPauseStep` for each other one.
    /// Attempts that end on this node wake it; the pause finds those that end on other nodes.
    private static let fullPause = 0.1
    private static let fullPauseStep = 0.001
    static let fullPauseMax = 5.0

    /// Returns the pause in seconds while no download may begin. A claim then skips all queued downloads, so
    /// it gets no larger share of the time than scans.
    func closedPause(_ nanoseconds: Int64) -> Double {
        max(1, Double(Self.scanPause * nanoseconds) / 1e9)
    }

    mutating func depth(
        _ request: ClaimSchedule.Request, _ claimed: Int, _ claims: Claims, _ outcome: Claims.Outcome
    ) -> ClaimSchedule.Depth {
        if claimed == request.count || outcome.passesOver || outcome.diverted.contains(request.queue.id) {
            return .more
        }
        if (claims.hasLimits || claims.hasUnreachable) && !claims.diverts(request.queue) {
            suspects.insert(request.queue.id)
            return .more
        }
        suspects.remove(request.queue.id)
        return .empty
    }

    mutating func depth(
        _ request: ClaimSchedule.Request, _ claimed: Int, _ permits: (count: Int, blockedUntil: Timestamp?)?,
        _ now: Timestamp
    ) -> ClaimSchedule.Depth {
        if claimed == request.count { return .more }
        guard let permits else { return .blocked(until: now + Self.takenPause) }
        guard claimed == permits.count else { return .empty }
        if let until = permits.blockedUntil {
            // A limit of a narrower scope does not concern the other claim queues of a wider one.
            if let (key, isPaced) = onlyScope(
                of: request.queue, where: { $0.blockedUntil ?? now > now || $0.requestRate != nil })
            {
                schedule.block(origin: key.origin, key.scope, until: until)
                paced[key] = isPaced ? until : nil
            }
            return .blocked(until: until)
        }
        let pause = Self.fullPause + Self.fullPauseStep * Double(schedule.count - schedule.readyCount)
        let until = now + min(pause, Self.fullPauseMax)
        if let (key, _) = onlyScope(of: request.queue, where: { $0.connectionLimit != nil }) {
            schedule.block(origin: key.origin, key.scope, until: until)
        }
        return .blocked(until: until)
    }

    /// Returns the only limited scope of the queue's jobs for which `isSo` is true, or `nil` if there are
    /// several: then it is unknown which one had no permits.
    private func onlyScope(
        of queue: ClaimQueue, where isSo: (HostLimit) -> Bool
    ) -> (key: OriginScope, isPaced: Bool)? {
        guard let scope = queue.scope else { return nil }
        let limited = scope.scopes.compactMap { one -> (OriginScope, Bool)? in
            guard let limit = queueState.context.configuration.hosts.limit(at: scope.origin, one), isSo(limit)
            else {
                return nil
            }
            return (OriginScope(origin: scope.origin, scope: one), limit.requestRate != nil)
        }
        return limited.count == 1 ? limited[0] : nil
    }

    /// Notes that a connection to an origin is free: claim queues that waited for one are tried again.
    mutating func note(closedAt origin: String) {
        let now = queueState.context.clock.now()
        if !paced.isEmpty { paced = paced.filter { $0.value > now } }
        let (hosts, paced) = (queueState.context.configuration.hosts, paced)
        schedule.wake(origin: origin) { queue in
            // A hold or a rate allows nothing more when an attempt ends.
            queue.scope?.scopes.contains { one in
                guard let limit = hosts.limit(at: origin, one) else { return false }
                return limit.blockedUntil ?? now > now
                    || limit.requestRate != nil && paced[OriginScope(origin: origin, scope: one)] != nil
            } ?? false
        }
    }
}

extension ClaimQueue {
    /// Scope of its jobs' requests; `nil` for a wide claim queue.
    var scope: RequestScope? { origin.map { RequestScope(tenant: tenant, origin: $0, path: path) } }

    /// The connections that its jobs use; `nil` for a wide claim queue.
    var pool: ConnectionPool? {
        origin.map { ConnectionPool(tenant: tenant, session: session, origin: $0) }
    }
}
