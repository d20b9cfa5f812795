import FerryCore
import FerryScheduler
import Synchronization
import Sys

/// Knowledge of the dispatcher about the queue: which claim queues may have jobs, and when it scans again.
/// Lives on the dispatcher's thread.
struct QueueView {
    let queueState: QueueState
    var schedule = ClaimSchedule()
    /// Wide claim queues that gave fewer jobs than asked for while origins are limited or unreachable. They
    /// are empty, or have jobs to move to narrow claim queues.
    var suspects: Set<Int64> = []
    /// Wide claim queues all of whose jobs a claim has skipped. They are blocked in the schedule, while each
    /// transaction moves some jobs of limited origins and lets jobs of unreachable ones wait.
    private var pausedQueues: [Int64: ClaimQueue] = [:]
    private var nextDiversion: Int64 = 0
    /// Wide claim queues whose jobs were leased up to an urgency. Until the instant `until`, claims begin
    /// there. From the beginning they would read all dead rows of leased jobs, which remain while any
    /// transaction keeps an old snapshot.
    private var heads: [Int64: (urgency: Timestamp, until: Int64)] = [:]
    /// Slot seconds that were charged in advance for each leased job.
    private var charged: [JobID: Double] = [:]
    /// Jobs by tenant that this process has queued since the tenant's claim queues were empty, without those
    /// that it has leased; other nodes may have leased some.
    private var queuedCounts: [String: Int] = [:]
    /// When the rate of a scope allows its next request.
    var paced: [OriginScope: Timestamp] = [:]
    /// `Backlog.mark` at the last `learn`.
    private var mark = 0
    // Instants and times of the monotonic clock, in nanoseconds.
    private var nextPoll: Int64 = 0
    private var nextScan: Int64 = 0
    /// A scan of several transactions: where it goes on, how long it has taken, which request it answers.
    private var scanAfter: Int64 = .min
    private var scanNanoseconds: Int64 = 0
    private var scanRequest: Int?

    /// Jobs of each claim queue that a claim asks for beyond the known ones: other nodes may have added some.
    private static let extraCountMax = 8
    /// Scans take at most a twentieth of the time. So do claims from the beginning of a claim queue, and
    /// comparisons of this node's leases with the database.
    static let scanPause: Int64 = 20
    /// Pause of a claim queue that had only jobs of limited origins: a multiple of the time that the claim
    /// took, and at most `limitedPauseMax` seconds, because other nodes may have queued jobs.
    private static let limitedPauseShare = 10.0
    private static let limitedPauseMax = 1.0
    /// Transactions that move jobs take at most one part in `diversionPause` of the time.
    private static let diversionPause: Int64 = 2
    /// Claim queues of one transaction from which jobs are moved without a claim.
    private static let pausedCountMax = 4
    /// Nanoseconds until a claim begins at the beginning again: other nodes may have queued more urgent jobs,
    /// or given some back.
    private static let headLifetimeMax: Int64 = 5_000_000_000
    /// Seconds until the queues of a tenant are looked at again that has lent its part of the slots.
    private static let loanPause = 0.25
    init(_ queueState: QueueState) {
        self.queueState = queueState
    }

    /// Returns when the next claim or scan is due while slots are free, in monotonic nanoseconds.
    func nextInstant(_ now: Int64) -> Int64 {
        if schedule.hasReady || queueState.backlog.count.map({ $0 > 0 }) == true { return now }
        var next = nextPoll
        if !pausedQueues.isEmpty { next = min(next, nextDiversion) }
        if queueState.backlog.wantedScan != nil { next = min(next, nextScan) }
        if let wake = schedule.nextWake {
            next = min(next, now + Int64(min(max(0, wake - queueState.context.clock.now()), 1e6) * 1e9))
        }
        return next
    }

    /// Notes the end of an attempt: frees its scope and corrects the charge of its session.
    mutating func note(ended result: AttemptResult) {
        let attempt = result.attempt
        note(closedAt: attempt.scope.origin)
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
        mark = queueState.backlog.mark
        for (queue, addition) in queueState.backlog.takeAdditions() {
            add(queue, head: addition.head)
            queuedCounts[queue.tenant, default: 0] += addition.count
            noteNewJob(in: queue, head: addition.head)
        }
        let now = queueState.context.clock.now()
        schedule.wake(at: now)
        for tenant in queueState.context.configuration.slots.tenantsWithoutLoans {
            schedule.block(tenant: tenant, until: now + Self.loanPause)
        }
    }

