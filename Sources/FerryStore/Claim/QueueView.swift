import FerryCore
import FerryScheduler
import Synchronization
import Sys

/// What the dispatcher knows of the queue: which lots may have jobs, and when it looks again. Lives on the
/// dispatcher's thread.
struct QueueView {
    let context: StoreContext
    var schedule = ClaimSchedule()
    /// Wide lots of which a claim has found less than it asked for while origins are limited or away: either
    /// they are empty, or the next round has something to divert.
    var suspects: Set<Int64> = []
    /// Wide lots of which a claim has stepped over all that is there: they rest in the schedule, while the
    /// jobs of limited origins are diverted round by round, and those of hosts that are away wait.
    private var stretches: [Int64: ClaimQueue] = [:]
    private var nextDiversion: Int64 = 0
    /// Wide lots whose first jobs a claim has taken, up to an urgency. Until an instant claims begin there:
    /// they would step over everything that was claimed before and is not vacuumed yet, because somebody
    /// keeps a snapshot open.
    private var heads: [Int64: (urgency: Timestamp, until: Int64)] = [:]
    /// What was charged for the jobs that are leased, in seconds of a slot.
    private var charged: [JobID: Double] = [:]
    /// When the rate of a scope allows its next request.
    var paced: [OriginScope: Timestamp] = [:]
    /// `Backlog.mark` of the last `learn`.
    private var mark = 0
    // Instants and times of the monotonic clock, in nanoseconds.
    private var nextPoll: Int64 = 0
    private var nextLook: Int64 = 0
    /// A look that takes several rounds: where it goes on, when it began, what it will have answered.
    private var lookAfter: Int64 = .min
    private var lookNanoseconds: Int64 = 0
    private var lookedFor: Int?

    /// Rows beyond those that are known that a claim asks for: others may have queued some.
    private static let lookMax = 8
    /// Looks take at most a twentieth of the time, and so do claims from the beginning of a lot, and
    /// comparisons of what this node holds.
    static let lookPause: Int64 = 20
    /// Seconds until a lot is claimed from again that had nothing but jobs of limited origins, as a multiple
    /// of what it took to find that, and at most: others may have queued something.
    private static let restShare = 10.0
    private static let restMax = 1.0
    /// Rounds of which diversions take at most so many parts of the time.
    private static let diversionPause: Int64 = 2
    /// Lots of one round that are diverted without a claim.
    private static let stretchCountMax = 4
    /// Until a claim begins at the beginning again: others may have queued something more urgent, or given it
    /// back.
    private static let headLifetimeMax: Int64 = 5_000_000_000
    init(_ context: StoreContext) { self.context = context }

    /// When something has to be done, while slots are free.
    func nextInstant(_ now: Int64) -> Int64 {
        if schedule.hasReady || context.backlog.count.map({ $0 > 0 }) == true { return now }
        var next = nextPoll
        if !stretches.isEmpty { next = min(next, nextDiversion) }
        if context.backlog.wantedLook != nil { next = min(next, nextLook) }
        if let wake = schedule.nextWake {
            next = min(next, now + Int64(min(max(0, wake - context.clock.now()), 1e6) * 1e9))
        }
        return next
    }

    /// An attempt has ended.
    mutating func note(ended result: AttemptResult) {
        let attempt = result.attempt
        note(closedAt: attempt.scope)
        context.connections.forget(attempt)
        let charge = charged.removeValue(forKey: attempt.job)
        guard let trace = result.trace else { return }
        schedule.ended(
            tenant: attempt.tenant, session: attempt.spec.session,
            seconds: max(0, trace.finishedAt - trace.startedAt - result.lentSeconds), charged: charge)
    }

    /// Leases are gone. Those that came to no transfer stay charged: a claim is work as well.
    mutating func forget(_ jobs: some Sequence<JobID>) {
        if !charged.isEmpty { for job in jobs { charged[job] = nil } }
    }

    // MARK: What queues

    /// Takes in what this process has queued, and what may be tried again.
    mutating func learn() {
        mark = context.backlog.mark
        for (lot, addition) in context.backlog.takeAdditions() {
            add(lot, head: addition.head)
            noteNews(in: lot, head: addition.head)
        }
        schedule.wake(at: context.clock.now())
    }

