/// How many attempts run at once: it decreases to what the host has shown, and increases by a part of itself.
package struct AIMDWindow: Sendable, Equatable {
    package private(set) var size = 1
    /// The size before the last increase, which was well.
    private(set) var goodSize = 1

    /// The part by which it increases next: twice as much each time.
    private var step = Self.stepMin

    /// The first part by which a level increases after it has decreased.
    static let stepMin = 1.0 / 16

    init() {}

    package init(size: Int) {
        self.size = max(1, size)
        goodSize = self.size
    }

    package var hasIncreased: Bool { size > goodSize }

    /// Whether so many in flight at most leave less than an eighth of it unused.
    package func isUsed(by inFlight: Int) -> Bool { inFlight * 8 >= size * 7 }

    /// Decreases to `shown`, the mean number of attempts that were answered at once.
    package mutating func decrease(to shown: Double, least: Int = 1) {
        self = AIMDWindow(size: max(least, min(size, Self.whole(shown))))
    }

    /// Takes an increase back: to `shown`, but not below the good size.
    package mutating func revert(to shown: Double, least: Int = 1) {
        self = AIMDWindow(size: max(least, goodSize, min(size - max(1, size / 16), Self.whole(shown))))
    }

    /// A mean just above a whole number is that number.
    private static func whole(_ shown: Double) -> Int { Int(min(max(shown - 0.1, 1), 1e9).rounded(.up)) }

    /// Increases by a sixteenth, then an eighth, and so on. Returns that part: for a
    /// small window one more is a larger one.
    @discardableResult
    package mutating func increase() -> Double {
        goodSize = size
        let part = step
        size = Int(min(Double(size) + max(1, Double(size) * part), 1e9))
        step = min(1, 2 * step)
        return part
    }

    /// So many are in flight and well.
    mutating func include(_ inFlight: Int) {
        size = max(size, inFlight)
        goodSize = max(goodSize, inFlight)
    }
}

extension AIMDWindow: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("size", &size, unless: 1)
        coder.value("good", &goodSize, unless: 1)
        coder.value("step", &step, unless: Self.stepMin)
    }
}