    /// Notes that jobs of the claim queue were queued.
    mutating func add(_ queue: ClaimQueue, head: Timestamp) {
        let share = queueState.context.sessions.current.share(tenant: queue.tenant, session: queue.session)
        let host = queue.scope.flatMap { queueState.context.configuration.hosts.limit(of: $0) }
        add(.init(queue: queue, head: head, hostLimit: host?.countAtOnce, blockedUntil: nil), share)
        if let until = host?.blockedUntil, until > queueState.context.clock.now() {
            schedule.block(queue.id, until: until)
        }
    }

    /// Returns `true` if this node may lease from the claim queue. Jobs for one node are left to it until a
    /// scan finds that it is gone.
    private func isForThisNode(_ found: Claims.Found) -> Bool {
        found.isHomeGone || found.queue.home == nil
            || found.queue.home == queueState.context.configuration.node
    }

    private mutating func add(_ found: Claims.Found, _ share: SessionShare) {
        guard isForThisNode(found) else { return }
        queueState.held.noteQueued(found.queue, head: found.head)
        let limited = found.queue.scope.flatMap {
            queueState.context.configuration.hosts.widestLimited(of: $0)
        }
        var limit: Int?
        if let pool = found.queue.pool {
            queueState.hostState.connections.note(pool, isQueued: true)
            limit = [found.hostLimit, share.connectionLimit].compactMap(\.self).min()
            // Some more are claimed ahead if this node alone counts the connections. Where a host is limited,
            // a large plan of which little can be leased would take the share of other sessions.
            let isCountedHere = limited == nil && queueState.hostState.connections.permits.isHeld
            limit = limit.map { $0 + (isCountedHere ? HeldAttempts.countMax : 0) }
        }
        let victim = schedule.add(
            found.queue, head: found.head, weight: share.weight, limit: limit, limited: limited)
        if let victim {
            // The schedule has dropped it.
            suspects.remove(victim)
            heads[victim] = nil
        }
        // In a suspect the first jobs are the skipped ones.
        if let head = heads[found.queue.id], found.head < head.urgency, !suspects.contains(found.queue.id) {
            heads[found.queue.id] = nil
        }
    }

