package import FerryCore
import Synchronization
import Sys

/// The database's time, told by our own monotonic clock: what we write and what the database writes agree,
/// and a step of the machine's wall clock does not reach jobs. Follows the database at each heartbeat.
package final class DatabaseClock: WallClock {
    /// Microseconds to add to the monotonic clock.
    private let offset: Atomic<Int64>

    /// Shows the machine's wall clock until the first heartbeat.
    package init() {
        offset = Atomic(Sys.wallMicroseconds() - Sys.monotonicNanoseconds() / 1000)
    }

    package func now() -> Timestamp {
        Timestamp(microseconds: Sys.monotonicNanoseconds() / 1000 + offset.load(ordering: .relaxed))
    }

    /// The database said `time` somewhere between two readings of `Sys.monotonicNanoseconds()`. What we have
    /// moves no further than that proves: a slow answer says little.
    func adjust(_ time: Timestamp, between start: Int64, and end: Int64) {
        let (least, most) = (time.microseconds - end / 1000 - 1, time.microseconds - start / 1000 + 1)
        offset.store(min(max(offset.load(ordering: .relaxed), least), most), ordering: .relaxed)
    }
}
