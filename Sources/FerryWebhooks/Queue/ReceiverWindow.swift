/// How many tries of one lane may be on their way at once: few at first, more while the receiver answers
/// quickly, fewer when it does not. A pure value.
struct ReceiverWindow {
    static let initial = 4
    static let max = 64
    /// What a receiver gets at most whose answers take longer than `quickAnswer`, and longer than
    /// `slowAnswer`.
    private static let moderateMax = 16
    private static let slowMax = 4
    /// Seconds.
    private static let quickAnswer = 0.25
    private static let slowAnswer = 5.0

    private(set) var value = Self.initial

    /// A try was accepted after `duration` seconds. `wasFull`: all places were taken meanwhile.
    mutating func accepted(duration: Double, wasFull: Bool) {
        let top =
            duration <= Self.quickAnswer
            ? Self.max : duration <= Self.slowAnswer ? Self.moderateMax : Self.slowMax
        if value > top {
            value -= 1
        } else if value < top, wasFull {
            value += 1
        }
    }

    mutating func failed() { value = Swift.max(1, value / 2) }
}