    /// Jobs of the lot were queued.
    mutating func add(_ lot: ClaimQueue, head: Timestamp) {
        let share = context.sessions.current.share(tenant: lot.tenant, session: lot.session)
        let host = lot.scope.flatMap { context.configuration.hosts.limit(of: $0) }
        add(.init(lot: lot, head: head, hostLimit: host?.countAtOnce, blockedUntil: nil), share)
        if let until = host?.blockedUntil, until > context.clock.now() {
            schedule.block(lot.id, until: until)
        }
    }

    /// What one node alone can do is for that one, until a look finds that it has gone.
    private func isMine(_ found: Claims.Found) -> Bool {
        found.isHomeGone || found.lot.home == nil || found.lot.home == context.configuration.node
    }

    private mutating func add(_ found: Claims.Found, _ share: SessionShare) {
        guard isMine(found) else { return }
        var limit: Int?
        if found.lot.origin != nil {
            limit = [found.hostLimit, share.connectionLimit].compactMap(\.self).min()
        }
        let victim = schedule.add(
            found.lot, head: found.head, weight: share.weight, limit: limit,
            limited: found.lot.scope.flatMap { context.configuration.hosts.widestLimited(of: $0) })
        if let victim {
            // It may never come back.
            suspects.remove(victim)
            heads[victim] = nil
        }
        // Of a suspect the first jobs are the ones that are stepped over.
        if let head = heads[found.lot.id], found.head < head.urgency, !suspects.contains(found.lot.id) {
            heads[found.lot.id] = nil
        }
    }

