import FerryCore
import FerryScheduler
import Synchronization
import Sys

/// What the dispatcher knows of the queue: which claim queues may have jobs, and when it scans again. Lives
/// on the dispatcher's thread.
struct QueueView {
    let context: StoreContext
    var schedule = ClaimSchedule()
    /// Wide claim queues that gave fewer jobs than asked for while origins are limited or unreachable. They
    /// are empty, or have jobs to move to narrow claim queues.
    var suspects: Set<Int64> = []
    /// Wide claim queues all of whose jobs a claim has skipped. They are blocked in the schedule, while each
    /// transaction moves some jobs of limited origins and lets jobs of unreachable ones wait.
    private var stretches: [Int64: ClaimQueue] = [:]
    private var nextDiversion: Int64 = 0
    /// Wide claim queues whose jobs were leased up to an urgency. Until the instant `until`, claims begin
    /// there. From the beginning they would read all dead rows of leased jobs, which remain while any
    /// transaction keeps an old snapshot.
    private var heads: [Int64: (urgency: Timestamp, until: Int64)] = [:]
    /// Slot seconds that were charged in advance for each leased job.
    private var charged: [JobID: Double] = [:]
    /// When the rate of a scope allows its next request.
    var paced: [OriginScope: Timestamp] = [:]
    /// `Backlog.mark` at the last `learn`.
    private var mark = 0
    // Instants and times of the monotonic clock, in nanoseconds.
    private var nextPoll: Int64 = 0
    private var nextLook: Int64 = 0
    /// A scan of several transactions: where it goes on, how long it has taken, which request it answers.
    private var lookAfter: Int64 = .min
    private var lookNanoseconds: Int64 = 0
    private var lookedFor: Int?

    /// Jobs of each claim queue that a claim asks for beyond the known ones: other nodes may have added some.
    private static let lookMax = 8
    /// Scans take at most a twentieth of the time. So do claims from the beginning of a claim queue, and
    /// comparisons of this node's leases with the database.
    static let lookPause: Int64 = 20
    /// Pause of a claim queue that had only jobs of limited origins: a multiple of the time that the claim
    /// took, and at most `restMax` seconds, because other nodes may have queued jobs.
    private static let restShare = 10.0
    private static let restMax = 1.0
    /// Transactions that move jobs take at most one part in `diversionPause` of the time.
    private static let diversionPause: Int64 = 2
    /// Claim queues of one transaction from which jobs are moved without a claim.
    private static let stretchCountMax = 4
    /// Nanoseconds until a claim begins at the beginning again: other nodes may have queued more urgent jobs,
    /// or given some back.
    private static let headLifetimeMax: Int64 = 5_000_000_000
    init(_ context: StoreContext) { self.context = context }

    /// Returns when the next claim or scan is due while slots are free, in monotonic nanoseconds.
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

    /// Notes the end of an attempt: frees its scope and corrects the charge of its session.
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

    /// Forgets the charges of jobs whose leases are gone. A job without a transfer stays charged: a claim is
    /// work as well.
    mutating func forget(_ jobs: some Sequence<JobID>) {
        if !charged.isEmpty { for job in jobs { charged[job] = nil } }
    }

    // MARK: What queues

    /// Adds the jobs that this process has queued, and unblocks claim queues whose pause is over.
    mutating func learn() {
        mark = context.backlog.mark
        for (lot, addition) in context.backlog.takeAdditions() {
            add(lot, head: addition.head)
            noteNews(in: lot, head: addition.head)
        }
        schedule.wake(at: context.clock.now())
    }

    /// Notes that jobs of the claim queue were queued.
    mutating func add(_ lot: ClaimQueue, head: Timestamp) {
        let share = context.sessions.current.share(tenant: lot.tenant, session: lot.session)
        let host = lot.scope.flatMap { context.configuration.hosts.limit(of: $0) }
        add(.init(lot: lot, head: head, hostLimit: host?.countAtOnce, blockedUntil: nil), share)
        if let until = host?.blockedUntil, until > context.clock.now() {
            schedule.block(lot.id, until: until)
        }
    }

