/// Number of attempts of a scope that may run at once. Grows by growing fractions of itself, and shrinks to
/// the number that the host has been seen to serve.
package struct AIMDWindow: Codable, Sendable, Equatable {
    /// Attempts at once, at least 1.
    package private(set) var size: Int
    /// Size before the last increase, at which the host responded well.
    private var goodSize: Int
    /// Fraction of the size by which the next increase grows it.
    private var step = Self.stepMin

    static let stepMin = 1.0 / 16

    /// Creates a window of `size` attempts, at least 1.
    package init(size: Int) {
        self.size = max(1, size)
        goodSize = self.size
    }

    /// `true` if the last change was an increase.
    package var hasIncreased: Bool { size > goodSize }

    /// Returns `true` if `inFlight` attempts leave at most an eighth of the window unused.
    package func isUsed(by inFlight: Int) -> Bool { inFlight * 8 >= size * 7 }

    /// Decreases to `shown`, the mean number of answered attempts in flight.
    package mutating func decrease(to shown: Double) { self = AIMDWindow(size: min(size, Self.whole(shown))) }

    /// Reverts an increase: decreases to `shown`, but not below the size before the increase.
    package mutating func revert(to shown: Double) {
        self = AIMDWindow(size: max(goodSize, min(size - max(1, size / 16), Self.whole(shown))))
    }

    /// Increases the size by a sixteenth the first time, then by an eighth, and so on.
    package mutating func increase() {
        goodSize = size
        size = Int(min(Double(size) + max(1, Double(size) * step), 1e9))
        step = min(1, 2 * step)
    }

    /// Raises the size to `inFlight`, a number of attempts that the host serves well.
    mutating func include(_ inFlight: Int) {
        size = max(size, inFlight)
        goodSize = max(goodSize, inFlight)
    }

    /// Rounds up, except from up to 0.1 above a whole number.
    private static func whole(_ shown: Double) -> Int { Int(min(max(shown - 0.1, 1), 1e9).rounded(.up)) }
}
