import Synchronization
import Sys
import Testing

@Suite("Callbacks") struct CallbackTests {
    private static let count = 100_000
    /// Bytes by which the depth of the stack may differ between calls.
    private static let toleranceByteCount: UInt = 4_096

    /// Lowest and highest address of the stack in the calls so far.
    private final class Depth: Sendable {
        private let range = Mutex<ClosedRange<UInt>?>(nil)

        /// `byteCount`: bytes to allocate on the stack. A parameter, because the AddressSanitizer keeps
        /// variables of constant size elsewhere.
        func note(byteCount: Int = 16) {
            let address = withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 16) {
                UInt(bitPattern: $0.baseAddress)
            }
            range.withLock { range in
                let known = range ?? address...address
                range = min(known.lowerBound, address)...max(known.upperBound, address)
            }
        }

        var byteCount: UInt? { range.withLock { $0.map { $0.upperBound - $0.lowerBound } } }
    }

    @Test("a callback in a Mutex that is read 100,000 times is called at the same depth of the stack")
    func depth() throws {
        let depth = Depth()
        let plain = Mutex<Callback?>(nil)
        let valued = Mutex(ValueCallback<Int> { _ in depth.note() })
        let byNumber = Mutex<[Int: Callback]>([:])
        plain.withLock { $0 = Callback { depth.note() } }
        byNumber.withLock { $0[1] = Callback { depth.note() } }
        for number in 0..<Self.count {
            let callback = plain.withLock { $0 }
            plain.withLock { $0 = callback }
            let valueCallback = valued.withLock { $0 }
            valued.withLock { $0 = valueCallback }
            let numbered = byNumber.withLock { $0[1] }
            byNumber.withLock { $0[1] = numbered }
            // Calls that are too deep are found before the stack overflows.
            guard number < 10 || number % 1_000 == 999 else { continue }
            callback?()
            valueCallback(number)
            numbered?()
            let byteCount = try #require(depth.byteCount)
            try #require(byteCount <= Self.toleranceByteCount, "after \(number) reads")
        }
    }
}