    /// Returns `true` if this node may lease from the claim queue. Jobs for one node are left to it until a
    /// scan finds that it is gone.
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
            // The schedule has dropped it.
            suspects.remove(victim)
            heads[victim] = nil
        }
        // In a suspect the first jobs are the skipped ones.
        if let head = heads[found.lot.id], found.head < head.urgency, !suspects.contains(found.lot.id) {
            heads[found.lot.id] = nil
        }
    }

    /// Notes a new job of this process in a paused claim queue. All jobs before it are of limited origins.
    private mutating func noteNews(in lot: ClaimQueue, head: Timestamp) {
        guard stretches[lot.id] != nil else { return }
        schedule.unblock(lot.id, unlessBefore: .distantPast)
        heads[lot.id] = (head, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
    }

    // MARK: Rounds

    /// Slots to reserve for a claim; 0 if no queued job is known. No more than jobs may be found, so that
    /// jobs that are submitted meanwhile can still be leased in their submission.
    var wantedSlots: Int {
        guard schedule.hasReady else { return 0 }
        guard let count = context.backlog.count else { return Limits.claimBatchMax }
        return min(count + Self.lookMax * schedule.readyCount, Limits.claimBatchMax)
    }

    /// Returns `true` if a scan is due.
    func looks(_ now: Int64) -> Bool {
        now >= nextPoll || (now >= nextLook && context.backlog.wantedLook != nil)
    }

    /// Returns what the next transaction asks for: `count` jobs, and `held` more to prefetch unless a limit
    /// applies to one of the claim queues. Follow with `settle` or `abandon`.
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

    /// Returns `true` if limits count the queue's jobs, or some of them may have to move.
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

    /// Takes in the outcome of a committed claim that took `nanoseconds`.
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
                // All jobs up to there were skipped. A later claim goes on behind them; other claim queues
                // come first.
                heads[ask.lot.id] = (window + 1e-6, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
                schedule.settle(ask, claimed: leased.count, .blocked(until: now + Double(nanoseconds) / 1e9))
                continue
            }
            if restsAfterwards(ask, leased.count, claims, outcome, nanoseconds) {
                if claims.heads[ask.lot.id] != nil { heads[ask.lot.id] = walk }
                continue
            }
            // Other nodes may have left jobs before the head.
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
                // A claim queue that is only full is tried again soon enough.
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
        // The next transaction that moves jobs lets more of them wait, or moves them to claim queues of
        // limited paths.
        let waits =
            !claims.mayDivert
            && (claims.hasAway && isAway(lot)
                || claims.mixed.contains(lot.id) && count < permits?.count ?? 0)
        guard waits || outcome.diverted.contains(lot.id) else { return depth }
        return .blocked(until: now + Double(nextDiversion - Sys.monotonicNanoseconds()) / 1e9)
    }

    /// Returns where a claim of the queue has begun, and until when the next one goes on from there.
    private func walk(_ lot: ClaimQueue, _ claims: Claims) -> (urgency: Timestamp, until: Int64) {
        if claims.heads[lot.id] != nil, let head = heads[lot.id] { return head }
        return (.distantPast, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
    }

    /// Pauses a claim queue that has only jobs of limited origins left. Returns `false` if it has not.
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

    /// Unblocks paused claim queues from which no job was moved: they have no jobs of limited origins left.
    private mutating func settleStretches(_ claims: Claims, _ outcome: Claims.Outcome) {
        for lot in claims.stretches where !outcome.diverted.contains(lot.id) {
            stretches[lot.id] = nil
            schedule.unblock(lot.id, unlessBefore: .distantPast)
            // The next claim finds what else is there.
            nextDiversion = 0
        }
    }

    private mutating func noteCharges(_ claims: Claims, _ outcome: Claims.Outcome) {
        guard !outcome.jobs.isEmpty else { return }
        let costs = Dictionary(
            (claims.wide + claims.narrow.map(\.ask)).map { ($0.lot.id, $0.cost) }, uniquingKeysWith: { $1 })
        for (job, lot) in zip(outcome.jobs, outcome.lots) { charged[job.record.id] = costs[lot] }
    }

    /// Remembers where the next claim begins. A claim begins at the beginning again after 20 times its
    /// duration, or as soon as one finds fewer jobs than it asked for.
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

    /// Tells submissions whether queued jobs are left that go before theirs.
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
        // Without notifications the node scans more often.
        let isHurried =
            context.isListening.load(ordering: .relaxed) || !context.hasPeers.load(ordering: .relaxed)
        nextPoll = now + max(isHurried ? 1_000_000_000 : 250_000_000, Self.lookPause * lookNanoseconds)
        (lookAfter, lookNanoseconds, lookedFor) = (.min, 0, nil)
    }

    /// Takes back a plan whose transaction has failed or has an unknown outcome.
    mutating func abandon(_ claims: Claims) {
        for ask in claims.wide + claims.narrow.map(\.ask) { schedule.settle(ask, claimed: 0, .more) }
        (lookAfter, lookNanoseconds, lookedFor) = (.min, 0, nil)
        context.backlog.addUnknown()
    }
}
