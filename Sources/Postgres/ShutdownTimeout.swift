import Synchronization
import Sys

/// Shared by connections whose owners may come to end: from then on none of them waits long for its server.
package final class ShutdownTimeout: Sendable {
    /// What an answer may take from then on; longer than any that comes at all should need.
    private static let nanoseconds: Int64 = 5_000_000_000

    private let since = Atomic<Int64>(.max)

    package init() {}

    /// From now on no answer is waited for longer than five seconds. What is being waited for already has as
    /// long from here.
    package func begin() { since.min(Sys.monotonicNanoseconds(), ordering: .relaxed) }

    /// When the wait that began at `start`, and would last until `deadline`, is over.
    func end(ofWaitFrom start: Int64, until deadline: Int64) -> Int64 {
        let since = since.load(ordering: .relaxed)
        return since == .max ? deadline : min(deadline, max(start, since) + Self.nanoseconds)
    }
}
