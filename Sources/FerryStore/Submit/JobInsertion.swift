import FerryCore
import Synchronization

/// Inserts jobs: what all ways to submit jobs use. Any thread.
final class JobInsertion: Sendable {
    let queueState: QueueState
    let sessionLoader: SessionLoader
    let admission: Admission
    let recentResults: RecentResults

    init(
        _ queueState: QueueState, _ sessionLoader: SessionLoader, _ admission: Admission,
        _ recentResults: RecentResults
    ) {
        self.queueState = queueState
        self.sessionLoader = sessionLoader
        self.admission = admission
        self.recentResults = recentResults
    }

    var context: StoreContext { queueState.context }
    var signals: StoreSignals { queueState.signals }
    var nodeState: NodeState { queueState.nodeState }
    var hostState: HostState { queueState.hostState }

    /// Tells the other parts of this node about a committed submission that has leased no job.
    func note(_ outcome: SubmissionBatch.Outcome) {
        context.metrics.submittedJobs.add(Int64(outcome.jobCount), ordering: .relaxed)
        if outcome.jobCount > 0 { signals.events.written(isWanted: outcome.tells) }
        if !outcome.queued.isEmpty, context.configuration.isWorker {
            queueState.specs.insert(outcome.queued)
            queueState.backlog.add(outcome.additions)
            signals.wakeDispatcher()
        }
        if let earliest = outcome.earliestBegin { signals.wakeDispatcher(at: earliest) }
        if outcome.hasDependencies { signals.noteDependencies() }
        if let earliest = outcome.earliestExpiry { signals.noteExpiry(earliest) }
    }
}
