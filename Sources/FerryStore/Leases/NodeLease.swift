import Synchronization
import Sys

/// Whether the other nodes count on this one, by this node's own clock. The watch lane renews it; any thread
/// asks.
final class NodeLease: Sendable {
    private let seconds: Double
    /// When the last heartbeat that the database confirmed was sent; monotonic nanoseconds.
    private let confirmed = Atomic<Int64>(0)
    /// How often it had lapsed when a heartbeat was confirmed.
    private let lapseCount = Atomic<Int>(0)

    init(seconds: Double) { self.seconds = seconds }

    /// How long before the others may take our jobs we do not rely on them any more; of so many seconds.
    static func margin(of seconds: Double) -> Double { min(1, seconds / 4) }

    /// False from one second before the others may take our jobs.
    var isHeld: Bool { silenceSeconds < seconds - Self.margin(of: seconds) }

    /// Which one it is: another one after each time that others could not count on us. Nil: none.
    var number: Int? { isHeld ? lapseCount.load(ordering: .acquiring) : nil }

    var silenceSeconds: Double {
        Double(Sys.monotonicNanoseconds() - confirmed.load(ordering: .acquiring)) / 1e9
    }

    /// The one that is confirmed next is another one. To be called before `confirm`: who finds the lease held
    /// again must find its new number.
    func lapse() { lapseCount.add(1, ordering: .releasing) }

    /// It is over for good. To be called when no heartbeat is on its way any more.
    func end() { confirmed.store(Int64.min / 2, ordering: .releasing) }

    /// A heartbeat got through that was sent then.
    func confirm(sentAt instant: Int64) { confirmed.store(instant, ordering: .releasing) }
}
