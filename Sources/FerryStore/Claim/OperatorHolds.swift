import FerryCore
import Synchronization

/// Why a node leases nothing although it could.
struct OperatorHolds: Sendable {
    var wishes = OperatorSettings(revision: -1, isPaused: false, drains: false)
    /// The process is about to end.
    var isStopping = false
    /// It reaches nobody, and others do.
    var isCutOff = false
}

/// The other nodes that run attempts, as of the last heartbeat. Any thread.
struct WorkerCounts: ~Copyable, Sendable {
    /// Negative: not known.
    private let othersCount = Atomic<Int>(-1)
    private let drainedCount = Atomic<Int>(0)

    /// Alive and leasing; nil: not known.
    var others: Int? {
        let count = othersCount.load(ordering: .relaxed)
        return count < 0 ? nil : count
    }

    /// Alive and draining.
    var drained: Int { drainedCount.load(ordering: .relaxed) }

    func note(others: Int, drained: Int) {
        othersCount.store(others, ordering: .relaxed)
        drainedCount.store(drained, ordering: .relaxed)
    }
}

extension StoreContext {
    /// What is notified when operators want something else.
    static let operationsNotification = "operations"

    /// Whether waiting jobs become due here: also while nothing is leased, unless the process ends.
    var isPromoting: Bool { configuration.isWorker && !holds.withLock { $0.isStopping } }

    /// Whether this node is to end its attempts and begin none.
    var isDraining: Bool { holds.withLock { $0.isStopping || $0.wishes.drains } }

    var isPaused: Bool { holds.withLock { $0.wishes.isPaused } }

    /// Nodes that are alive, transfer and do not drain. This one is counted as it is now; the others as they
    /// were at the last heartbeat. Nil before the first.
    var workerCount: Int? {
        workers.others.map { $0 + (configuration.isWorker && !isDraining ? 1 : 0) }
    }

    /// Whether a node that could transfer is alive and drains.
    var hasDrainedWorker: Bool { workers.drained > 0 || configuration.isWorker && isDraining }

    /// Leases nothing more, for good.
    func stopLeasing() {
        holds.withLock { holds in
            holds.isStopping = true
            isLeasing.store(false, ordering: .relaxed)
        }
    }

    /// Does what operators want. Returns whether the node may lease again.
    func adopt(_ wishes: OperatorSettings) -> Bool {
        holds.withLock { holds in
            guard wishes.revision > holds.wishes.revision else { return false }
            holds.wishes = wishes
            return settleLeasing(holds)
        }
    }

    /// Whether this node reaches nobody although others do: then it leaves the work to them.
    var isCutOff: Bool { holds.withLock { $0.isCutOff } }

    /// Returns whether the node may lease again.
    func setCutOff(_ isCutOff: Bool) -> Bool {
        holds.withLock { holds in
            holds.isCutOff = isCutOff
            return settleLeasing(holds)
        }
    }

    private func settleLeasing(_ holds: OperatorHolds) -> Bool {
        let leased = isLeasing.load(ordering: .relaxed)
        let wishes = holds.wishes
        let leases =
            configuration.isWorker && !holds.isStopping && !holds.isCutOff && !wishes.isPaused
            && !wishes.drains
        isLeasing.store(leases, ordering: .relaxed)
        return leases && !leased
    }
}
