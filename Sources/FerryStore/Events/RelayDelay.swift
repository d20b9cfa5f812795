/// When the next pass of the relay may begin: at once while little happens, so that nobody waits; a moment
/// later while much does, so that each pass takes many. A pure value; nanoseconds of the monotonic clock.
struct RelayDelay {
    /// Between passes while much happens.
    static let interval: Int64 = 20_000_000
    /// Events of a pass that are little: of two jobs that were created, started and ended.
    static let fewEvents = 6

    private(set) var earliest: Int64 = 0

    /// A pass has ended that found so many events.
    mutating func ended(_ now: Int64, eventCount: Int) {
        earliest = eventCount <= Self.fewEvents ? now : now + Self.interval
    }
}
