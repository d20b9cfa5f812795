/// Number of requests to one receiver that may be in flight at once. Starts small, grows while the receiver
/// responds quickly, and shrinks when it is slow or fails.
struct ReceiverWindow {
    static let initial = 4
    static let max = 64
    /// Largest window of a receiver whose responses take longer than `quickResponse`, and of one whose
    /// responses take longer than `slowResponse`.
    private static let moderateMax = 16
    private static let slowMax = 4
    /// Duration of a delivery attempt in seconds.
    private static let quickResponse = 0.25
    private static let slowResponse = 5.0

    private(set) var value = Self.initial

    /// The receiver accepted a delivery after `duration` seconds. `wasFull`: the whole window was in use.
    mutating func accepted(duration: Double, wasFull: Bool) {
        let top =
            duration <= Self.quickResponse
            ? Self.max : duration <= Self.slowResponse ? Self.moderateMax : Self.slowMax
        if value > top {
            value -= 1
        } else if value < top, wasFull {
            value += 1
        }
    }

    mutating func failed() { value = Swift.max(1, value / 2) }
}
