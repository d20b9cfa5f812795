import Synchronization

/// The memory in which bodies of known length may gather before a file thread writes them. Any thread.
final class GatheringRoom: Sendable {
    private let free: Atomic<Int>

    init(byteCount: Int) { free = Atomic(byteCount) }

    /// Nil when there is not so much room.
    func claim(_ byteCount: Int) -> GatheringClaim? {
        let left = free.wrappingSubtract(byteCount, ordering: .relaxed).newValue
        let claim = GatheringClaim(byteCount, of: self)
        return left < 0 ? nil : claim
    }

    fileprivate func release(_ byteCount: Int) { free.wrappingAdd(byteCount, ordering: .relaxed) }
}

/// Bytes that one body may gather, until it is let go.
final class GatheringClaim: Sendable {
    private let byteCount: Int
    private let room: GatheringRoom

    fileprivate init(_ byteCount: Int, of room: GatheringRoom) {
        self.byteCount = byteCount
        self.room = room
    }

    deinit { room.release(byteCount) }
}
