package import FerryCore
import Logging
import Postgres
import Sys

/// Commits results and leases the next jobs, both in one transaction.
///
/// Results come from any thread; one thread owns the connection and begins what was leased.
package final class JobDispatcher: ResultSink {
    enum Message: Sendable {
        case result(AttemptResult)
        case resumed(Attempt, Int64)
        /// There may be queued jobs.
        case wake
        /// A waiting job is due then.
        case due(Timestamp)
        /// Leases may exist in the database that this process does not know.
        case reconcile
        /// Jobs have ended that others depend on, or have come that depend on others.
        case dependencies
    }

    private let context: StoreContext
    private let mailbox = Mailbox<Message>()

    init(_ context: StoreContext) { self.context = context }

    /// Bounded by the leases: each result holds one until it is committed. The slot goes to the next attempt.
    package func record(_ result: AttemptResult) {
        context.configuration.slots.end(1)
        context.beginHeld()
        mailbox.send(.result(result))
    }

    /// Bounded by the attempts: each says it once.
    package func resumed(_ attempt: Attempt, at offset: Int64) { mailbox.send(.resumed(attempt, offset)) }

    package func answered(_ answer: HostResponse) { context.health.note(answer) }

    package func unanswered(_ attempt: Attempt, at scope: RequestScope) -> Bool {
        guard context.configuration.slots.isScarce else { return false }
        context.health.noteSilence(of: attempt.job, at: scope)
        return true
    }

    package func lendSlot(of attempt: Attempt) -> Bool {
        guard context.configuration.slots.lend(for: attempt.origin) else { return false }
        context.beginHeld()
        mailbox.send(.wake)
        return true
    }

    package func takeBackSlot(of attempt: Attempt) {
        context.configuration.slots.takeBack(for: attempt.origin)
    }

    func send(_ message: Message) { mailbox.send(message) }

    /// Takes no more results; the thread ends when the last one is committed, or after a few seconds, with
    /// what is left in the spool.
    func close() { mailbox.close() }

    /// As for submissions, but nobody waits for these.
    private static let gatherMicroseconds = 2_000

    /// Results that are worth a commit at once: any number while slots are free or the next jobs are here;
    /// else a quarter of the slots, because then they wait for the claim that comes with the commit.
    private var enough: Int {
        let slots = context.configuration.slots
        return slots.freeCount > 0 || context.held.count > 0 ? .max : max(1, slots.capacity / 4)
    }

    /// The thread's body.
    func run() {
        var dispatcher = DispatcherState(context)
        var deadline: Int64?
        // Several results came in one commit: more are on their way.
        var isBusy = false
        while true {
            let messages = mailbox.gather(
                milliseconds: dispatcher.idleMilliseconds, expected: isBusy ? enough : 0,
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

extension JobDispatcher {
    /// To be called when the answer to a commit that leases was lost: leases that nobody acts on are given
    /// back.
    package func noteLostAnswer() { send(.reconcile) }
}
