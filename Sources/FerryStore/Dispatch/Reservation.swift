import FerryCore

/// Numbers of jobs that one transaction of the dispatcher may lease.
struct Reservation {
    /// Slots, each with a lease.
    var slots = 0
    /// Leases of prefetched jobs, without slots.
    var held = 0
    /// Number of the node's lease when they were reserved; `nil` if nothing may be leased.
    var lease: Int?

    mutating func giveBack(to ledger: WorkerSlots) {
        ledger.release(slots)
        ledger.settle(held)
        (slots, held) = (0, 0)
    }
}
