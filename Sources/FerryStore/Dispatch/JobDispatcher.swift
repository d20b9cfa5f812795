package import FerryCore
import Logging
import Postgres
import Sys

/// Commits results and leases the next jobs, both in one transaction.
///
/// Results come from any thread; one thread owns the connection and begins what was leased.
package final class JobDispatcher: ResultSink, RequestMarker {
    enum Message: Sendable {
        /// `AttemptTransfer`: the bytes that its tenant's limit of a day counts.
        case result(AttemptResult, AttemptTransfer?)
        case resumed(Attempt, Int64)
        /// An attempt is about to send a request that must not be sent twice.
        case mark(RequestMark)
        /// There may be queued jobs.
        case wake
        /// A waiting job is due at that time.
        case due(Timestamp)
        /// The database may have leases of this node that this process does not know.
        case reconcile
        /// A connection to an origin is free whose claim queues have jobs.
        case connectionFree(String)
        /// Jobs have ended that others depend on, or jobs were submitted that depend on others.
        case dependencies
        /// To be called once all results that came before are committed.
        case whenCommitted(@Sendable () -> Void)
    }

    private let queueState: QueueState
    private let numbering: EventNumbering
    private let recentResults: RecentResults
    private let spool: ResultSpool?
    private let mailbox = Mailbox<Message>()

    init(
        _ queueState: QueueState, _ numbering: EventNumbering, _ recentResults: RecentResults,
        spool: ResultSpool?
    ) {
        self.queueState = queueState
        self.numbering = numbering
        self.recentResults = recentResults
        self.spool = spool
    }

    private var context: StoreContext { queueState.context }

    /// Takes a result and gives its slot to the next attempt. The mailbox is bounded: each result holds a
    /// lease until it is committed.
    package func record(_ result: AttemptResult) {
        context.configuration.slots.end(1)
        queueState.hostState.connections.forget(result.attempt)
        let transfer = AttemptTransfer(result, context.configuration.quotas)
        // Before the next attempt begins: it may be of a tenant whose bytes of the day are now used up.
        if let transfer {
            context.configuration.quotas.note(ended: transfer.byteCount, of: transfer.tenant)
        }
        queueState.beginHeld()
        mailbox.send(.result(result, transfer))
    }

    /// Takes the offset at which a download has resumed. The mailbox is bounded: an attempt reports it once.
    package func resumed(_ attempt: Attempt, at offset: Int64) { mailbox.send(.resumed(attempt, offset)) }

    /// The mailbox is bounded: an attempt asks once.
    package func mark(_ attempt: Attempt, reply: @escaping @Sendable (Bool) -> Void) {
        if !mailbox.send(.mark(RequestMark(lease: Lease(attempt), reply: reply))) { reply(false) }
    }

    /// The mailbox is bounded: an attempt reports a few uploads at most.
    package func note(_ upload: ResumableUpload?, of attempt: Attempt) {
        let sealed = upload.map { NextRequest.upload($0).encode(context.configuration.seal) } ?? []
        let former = upload.flatMap { attempt.formerJob(of: $0) }
        mailbox.send(
            .mark(RequestMark(lease: Lease(attempt), nextRequest: sealed, formerJob: former) { _ in }))
    }

    package func received(_ response: HostResponse) { queueState.hostState.health.note(response) }

    package func noteUnanswered(_ attempt: Attempt, at scope: RequestScope) -> Bool {
        guard context.configuration.slots.isScarce else { return false }
        queueState.hostState.health.noteUnanswered(of: attempt.job, at: scope)
        return true
    }

    package func lendSlot(of attempt: Attempt) -> Bool {
        guard context.configuration.slots.lend(for: attempt.tenant) else { return false }
        useFreeSlot()
        return true
    }

    package var areSlotsMissing: Bool { context.configuration.slots.areMissing }

    package func lendSlotEarly(of attempt: Attempt) -> Bool {
        guard context.configuration.slots.lendEarly(for: attempt.tenant) else { return false }
        useFreeSlot()
        return true
    }

    private func useFreeSlot() {
        queueState.beginHeld()
        mailbox.send(.wake)
    }

    package func settleEarlyLoan(of attempt: Attempt) {
        context.configuration.slots.settleEarlyLoan(of: attempt.tenant)
    }

    package func takeBackSlot(of attempt: Attempt, isEarly: Bool) {
        context.configuration.slots.takeBack(for: attempt.tenant, isEarly: isEarly)
    }

    /// Calls `done` on the dispatcher's thread once all results that were recorded before are committed.
    /// Never calls it if the node stops before that.
    package func whenCommitted(_ done: @escaping @Sendable () -> Void) { mailbox.send(.whenCommitted(done)) }

    func send(_ message: Message) { mailbox.send(message) }

    /// Takes no more results; the thread ends when the last one is committed, or after a few seconds, with
    /// what is left in the spool.
    func close() { mailbox.close() }

    /// Time for which a commit waits for further results, in microseconds. Longer than for submissions: no
    /// client waits.
    private static let gatherMicroseconds = 2_000

    /// Number of results for which a commit waits no longer. No limit while slots are free or jobs are
    /// prefetched; else a quarter of the slots, because free slots then wait for the claim of that commit.
    private var enough: Int {
        let slots = context.configuration.slots
        return slots.freeCount > 0 || queueState.held.count > 0 ? .max : max(1, slots.capacity / 4)
    }

    /// The thread's body.
    func run() {
        var dispatcher = DispatcherState(queueState, numbering, recentResults, spool: spool)
        var deadline: Int64?
        // `true` after a commit of several results: more are likely to follow.
        var isBusy = false
        while true {
            // The connections of a limited host are not left idle for the sake of larger transactions.
            let waits = isBusy && !dispatcher.waitsForConnections
            let messages = mailbox.gather(
                milliseconds: dispatcher.idleMilliseconds, expected: waits ? enough : 0,
                microseconds: Self.gatherMicroseconds)
            for message in messages { dispatcher.take(message) }
            isBusy = messages.count > 2
            dispatcher.step()
            guard mailbox.isClosed else { continue }
            let now = Sys.monotonicNanoseconds()
            let end = deadline ?? (now + 5_000_000_000)
            deadline = end
            if dispatcher.isEmpty { return }
            if now > end {
                if dispatcher.spool() {
                    context.logger.warning("results could not be committed: the next start does that")
                } else {
                    context.logger.error("results could not be committed before the end")
                }
                return
            }
            dispatcher.pause()
        }
    }
}
