import FerryCore
import FerryScheduler
import Glibc
import Logging
import Postgres
import Synchronization
import Sys

/// The state of the `JobDispatcher`. Lives on its thread.
struct DispatcherState {
    private let context: StoreContext
    private let signals: StoreSignals
    private let nodeState: NodeState
    private let hostState: HostState
    private let queueState: QueueState
    private let numbering: EventNumbering
    private let recentResults: RecentResults
    /// Keeps results that cannot be committed before the end.
    private let resultSpool: ResultSpool?
    private let database: ReconnectingConnection
    /// Results of attempts that are not committed yet; each holds a lease.
    private var endings: [AttemptEnding] = []
    private var commitWaits = CommitWaits()
    /// Bytes of the attempts of `endings` that count for their tenants.
    private var transfers: [JobID: AttemptTransfer] = [:]
    /// Those of `endings` whose tenants have a limit of stored bytes.
    private var stored: [JobID: StoredAttempt] = [:]
    /// Events of running jobs that are not committed yet.
    private var resumptions: [ResumptionEvent] = []
    private var marks = RequestMarks()
    private var queue: QueueView
    /// Results of one transaction. One after a statement has failed, so that a bad result fails alone.
    private var batchMax = Limits.resultBatchMax
    // Instants of the monotonic clock, in nanoseconds.
    private var nextPromotion: Int64 = 0
    private var nextReconciliation: Int64 = 0
    /// No transaction begins before; set after an error that may pass.
    private var nextStep: Int64 = 0
    private var dependents = Dependents()
    private var connections: ConnectionTransaction
    private var turnover = Turnover()
    private var random = BufferedRandom()
    /// No job is prefetched before.
    private var prefetchesNothingUntil: Int64 = 0
    /// For passes of the relay within a transaction of results; none before the instant.
    private let handover: DeliveryHandover
    private var numbersNothingUntil: Int64 = 0
    private var loans: SlotLoans
    /// `SessionSnapshot.epoch` with which held attempts were set aside.
    private var sessionEpoch: Int64 = -1

    private static let promotionInterval: Int64 = 1_000_000_000
    private static let reconciliationInterval: Int64 = 15_000_000_000
    private static let pauseAfterError: Int64 = 1_000_000_000
    private static let prefetchPause: Int64 = 1_000_000_000
    /// After a transaction that included a pass of the relay has failed.
    private static let numberingPause: Int64 = 60_000_000_000

