/// Number of attempts of a scope that may begin per second: the rate at which a bucket of tokens fills. Each
/// claimed job takes a token.
package struct TokenBucket: Codable, Sendable, Equatable {
    /// Attempts per second, at least `rateMin`, rounded to three digits.
    package private(set) var rate: Double { didSet { rate = Self.threeDigits(rate) } }
    /// Highest rate since the last decrease at which the host responded well.
    private var goodRate: Double
    /// Fraction of the rate by which the next increase grows it.
    private var step = AIMDWindow.stepMin

    /// Attempts per second for a host that answers nothing: the first rate, and the lowest.
    package static let unansweredRate = 1.0
    package static let rateMin = 0.1
    /// Fraction of the tokens that must be taken for the rate to count as used.
    private static let usedPart = 0.85

    /// Creates a bucket of `rate` attempts per second.
    package init(rate: Double) {
        self.rate = Self.threeDigits(max(rate, Self.rateMin))
        goodRate = self.rate
    }

    /// `true` if the rate was increased since the last decrease.
    package var hasIncreased: Bool { rate > goodRate }

    /// Returns `true` if `count` attempts in `seconds` leave little of the rate unused.
    package func isUsed(by count: Int, seconds: Double) -> Bool {
        Double(count) >= Self.usedPart * rate * seconds
    }

    /// Decreases to `shown`, the answered attempts per second.
    package mutating func decrease(to shown: Double) { self = TokenBucket(rate: min(shown, rate)) }

    /// Reverts an increase: decreases to `shown`, but not below the rate before the increase.
    package mutating func revert(to shown: Double) {
        self = TokenBucket(rate: max(min(shown, rate), goodRate))
    }

    /// Increases the rate by a sixteenth the first time, then by an eighth, and so on.
    package mutating func increase() {
        goodRate = max(goodRate, rate)
        rate *= 1 + step
        step = min(1, 2 * step)
    }

    /// Raises the rate to `shown`, a rate that the host was seen to serve.
    mutating func include(_ shown: Double) {
        rate = max(rate, shown)
        goodRate = max(goodRate, shown)
    }

    /// Rounds to three significant digits.
    private static func threeDigits(_ rate: Double) -> Double {
        let steps = rate >= 100 ? 1.0 : rate >= 10 ? 10 : 100
        return (rate * steps).rounded() / steps
    }
}