    /// This process has queued a job in a lot that rests: everything before it is of limited origins.
    private mutating func noteNews(in lot: ClaimQueue, head: Timestamp) {
        guard stretches[lot.id] != nil else { return }
        schedule.unblock(lot.id, unlessBefore: .distantPast)
        heads[lot.id] = (head, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
    }

    // MARK: Rounds

    /// Slots worth reserving: no more than may be found, so that jobs which come meanwhile can still be
    /// leased with their acceptance. 0: nothing is known to be there.
    var wantedSlots: Int {
        guard schedule.hasReady else { return 0 }
        guard let count = context.backlog.count else { return Limits.claimBatchMax }
        return min(count + Self.lookMax * schedule.readyCount, Limits.claimBatchMax)
    }

    /// Whether it is time to look for lots.
    func looks(_ now: Int64) -> Bool {
        now >= nextPoll || (now >= nextLook && context.backlog.wantedLook != nil)
    }

    /// What the next round asks for: `count` jobs, and `held` more unless something limits one of them. Has
    /// to be settled or abandoned.
    mutating func plan(_ count: Int, held: Int = 0, looks: Bool) -> Claims {
        var claims = Claims()
        claims.hasHosts = !context.configuration.hosts.isEmpty
        claims.hasAway = context.health.hasAway
        let (sessions, now) = (context.sessions.current, Sys.monotonicNanoseconds())
        claims.mayDivert = now >= nextDiversion
        var asks = count + held > 0 ? schedule.plan(count + held) : []
        claims.holds = held > 0 && !asks.isEmpty
        if claims.holds, asks.contains(where: { isLimited($0.lot, sessions) }) {
            for ask in asks { schedule.settle(ask, claimed: 0, .more) }
            asks = count > 0 ? schedule.plan(count) : []
            claims.holds = false
        }
        for ask in asks {
            let share = sessions.share(tenant: ask.lot.tenant, session: ask.lot.session)
            if let origin = ask.lot.origin {
                claims.narrow.append(.init(ask: ask, sessionLimit: share.connectionLimit))
                if ask.lot.path.isEmpty,
                    context.configuration.hosts.limitsPaths(tenant: ask.lot.tenant, origin: origin)
                {
                    claims.mixed.insert(ask.lot.id)
                }
            } else {
                claims.wide.append(ask)
                if share.connectionLimit != nil { claims.limited.insert(ask.lot.id) }
                if suspects.contains(ask.lot.id) { claims.suspects.insert(ask.lot.id) }
                if let head = heads[ask.lot.id], now < head.until {
                    claims.heads[ask.lot.id] = head.urgency
                }
            }
            if claims.hasAway, mayAwait(ask.lot, claims) { claims.away.append(ask.lot) }
        }
        if claims.mayDivert {
            let asked = Set(claims.wide.map(\.lot.id))
            let resting = stretches.values.filter { !asked.contains($0.id) }
            claims.stretches = Array(resting.prefix(Self.stretchCountMax))
            if claims.hasAway { claims.away += claims.stretches }
        }
        if looks {
            claims.lookAfter = lookAfter
            if lookAfter == .min {
                context.connections.recount()
                lookedFor = context.backlog.wantedLook
                claims.limitedSessions = context.limitedLots(sessions)
            }
        }
        return claims
    }

    /// Whether what is claimed of the lot is counted, or may have to be diverted.
    private func isLimited(_ lot: ClaimQueue, _ sessions: SessionSnapshot) -> Bool {
        lot.origin != nil || suspects.contains(lot.id)
            || sessions.share(tenant: lot.tenant, session: lot.session).connectionLimit != nil
    }

    private func mayAwait(_ lot: ClaimQueue, _ claims: Claims) -> Bool {
        guard lot.origin != nil else { return claims.diverts(lot) }
        return claims.mayDivert && isAway(lot)
    }

    private func isAway(_ lot: ClaimQueue) -> Bool {
        lot.origin.map { context.health.unreachable($0) != nil } ?? false
    }

    mutating func settle(_ claims: Claims, _ outcome: Claims.Outcome, nanoseconds: Int64) {
        let now = context.clock.now()
        if claims.mayDivert,
            !claims.away.isEmpty || !claims.stretches.isEmpty || !claims.suspects.isEmpty
                || !claims.mixed.isEmpty
        {
            nextDiversion = Sys.monotonicNanoseconds() + (Self.diversionPause - 1) * nanoseconds
        }
        let isClosed = !context.configuration.downloads.isOpen
        noteCharges(claims, outcome)
        for ask in claims.wide {
            let leased = outcome.leased[ask.lot.id] ?? (0, nil)
            let walk = walk(ask.lot, claims)
            note(head: leased.last, of: ask, isFull: leased.count == ask.count, claims, outcome, nanoseconds)
            if leased.count < ask.count, let window = outcome.windows[ask.lot.id] {
                // All up to there was stepped over: a later round goes on behind it, others come first.
                heads[ask.lot.id] = (window + 1e-6, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
                schedule.settle(ask, claimed: leased.count, .blocked(until: now + Double(nanoseconds) / 1e9))
                continue
            }
            if restsAfterwards(ask, leased.count, claims, outcome, nanoseconds) {
                if claims.heads[ask.lot.id] != nil { heads[ask.lot.id] = walk }
                continue
            }
            // What is before may have been left by others.
            if leased.count < ask.count, claims.heads[ask.lot.id] != nil {
                schedule.settle(ask, claimed: leased.count, .more)
                continue
            }
            var depth = depth(ask, leased.count, claims, outcome)
            if isClosed, depth == .empty { depth = .blocked(until: now + closedPause(nanoseconds)) }
            schedule.settle(ask, claimed: leased.count, depth, head: leased.last)
        }
        for narrow in claims.narrow {
            let depth = depth(narrow, claims, outcome, now)
            let leased = outcome.leased[narrow.ask.lot.id] ?? (0, nil)
            let rests = isClosed && depth == .empty
            schedule.settle(
                narrow.ask, claimed: leased.count,
                rests ? .blocked(until: now + closedPause(nanoseconds)) : depth, head: leased.last)
        }
        if !stretches.isEmpty { settleStretches(claims, outcome) }
        let sessions = context.sessions.current
        for found in outcome.found {
            guard isMine(found) else {
                schedule.remove(found.lot.id)
                continue
            }
            add(found, sessions.share(tenant: found.lot.tenant, session: found.lot.session))
            if let until = found.blockedUntil {
                schedule.block(found.lot.id, until: until)
            } else if claims.lookAfter != nil, !isClosed {
                // One that is only full is tried again soon enough.
                schedule.unblock(found.lot.id, unlessBefore: now + Self.fullPauseMax)
            }
        }
        if claims.lookAfter != nil { settleLook(outcome, nanoseconds) }
    }

    private mutating func depth(
        _ narrow: Claims.Narrow, _ claims: Claims, _ outcome: Claims.Outcome, _ now: Timestamp
    ) -> ClaimSchedule.Depth {
        let lot = narrow.ask.lot
        let (count, permits) = (outcome.leased[lot.id]?.count ?? 0, outcome.permits[lot.id])
        let depth = depth(narrow.ask, count, permits, now)
        // More of it waits for its host, or is moved to the lots of limited paths, with the next diversion.
        let waits =
            !claims.mayDivert
            && (claims.hasAway && isAway(lot)
                || claims.mixed.contains(lot.id) && count < permits?.count ?? 0)
        guard waits || outcome.diverted.contains(lot.id) else { return depth }
        return .blocked(until: now + Double(nextDiversion - Sys.monotonicNanoseconds()) / 1e9)
    }

    /// Where a claim of the lot has begun, and until when the next one goes on from there.
    private func walk(_ lot: ClaimQueue, _ claims: Claims) -> (urgency: Timestamp, until: Int64) {
        if claims.heads[lot.id] != nil, let head = heads[lot.id] { return head }
        return (.distantPast, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
    }

    /// Whether a lot had nothing but jobs of limited origins left, and is not claimed from for a while.
    private mutating func restsAfterwards(
        _ ask: ClaimSchedule.Ask, _ claimed: Int, _ claims: Claims, _ outcome: Claims.Outcome,
        _ nanoseconds: Int64
    ) -> Bool {
        let lot = ask.lot
        guard claims.suspects.contains(lot.id), !claims.limited.contains(lot.id), claimed < ask.count,
            !claims.mayDivert || outcome.diverted.contains(lot.id)
        else {
            stretches[lot.id] = nil
            return false
        }
        stretches[lot.id] = lot
        heads[lot.id] = nil
        let rest = min(Self.restMax, Self.restShare * Double(nanoseconds) / 1e9)
        schedule.settle(ask, claimed: claimed, .blocked(until: context.clock.now() + rest))
        return true
    }

    /// Those of which nothing was diverted any more have nothing of limited origins left.
    private mutating func settleStretches(_ claims: Claims, _ outcome: Claims.Outcome) {
        for lot in claims.stretches where !outcome.diverted.contains(lot.id) {
            stretches[lot.id] = nil
            schedule.unblock(lot.id, unlessBefore: .distantPast)
            // The next claim finds out what else is there.
            nextDiversion = 0
        }
    }

    private mutating func noteCharges(_ claims: Claims, _ outcome: Claims.Outcome) {
        guard !outcome.jobs.isEmpty else { return }
        let costs = Dictionary(
            (claims.wide + claims.narrow.map(\.ask)).map { ($0.lot.id, $0.cost) }, uniquingKeysWith: { $1 })
        for (job, lot) in zip(outcome.jobs, outcome.lots) { charged[job.record.id] = costs[lot] }
    }

    /// What a claim has left behind is looked for again when that has taken a twentieth of the time, and as
    /// soon as a claim finds less than it asked for.
    private mutating func note(
        head: Timestamp?, of ask: ClaimSchedule.Ask, isFull: Bool, _ claims: Claims,
        _ outcome: Claims.Outcome,
        _ nanoseconds: Int64
    ) {
        let lot = ask.lot.id
        guard isFull, let head, !outcome.passesOver, !claims.limited.contains(lot) else {
            heads[lot] = nil
            return
        }
        var until = heads[lot]?.until ?? 0
        if claims.heads[lot] == nil {
            until = Sys.monotonicNanoseconds() + min(Self.lookPause * nanoseconds, Self.headLifetimeMax)
        }
        heads[lot] = (head, until)
    }

    /// Lets those who accept jobs know whether any are left that go before theirs.
    func publish() { context.backlog.claimed(since: mark, isDeep: schedule.hasReady) }

    private mutating func settleLook(_ outcome: Claims.Outcome, _ nanoseconds: Int64) {
        let now = Sys.monotonicNanoseconds()
        lookNanoseconds += nanoseconds
        nextLook = now + Self.lookPause * nanoseconds
        if let lookedUpTo = outcome.lookedUpTo {
            lookAfter = lookedUpTo
            nextPoll = nextLook
            return
        }
        if let lookedFor { context.backlog.looked(lookedFor) }
        if outcome.uncountedCount > 0 { context.backlog.addUnknown() }
        // Notifications hurry us; without them we look more often.
        let isHurried =
            context.isListening.load(ordering: .relaxed) || !context.hasPeers.load(ordering: .relaxed)
        nextPoll = now + max(isHurried ? 1_000_000_000 : 250_000_000, Self.lookPause * lookNanoseconds)
        (lookAfter, lookNanoseconds, lookedFor) = (.min, 0, nil)
    }

    /// The round has failed, or what became of it is not known.
    mutating func abandon(_ claims: Claims) {
        for ask in claims.wide + claims.narrow.map(\.ask) { schedule.settle(ask, claimed: 0, .more) }
        (lookAfter, lookNanoseconds, lookedFor) = (.min, 0, nil)
        context.backlog.addUnknown()
    }
}
