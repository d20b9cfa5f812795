import FerryCore
import Synchronization

/// The limits of the service on this node, and this node's share of the rates. May be used from any thread.
final class LimitsCache: Sendable {
    /// Name of the setting that holds the limits once they were changed.
    static let setting = "limits"
    /// Payload of the notification that the limits have changed.
    static let notification = "limits"

    private let fallback: TransferLimits
    private let demand = Mutex((shares: RateShares(), told: RateDemand()))
    /// Rate of the open off-peak window in bytes per second, which replaces the service's rate; 0 if there is
    /// none.
    private let windowRate = Atomic<Int64>(0)
    private let readings = Mutex((begun: 0, applied: 0))

    init(fallback: TransferLimits) { self.fallback = fallback }

    /// Returns the stored limits; those of the configuration if `stored` is `nil` or unreadable.
    func limits(_ stored: [UInt8]?) -> TransferLimits {
        stored.flatMap { TransferLimits(storedJSON: $0) } ?? fallback
    }

    /// Returns the number of this reading. Call before the limits are read, and after they were written.
    func beginReading() -> Int {
        readings.withLock { readings in
            readings.begun += 1
            return readings.begun
        }
    }

    /// Passes the limits to `runner`, unless those of a later reading were passed before. `reading`: the
    /// value of `beginReading`.
    func apply(_ stored: [UInt8]?, reading: Int, to runner: (any AttemptRunner)?) {
        let rate = windowRate.load(ordering: .relaxed)
        let limits = limits(stored).replacing(serviceRate: rate > 0 ? rate : nil)
        readings.withLock { readings in
            guard reading >= readings.applied else { return }
            readings.applied = reading
            runner?.setLimits(limits, shares: demand.withLock { $0.shares })
        }
    }

    /// Sets the rate of the open window. Returns `true` if it has changed.
    func note(windowRate rate: Int64?) -> Bool {
        windowRate.exchange(rate ?? 0, ordering: .relaxed) != rate ?? 0
    }

    /// Call before this node's demand is written. Returns the demand that this node may count on: the part
    /// that other nodes know of, whether they will read the new value or not.
    func beginPublishing(_ demand: RateDemand) -> RateDemand {
        self.demand.withLock { state in
            state.told = state.told.common(with: demand)
            return state.told
        }
    }

    /// Call after this node's demand was written. `own`: value of `beginPublishing`; `others`: demands of
    /// the other nodes, `nil` for a node that states none; `nodeCount`: live workers, this node included.
    func endPublishing(_ demand: RateDemand, own: RateDemand, others: [[UInt8]?], nodeCount: Int) {
        var sum: RateDemand? = RateDemand()
        for other in others {
            if let one = other.flatMap({ RateDemand(json: $0) }) { sum?.add(one) } else { sum = nil }
        }
        let shares = RateShares(nodeCount: nodeCount, own: own, others: sum)
        self.demand.withLock { $0 = (shares, demand) }
    }
}
