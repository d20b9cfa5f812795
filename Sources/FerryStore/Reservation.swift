import FerryCore

/// What a round of the dispatcher may lease.
struct Reservation {
    /// Slots, each with its lease.
    var slots = 0
    /// Leases for which there is no slot yet.
    var held = 0

    mutating func giveBack(to ledger: SlotLedger) {
        ledger.release(slots)
        ledger.settle(held)
        self = Reservation()
    }
}
