/// How many attempts begin a second: the rate at which the host's bucket of tokens fills. Claims take the
/// tokens.
package struct TokenBucket: Sendable, Equatable {
    package private(set) var rate = 1.0 { didSet { rate = Self.threeDigits(rate) } }
    /// The highest rate since the last decrease that was well.
    private(set) var goodRate = 1.0

    /// The part by which it increases next: twice as much each time.
    private var step = AIMDWindow.stepMin

    /// Attempts a second of a host that answers nothing: the first rate, and the lowest one.
    package static let unansweredRate = 1.0
    package static let rateMin = 0.1
    /// The part of the tokens that has to be taken before the rate counts as used.
    private static let usedPart = 0.85

    init() {}

    package init(rate: Double) {
        self.rate = Self.threeDigits(max(rate, Self.rateMin))
        goodRate = self.rate
    }

    package var hasIncreased: Bool { rate > goodRate }

    package func isUsed(by count: Int, seconds: Double) -> Bool {
        Double(count) >= Self.usedPart * rate * seconds
    }

    /// Decreases to `shown`, the answers a second.
    package mutating func decrease(to shown: Double) { self = TokenBucket(rate: min(shown, rate)) }

    /// Takes an increase back: to `shown`, but not below the good rate.
    package mutating func revert(to shown: Double) {
        self = TokenBucket(rate: max(min(shown, rate), goodRate))
    }

    /// Halves the rate of a host that still answers nothing.
    package mutating func halve() { self = TokenBucket(rate: min(rate / 2, Self.unansweredRate)) }

    /// Increases by a sixteenth, then an eighth, and so on.
    package mutating func increase() {
        goodRate = max(goodRate, rate)
        rate *= 1 + step
        step = min(1, 2 * step)
    }

    /// Sets the rate beside a window that increases: what was answered, and a little more.
    mutating func follow(_ shown: Double, by part: Double) {
        goodRate = max(goodRate, rate)
        rate = min(rate, max(shown * (1 + part), Self.rateMin))
    }

    /// So many a second were answered.
    mutating func include(_ shown: Double) {
        rate = max(rate, shown)
        goodRate = max(goodRate, shown)
    }

    /// Those digits that count.
    private static func threeDigits(_ rate: Double) -> Double {
        let steps = rate >= 100 ? 1.0 : rate >= 10 ? 10 : 100
        return (rate * steps).rounded() / steps
    }
}

extension TokenBucket: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("rate", &rate, unless: 1)
        coder.value("good", &goodRate, unless: 1)
        coder.value("step", &step, unless: AIMDWindow.stepMin)
    }
}
