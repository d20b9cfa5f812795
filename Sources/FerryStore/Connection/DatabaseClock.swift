package import FerryCore
import Synchronization
import Sys

/// The database's time, kept by this machine's monotonic clock. Times that the node writes agree with times
/// that the database writes, and a step of the machine's wall clock does not reach jobs. Each heartbeat
/// adjusts it. Any thread.
package final class DatabaseClock: WallClock {
    /// Microseconds to add to the monotonic clock.
    private let offset: Atomic<Int64>

    /// Starts with the machine's wall clock, until the first heartbeat.
    package init() {
        offset = Atomic(Sys.wallMicroseconds() - Sys.monotonicNanoseconds() / 1000)
    }

    package func now() -> Timestamp {
        Timestamp(microseconds: Sys.monotonicNanoseconds() / 1000 + offset.load(ordering: .relaxed))
    }

    /// Adjusts the clock: the database read `time` between two readings of `Sys.monotonicNanoseconds()`. The
    /// clock moves no further than they prove, so that a slow reply changes little.
    func adjust(_ time: Timestamp, between start: Int64, and end: Int64) {
        let (least, most) = (time.microseconds - end / 1000 - 1, time.microseconds - start / 1000 + 1)
        offset.store(min(max(offset.load(ordering: .relaxed), least), most), ordering: .relaxed)
    }
}
