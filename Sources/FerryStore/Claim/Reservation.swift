import FerryCore

/// What a round of the dispatcher may lease.
struct Reservation {
    /// Slots, each with its lease.
    var slots = 0
    /// Leases for which there is no slot yet.
    var held = 0
    /// The node's lease that they rest on; nil: nothing may be leased.
    var lease: Int?

    mutating func giveBack(to ledger: WorkerSlots) {
        ledger.release(slots)
        ledger.settle(held)
        (slots, held) = (0, 0)
    }
}
