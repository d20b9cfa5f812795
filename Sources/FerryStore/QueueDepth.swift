import FerryCore
import FerryScheduler

// What a claim has said about a lot, and when it is tried again.
extension QueueView {
    /// Seconds until a lot is tried again that somebody else is claiming from.
    private static let takenPause = 0.005
    /// Seconds until a lot without permits is tried again, and more for each of the others, because only what
    /// ends on other nodes has to be found so.
    private static let fullPause = 0.1
    private static let fullPauseStep = 0.001
    static let fullPauseMax = 5.0

    /// Seconds. While no download may begin, a claim steps over all that queue: it takes no more time than
    /// looks.
    func closedPause(_ nanoseconds: Int64) -> Double {
        max(1, Double(Self.lookPause * nanoseconds) / 1e9)
    }

    mutating func depth(
        _ ask: LotSchedule.Ask, _ claimed: Int, _ claims: Claims, _ outcome: Claims.Outcome
    ) -> LotSchedule.Depth {
        if claimed == ask.count || outcome.passesOver || outcome.diverted.contains(ask.lot.id) {
            return .more
        }
        if (claims.hasHosts || claims.hasAway) && !claims.diverts(ask.lot) {
            suspects.insert(ask.lot.id)
            return .more
        }
        suspects.remove(ask.lot.id)
        return .empty
    }

    mutating func depth(
        _ ask: LotSchedule.Ask, _ claimed: Int, _ permits: (count: Int, blockedUntil: Timestamp?)?,
        _ now: Timestamp
    ) -> LotSchedule.Depth {
        if claimed == ask.count { return .more }
        guard let permits else { return .blocked(until: now + Self.takenPause) }
        guard claimed == permits.count else { return .empty }
        if let until = permits.blockedUntil {
            if let origin = ask.lot.origin {
                schedule.block(origin: origin, until: until)
                let isPaced = context.configuration.hosts.limit(of: origin)?.requestRate != nil
                paced[origin] = isPaced ? until : nil
            }
            return .blocked(until: until)
        }
        let pause = Self.fullPause + Self.fullPauseStep * Double(schedule.count - schedule.readyCount)
        let until = now + min(pause, Self.fullPauseMax)
        if let origin = ask.lot.origin,
            context.configuration.hosts.limit(of: origin)?.connectionLimit != nil
        {
            schedule.block(origin: origin, until: until)
        }
        return .blocked(until: until)
    }

    /// Fewer connections lead to an origin: what waited for its permits is tried again.
    mutating func note(closedAt origin: String) {
        if let until = paced[origin] {
            // Its rate allows nothing before, whatever ends.
            if until > context.clock.now() { return }
            paced[origin] = nil
        }
        schedule.wake(origin: origin)
    }
}