    init(
        _ queueState: QueueState, _ numbering: EventNumbering, _ recentResults: RecentResults,
        spool: ResultSpool?
    ) {
        let context = queueState.context
        self.context = context
        signals = queueState.signals
        nodeState = queueState.nodeState
        hostState = queueState.hostState
        self.queueState = queueState
        self.numbering = numbering
        self.recentResults = recentResults
        resultSpool = spool
        queue = QueueView(queueState)
        connections = ConnectionTransaction(queueState)
        loans = SlotLoans(queueState)
        handover = DeliveryHandover(context, nodeState)
        database = context.connection(
            "dispatcher", counts: true,
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(20)
            })
    }

    var isEmpty: Bool { endings.isEmpty && resumptions.isEmpty && queueState.held.count == 0 }

    /// `true` if jobs wait for a connection to a limited host. Only a commit makes connections free.
    var waitsForConnections: Bool { isLeasing && queue.schedule.hasQueueOfOrigin }

    private var slots: WorkerSlots { context.configuration.slots }
    private var isLeasing: Bool { nodeState.mayLease }

    // MARK: Time

    /// Milliseconds until the next step is due if no message comes; at most 1000.
    var idleMilliseconds: Int32 {
        let now = Sys.monotonicNanoseconds()
        var next = now + 1_000_000_000
        if !endings.isEmpty || !resumptions.isEmpty || !marks.isEmpty { next = now }
        if let back = queueState.held.nextReturn { next = min(next, isLeasing ? back : now) }
        if let begin = queueState.held.nextRecording { next = min(next, begin) }
        if let look = dependents.nextLook { next = min(next, look) }
        if let ask = connections.nextStep(now) { next = min(next, ask) }
        if nodeState.isPromoting { next = min(next, nextPromotion) }
        if isLeasing, slots.freeCount > 0 { next = min(next, queue.nextInstant(now)) }
        if isLeasing, let look = loans.nextInstant(queue, now) { next = min(next, look) }
        let wait = max(next - now, Int64(database.retryIn / .nanoseconds(1)), nextStep - now)
        return Int32(min(max(0, (wait + 999_999) / 1_000_000), 1000))
    }

    /// Waits for the database where the mailbox would not.
    func pause() {
        poll(nil, 0, Int32(database.retryIn / .milliseconds(1)) + 1)
    }

    /// Writes uncommitted results to the spool, for the next start of this node. Returns `false` if it could
    /// not.
    mutating func spool() -> Bool {
        giveBackHeld(Sys.monotonicNanoseconds())
        return resultSpool?.keep(
            resumptions, endings, Array(transfers.values), of: context.configuration.node, context.logger)
            ?? false
    }

    // MARK: Messages

    mutating func take(_ message: JobDispatcher.Message) {
        switch message {
        case .result(let result, let transfer):
            queue.note(ended: result)
            hostState.throughputs.note(result, at: context.clock)
            if let transfer { transfers[transfer.job] = transfer }
            if let attempt = StoredAttempt(result, context.configuration.quotas) {
                stored[attempt.job] = attempt
            }
            let ending = ending(queueState.edits.apply(to: result))
            endings.append(ending)
        case .resumed(let attempt, let offset):
            resumptions.append(ResumptionEvent(resumed: attempt, at: offset, now: context.clock.now()))
        case .mark(let mark): marks.add(mark)
        case .wake: break
        case .due(let instant): schedulePromotion(at: instant)
        case .reconcile: nextReconciliation = 0
        case .dependencies: dependents.note()
        case .whenCommitted(let done): commitWaits.add(done, after: endings.count)
        case .connectionFree(let origin): queue.note(closedAt: origin)
        }
    }

    private mutating func ending(_ result: AttemptResult) -> AttemptEnding {
        hostState.health.note(result, HostSignal(result))
        let now = context.clock.now()
        let jitter = Double.random(in: 0...1, using: &random)
        let begin = queueState.held.takeBegin(result.attempt.job, at: Sys.monotonicNanoseconds())
        if let wait = AttemptEnding(
            waitingAfter: result, isHostKnown: hostState.health.unreachable(result.attempt.origin) != nil,
            node: context.configuration.node, now: now, jitter: jitter, context.configuration.seal)
        {
            context.metrics.connectivityWaits.add(1, ordering: .relaxed)
            return recordBegin(begin, before: wait, result)
        }
        let ending = AttemptEnding(
            result, node: context.configuration.node, now: now, jitter: jitter, context.configuration.seal,
            begin: begin, sealResumePoint: context.configuration.sealResumePoint)
        return recordBegin(begin, before: ending, result)
    }

    /// Returns the ending with the begin of the attempt, if the row does not say that. The end of a job says
    /// it itself.
    private func recordBegin(
        _ begin: HeldAttempts.Begin, before ending: AttemptEnding, _ result: AttemptResult
    ) -> AttemptEnding {
        guard begin == .unrecorded, case .change(var change) = ending else { return ending }
        change.begin = JobChange(recordingBegin: result.attempt)
        return .change(change)
    }

    private mutating func schedulePromotion(at instant: Timestamp) {
        // A millisecond later, because the database's clock decides, not this machine's.
        let delay = max(0, instant - context.clock.now()) * 1e9 + 1e6
        nextPromotion = min(nextPromotion, Sys.monotonicNanoseconds() + Int64(min(delay, 1e15)))
    }

    // MARK: One transaction

    /// Commits the results that have gathered and leases the next jobs. Does nothing if nothing is due.
    mutating func step() {
        let now = Sys.monotonicNanoseconds()
        // A held attempt needs a slot and a lease. A commit releases leases after the slots were released, so
        // that the end of a transfer alone does not begin the next one.
        defer { queueState.beginHeld() }
        guard database.retryIn == .zero, now >= nextStep else { return }
        if !marks.isEmpty { writeMarks() }
        if !resumptions.isEmpty { writeResumptions() }
        // An event of a running attempt is committed before the attempt's result.
        guard resumptions.isEmpty else { return }
        resolveDependencies()
        noteSessions()
        giveBackHeld(now)
        let begun = queueState.held.unrecordedBegins(
            Limits.resultBatchMax, at: now, isUrgent: hostState.connections.isCountedByRow)
        // The database counts connections by begins that are recorded.
        if begun.isEmpty || !begun.contains(where: hostState.connections.isCountedByRow) {
            for scope in connections.step(database) { queue.note(closedAt: scope.origin) }
        }
        let ended = Array(endings.prefix(batchMax))
        let promotes = nodeState.isPromoting && now >= nextPromotion
        slots.settle(ended.count)
        var reserved = Reservation(lease: nodeState.lease.number)
        var claims = Claims()
        if isLeasing, reserved.lease != nil, !hostState.connections.permits.isReturning,
            begun.count < Limits.resultBatchMax
        {
            claims = planClaims(isAfterEndings: !ended.isEmpty, now, &reserved)
        } else {
            loans.forget()
        }
        var transaction = DispatcherTransaction(
            endings: ended, transfers: transfers.isEmpty ? [] : ended.compactMap { transfers[$0.lease.job] },
            begun: begun, promotes: promotes, reconciles: now >= nextReconciliation,
            claims: claims)
        if numbersEvents(transaction, now) { transaction.handover = handover }
        // Those of the results at least: a job that is seen to have ended has stored its cookies.
        let cookies = CookieWriting(allOf: context.cookies)
        transaction.cookies = cookies
        guard
            !ended.isEmpty || !begun.isEmpty || promotes || transaction.reconciles
                || !transaction.claims.isEmpty || !cookies.isEmpty
        else {
            return returnPermits()
        }
        recentResults.prepare(ended.compactMap(\.finished))
        do {
            let outcome = try database.withConnection { connection throws(PostgresError) in
                try transaction.commit(&connection, queueState, numbering)
            }
            cookies.confirm(outcome.cookieVersions)
            context.metrics.dispatchBatches.add(1, ordering: .relaxed)
            context.metrics.dispatchNanoseconds.add(Sys.monotonicNanoseconds() - now, ordering: .relaxed)
            succeed(transaction, outcome, reserved: reserved, began: now)
            returnPermits()
        } catch {
            cookies.putBack()
            slots.unsettle(ended.count)
            reserved.giveBack(to: slots)
            queue.abandon(transaction.claims)
            fail(transaction, error)
        }
    }

    /// Takes held attempts in again that had no free connection, if sessions have changed.
    private mutating func noteSessions() {
        let epoch = context.sessions.current.epoch
        guard epoch != sessionEpoch else { return }
        sessionEpoch = epoch
        queueState.held.takeInAll()
    }

    /// Returns the lease of all permits that was given up, once running rows and rows of `connections` say
    /// which connections are in use.
    private func returnPermits() {
        let connections = hostState.connections
        guard connections.permits.isReturning else { return }
        connections.recount()
        guard !connections.hasWork, !queueState.held.hasUnrecordedBegin(connections.isCountedByRow) else {
            return
        }
        do {
            try database.withConnection { connection throws(PostgresError) in
                try PermitTransaction.giveBack(context, &connection)
            }
            connections.permitsReturned()
            queueState.backlog.addUnknown()
        } catch {
            guard !error.isConnectionLost, !error.isRetryable else { return }
            context.logger.error("permits could not be returned", metadata: ["error": "\(error)"])
        }
    }

    /// Returns whether the events of the transaction get their numbers in the same transaction: this node is
    /// nearly idle, and a webhook waits for a result.
    private func numbersEvents(_ transaction: DispatcherTransaction, _ now: Int64) -> Bool {
        let ended = transaction.endings
        guard !ended.isEmpty, ended.count <= RelayTransaction.resultMax, transaction.claims.isEmpty,
            !transaction.promotes, !transaction.reconciles, now >= numbersNothingUntil
        else { return false }
        let isWanted = ended.contains { $0.finished?.isWanted == true }
        return ended.contains { $0.finished != nil } && signals.events.isUrgent(isWanted: isWanted)
    }

    private mutating func planClaims(
        isAfterEndings: Bool, _ now: Int64, _ reserved: inout Reservation
    ) -> Claims {
        queue.learn()
        if slots.freeCount == 0, queue.schedule.hasReady { queueState.held.noteCompetition() }
        loans.note(queue, now)
        let wanted = queue.wantedSlots
        reserved.slots = slots.reserve(upTo: wanted)
        if isAfterEndings, now >= prefetchesNothingUntil {
            let most = turnover.wanted(capacity: slots.capacity) - queueState.held.prefetchedCount
            reserved.held = slots.reserveLeases(upTo: min(wanted - reserved.slots, most))
        }
        var ahead = 0
        if now >= prefetchesNothingUntil {
            ahead = turnover.wanted(capacity: slots.capacity) - queueState.held.prefetchedCount
        }
        let claims = queue.plan(
            reserved.slots, held: reserved.held, ahead: max(0, ahead), scans: queue.scans(now))
        if !claims.prefetches {
            slots.settle(reserved.held)
            reserved.held = 0
        }
        if claims.wide.isEmpty && claims.narrow.isEmpty { reserved.giveBack(to: slots) }
        if claims.isEmpty { queue.publish() }
        return claims
    }

    /// Gives back attempts that were held for too long, or that others go before; all of them if this node
    /// may not lease.
    private mutating func giveBackHeld(_ now: Int64) {
        let back = queueState.held.takeReturns(
            at: now, isAll: !isLeasing, hasPeers: nodeState.hasPeers.load(ordering: .relaxed))
        guard !back.isEmpty else { return }
        // The commit of each releases a lease, and submitted ones have none among those of the slots.
        slots.unsettle(back.count { $0.isSubmitted })
        if back.contains(where: { !$0.isSubmitted }) { turnover.forget() }
        for held in back { endings.append(.giveBack(Lease(held.attempt))) }
    }

    private mutating func succeed(
        _ transaction: DispatcherTransaction, _ outcome: DispatcherTransaction.Outcome, reserved: Reservation,
        began: Int64
    ) {
        let now = Sys.monotonicNanoseconds()
        let claims = outcome.claims.jobs
        recentResults.commit(outcome.finished, at: now)
        endings.removeFirst(transaction.endings.count)
        commitWaits.noteCommit(of: transaction.endings.count)
        for transfer in transaction.transfers {
            transfers[transfer.job] = nil
            context.configuration.quotas.note(
                committed: transfer.byteCount, of: transfer.tenant, at: context.clock.now())
        }
        if !stored.isEmpty { noteStored(transaction.endings) }
        queueState.held.recorded(transaction.begun.lazy.map(\.job))
        batchMax = Limits.resultBatchMax
        nodeState.leaseRegistry.remove(transaction.endings.lazy.map { ($0.lease.job, $0.lease.attempt) })
        queue.forget(transaction.endings.lazy.map(\.lease.job))
        nodeState.leaseRegistry.insert(claims.lazy.map { ($0.record.id, $0.record.attempt) })
        slots.settle(reserved.slots + reserved.held - claims.count)
        if !transaction.endings.isEmpty {
            turnover.note(ended: transaction.endings.count, at: now, nanoseconds: now - began)
        }
        context.metrics.recordedResults.add(Int64(transaction.endings.count), ordering: .relaxed)
        context.metrics.claimedJobs.add(Int64(claims.count), ordering: .relaxed)
        for (claimQueue, head) in outcome.queued { queue.add(claimQueue, head: head) }
        if !transaction.claims.isEmpty {
            queue.settle(transaction.claims, outcome.claims, nanoseconds: now - began)
        }
        loans.settle(queue)
        if isLeasing { queue.publish() }
        if transaction.promotes {
            nextPromotion =
                outcome.promotedCount == Int(DispatcherTransaction.promotionMax)
                ? now : now + Self.promotionInterval
            // Another node has locked a job that is due and was not promoted.
            if let due = outcome.nextDue { schedulePromotion(at: max(due, context.clock.now() + 0.05)) }
        }
        if let due = outcome.nextWait { schedulePromotion(at: due) }
        if transaction.reconciles {
            nextReconciliation = now + max(Self.reconciliationInterval, QueueView.scanPause * (now - began))
            context.metrics.reclaimedJobs.add(Int64(outcome.reconciledCount), ordering: .relaxed)
        }
        if outcome.hasDependencyWork { dependents.note() }
        if !outcome.claims.lost.isEmpty { replaceMissing(outcome.claims.lost) }
        tell(transaction, outcome)
        // For a while no job is prefetched: a job that must not be sent twice gets the next slot.
        if outcome.claims.passesOver { prefetchesNothingUntil = now + Self.prefetchPause }
        begin(claims, reserved)
        if outcome.hasDueQuestions { QuestionTransaction(queueState: queueState, database: database).run() }
    }

    /// Notes which bytes committed endings keep.
    private mutating func noteStored(_ endings: [AttemptEnding]) {
        for ending in endings {
            guard let attempt = stored.removeValue(forKey: ending.lease.job) else { continue }
            let finished = ending.finished
            context.configuration.quotas.note(
                stored: finished?.storedByteCount ?? 0, left: finished == nil ? attempt.leftByteCount : 0,
                by: attempt.job, of: attempt.tenant)
        }
    }

    /// Moves queued jobs out of claim queues that do not exist. They would never be leased.
    private func replaceMissing(_ queues: Set<Int64>) {
        queueState.claimQueues.forget(queues)
        var parameters = Parameters()
        parameters.appendArray(.int64, queues) { $0.append(int64: $1) }
        parameters.append(int32: DispatcherTransaction.promotionMax)
        do {
            let count = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.execute(Statements.restoreClaimQueues, parameters).int64(0, 0)
            }
            context.logger.warning(
                "queued jobs were in claim queues that do not exist, and were moved",
                metadata: ["count": "\(count)"])
        } catch {
            // The next scan finds them again.
            guard !error.isConnectionLost, !error.isRetryable else { return }
            context.logger.error(
                "queued jobs could not be moved out of claim queues that do not exist",
                metadata: ["error": "\(error)"])
        }
        queueState.backlog.addUnknown()
    }

    private mutating func resolveDependencies() {
        guard dependents.nextLook != nil else { return }
        let effects = dependents.step(database, queueState)
        if effects.queuedCount > 0 { queueState.backlog.addUnknown() }
        if let due = effects.nextDue { schedulePromotion(at: due) }
    }

    /// Commits which attempts may have sent a request that must not be sent twice.
    private mutating func writeMarks() {
        do {
            try marks.write(database, of: context.configuration.node)
        } catch {
            guard !error.isConnectionLost, !error.isRetryable else { return }
            context.logger.error("requests could not be marked", metadata: ["error": "\(error)"])
            wait()
        }
    }

    /// Commits events of running jobs, in a transaction before that of results.
    private mutating func writeResumptions() {
        var wasSent = false
        do {
            let told = try database.withConnection { [resumptions] connection throws(PostgresError) in
                wasSent = true
                return try connection.execute(Statements.tellJobs, .resumptions(resumptions)).rowCount
            }
            let isWanted = resumptions.contains(where: \.isWanted)
            resumptions = []
            if told > 0 { signals.events.written(isWanted: isWanted) }
        } catch {
            // The events may be committed. A repetition would look like another event.
            if wasSent, error.isOutcomeUnknown { resumptions = [] }
            guard !error.isConnectionLost, !error.isRetryable else { return }
            context.logger.error("the database refused events of jobs", metadata: ["error": "\(error)"])
            if error.isShortage { wait() } else { resumptions = [] }
        }
    }

    private func tell(_ transaction: DispatcherTransaction, _ outcome: DispatcherTransaction.Outcome) {
        if !outcome.fenced.isEmpty {
            context.metrics.fencedResults.add(Int64(outcome.fenced.count), ordering: .relaxed)
            context.logger.notice(
                "results came after the lease was lost",
                metadata: ["count": "\(outcome.fenced.count)", "job.id": "\(outcome.fenced[0].job)"])
            signals.commitObserver?.attemptsLost(
                outcome.fenced.map { LostAttempt(job: $0.job, number: $0.attempt) })
        }
        var finished: [JobID] = []
        var leaving: [JobID] = []
        let awaitedCount = outcome.claims.awaitedCount
        var isWanted = outcome.reconciledCount > 0 || awaitedCount > 0
        var suspended: [JobID] = []
        for ending in transaction.endings {
            switch ending {
            case .finish(let job):
                finished.append(job.lease.job)
                isWanted = isWanted || job.isWanted
                if job.record.resumeData != nil { leaving.append(job.lease.job) }
            case .change(let change):
                isWanted = isWanted || change.isWanted
                if change.isSuspension { suspended.append(change.lease.job) }
            }
        }
        if !suspended.isEmpty { signals.commitObserver?.jobsSuspended(suspended) }
        if !leaving.isEmpty { signals.commitObserver?.jobsLeaveBytes(leaving) }
        // Also jobs whose lease was lost: clients that wait for them read their state.
        if !finished.isEmpty { signals.commitObserver?.jobsFinished(finished) }
        if transaction.begun.contains(where: { $0.spec.webhook?.events.contains(.jobStarted) == true }) {
            isWanted = true
        }
        if !transaction.endings.isEmpty || !transaction.begun.isEmpty || !outcome.claims.jobs.isEmpty
            || awaitedCount > 0
        {
            tellEvents(outcome, isWanted: isWanted)
        }
    }

    /// Wakes the relay, unless the events have their numbers already.
    private func tellEvents(_ outcome: DispatcherTransaction.Outcome, isWanted: Bool) {
        guard let numbered = outcome.numbered else { return signals.events.written(isWanted: isWanted) }
        numbering.note(numbered, handedCount: handover.commit())
        if numbered.hasDrained { signals.events.sessionsDrained() }
        if numbered.isFull { signals.events.written(isWanted: true) }
    }

    /// Begins leased jobs or keeps them for the next slot; ends at once those that must not begin.
    private mutating func begin(_ claims: [StoredJob], _ reserved: Reservation) {
        guard !claims.isEmpty else { return slots.end(reserved.slots) }
        let now = context.clock.now()
        var attempts: [Attempt] = []
        attempts.reserveCapacity(claims.count)
        for stored in claims {
            if stored.isCancelRequested {
                let data = stored.keepsBytes ? context.configuration.resumeData : nil
                endings.append(
                    .finish(FinishedJob(stored, .cancelled, .cancelledByRequest, at: now, resumeData: data)))
            } else if let expiry = stored.expiresAt, expiry <= now {
                let resumeData = context.configuration.resumeData
                endings.append(.finish(FinishedJob(overdue: stored, at: now, resumeData: resumeData)))
            } else if let attempt = Attempt(stored, queueState) {
                if attempt.mayHaveActed(before: stored) {
                    end(stored, .failed, .outcomeUnknown, now)
                } else {
                    attempts.append(attempt)
                }
            } else {
                context.logger.error(
                    "a stored job cannot be read", metadata: ["job.id": "\(stored.record.id)"])
                end(stored, .failed, .unreadable, now)
            }
        }
        if attempts.contains(where: { $0.spec.webhook?.events.contains(.jobStarted) == true }) {
            signals.events.written(isWanted: true)
        }
        begin(attempts, reserved)
    }

    private mutating func begin(_ attempts: [Attempt], _ reserved: Reservation) {
        let slotCount = reserved.slots
        // After the leases are in the registry, as in `SubmissionBatch.begin`.
        guard signals.attemptRunner != nil, readCookies(for: attempts),
            nodeState.lease.number == reserved.lease
        else {
            slots.end(slotCount)
            for attempt in attempts { endings.append(.giveBack(Lease(attempt))) }
            return
        }
        var begun: [Attempt] = []
        var later: [Attempt] = []
        for attempt in attempts {
            if begun.count < slotCount, hostState.connections.begins(claimed: attempt) {
                begun.append(attempt)
            } else {
                later.append(attempt)
            }
        }
        slots.end(slotCount - begun.count)
        queueState.begin(begun)
        guard !later.isEmpty else { return }
        var held: [Attempt] = []
        for attempt in later {
            if attempt.spec.isRequestRepeatable {
                held.append(attempt)
            } else if begins(alone: attempt) {
                queueState.begin([attempt])
            } else {
                // A process that dies cannot tell that the job has not begun. Claims that prefetch skip such
                // jobs (`is_repeatable`) unless an edit has changed the spec since.
                prefetchesNothingUntil = Sys.monotonicNanoseconds() + Self.prefetchPause
                endings.append(.giveBack(Lease(attempt)))
            }
        }
        queueState.held.add(prefetched: held.map(waiting), at: Sys.monotonicNanoseconds())
        queueState.beginHeld()
    }

    /// Reads the cookies that other nodes have stored before these jobs were submitted. Returns `false` if
    /// the database does not answer.
    private func readCookies(for attempts: [Attempt]) -> Bool {
        let reading = CookieReading(for: attempts.lazy.compactMap(\.session))
        guard !reading.isEmpty else { return true }
        do {
            try database.withConnection { connection throws(PostgresError) in
                try reading.run(&connection, context)
            }
            return true
        } catch {
            context.logger.warning(
                "jobs are given back: the cookies of their sessions could not be read",
                metadata: ["error": "\(error)"])
            return false
        }
    }

    /// Takes a slot and counts the connection for a claimed attempt. Returns `false` if either is missing.
    private func begins(alone attempt: Attempt) -> Bool {
        guard slots.begin(upTo: 1) == 1 else { return false }
        if hostState.connections.begins(claimed: attempt) { return true }
        slots.end(1)
        return false
    }

    /// Returns a claimed attempt with its urgency and the connections that it waits for.
    private func waiting(
        _ attempt: Attempt
    ) -> (attempt: Attempt, urgency: Timestamp, pool: ConnectionPool) {
        let urgency = attempt.spec.urgency(
            createdAt: attempt.createdAt,
            bytesPerSecond: hostState.throughputs.bytesPerSecond(attempt.origin))
        let name = queueState.claimQueueName(
            attempt.scope, session: attempt.spec.session, context.sessions.current)
        let pool = ConnectionPool(tenant: name.tenant, session: name.session, origin: name.origin)
        return (attempt, urgency, pool)
    }

    private mutating func end(
        _ stored: StoredJob, _ state: JobState, _ error: TransferError, _ now: Timestamp
    ) {
        endings.append(.finish(FinishedJob(stored, state, error, at: now)))
    }

    private mutating func fail(_ transaction: DispatcherTransaction, _ error: PostgresError) {
        // Whether jobs were leased or given back is unknown: the leases are compared with the database.
        nextReconciliation = 0
        if transaction.handover != nil {
            // The same results are written again without the pass, whichever statement has failed.
            handover.discard()
            numbersNothingUntil = Sys.monotonicNanoseconds() + Self.numberingPause
            return
        }
        guard !error.isConnectionLost, !error.isRetryable else { return }
        context.logger.error("the database refused results of jobs", metadata: ["error": "\(error)"])
        guard error.isOfData, AttemptEnding.statements.contains(error.statement ?? ""),
            !transaction.endings.isEmpty
        else { return wait() }
        if batchMax > 1 && transaction.endings.count > 1 {
            batchMax = 1
        } else if let simplified = endings[0].simplified {
            endings[0] = simplified
        } else {
            wait()
        }
    }

    /// Waits after an error that may pass, such as a full disk or a timeout. Results are tried again.
    private mutating func wait() {
        let now = Sys.monotonicNanoseconds()
        nextStep = now + Self.pauseAfterError
        nextPromotion = max(nextPromotion, nextStep)
    }
}
