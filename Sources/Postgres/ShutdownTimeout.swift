import Synchronization
import Sys

/// Limit on waits for the server once the process shuts down. Shared by many connections; usable on any
/// thread.
public final class ShutdownTimeout: Sendable {
    /// Longest wait after `begin()`, in nanoseconds. Results take less than this if the server responds at
    /// all.
    private static let nanoseconds: Int64 = 5_000_000_000

    private let since = Atomic<Int64>(.max)

    /// Creates a limit that is not in effect yet.
    public init() {}

    /// Limits all waits to five seconds from now on. A wait in progress gets five seconds from this call.
    public func begin() { since.min(Sys.monotonicNanoseconds(), ordering: .relaxed) }

    /// Returns the end of a wait that began at `start` and would otherwise last until `deadline`.
    func end(ofWaitFrom start: Int64, until deadline: Int64) -> Int64 {
        let since = since.load(ordering: .relaxed)
        return since == .max ? deadline : min(deadline, max(start, since) + Self.nanoseconds)
    }
}
