import FerryAPI
import FerryCore
import FerryEngine
import FerryWebhooks
import Synchronization

/// Passes notifications of commits to waiting requests, to the engine and to the webhook sender.
final class CommitObservers: CommitObserver {
    private struct Parts: Sendable {
        var engine: Engine?
        var webhooks: WebhookSender?
        var waiters: JobWaiters?
    }
    private let parts = Mutex(Parts())

    func connect(engine: Engine?, webhooks: WebhookSender?, waiters: JobWaiters?) {
        parts.withLock { $0 = Parts(engine: engine, webhooks: webhooks, waiters: waiters) }
    }

    func jobsFinished(_ jobs: [JobID]) {
        let parts = parts.withLock { $0 }
        parts.waiters?.finished(jobs)
        parts.engine?.removePartialFiles(of: jobs)
    }

    func attemptsLost(_ attempts: [LostAttempt]) {
        parts.withLock { $0.engine }?.removePartialFiles(of: attempts)
    }

    func jobsSuspended(_ jobs: [JobID]) { parts.withLock { $0.waiters }?.changed(jobs) }

    func jobsLeaveBytes(_ jobs: [JobID]) { parts.withLock { $0.engine }?.keepBytes(of: jobs) }

    func bytesDropped(_ points: [ResumePoint]) {
        guard let engine = parts.withLock({ $0.engine }) else { return }
        for point in points { engine.forget(point) }
    }

    func deliveriesAdded(_ count: Int) {
        parts.withLock { $0.webhooks }?.wake()
    }
}
