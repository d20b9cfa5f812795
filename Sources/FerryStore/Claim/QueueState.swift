import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys

/// Knowledge of this node about queued jobs, and the attempts that it has leased and not begun. Any thread.
final class QueueState: Sendable {
    let context: StoreContext
    let signals: StoreSignals
    let nodeState: NodeState
    let hostState: HostState
    let backlog = Backlog()
    let claimQueues = ClaimQueueCache()
    let specs = SpecCache()
    let edits = EditRegistry()
    let held: HeldAttempts
    /// Start conditions of discretionary jobs; `nil` before they were read.
    let outlook = Mutex<DiscretionaryOutlook?>(nil)
    /// Receives the results of attempts that have not begun.
    private let result = Mutex(ValueCallback<AttemptResult> { _ in })

    init(_ context: StoreContext, _ signals: StoreSignals, _ nodeState: NodeState, _ hostState: HostState) {
        self.context = context
        self.signals = signals
        self.nodeState = nodeState
        self.hostState = hostState
        held = HeldAttempts(
            seconds: context.configuration.heldSeconds,
            submittedMax: context.configuration.heldSubmissionMax)
    }

    /// Sets the function that takes the results of attempts that have not begun.
    func connect(result take: @escaping @Sendable (AttemptResult) -> Void) {
        let callback = ValueCallback(take)
        result.withLock { $0 = callback }
    }

    /// Begins attempts that have slots.
    func begin(_ attempts: [Attempt]) {
        guard !attempts.isEmpty, let runner = signals.attemptRunner else { return }
        let attempts = edits.apply(to: attempts)
        hostState.connections.count(attempts)
        runner.begin(attempts)
        // An edit that came before the runner knew the attempt is in the registry by now.
        edits.later(than: attempts) { runner.adopt($1, of: $0) }
    }

    /// Begins held attempts while slots and connections are free.
    func beginHeld() {
        while let (attempt, isRefused) = held.takeNext(
            context.configuration.slots, at: context.clock, admit: verdict)
        {
            if isRefused { giveBack([attempt]) } else { begin([attempt]) }
        }
    }

    /// Begins held attempts after a connection of the pool has become free.
    func begin(in pool: ConnectionPool) {
        held.takeIn(pool)
        beginHeld()
    }

    /// Gives back attempts that have slots and must not begin.
    func giveBack(_ attempts: [Attempt]) {
        context.configuration.slots.end(attempts.count)
        for attempt in attempts { end(attempt, .released) }
    }

    /// Gives back attempts that were leased as they were inserted, and are not held yet.
    func giveBack(submitted attempts: [Attempt]) {
        for attempt in attempts { endSubmitted(attempt, .released) }
    }

    /// Decides whether a held attempt begins, and counts its connection. It goes back if something has
    /// happened since the lease that forbids to begin.
    private func verdict(on held: HeldAttempts.Held) -> ConnectionRegistry.HeldVerdict {
        let (attempt, configuration, now) = (held.attempt, context.configuration, context.clock.now())
        guard signals.attemptRunner != nil, nodeState.mayLease,
            configuration.downloads.admits(attempt.spec.kind),
            Sys.monotonicNanoseconds() < held.returnAt, attempt.expiry > now,
            configuration.quotas.usedUpUntil(attempt.tenant, at: now) == nil,
            !configuration.slots.tenantsWithoutLoans.contains(attempt.tenant),
            !attempt.spec.awaitsHost || hostState.health.unreachable(attempt.origin) == nil
        else { return .refused }
        return hostState.connections.admit(attempt, isUnlimited: held.pool.origin.isEmpty)
    }

    /// Reports the result of an attempt that has not begun.
    private func end(_ attempt: Attempt, _ outcome: AttemptResult.Outcome, leavesBytes: Bool = false) {
        let send = result.withLock { $0 }
        send(
            AttemptResult(
                attempt: attempt, outcome: outcome, response: nil, bytesReceived: 0, bytesSent: 0,
                leavesBytes: leavesBytes,
                upload: leavesBytes ? attempt.upload : nil))
    }

    private func endSubmitted(_ attempt: Attempt, _ outcome: AttemptResult.Outcome) {
        held.endBeforeBegin(attempt)
        // The commit of the result releases a lease, and it has none among those of the slots.
        context.configuration.slots.unsettle(1)
        end(attempt, outcome)
    }

    /// Stops the attempt of a job if this node has one.
    func stop(_ job: JobID, _ how: AttemptStop) {
        guard let held = held.take(job) else {
            signals.attemptRunner?.stop(job, how)
            return
        }
        if held.isSubmitted {
            return endSubmitted(held.attempt, how == .suspend ? .suspended : .cancelled)
        }
        switch how {
        case .suspend: end(held.attempt, .suspended)
        case .cancel: end(held.attempt, .cancelled)
        case .cancelKeepingBytes: end(held.attempt, .cancelled, leavesBytes: held.attempt.number > 1)
        }
    }

    /// Gives back the attempt of a job that this node holds since its submission, because its fields are to
    /// be changed; records its begin if it has begun. Returns `false` if it is neither held nor begun here.
    func settleHeld(_ job: JobID, _ connection: inout Connection) throws(PostgresError) -> Bool {
        if let held = held.take(job) {
            let change = JobChange(.giveBack, Lease(held.attempt))
            let changed = try ChangedJob.commit([change], &connection)
            nodeState.leaseRegistry.remove([(job, held.attempt.number)])
            for one in changed { backlog.add([one.queue: .init(head: one.urgency, count: 1)]) }
            signals.wakeDispatcher()
            return true
        }
        guard let attempt = held.begun(job) else { return false }
        _ = try ChangedJob.commit([JobChange(recordingBegin: attempt)], &connection)
        held.recorded([job])
        return true
    }
}

extension JobChange {
    /// Records that an attempt has begun that was held since the submission.
    init(recordingBegin attempt: Attempt) {
        self.init(.begin, Lease(attempt))
        occurredAt = attempt.startedAt
    }
}
