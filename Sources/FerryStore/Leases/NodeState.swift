import FerryCore
import Synchronization

/// Reasons for which a worker leases nothing.
struct OperatorHolds: Sendable {
    var settings = OperatorSettings(revision: -1, isPaused: false, drains: false)
    /// `true` once the process stops.
    var isStopping = false
    /// `true` if this node reaches no origin while other nodes do.
    var isCutOff = false
}

/// The other nodes that run attempts, as of the last heartbeat. Any thread.
struct WorkerCounts: ~Copyable, Sendable {
    /// Negative before the first heartbeat.
    private let othersCount = Atomic<Int>(-1)
    private let drainedCount = Atomic<Int>(0)

    /// Other workers that are alive and do not drain; `nil` before the first heartbeat.
    var others: Int? {
        let count = othersCount.load(ordering: .relaxed)
        return count < 0 ? nil : count
    }

    /// Other workers that are alive and drain.
    var drained: Int { drainedCount.load(ordering: .relaxed) }

    func note(others: Int, drained: Int) {
        othersCount.store(others, ordering: .relaxed)
        drainedCount.store(drained, ordering: .relaxed)
    }
}

/// State of this node: its lease, the leases of its jobs, what operators have asked of it, and the other
/// nodes as of its last heartbeat. Any thread.
final class NodeState: Sendable {
    /// Leases that this process knows. Other leases of this node are found and given back.
    let leaseRegistry = LeaseRegistry()
    /// The lease of this node, on which the leases of its jobs rest.
    let lease: NodeLease
    /// `false` while this node drains, is cut off, or operators have paused the service.
    let isLeasing: Atomic<Bool>
    /// `true` while the pause also holds deliveries, schedules and probes of hosts.
    let isHeld = Atomic<Bool>(false)
    /// `true` if other nodes are alive and must be notified.
    let hasPeers = Atomic<Bool>(true)
    /// The other nodes at the last heartbeat.
    let peers = Mutex<[NodeID: PeerNode]>([:])
    /// `true` while the notifications of other nodes arrive.
    let isListening = Atomic<Bool>(false)
    let workers = WorkerCounts()
    private let holds = Mutex(OperatorHolds())
    private let isWorker: Bool

    init(_ configuration: StoreConfiguration) {
        lease = NodeLease(seconds: configuration.leaseSeconds)
        isWorker = configuration.isWorker
        isLeasing = Atomic(configuration.isWorker)
    }

    /// `true` if this node may lease and begin jobs: nothing forbids it, and its own lease is held. Without a
    /// lease other nodes would run the same jobs.
    var mayLease: Bool { isLeasing.load(ordering: .relaxed) && lease.isHeld }

    /// Payload of the notification about changed operator settings.
    static let operationsNotification = "operations"

    /// `true` if this node queues waiting jobs that are due: every worker until it stops, even if it leases
    /// nothing.
    var isPromoting: Bool { isWorker && !holds.withLock { $0.isStopping } }

    /// `true` if this node begins no attempts and lets running ones end: it stops, or operators drain it.
    var isDraining: Bool { holds.withLock { $0.isStopping || $0.settings.drains } }

    /// `true` once the process stops.
    var isStopping: Bool { holds.withLock { $0.isStopping } }

    var isPaused: Bool { holds.withLock { $0.settings.isPaused } }

    /// Workers that are alive and do not drain: this node as it is now, the others as of the last heartbeat.
    /// `nil` before the first heartbeat.
    var workerCount: Int? {
        workers.others.map { $0 + (isWorker && !isDraining ? 1 : 0) }
    }

    /// `true` if a worker is alive and drains.
    var hasDrainedWorker: Bool { workers.drained > 0 || isWorker && isDraining }

    /// Stops leasing for the rest of the process.
    func stopLeasing() {
        holds.withLock { holds in
            holds.isStopping = true
            isLeasing.store(false, ordering: .relaxed)
        }
    }

    /// Adopts operator settings unless they are older than the current ones. Returns `true` if the node may
    /// begin again what they forbade.
    func adopt(_ settings: OperatorSettings) -> Bool {
        holds.withLock { holds in
            guard settings.revision > holds.settings.revision else { return false }
            holds.settings = settings
            let wasHeld = isHeld.exchange(settings.isHeld, ordering: .relaxed)
            return settleLeasing(holds) || wasHeld && !settings.isHeld
        }
    }

    /// `true` if this node reaches no origin while other nodes do. It then leases nothing.
    var isCutOff: Bool { holds.withLock { $0.isCutOff } }

    /// Returns `true` if the node may lease again.
    func setCutOff(_ isCutOff: Bool) -> Bool {
        holds.withLock { holds in
            holds.isCutOff = isCutOff
            return settleLeasing(holds)
        }
    }

    private func settleLeasing(_ holds: OperatorHolds) -> Bool {
        let leased = isLeasing.load(ordering: .relaxed)
        let settings = holds.settings
        let leases =
            isWorker && !holds.isStopping && !holds.isCutOff && !settings.isPaused
            && !settings.drains
        isLeasing.store(leases, ordering: .relaxed)
        return leases && !leased
    }
}
