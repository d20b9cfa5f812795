import FerryCore
import Synchronization

extension QueueState {
    /// The conditions that explain why a job waits, as this node knows them.
    var conditions: QueueConditions {
        let configuration = context.configuration
        let now = context.clock.now()
        var conditions = QueueConditions(isPaused: nodeState.isPaused, workerCount: nodeState.workerCount)
        conditions.isHeld = nodeState.isHeld.load(ordering: .relaxed)
        conditions.hasDrainedWorker = nodeState.hasDrainedWorker
        conditions.hosts = configuration.hosts
        conditions.sessionLimit = { [context] in
            context.sessions.current.share(tenant: $0, session: $1).connectionLimit
        }
        conditions.now = now
        conditions.leaseSeconds = configuration.leaseSeconds
        conditions.downloadHold = configuration.isWorker ? configuration.downloads.hold : nil
        conditions.unreachableHost = { [health = hostState.health] in health.unreachableHost($0) }
        conditions.outlook = outlook.withLock { $0 }
        conditions.tenantWaitsUntil = { [quotas = configuration.quotas] in quotas.usedUpUntil($0, at: now) }
        return conditions
    }
}
