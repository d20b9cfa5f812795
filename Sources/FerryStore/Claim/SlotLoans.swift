import FerryCore
import FerryScheduler

/// Lets slow attempts lend their slots while no slot is free and tenants wait that hold fewer than their
/// share (`SlotDemand`). Lives on the dispatcher's thread; instants are nanoseconds of the monotonic clock.
struct SlotLoans {
    /// Between two computations of the demand, and the longest time until the next one while jobs wait.
    private static let pause: Int64 = 100_000_000
    private static let interval: Int64 = 250_000_000

    let queueState: QueueState
    /// The demand is not computed before.
    private var nextDemand: Int64 = 0
    /// `true` if the demand was to be computed earlier.
    private var isDue = false

    init(_ queueState: QueueState) {
        self.queueState = queueState
    }

    private var slots: WorkerSlots { queueState.context.configuration.slots }

    private func hasJobsToBegin(_ queue: QueueView) -> Bool {
        queue.schedule.hasReady || queueState.held.hasReady
    }

    /// Returns when the demand is computed next; `nil` if no job waits for a slot.
    func nextInstant(_ queue: QueueView, _ now: Int64) -> Int64? {
        guard slots.freeCount == 0, hasJobsToBegin(queue) else { return nil }
        return isDue ? nextDemand : now + Self.interval
    }

    /// Computes the demand. Call before slots are reserved for a claim: the claim takes the demand back by as
    /// many slots as it reserves.
    mutating func note(_ queue: QueueView, _ now: Int64) {
        guard hasJobsToBegin(queue) else { return forget() }
        guard slots.freeCount == 0, let runner = queueState.signals.attemptRunner else { return }
        isDue = now < nextDemand
        guard !isDue else { return }
        nextDemand = now + Self.pause
        var held = runner.attemptCounts()
        for (tenant, count) in slots.lentByTenant { held[tenant]? -= count }
        let queued = queue.readyCounts.merging(queueState.held.countsByTenant) { $0 + $1 }
        let demand = SlotDemand(
            queued: queued, held: held.filter { $0.value > 0 }, capacity: slots.capacity)
        slots.expect(demand.count, for: demand.tenants)
        if demand.count > 0 { runner.lendSlots() }
    }

    /// Takes the demand back after a claim if no job waits.
    func settle(_ queue: QueueView) {
        if !hasJobsToBegin(queue) { forget() }
    }

    /// Takes the demand back.
    func forget() {
        if slots.areMissing { slots.expect(0, for: []) }
    }
}
