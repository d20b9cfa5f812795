import Glibc

/// The kernel's random numbers (getentropy(3)), read 32 at a time. `SystemRandomNumberGenerator` makes a
/// system call for each number; these are as unpredictable.
public struct BufferedRandom: RandomNumberGenerator, Sendable {
    private static let wordCount = 32
    private var words: [UInt64] = []

    /// Creates a generator that has read nothing.
    public init() {}

    /// Returns a random number. A number is returned once and not kept.
    public mutating func next() -> UInt64 {
        if words.isEmpty { refill() }
        return words.removeLast()
    }

    private mutating func refill() {
        words = Array(repeating: 0, count: Self.wordCount)
        let isRead = words.withUnsafeMutableBytes { getentropy($0.baseAddress, $0.count) == 0 }
        // Fails only on kernels without getrandom(2), before Linux 3.17.
        precondition(isRead, "getentropy failed")
    }
}
