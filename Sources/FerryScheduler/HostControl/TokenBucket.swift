/// How many attempts begin a second: the rate at which the host's bucket of tokens fills. Claims take the
/// tokens.
package struct TokenBucket: Codable, Sendable, Equatable {
    package private(set) var rate: Double { didSet { rate = Self.threeDigits(rate) } }
    /// The highest rate since the last decrease that was well.
    private var goodRate: Double
    /// The part by which it increases next.
    private var step = AIMDWindow.stepMin

    /// Attempts a second of a host that answers nothing: the first rate, and the lowest one.
    package static let unansweredRate = 1.0
    package static let rateMin = 0.1
    /// The part of the tokens that has to be taken before the rate counts as used.
    private static let usedPart = 0.85

    package init(rate: Double) {
        self.rate = Self.threeDigits(max(rate, Self.rateMin))
        goodRate = self.rate
    }

    package var hasIncreased: Bool { rate > goodRate }

    /// Whether so many in so many seconds leave little of it unused.
    package func isUsed(by count: Int, seconds: Double) -> Bool {
        Double(count) >= Self.usedPart * rate * seconds
    }

    /// Decreases to `shown`, the answers a second.
    package mutating func decrease(to shown: Double) { self = TokenBucket(rate: min(shown, rate)) }

    /// Takes an increase back: to `shown`, but not below the good rate.
    package mutating func revert(to shown: Double) {
        self = TokenBucket(rate: max(min(shown, rate), goodRate))
    }

    /// Increases by a sixteenth, then an eighth, and so on.
    package mutating func increase() {
        goodRate = max(goodRate, rate)
        rate *= 1 + step
        step = min(1, 2 * step)
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
