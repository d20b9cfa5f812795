import Curl
import FerryCore
import Sys

/// The requests in flight of a sender. Used only on the loop's thread.
struct RunningDeliveries {
    /// Identifies a request. A delivery can have two: a client may request another delivery while one is in
    /// flight.
    struct Key: Hashable {
        let delivery: DeliveryID
        let tryNumber: Int32
        init(_ delivery: Delivery) { (self.delivery, tryNumber) = (delivery.id, delivery.tryNumber) }
    }

    private struct Running {
        let queue: ReceiverQueueID
        let request: RunningBufferedRequest
        /// Start in monotonic nanoseconds.
        let since: Int64
    }

    private var all: [Key: Running] = [:]

    var count: Int { all.count }

    mutating func add(_ delivery: Delivery, _ request: RunningBufferedRequest) {
        all[Key(delivery)] = Running(
            queue: delivery.receiverQueue, request: request, since: monotonicNanoseconds())
    }

    /// Removes a request. Returns `false` if it was cancelled before.
    mutating func remove(_ key: Key) -> Bool { all.removeValue(forKey: key) != nil }

    /// Ends requests that have been in flight for this long without a response.
    func expireWithoutResponse(after milliseconds: Int) {
        let latest = monotonicNanoseconds() - Int64(milliseconds) * 1_000_000
        for one in all.values where one.since <= latest { one.request.expireWithoutResponse() }
    }

    /// Cancels all requests, whose results are then unknown. Returns their receivers.
    mutating func cancelAll() -> [ReceiverQueueID] {
        defer { all = [:] }
        return all.values.map { one in
            one.request.cancel()
            return one.queue
        }
    }
}
