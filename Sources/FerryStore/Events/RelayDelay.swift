/// Earliest time of the relay's next pass: at once after a pass with few events, so that no event waits;
/// later after a pass with many, so that each pass takes many. A pure value; monotonic nanoseconds.
struct RelayDelay {
    /// Nanoseconds between passes with many events.
    static let interval: Int64 = 20_000_000
    /// Maximum number of events of a small pass: those of two jobs that were created, started and ended.
    static let fewEvents = 6

    private(set) var earliest: Int64 = 0

    /// Records the end of a pass.
    mutating func ended(_ now: Int64, eventCount: Int) {
        earliest = eventCount <= Self.fewEvents ? now : now + Self.interval
    }
}
