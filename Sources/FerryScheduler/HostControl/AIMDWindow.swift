/// How many attempts run at once: it decreases to what the host has shown, and increases by a part of itself.
package struct AIMDWindow: Codable, Sendable, Equatable {
    package private(set) var size: Int
    /// The size before the last increase, which was well.
    private var goodSize: Int
    /// The part by which it increases next.
    private var step = Self.stepMin

    static let stepMin = 1.0 / 16

    package init(size: Int) {
        self.size = max(1, size)
        goodSize = self.size
    }

    package var hasIncreased: Bool { size > goodSize }

    /// Whether so many in flight at most leave less than an eighth of it unused.
    package func isUsed(by inFlight: Int) -> Bool { inFlight * 8 >= size * 7 }

    /// Decreases to `shown`, the mean number of attempts that were answered at once.
    package mutating func decrease(to shown: Double) { self = AIMDWindow(size: min(size, Self.whole(shown))) }

    /// Takes an increase back: to `shown`, but not below the good size.
    package mutating func revert(to shown: Double) {
        self = AIMDWindow(size: max(goodSize, min(size - max(1, size / 16), Self.whole(shown))))
    }

    /// Increases by a sixteenth, then an eighth, and so on.
    package mutating func increase() {
        goodSize = size
        size = Int(min(Double(size) + max(1, Double(size) * step), 1e9))
        step = min(1, 2 * step)
    }

    /// So many are in flight and well.
    mutating func include(_ inFlight: Int) {
        size = max(size, inFlight)
        goodSize = max(goodSize, inFlight)
    }

    /// A mean just above a whole number is that number.
    private static func whole(_ shown: Double) -> Int { Int(min(max(shown - 0.1, 1), 1e9).rounded(.up)) }
}
