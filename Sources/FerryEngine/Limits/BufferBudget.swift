import Synchronization

/// The memory in which bodies that are neither small nor large may gather. Any thread.
final class BufferBudget: Sendable {
    private let free: Atomic<Int>

    init(byteCount: Int) { free = Atomic(byteCount) }

    /// Reserves so many bytes; `nil` if fewer are free.
    func claim(_ byteCount: Int) -> BufferReservation? {
        take(byteCount) ? BufferReservation(byteCount, of: self) : nil
    }

    fileprivate func take(_ byteCount: Int) -> Bool {
        let left = free.wrappingSubtract(byteCount, ordering: .relaxed).newValue
        if left < 0 { release(byteCount) }
        return left >= 0
    }

    fileprivate func release(_ byteCount: Int) { free.wrappingAdd(byteCount, ordering: .relaxed) }
}

/// Bytes that one body may gather. Given back when it is released.
final class BufferReservation: Sendable {
    private let byteCount: Atomic<Int>
    private let budget: BufferBudget

    fileprivate init(_ byteCount: Int, of budget: BufferBudget) {
        self.byteCount = Atomic(byteCount)
        self.budget = budget
    }

    deinit { budget.release(byteCount.load(ordering: .relaxed)) }

    /// Extends the reservation to so many bytes. Returns `false`, and changes nothing, if fewer are free. One
    /// thread at a time.
    func grow(to count: Int) -> Bool {
        let more = count - byteCount.load(ordering: .relaxed)
        guard more > 0 else { return true }
        guard budget.take(more) else { return false }
        byteCount.wrappingAdd(more, ordering: .relaxed)
        return true
    }
}
