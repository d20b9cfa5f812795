import Curl
import FerryCore
import Sys

/// The requests of a sender that are on their way. Lives on the loop's thread.
struct RunningDeliveries {
    /// A delivery may be on its way twice: a client may ask for it again meanwhile.
    struct Key: Hashable {
        let delivery: DeliveryID
        let tryNumber: Int32
        init(_ delivery: Delivery) { (self.delivery, tryNumber) = (delivery.id, delivery.tryNumber) }
    }

    private struct Running {
        let lane: ReceiverQueueID
        let exchange: RunningBufferedRequest
        /// Nanoseconds of the monotonic clock.
        let since: Int64
    }

    private var all: [Key: Running] = [:]

    var count: Int { all.count }

    mutating func add(_ delivery: Delivery, _ exchange: RunningBufferedRequest) {
        all[Key(delivery)] = Running(lane: delivery.lane, exchange: exchange, since: monotonicNanoseconds())
    }

    /// False: it was left to others meanwhile.
    mutating func remove(_ key: Key) -> Bool { all.removeValue(forKey: key) != nil }

    /// Ends requests that have been on their way for so many milliseconds and have no answer.
    func expireUnanswered(after milliseconds: Int) {
        let latest = monotonicNanoseconds() - Int64(milliseconds) * 1_000_000
        for one in all.values where one.since <= latest { one.exchange.expireUnlessAnswered() }
    }

    /// Cuts all of them off; what came of them nobody knows. Their lanes.
    mutating func cancelAll() -> [ReceiverQueueID] {
        defer { all = [:] }
        return all.values.map { one in
            one.exchange.cancel()
            return one.lane
        }
    }
}
