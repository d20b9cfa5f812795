import Synchronization
import Sys

/// The lease of this node, by this node's own clock: while it is held, other nodes leave its jobs alone. The
/// `Heartbeat` renews it; any thread may ask.
final class NodeLease: Sendable {
    private let seconds: Double
    /// When the last confirmed heartbeat was sent, in monotonic nanoseconds.
    private let confirmed = Atomic<Int64>(0)
    /// Number of times that the lease had lapsed before a confirmed heartbeat.
    private let lapseCount = Atomic<Int>(0)

    init(seconds: Double) { self.seconds = seconds }

    /// Seconds before the end of a lease of `seconds` from which this node no longer relies on it.
    static func margin(of seconds: Double) -> Double { min(1, seconds / 4) }

    /// `true` while the lease is valid, less the margin of at most 1 s.
    var isHeld: Bool { secondsSinceHeartbeat < seconds - Self.margin(of: seconds) }

    /// Number of the lease, which differs after each lapse. `nil` if none is held.
    var number: Int? { isHeld ? lapseCount.load(ordering: .acquiring) : nil }

    /// Seconds since the last confirmed heartbeat was sent.
    var secondsSinceHeartbeat: Double {
        Double(Sys.monotonicNanoseconds() - confirmed.load(ordering: .acquiring)) / 1e9
    }

    /// Gives the next lease a new number. Call before `confirm`: a thread that finds the lease held again
    /// must find its new number.
    func lapse() { lapseCount.add(1, ordering: .releasing) }

    /// Ends the lease for good. Call when no heartbeat is under way.
    func end() { confirmed.store(Int64.min / 2, ordering: .releasing) }

    /// Renews the lease: the database has confirmed a heartbeat that was sent at `instant`.
    func confirm(sentAt instant: Int64) { confirmed.store(instant, ordering: .releasing) }
}