    /// Notes a new job of this process in a paused claim queue. All jobs before it are of limited origins.
    private mutating func noteNewJob(in queue: ClaimQueue, head: Timestamp) {
        guard pausedQueues[queue.id] != nil else { return }
        schedule.unblock(queue.id, unlessBefore: .distantPast)
        heads[queue.id] = (head, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
    }

    // MARK: Rounds

    /// Jobs by tenant that a claim could lease now: at least one for each tenant with a claim queue that is
    /// not blocked.
    var readyCounts: [String: Int] {
        var counts: [String: Int] = [:]
        for tenant in schedule.readyTenants { counts[tenant] = max(1, queuedCounts[tenant] ?? 1) }
        return counts
    }

    /// Slots to reserve for a claim; 0 if no queued job is known. No more than jobs may be found, so that
    /// jobs that are submitted meanwhile can still be leased in their submission.
    var wantedSlots: Int {
        guard schedule.hasReady else { return 0 }
        guard let count = queueState.backlog.count else { return Limits.claimBatchMax }
        return min(count + Self.extraCountMax * schedule.readyCount, Limits.claimBatchMax)
    }

    /// Returns `true` if a scan is due.
    func scans(_ now: Int64) -> Bool {
        now >= nextPoll || (now >= nextScan && queueState.backlog.wantedScan != nil)
    }

    /// Returns what the next transaction asks for: `count` jobs, and `held` more to prefetch unless a limit
    /// applies to one of the claim queues. `ahead`: those of `count` that may wait for connections which this
    /// node counts. Follow with `settle` or `abandon`.
    mutating func plan(_ count: Int, held: Int = 0, ahead: Int = 0, scans: Bool) -> Claims {
        var ahead = ahead
        var claims = Claims()
        let (sessions, hosts) = (queueState.context.sessions.current, queueState.context.configuration.hosts)
        let now = Sys.monotonicNanoseconds()
        claims.hasLimits = !hosts.isEmpty
        claims.hasUnreachable = queueState.hostState.health.knowsUnreachable
        claims.mayDivert = now >= nextDiversion
        var requests = plan(count + held)
        claims.prefetches = held > 0 && !requests.isEmpty
        if claims.prefetches, requests.contains(where: { isLimited($0.queue, sessions) }) {
            for request in requests { schedule.settle(request, claimed: 0, .more) }
            requests = plan(count)
            claims.prefetches = false
        }
        for request in requests {
            let queue = request.queue
            let share = sessions.share(tenant: queue.tenant, session: queue.session)
            if let origin = queue.origin {
                guard let narrow = narrowClaim(request, share, &ahead) else { continue }
                claims.narrow.append(narrow)
                if queue.path.isEmpty, hosts.limitsPaths(tenant: queue.tenant, origin: origin) {
                    claims.mixed.insert(queue.id)
                }
            } else {
                claims.wide.append(request)
                if share.connectionLimit != nil { claims.limited.insert(queue.id) }
                if suspects.contains(queue.id) { claims.suspects.insert(queue.id) }
                if let head = heads[queue.id], now < head.until { claims.heads[queue.id] = head.urgency }
            }
            if claims.hasUnreachable, mayWait(queue, claims) { claims.unreachable.append(queue) }
        }
        if claims.mayDivert {
            let asked = Set(claims.wide.map(\.queue.id))
            let resting = pausedQueues.values.filter { !asked.contains($0.id) }
            claims.pausedQueues = Array(resting.prefix(Self.pausedCountMax))
            if claims.hasUnreachable { claims.unreachable += claims.pausedQueues }
        }
        if scans {
            claims.scanAfter = scanAfter
            if scanAfter == .min {
                queueState.hostState.connections.recount()
                // Held jobs of hosts that are limited by now go back, also those that wait for a connection.
                if claims.hasLimits { queueState.held.takeInAll() }
                scanRequest = queueState.backlog.wantedScan
                claims.limitedSessions = queueState.limitedQueues(sessions)
            }
        }
        return claims
    }

    /// Returns the claim from a narrow claim queue: `ahead` jobs more than connections are free, as far as
    /// this node alone counts them. Blocks the queue and returns `nil` if nothing is to be claimed.
    private mutating func narrowClaim(
        _ request: ClaimSchedule.Request, _ share: SessionShare, _ ahead: inout Int
    ) -> Claims.Narrow? {
        let room = request.queue.scope.flatMap {
            queueState.hostState.connections.room($0, session: request.queue.session)
        }
        guard let room else {
            return Claims.Narrow(
                request: request, count: request.count, sessionLimit: share.connectionLimit)
        }
        let count = min(request.count, room.count + (room.isCountedByRows ? 0 : ahead))
        ahead -= max(0, count - room.count)
        guard count > 0 else {
            // A connection that is free wakes it.
            schedule.settle(
                request, claimed: 0, .blocked(until: queueState.context.clock.now() + Self.limitedPauseMax))
            return nil
        }
        return Claims.Narrow(
            request: request, count: count,
            sessionLimit: room.isCountedByRows ? share.connectionLimit : nil)
    }

    /// Returns `true` if limits count the queue's jobs, or some of them may have to move.
    private func isLimited(_ queue: ClaimQueue, _ sessions: SessionSnapshot) -> Bool {
        queue.origin != nil || suspects.contains(queue.id)
            || sessions.share(tenant: queue.tenant, session: queue.session).connectionLimit != nil
    }

    private func mayWait(_ queue: ClaimQueue, _ claims: Claims) -> Bool {
        guard queue.origin != nil else { return claims.diverts(queue) }
        return claims.mayDivert && isUnreachable(queue)
    }

    private func isUnreachable(_ queue: ClaimQueue) -> Bool {
        queue.origin.map { queueState.hostState.health.unreachable($0) != nil } ?? false
    }

    /// Takes in the outcome of a committed claim that took `nanoseconds`.
    mutating func settle(_ claims: Claims, _ outcome: Claims.Outcome, nanoseconds: Int64) {
        let now = queueState.context.clock.now()
        if claims.mayDivert,
            !claims.unreachable.isEmpty || !claims.pausedQueues.isEmpty || !claims.suspects.isEmpty
                || !claims.mixed.isEmpty
        {
            nextDiversion = Sys.monotonicNanoseconds() + (Self.diversionPause - 1) * nanoseconds
        }
        let isClosed = !queueState.context.configuration.downloads.isOpen
        noteCharges(claims, outcome)
        for request in claims.wide {
            let leased = outcome.leased[request.queue.id] ?? (0, nil)
            let claimStart = claimStart(request.queue, claims)
            let isFull = leased.count == request.count
            note(head: leased.last, of: request, isFull: isFull, claims, outcome, nanoseconds)
            if leased.count < request.count, let window = outcome.windows[request.queue.id] {
                // All jobs up to there were skipped. A later claim goes on behind them; other claim queues
                // come first.
                heads[request.queue.id] = (window + 1e-6, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
                schedule.settle(
                    request, claimed: leased.count, .blocked(until: now + Double(nanoseconds) / 1e9))
                continue
            }
            if pausesIfOnlyLimited(request, leased.count, claims, outcome, nanoseconds) {
                if claims.heads[request.queue.id] != nil { heads[request.queue.id] = claimStart }
                continue
            }
            // Other nodes may have left jobs before the head.
            if leased.count < request.count, claims.heads[request.queue.id] != nil {
                schedule.settle(request, claimed: leased.count, .more)
                continue
            }
            var depth = depth(request, leased.count, claims, outcome)
            if isClosed, depth == .empty { depth = .blocked(until: now + closedPause(nanoseconds)) }
            schedule.settle(request, claimed: leased.count, depth, head: leased.last)
        }
        for narrow in claims.narrow {
            let depth = depth(narrow, claims, outcome, now)
            let leased = outcome.leased[narrow.request.queue.id] ?? (0, nil)
            let rests = isClosed && depth == .empty
            schedule.settle(
                narrow.request, claimed: leased.count,
                rests ? .blocked(until: now + closedPause(nanoseconds)) : depth, head: leased.last)
            noteEmptied(narrow.request.queue)
        }
        if !pausedQueues.isEmpty { settlePaused(claims, outcome) }
        for request in claims.requests { settleCount(request.queue, outcome.leased[request.queue.id]?.count) }
        let sessions = queueState.context.sessions.current
        for found in outcome.found {
            guard isForThisNode(found) else {
                schedule.remove(found.queue.id)
                continue
            }
            add(found, sessions.share(tenant: found.queue.tenant, session: found.queue.session))
            if let until = found.blockedUntil {
                schedule.block(found.queue.id, until: until)
            } else if claims.scanAfter != nil, !isClosed {
                // A claim queue that is only full is tried again soon enough.
                schedule.unblock(found.queue.id, unlessBefore: now + Self.fullPauseMax)
            }
        }
        if claims.scanAfter != nil { settleScan(outcome, nanoseconds) }
    }

    /// Notes that no job of a pool is queued any more, as far as is known.
    private func noteEmptied(_ queue: ClaimQueue) {
        guard let pool = queue.pool, !schedule.knows(queue.id) else { return }
        let hasOthers = schedule.hasQueue(
            tenant: pool.tenant, session: pool.session, origin: pool.origin)
        if !hasOthers { queueState.hostState.connections.note(pool, isQueued: false) }
    }

    private mutating func settleCount(_ queue: ClaimQueue, _ leasedCount: Int?) {
        guard schedule.isReady(queue.tenant) else {
            queuedCounts[queue.tenant] = nil
            return
        }
        guard let leasedCount, let count = queuedCounts[queue.tenant] else { return }
        queuedCounts[queue.tenant] = max(0, count - leasedCount)
    }

    private mutating func depth(
        _ narrow: Claims.Narrow, _ claims: Claims, _ outcome: Claims.Outcome, _ now: Timestamp
    ) -> ClaimSchedule.Depth {
        let queue = narrow.request.queue
        let (count, permits) = (outcome.leased[queue.id]?.count ?? 0, outcome.permits[queue.id])
        let depth = depth(narrow.request, count, permits, now)
        // The next transaction that moves jobs lets more of them wait, or moves them to claim queues of
        // limited paths.
        let waits =
            !claims.mayDivert
            && (claims.hasUnreachable && isUnreachable(queue)
                || claims.mixed.contains(queue.id) && count < permits?.count ?? 0)
        guard waits || outcome.diverted.contains(queue.id) else { return depth }
        return .blocked(until: now + Double(nextDiversion - Sys.monotonicNanoseconds()) / 1e9)
    }

    /// Returns where a claim of the queue has begun, and until when the next one goes on from there.
    private func claimStart(_ queue: ClaimQueue, _ claims: Claims) -> (urgency: Timestamp, until: Int64) {
        if claims.heads[queue.id] != nil, let head = heads[queue.id] { return head }
        return (.distantPast, Sys.monotonicNanoseconds() + Self.headLifetimeMax)
    }

    /// Pauses a claim queue that has only jobs of limited origins left. Returns `false` if it has not.
    private mutating func pausesIfOnlyLimited(
        _ request: ClaimSchedule.Request, _ claimed: Int, _ claims: Claims, _ outcome: Claims.Outcome,
        _ nanoseconds: Int64
    ) -> Bool {
        let queue = request.queue
        guard claims.suspects.contains(queue.id), !claims.limited.contains(queue.id), claimed < request.count,
            !claims.mayDivert || outcome.diverted.contains(queue.id)
        else {
            pausedQueues[queue.id] = nil
            return false
        }
        pausedQueues[queue.id] = queue
        heads[queue.id] = nil
        let rest = min(Self.limitedPauseMax, Self.limitedPauseShare * Double(nanoseconds) / 1e9)
        schedule.settle(request, claimed: claimed, .blocked(until: queueState.context.clock.now() + rest))
        return true
    }

    /// Unblocks paused claim queues from which no job was moved: they have no jobs of limited origins left.
    private mutating func settlePaused(_ claims: Claims, _ outcome: Claims.Outcome) {
        for queue in claims.pausedQueues where !outcome.diverted.contains(queue.id) {
            pausedQueues[queue.id] = nil
            schedule.unblock(queue.id, unlessBefore: .distantPast)
            // The next claim finds what else is there.
            nextDiversion = 0
        }
    }

    private mutating func noteCharges(_ claims: Claims, _ outcome: Claims.Outcome) {
        guard !outcome.jobs.isEmpty else { return }
        let costs = Dictionary(claims.requests.map { ($0.queue.id, $0.cost) }, uniquingKeysWith: { $1 })
        for (job, queue) in zip(outcome.jobs, outcome.queues) { charged[job.record.id] = costs[queue] }
    }

    /// Remembers where the next claim begins. A claim begins at the beginning again after 20 times its
    /// duration, or as soon as one finds fewer jobs than it asked for.
    private mutating func note(
        head: Timestamp?, of request: ClaimSchedule.Request, isFull: Bool, _ claims: Claims,
        _ outcome: Claims.Outcome, _ nanoseconds: Int64
    ) {
        let queue = request.queue.id
        guard isFull, let head, !outcome.passesOver, !claims.limited.contains(queue) else {
            heads[queue] = nil
            return
        }
        var until = heads[queue]?.until ?? 0
        if claims.heads[queue] == nil {
            until = Sys.monotonicNanoseconds() + min(Self.scanPause * nanoseconds, Self.headLifetimeMax)
        }
        heads[queue] = (head, until)
    }

    /// Tells submissions whether queued jobs are left that go before theirs.
    func publish() { queueState.backlog.claimed(since: mark, isDeep: schedule.hasReady) }

    private mutating func settleScan(_ outcome: Claims.Outcome, _ nanoseconds: Int64) {
        let now = Sys.monotonicNanoseconds()
        scanNanoseconds += nanoseconds
        nextScan = now + Self.scanPause * nanoseconds
        if let scannedUpTo = outcome.scannedUpTo {
            scanAfter = scannedUpTo
            nextPoll = nextScan
            return
        }
        if let scanRequest { queueState.backlog.scanned(scanRequest) }
        if outcome.uncountedCount > 0 { queueState.backlog.addUnknown() }
        // Without notifications the node scans more often.
        let hearsOfChanges =
            queueState.nodeState.isListening.load(ordering: .relaxed)
            || !queueState.nodeState.hasPeers.load(ordering: .relaxed)
        nextPoll = now + max(hearsOfChanges ? 1_000_000_000 : 250_000_000, Self.scanPause * scanNanoseconds)
        (scanAfter, scanNanoseconds, scanRequest) = (.min, 0, nil)
    }

    /// Takes back a plan whose transaction has failed or has an unknown outcome.
    mutating func abandon(_ claims: Claims) {
        for request in claims.requests { schedule.settle(request, claimed: 0, .more) }
        (scanAfter, scanNanoseconds, scanRequest) = (.min, 0, nil)
        queueState.backlog.addUnknown()
    }
}
